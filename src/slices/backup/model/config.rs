//! The backup settings of the tenant, its organizations and its devices. A field that a scope does not set comes from the scope
//! above it, and finally from [`Policy::default`].
//!
//! **Invariant:** a field is inherited as a whole, never in part, so that each field has one source.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    fault::Fault,
    id::{DeviceId, OrganizationId},
    vocabulary::vocabulary,
};
use tenantd_tickets::Priority;

vocabulary! {
    /// The kinds of devices that are backed up.
    Workload:
    Server "server", Workstation "workstation", Vm "vm",
}

vocabulary! {
    TargetKind:
    Local "local", Nas "nas", Object "object", Cloud "cloud", Tape "tape",
}

vocabulary! {
    /// Who holds the encryption keys.
    KeySource:
    Platform "platform", Customer "customer",
}

vocabulary! {
    /// The conditions for which a ticket is opened.
    Alarm:
    Failed "failed", Missed "missed", RpoBreach "rpo_breach",
}

/// The tenant, organization or device to which settings belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Tenant,
    Organization(OrganizationId),
    Device(DeviceId),
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tenant => f.write_str("tenant"),
            Self::Organization(id) => id.fmt(f),
            Self::Device(id) => id.fmt(f),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rhythm {
    Every { minutes: u32 },
    Cron(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub rhythm: Rhythm,
    pub timezone: String,
    /// The window in which jobs start, in minutes of the day. If the end is before the start, it spans midnight.
    pub window: Option<(u16, u16)>,
}

/// The number of periods for which a restore point is kept: the newest of each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    pub hourly: u16,
    pub daily: u16,
    pub weekly: u16,
    pub monthly: u16,
    pub yearly: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minutes {
    pub server: u32,
    pub workstation: u32,
    /// Defaults to the value for servers.
    pub vm: Option<u32>,
}

impl Minutes {
    pub fn of(self, workload: Workload) -> u32 {
        match workload {
            Workload::Server => self.server,
            Workload::Workstation => self.workstation,
            Workload::Vm => self.vm.unwrap_or(self.server),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objectives {
    pub rpo_minutes: Minutes,
    pub rto_minutes: Option<Minutes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub name: String,
    pub kind: TargetKind,
    pub offsite: bool,
    /// The number of days for which restore points cannot be removed; 0 for no lock.
    pub immutable_days: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encryption {
    pub at_rest: bool,
    pub key_source: Option<KeySource>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub restore_test_every_days: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notifications {
    pub ticket_on: Vec<Alarm>,
    pub ticket_priority: Priority,
    /// Whether tenantd resolves a ticket that is still new when its cause is gone.
    #[serde(default = "yes")]
    pub resolve_on_recovery: bool,
}

/// The default for exports of a release that did not resolve tickets.
fn yes() -> bool {
    true
}

macro_rules! settings {
    ($($field:ident: $type:ty = $default:expr,)*) => {
        /// The own settings of one scope.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct OwnConfig {
            $(pub $field: Option<$type>,)*
        }

        /// The effective settings of a scope.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Policy {
            $(pub $field: $type,)*
        }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// Resolves a chain of scopes, the farthest first. Also returns, for each field, the index of the scope that sets it.
        pub fn resolve(chain: &[&OwnConfig]) -> (Policy, Vec<(&'static str, Option<usize>)>) {
            let (mut policy, mut sources) = (Policy::default(), Vec::new());
            $(
                let place = chain.iter().rposition(|own| own.$field.is_some());
                if let Some(value) = place.and_then(|place| chain.get(place)).and_then(|own| own.$field.as_ref()) {
                    policy.$field = value.clone();
                }
                sources.push((stringify!($field), place));
            )*
            (policy, sources)
        }
    };
}

settings! {
    enabled: bool = true,
    workloads: Vec<Workload> = Workload::ALL.to_vec(),
    schedule: Schedule = Schedule { rhythm: Rhythm::Every { minutes: 720 }, timezone: "UTC".to_owned(), window: None },
    retention: Retention = Retention { hourly: 0, daily: 14, weekly: 5, monthly: 12, yearly: 0 },
    objectives: Objectives =
        Objectives { rpo_minutes: Minutes { server: 1440, workstation: 2880, vm: None }, rto_minutes: None },
    targets: Vec<Target> = Vec::new(),
    encryption: Encryption = Encryption { at_rest: false, key_source: None },
    verification: Verification = Verification { restore_test_every_days: 30 },
    notifications: Notifications =
        Notifications { ticket_on: Vec::new(), ticket_priority: Priority::Medium, resolve_on_recovery: true },
}

impl OwnConfig {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl OwnConfig {
    /// All validation errors of a scope's own settings, independent of the scopes above.
    pub fn faults(&self) -> Vec<Fault> {
        let mut found = Vec::new();
        let mut report = |pointer: &str, message: String| found.push(Fault::new(pointer, "not_valid", message));
        if let Some(schedule) = &self.schedule {
            schedule.problems().into_iter().for_each(|(field, message)| report(&format!("/schedule/{field}"), message));
        }
        if self.retention.is_some_and(|retention| retention.span_days() == 0 && retention.hourly == 0) {
            report("/retention", "must keep at least one restore point".to_owned());
        }
        for (place, target) in self.targets.iter().flatten().enumerate() {
            let before = self.targets.iter().flatten().take(place);
            if before.into_iter().any(|other| other.name.eq_ignore_ascii_case(&target.name)) {
                report(&format!("/targets/{place}/name"), format!("must be unique: another target has the name {}", target.name));
            }
        }
        match self.encryption {
            Some(Encryption { at_rest: true, key_source: None }) => {
                report("/encryption/key_source", "required when at_rest is true".to_owned());
            }
            Some(Encryption { at_rest: false, key_source: Some(_) }) => {
                report("/encryption/key_source", "must be absent when at_rest is false".to_owned());
            }
            _ => {}
        }
        found
    }
}

impl Policy {
    /// A restore point must not expire while a target still locks it.
    pub fn lock_conflict(&self) -> Option<String> {
        let span = self.retention.span_days();
        let locked =
            self.targets.iter().filter(|target| target.immutable_days > span).max_by_key(|target| target.immutable_days)?;
        Some(format!(
            "keeps restore points for {span} days, but the target {} locks them for {} days",
            locked.name, locked.immutable_days
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_comes_from_the_nearest_scope_that_sets_it() {
        let tenant = OwnConfig { enabled: Some(false), workloads: Some(vec![Workload::Server]), ..OwnConfig::default() };
        let organization = OwnConfig { enabled: Some(true), ..OwnConfig::default() };
        let device = OwnConfig { verification: Some(Verification { restore_test_every_days: 7 }), ..OwnConfig::default() };
        let (policy, sources) = resolve(&[&tenant, &organization, &device]);
        assert_eq!((policy.enabled, policy.workloads.as_slice()), (true, [Workload::Server].as_slice()));
        assert_eq!(policy.verification.restore_test_every_days, 7);
        assert_eq!(policy.retention, Policy::default().retention);
        let source = |name: &str| sources.iter().find(|(field, _)| *field == name).and_then(|(_, place)| *place);
        assert_eq!([source("enabled"), source("workloads"), source("verification")], [Some(1), Some(0), Some(2)]);
        assert_eq!(source("retention"), None);
        assert_eq!(sources.len(), 9);
    }

    #[test]
    fn a_lock_longer_than_the_retention_is_reported() {
        let target = |days| Target { name: "vault".to_owned(), kind: TargetKind::Object, offsite: true, immutable_days: days };
        let policy = Policy { targets: vec![target(360)], ..Policy::default() };
        assert_eq!(policy.lock_conflict(), None, "twelve months are 360 days");
        let policy = Policy { targets: vec![target(30), target(361)], ..Policy::default() };
        assert!(policy.lock_conflict().unwrap().contains("361 days"));
    }
}
