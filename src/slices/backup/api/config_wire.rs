//! The backup configuration on the wire.

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

/// The hours in which jobs start, in the time zone of the schedule. If the end is before the start, the window spans midnight.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupWindow {
    /// The start of the window, such as `22:00`.
    #[oai(validator(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub(super) start: String,
    /// The end of the window, such as `06:00`.
    #[oai(validator(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub(super) end: String,
}

/// When backups are due. A backup counts as missed when half an interval has passed since its due time.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupSchedule {
    /// The kind of schedule.
    pub(super) kind: BackupRhythm,
    /// The interval in minutes. Required for `interval`, not allowed for `cron`.
    #[oai(validator(minimum(value = "5"), maximum(value = "44640")))]
    pub(super) every_minutes: Option<u32>,
    /// A cron expression with five fields, such as `0 1 * * 1-5`. Required for `cron`, not allowed for `interval`.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) cron: Option<String>,
    /// The IANA name of the time zone, such as `Europe/Berlin`.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) timezone: String,
    /// The hours in which jobs start. Absent if they can start at any time.
    pub(super) window: Option<BackupWindow>,
}

/// How many hours, days, weeks, months and years to keep. For each of these periods that has a restore point, the newest one is
/// kept. Periods are in UTC. The newest restore point overall is always kept.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupRetention {
    /// The number of hourly restore points to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "168")))]
    pub(super) hourly: u16,
    /// The number of daily restore points to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "366")))]
    pub(super) daily: u16,
    /// The number of weekly restore points to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "260")))]
    pub(super) weekly: u16,
    /// The number of monthly restore points to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "120")))]
    pub(super) monthly: u16,
    /// The number of yearly restore points to keep.
    #[oai(validator(minimum(value = "0"), maximum(value = "50")))]
    pub(super) yearly: u16,
}

/// A number of minutes for each kind of device.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupMinutes {
    /// The minutes for servers.
    #[oai(validator(minimum(value = "5"), maximum(value = "525600")))]
    pub(super) server: u32,
    /// The minutes for workstations.
    #[oai(validator(minimum(value = "5"), maximum(value = "525600")))]
    pub(super) workstation: u32,
    /// The minutes for virtual machines. Defaults to the value for servers.
    #[oai(validator(minimum(value = "5"), maximum(value = "525600")))]
    pub(super) vm: Option<u32>,
}

/// The recovery objectives.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupObjectives {
    /// The recovery point objective: the maximum age of the newest restore point.
    pub(super) rpo_minutes: BackupMinutes,
    /// The recovery time objective: the maximum duration of a restore. Absent if there is none.
    pub(super) rto_minutes: Option<BackupMinutes>,
}

/// A place that stores restore points.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupTarget {
    /// The name of the target, as jobs send it.
    #[oai(validator(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x08\x0B-\x1F\x7F-\x9F]*$"))]
    pub(super) name: String,
    /// The kind of storage.
    pub(super) kind: TargetKind,
    /// Whether the target is at a different location than the devices.
    pub(super) offsite: bool,
    /// The number of days for which restore points cannot be removed; 0 for no lock. The retention must be at least as long.
    #[oai(validator(minimum(value = "0"), maximum(value = "3650")))]
    pub(super) immutable_days: u32,
}

/// The encryption of stored backups.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupEncryption {
    /// Whether stored backups are encrypted.
    pub(super) at_rest: bool,
    /// Who holds the keys. Required if `at_rest` is true, not allowed otherwise.
    pub(super) key_source: Option<KeySource>,
}

/// The tests of restores.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupVerification {
    /// The maximum number of days between restore tests.
    #[oai(validator(minimum(value = "1"), maximum(value = "366")))]
    pub(super) restore_test_every_days: u32,
}

