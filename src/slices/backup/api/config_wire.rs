//! What is set for backups as clients see it.

use std::collections::BTreeMap;

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, fault::Fault, id::DeviceId};
use tenantd_http::shape::Shape;
use tenantd_store::events::{Describe, Described};
use tenantd_tickets::Priority;

use super::super::{
    model::{self, Alarm, KeySource, OwnConfig, Policy, Rhythm, TargetKind, Workload},
    service::{ConfigRead, Impact, Replaced},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum BackupRhythm {
    Interval,
    Cron,
}

/// The hours in which jobs begin, on the clock of the schedule's time zone; over midnight when the end is before the start.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupWindow {
    /// Such as `22:00`.
    #[oai(validator(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub(super) start: String,
    /// Such as `06:00`.
    #[oai(validator(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub(super) end: String,
}

/// When backups are due. A backup is missed when half an interval has passed since the time at which it was due.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupSchedule {
    pub(super) kind: BackupRhythm,
    /// Of an `interval`, and only there.
    #[oai(validator(minimum(value = "5"), maximum(value = "44640")))]
    pub(super) every_minutes: Option<u32>,
    /// Of `cron`, and only there: five fields such as `0 1 * * 1-5`.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) cron: Option<String>,
    /// An IANA name such as `Europe/Berlin`.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) timezone: String,
    pub(super) window: Option<BackupWindow>,
}

/// Of each of so many hours, days, weeks, months and years that have a restore point, the newest is kept, in UTC; the newest of all always.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupRetention {
    /// How many hourly backups to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "168")))]
    pub(super) hourly: u16,
    /// How many daily backups to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "366")))]
    pub(super) daily: u16,
    /// How many weekly backups to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "260")))]
    pub(super) weekly: u16,
    /// How many monthly backups to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "120")))]
    pub(super) monthly: u16,
    /// How many yearly backups to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "50")))]
    pub(super) yearly: u16,
}

/// Minutes for each kind of device.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupMinutes {
    /// Minutes for servers.
    #[oai(validator(minimum(value = "5"), maximum(value = "525600")))]
    pub(super) server: u32,
    /// Minutes for workstations.
    #[oai(validator(minimum(value = "5"), maximum(value = "525600")))]
    pub(super) workstation: u32,
    /// That of servers when absent.
    #[oai(validator(minimum(value = "5"), maximum(value = "525600")))]
    pub(super) vm: Option<u32>,
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupObjectives {
    /// How old the newest restore point may be.
    pub(super) rpo_minutes: BackupMinutes,
    /// How long a restore may take.
    pub(super) rto_minutes: Option<BackupMinutes>,
}

#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupTarget {
    /// As jobs name it.
    #[oai(validator(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x08\x0B-\x1F\x7F-\x9F]*$"))]
    pub(super) name: String,
    pub(super) kind: TargetKind,
    /// Whether it is at another place than the devices.
    pub(super) offsite: bool,
    /// For how long nobody can remove what was written; 0 for not at all. The retention must not be shorter.
    #[oai(validator(minimum(value = "0"), maximum(value = "3650")))]
    pub(super) immutable_days: u32,
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupEncryption {
    /// Whether copies are encrypted where they are kept.
    pub(super) at_rest: bool,
    /// Required with `at_rest`, and only then.
    pub(super) key_source: Option<KeySource>,
}

#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupVerification {
    /// How often a restore must be tested, in days.
    #[oai(validator(minimum(value = "1"), maximum(value = "366")))]
    pub(super) restore_test_every_days: u32,
}

#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupNotifications {
    /// A ticket is opened for these, also for devices that are in such trouble when it is switched on. While it is open, the same again
    /// adds a comment to it.
    #[oai(validator(max_items = 3, unique_items))]
    pub(super) ticket_on: Vec<Alarm>,
    /// The priority of these tickets.
    pub(super) ticket_priority: Priority,
    /// Whether tenantd resolves such a ticket when its cause is over: a newer success after a failure or a missed backup, and a
    /// restore point within the objective after a breach. It resolves a ticket with the status `new` only. A ticket that somebody has
    /// moved to another status gets an internal comment instead, and a finished one is left as it is.
    #[oai(default = "yes")]
    pub(super) resolve_on_recovery: bool,
}

fn yes() -> bool {
    true
}