/// The tickets that tenantd opens for backup problems.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupNotifications {
    /// The conditions for which tenantd opens a ticket. This includes devices that already have the condition when you add it.
    /// While the ticket is open, a repeat adds a comment to it.
    #[oai(validator(max_items = 3, unique_items))]
    pub(super) ticket_on: Vec<Alarm>,
    /// The priority of these tickets.
    pub(super) ticket_priority: Priority,
    /// Whether tenantd resolves such a ticket when its cause is gone: a newer success after a failure or a missed backup, or a
    /// restore point within the objective after a breach. tenantd resolves only tickets with the status `new`. It adds an internal
    /// comment to tickets in other open statuses and leaves finished tickets unchanged. Defaults to true.
    #[oai(default = "yes")]
    pub(super) resolve_on_recovery: bool,
}

fn yes() -> bool {
    true
}

macro_rules! settings {
    ($($(#[$meta:meta])* $field:ident: $type:ty,)*) => {
        /// The scope's own settings. An absent field is inherited as a whole from the scope above.
        #[skip_serializing_none]
        #[derive(Clone, Debug, Default, Object, Serialize)]
        #[oai(skip_serializing_if_is_none, example)]
        pub(super) struct BackupSettings {
            $($(#[$meta])* #[serde(skip_serializing_if = "Option::is_none")] pub(super) $field: Option<$type>,)*
        }

        /// The effective settings of a scope.
        #[derive(Clone, Debug, Object, Serialize)]
        pub(super) struct BackupPolicy {
            $($(#[$meta])* pub(super) $field: $type,)*
        }

        impl From<OwnConfig> for BackupSettings {
            fn from(own: OwnConfig) -> Self {
                Self { $($field: own.$field.map(IntoWire::into_wire),)* }
            }
        }

        impl From<Policy> for BackupPolicy {
            fn from(policy: Policy) -> Self {
                Self { $($field: policy.$field.into_wire(),)* }
            }
        }
    };
}

settings! {
    /// Whether devices must be backed up.
    enabled: bool,
    /// The kinds of devices that must be backed up.
    #[oai(validator(min_items = 1, max_items = 3, unique_items))]
    workloads: Vec<Workload>,
    /// When backups are due.
    schedule: BackupSchedule,
    /// How many restore points to keep.
    retention: BackupRetention,
    /// The recovery objectives: the maximum age of restore points and the maximum duration of a restore.
    objectives: BackupObjectives,
    /// Where restore points are stored.
    #[oai(validator(max_items = 16))]
    targets: Vec<BackupTarget>,
    /// How restore points are encrypted.
    encryption: BackupEncryption,
    /// How restores are tested.
    verification: BackupVerification,
    /// The conditions for which tenantd opens tickets.
    notifications: BackupNotifications,
}

/// Converts a part of the settings to its wire form.
trait IntoWire {
    type Wire;
    fn into_wire(self) -> Self::Wire;
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl IntoWire for $type {
            type Wire = Self;
            fn into_wire(self) -> Self {
                self
            }
        }
    )*};
}
same!(bool, Vec<Workload>);

fn clock_text(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Parses a time of day that the schema has already validated.
fn clock_minutes(text: &str) -> u16 {
    let (hours, minutes) = text.split_once(':').unwrap_or_default();
    hours.parse::<u16>().unwrap_or(0) * 60 + minutes.parse::<u16>().unwrap_or(0)
}

impl IntoWire for model::Schedule {
    type Wire = BackupSchedule;
    fn into_wire(self) -> BackupSchedule {
        let (kind, every_minutes, cron) = match self.rhythm {
            Rhythm::Every { minutes } => (BackupRhythm::Interval, Some(minutes), None),
            Rhythm::Cron(cron) => (BackupRhythm::Cron, None, Some(cron)),
        };
        let window = self.window.map(|(start, end)| BackupWindow { start: clock_text(start), end: clock_text(end) });
        BackupSchedule { kind, every_minutes, cron, timezone: self.timezone, window }
    }
}

impl BackupSchedule {
    /// Accepts only the fields that belong to the kind of schedule.
    fn into_model(self, faults: &mut Vec<Fault>) -> Option<model::Schedule> {
        let mut report = |field: &str, code: &'static str, message: &str| {
            faults.push(Fault::new(format!("/schedule/{field}"), code, message));
        };
        let rhythm = match (self.kind, self.every_minutes, self.cron) {
            (BackupRhythm::Interval, Some(minutes), None) => Some(Rhythm::Every { minutes }),
            (BackupRhythm::Cron, None, Some(cron)) => Some(Rhythm::Cron(cron)),
            (BackupRhythm::Interval, every, cron) => {
                if every.is_none() {
                    report("every_minutes", "required", "every_minutes is required for a schedule of the kind interval");
                }
                if cron.is_some() {
                    report("cron", "not_allowed", "cron must be absent for a schedule of the kind interval");
                }
                None
            }
            (BackupRhythm::Cron, every, cron) => {
                if cron.is_none() {
                    report("cron", "required", "cron is required for a schedule of the kind cron");
                }
                if every.is_some() {
                    report("every_minutes", "not_allowed", "every_minutes must be absent for a schedule of the kind cron");
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
        impl IntoWire for model::$model {
            type Wire = $wire;
            fn into_wire(self) -> $wire {
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

impl IntoWire for model::Objectives {
    type Wire = BackupObjectives;
    fn into_wire(self) -> BackupObjectives {
        BackupObjectives { rpo_minutes: self.rpo_minutes.into_wire(), rto_minutes: self.rto_minutes.map(IntoWire::into_wire) }
    }
}

impl IntoWire for Vec<model::Target> {
    type Wire = Vec<BackupTarget>;
    fn into_wire(self) -> Vec<BackupTarget> {
        self.into_iter().map(IntoWire::into_wire).collect()
    }
}

impl BackupSettings {
    /// Converts the settings, or returns all validation errors.
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

/// The limits of the API, applied to settings that an import contains.
pub(crate) fn settings_bounds() -> Result<impl Fn(&OwnConfig) -> Result<(), String> + Send + Sync + 'static, String> {
    let shape = Shape::of::<BackupSettings>()?;
    Ok(move |own: &OwnConfig| {
        let shown = serde_json::to_value(BackupSettings::from(own.clone())).map_err(|error| error.to_string())?;
        shape.check(&shown)
    })
}

/// The impact of a change that was not applied.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupImpact {
    /// The number of devices, eligible before or after the change, whose effective settings would change.
    pub(super) devices_affected: u64,
    /// The number of these devices whose newest restore point would become older than the objective at once. Each would emit a
    /// `backup.rpo_breached` event.
    pub(super) newly_breaching: u64,
    /// The IDs of the first 50 devices in `newly_breaching`.
    pub(super) newly_breaching_device_ids: Vec<DeviceId>,
    /// The number of these devices whose backup would count as missed at once.
    pub(super) newly_missed: u64,
    /// The number of restore points that the current retention keeps and the new one would not. tenantd counts the jobs that it
    /// knows; the backup systems themselves decide when to remove data.
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

/// The own and the effective configuration of a scope.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct BackupConfig {
    /// The scope: `tenant`, or the ID of an organization or a device.
    pub(super) scope: String,
    /// The scope's own settings.
    pub(super) own: BackupSettings,
    /// The effective settings, including those inherited from the scopes above.
    pub(super) effective: BackupPolicy,
    /// The source of each inherited field: a scope, or `default`.
    pub(super) inherited_from: BTreeMap<String, String>,
    /// When the scope's own settings were last changed. Absent if they never were.
    pub(super) updated_at: Option<Timestamp>,
    /// The version of the scope's own settings. It increases with each change; 0 if they were never changed.
    pub(super) version: u64,
    /// The impact of the change. Only for a dry run.
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

/// The own settings of a scope, as events contain them.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupOwnConfig {
    /// The scope: `tenant`, or the ID of an organization or a device.
    scope: String,
    #[oai(flatten)]
    #[serde(flatten)]
    settings: BackupSettings,
    /// When the settings were last changed.
    updated_at: Timestamp,
    /// The version of the settings. It increases with each change.
    version: u64,
}

impl Describe<(&str, Timestamp, u64)> for OwnConfig {
    fn describe(&self, (scope, updated_at, version): (&str, Timestamp, u64)) -> Described {
        to_raw_value(&BackupOwnConfig { scope: scope.to_owned(), settings: self.clone().into(), updated_at, version })
    }
}