macro_rules! settings {
    ($($(#[$meta:meta])* $field:ident: $type:ty,)*) => {
        /// What a scope sets of its own. A field that is absent comes from the scope above, as a whole.
        #[skip_serializing_none]
        #[derive(Clone, Debug, Default, Object, Serialize)]
        #[oai(skip_serializing_if_is_none, example)]
        pub(super) struct BackupSettings {
            $($(#[$meta])* #[serde(skip_serializing_if = "Option::is_none")] pub(super) $field: Option<$type>,)*
        }

        /// What holds for a scope.
        #[derive(Clone, Debug, Object, Serialize)]
        pub(super) struct BackupPolicy {
            $($(#[$meta])* pub(super) $field: $type,)*
        }

        impl From<OwnConfig> for BackupSettings {
            fn from(own: OwnConfig) -> Self {
                Self { $($field: own.$field.map(Shown::shown),)* }
            }
        }

        impl From<Policy> for BackupPolicy {
            fn from(policy: Policy) -> Self {
                Self { $($field: policy.$field.shown(),)* }
            }
        }
    };
}

settings! {
    /// Whether anything is to be backed up.
    enabled: bool,
    /// Which kinds of devices are to be backed up.
    #[oai(validator(min_items = 1, max_items = 3, unique_items))]
    workloads: Vec<Workload>,
    /// When backups are due.
    schedule: BackupSchedule,
    /// How many backups to keep.
    retention: BackupRetention,
    /// How old restore points may be, and how long a restore may take.
    objectives: BackupObjectives,
    /// Where backups are kept.
    #[oai(validator(max_items = 16))]
    targets: Vec<BackupTarget>,
    /// How backups are encrypted.
    encryption: BackupEncryption,
    /// How restores are tested.
    verification: BackupVerification,
    /// What tickets are opened for.
    notifications: BackupNotifications,
}

/// The wire form of a part of the settings.
trait Shown {
    type Wire;
    fn shown(self) -> Self::Wire;
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            type Wire = Self;
            fn shown(self) -> Self {
                self
            }
        }
    )*};
}
same!(bool, Vec<Workload>);

fn clock_text(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// A text that the schema has let pass.
fn clock_minutes(text: &str) -> u16 {
    let (hours, minutes) = text.split_once(':').unwrap_or_default();
    hours.parse::<u16>().unwrap_or(0) * 60 + minutes.parse::<u16>().unwrap_or(0)
}

impl Shown for model::Schedule {
    type Wire = BackupSchedule;
    fn shown(self) -> BackupSchedule {
        let (kind, every_minutes, cron) = match self.rhythm {
            Rhythm::Every { minutes } => (BackupRhythm::Interval, Some(minutes), None),
            Rhythm::Cron(cron) => (BackupRhythm::Cron, None, Some(cron)),
        };
        let window = self.window.map(|(start, end)| BackupWindow { start: clock_text(start), end: clock_text(end) });
        BackupSchedule { kind, every_minutes, cron, timezone: self.timezone, window }
    }
}

impl BackupSchedule {
    /// A schedule has what its kind needs, and nothing of the other.
    fn into_model(self, faults: &mut Vec<Fault>) -> Option<model::Schedule> {
        let mut tell = |field: &str, code: &'static str, message: &str| {
            faults.push(Fault::new(format!("/schedule/{field}"), code, message));
        };
        let rhythm = match (self.kind, self.every_minutes, self.cron) {
            (BackupRhythm::Interval, Some(minutes), None) => Some(Rhythm::Every { minutes }),
            (BackupRhythm::Cron, None, Some(cron)) => Some(Rhythm::Cron(cron)),
            (BackupRhythm::Interval, every, cron) => {
                if every.is_none() {
                    tell("every_minutes", "required", "an interval needs every_minutes");
                }
                if cron.is_some() {
                    tell("cron", "not_allowed", "an interval has no cron");
                }
                None
            }
            (BackupRhythm::Cron, every, cron) => {
                if cron.is_none() {
                    tell("cron", "required", "a schedule by cron needs cron");
                }
                if every.is_some() {
                    tell("every_minutes", "not_allowed", "a schedule by cron has no every_minutes");
                }
                None
            }
        };
        let window = self.window.map(|window| (clock_minutes(&window.start), clock_minutes(&window.end)));
        Some(model::Schedule { rhythm: rhythm?, timezone: self.timezone, window })
    }
}

macro_rules! mirrored {
    ($($model:ident $wire:ident { $($field:ident),* })*) => {$(
        impl Shown for model::$model {
            type Wire = $wire;
            fn shown(self) -> $wire {
                $wire { $($field: self.$field),* }
            }
        }

        impl From<$wire> for model::$model {
            fn from(wire: $wire) -> Self {
                Self { $($field: wire.$field),* }
            }
        }
    )*};
}

mirrored! {
    Retention BackupRetention { hourly, daily, weekly, monthly, yearly }
    Minutes BackupMinutes { server, workstation, vm }
    Target BackupTarget { name, kind, offsite, immutable_days }
    Encryption BackupEncryption { at_rest, key_source }
    Verification BackupVerification { restore_test_every_days }
    Notifications BackupNotifications { ticket_on, ticket_priority, resolve_on_recovery }
}

impl Shown for model::Objectives {
    type Wire = BackupObjectives;
    fn shown(self) -> BackupObjectives {
        BackupObjectives { rpo_minutes: self.rpo_minutes.shown(), rto_minutes: self.rto_minutes.map(Shown::shown) }
    }
}

impl Shown for Vec<model::Target> {
    type Wire = Vec<BackupTarget>;
    fn shown(self) -> Vec<BackupTarget> {
        self.into_iter().map(Shown::shown).collect()
    }
}

impl BackupSettings {
    /// The settings, or all that is wrong with their form.
    pub(super) fn into_model(self) -> Result<OwnConfig, Vec<Fault>> {
        let mut faults = Vec::new();
        let own = OwnConfig {
            enabled: self.enabled,
            workloads: self.workloads,
            schedule: self.schedule.and_then(|schedule| schedule.into_model(&mut faults)),
            retention: self.retention.map(Into::into),
            objectives: self.objectives.map(|objectives| model::Objectives {
                rpo_minutes: objectives.rpo_minutes.into(),
                rto_minutes: objectives.rto_minutes.map(Into::into),
            }),
            targets: self.targets.map(|targets| targets.into_iter().map(Into::into).collect()),
            encryption: self.encryption.map(Into::into),
            verification: self.verification.map(Into::into),
            notifications: self.notifications.map(Into::into),
        };
        if faults.is_empty() {
            return Ok(own);
        }
        faults.extend(own.faults());
        Err(faults)
    }
}

/// The bounds of what is sent here, for settings that come with a whole tenant.
pub(crate) fn settings_bounds() -> Result<impl Fn(&OwnConfig) -> Result<(), String> + Send + Sync + 'static, String> {
    let shape = Shape::of::<BackupSettings>()?;
    Ok(move |own: &OwnConfig| {
        let shown = serde_json::to_value(BackupSettings::from(own.clone())).map_err(|error| error.to_string())?;
        shape.check(&shown)
    })
}

/// What a change would do. Nothing of it has happened.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupImpact {
    /// Devices for which something else would hold, of those that are to be backed up now or would be.
    pub(super) devices_affected: u64,
    /// Of them, those whose newest restore point would at once be older than their objective allows, and is not now. Each would get a
    /// `backup.rpo_breached`.
    pub(super) newly_breaching: u64,
    /// The first 50 of those.
    pub(super) newly_breaching_device_ids: Vec<DeviceId>,
    /// Of them, those whose backup would at once count as missed, and does not now.
    pub(super) newly_missed: u64,
    /// Successful jobs that the retention in force keeps as restore points and the new one would not. tenantd counts what it was told
    /// of; whether and when the systems that run the backups remove anything is up to them.
    pub(super) restore_points_expiring: u64,
}

impl From<Impact> for BackupImpact {
    fn from(impact: Impact) -> Self {
        let Impact { devices, newly_breaching, breaching, newly_missed, expiring_points } = impact;
        Self {
            devices_affected: devices,
            newly_breaching,
            newly_breaching_device_ids: breaching,
            newly_missed,
            restore_points_expiring: expiring_points,
        }
    }
}

/// What is set for a scope, and what holds for it.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct BackupConfig {
    /// `tenant`, or the id of an organization or a device.
    pub(super) scope: String,
    /// What the scope has set itself.
    pub(super) own: BackupSettings,
    /// What holds, with what comes from the scopes above.
    pub(super) effective: BackupPolicy,
    /// For each field that the scope has not set itself, the scope that it comes from, or `default`.
    pub(super) inherited_from: BTreeMap<String, String>,
    /// When the scope's own settings were last changed.
    pub(super) updated_at: Option<Timestamp>,
    /// Counts the changes of the scope's own settings; 0 before the first.
    pub(super) version: u64,
    /// Only of a dry run.
    pub(super) impact: Option<BackupImpact>,
}

impl From<ConfigRead> for BackupConfig {
    fn from(read: ConfigRead) -> Self {
        let inherited = read.inherited.into_iter().map(|(field, scope)| {
            let source = scope.map_or_else(|| "default".to_owned(), |scope| scope.to_string());
            (field.to_owned(), source)
        });
        Self {
            scope: read.scope.to_string(),
            own: read.own.into(),
            effective: read.effective.into(),
            inherited_from: inherited.collect(),
            updated_at: read.updated_at,
            version: read.version,
            impact: None,
        }
    }
}

impl From<Replaced> for BackupConfig {
    fn from(replaced: Replaced) -> Self {
        Self { impact: replaced.impact.map(Into::into), ..replaced.read.into() }
    }
}

/// What a scope has set itself, as events tell it.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupOwnConfig {
    /// `tenant`, or the id of an organization or a device.
    scope: String,
    #[oai(flatten)]
    #[serde(flatten)]
    settings: BackupSettings,
    updated_at: Timestamp,
    version: u64,
}

impl Describe<(&str, Timestamp, u64)> for OwnConfig {
    fn describe(&self, (scope, updated_at, version): (&str, Timestamp, u64)) -> Described {
        to_raw_value(&BackupOwnConfig { scope: scope.to_owned(), settings: self.clone().into(), updated_at, version })
    }
}
