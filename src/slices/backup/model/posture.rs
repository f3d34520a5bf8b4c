//! The backup status of one device: the results of its jobs, evaluated with the policy and the time.
//!
//! **Invariant:** the standing of a posture depends only on its other fields, the policy and the time. It is stored so that each
//! change is reported once. A job, a configuration change or the posture's own timer updates it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TenantId, TicketId},
    vocabulary::vocabulary,
};
use tenantd_directory::{BackupState, Device, DeviceClass, Lifecycle};

use super::config::{Alarm, Policy, Workload};

/// A device is unprotected when its newest restore point is older than this.
pub const PROTECTED_FOR: Duration = Duration::from_hours(24 * 30);

vocabulary! {
    /// The age of the newest restore point, compared to the objective: at risk from three quarters, breached from the full
    /// objective.
    Rpo:
    Ok "ok", AtRisk "at_risk", Breached "breached",
}

vocabulary! {
    /// The most severe issue of a device, in descending severity.
    Trouble:
    RpoBreached "rpo_breached", Unprotected "unprotected", Missed "missed", Failed "failed", RpoAtRisk "rpo_at_risk",
}

/// The evaluation of a device by the policy at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whether it has a restore point that is not too old.
    pub protected: bool,
    /// `None` for a device that is not eligible. All other fields then have their default values.
    pub rpo: Option<Rpo>,
    /// Whether the newest restore point is more than twice as old as the objective allows.
    pub twice: bool,
    pub missed: bool,
}

impl Standing {
    /// Whether the device must be backed up.
    pub fn eligible(self) -> bool {
        self.rpo.is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posture {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    #[serde(skip)]
    pub device_id: DeviceId,
    /// `None` for a device of a class that is not backed up.
    pub workload: Option<Workload>,
    /// Whether the device is in use: neither spare nor retired.
    pub in_use: bool,
    /// When the device became eligible. Earlier times do not count as missed or breached.
    pub since: Timestamp,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    /// The first failure after the last success.
    pub failing_since: Option<Timestamp>,
    pub last_verified_at: Option<Timestamp>,
    /// The size of the newest restore point.
    pub bytes: u64,
    /// The restore points within the retention, in seconds since 1970, in order.
    pub points: Vec<u32>,
    pub standing: Standing,
    pub trouble: Option<(Trouble, Timestamp)>,
    /// The tickets for a failure, a missed job and a breach. Each is cleared when its cause is gone.
    pub tickets: [Option<TicketId>; 3],
    /// The next time at which the standing changes without a job, or an earlier time.
    pub timer_at: Option<Timestamp>,
    pub version: u64,
}

/// The amounts that a device adds to the sums of its organization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub devices: u64,
    pub eligible: u64,
    pub protected: u64,
    pub never_backed_up: u64,
    pub unprotected_servers: u64,
    /// Servers count three times.
    pub weight: u64,
    /// Twice the weight if the objective is met, once if it is at risk.
    pub credit: u64,
    /// Devices with a restore point within their objective.
    pub rpo_ok: u64,
    pub rpo_at_risk: u64,
    /// Devices with a restore point that is too old, or with none for longer than the objective.
    pub rpo_breached: u64,
    pub servers_breached_twice: u64,
    pub bytes: u64,
    /// Devices without any backup that have been eligible for less time than the objective.
    #[serde(default)]
    pub rpo_pending: u64,
}

macro_rules! share_arithmetic {
    ($($field:ident)*) => {
        impl Share {
            /// Replaces the contribution of one device in these sums.
            #[must_use]
            pub fn with_replaced(self, before: Self, after: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(before.$field).saturating_add(after.$field),)* }
            }
        }
    };
}

share_arithmetic! {
    devices eligible protected never_backed_up unprotected_servers weight credit rpo_ok rpo_at_risk rpo_breached
    servers_breached_twice bytes rpo_pending
}

fn workload_of(class: DeviceClass) -> Option<Workload> {
    match class {
        DeviceClass::Server | DeviceClass::Hypervisor => Some(Workload::Server),
        DeviceClass::Workstation => Some(Workload::Workstation),
        DeviceClass::Vm => Some(Workload::Vm),
        DeviceClass::Network
        | DeviceClass::Printer
        | DeviceClass::Mobile
        | DeviceClass::Storage
        | DeviceClass::Iot
        | DeviceClass::Other => None,
    }
}

fn minutes(number: u32) -> Duration {
    Duration::from_secs(u64::from(number) * 60)
}

impl Posture {
    /// A device without any known jobs.
    pub fn new(device: &Device, now: Timestamp) -> Self {
        let blank = Self {
            tenant_id: device.tenant_id,
            organization_id: device.organization_id,
            device_id: device.id,
            workload: None,
            in_use: false,
            since: now,
            last_success_at: None,
            last_failure_at: None,
            failing_since: None,
            last_verified_at: None,
            bytes: 0,
            points: Vec::new(),
            standing: Standing::default(),
            trouble: None,
            tickets: [None; 3],
            timer_at: None,
            version: 0,
        };
        blank.of(device)
    }

    /// Updates the fields that come from the directory.
    #[must_use]
    pub fn of(self, device: &Device) -> Self {
        Self {
            organization_id: device.organization_id,
            workload: workload_of(device.class),
            in_use: matches!(device.lifecycle, Lifecycle::Active | Lifecycle::InRepair),
            ..self
        }
    }

    fn is_server(&self) -> bool {
        self.workload == Some(Workload::Server)
    }

    /// Evaluates the posture by the policy at this time. Removes restore points outside the retention.
    #[must_use]
    pub fn evaluated(mut self, policy: &Policy, now: Timestamp) -> Self {
        self.points = policy.retention.keep(&self.points);
        let workload = self.workload.filter(|workload| policy.enabled && self.in_use && policy.workloads.contains(workload));
        let Some(workload) = workload else {
            (self.standing, self.trouble, self.timer_at) = (Standing::default(), None, None);
            return self;
        };
        if !self.standing.eligible() {
            self.since = now;
        }
        let objective = minutes(policy.objectives.rpo_minutes.of(workload));
        let from = self.last_success_at.unwrap_or(self.since);
        let [at_risk_at, breached_at, twice_at] = [from + objective * 3 / 4, from + objective, from + objective * 2];
        let unprotected_at = self.last_success_at.map_or(self.since, |at| at + PROTECTED_FOR);
        let missed_at = policy.schedule.overdue_after(self.last_success_at.map_or(self.since, |at| at.max(self.since)));
        let rpo = if now >= breached_at {
            Rpo::Breached
        } else if now >= at_risk_at {
            Rpo::AtRisk
        } else {
            Rpo::Ok
        };
        self.standing = Standing {
            protected: now < unprotected_at,
            rpo: Some(rpo),
            twice: now >= twice_at,
            missed: missed_at.is_some_and(|at| now >= at),
        };
        self.trouble = [
            (rpo == Rpo::Breached, Trouble::RpoBreached, breached_at),
            (!self.standing.protected, Trouble::Unprotected, unprotected_at),
            (self.standing.missed, Trouble::Missed, missed_at.unwrap_or(now)),
            (self.failing_since.is_some(), Trouble::Failed, self.failing_since.unwrap_or(now)),
            (rpo == Rpo::AtRisk, Trouble::RpoAtRisk, at_risk_at),
        ]
        .into_iter()
        .find_map(|(is_so, trouble, since)| is_so.then_some((trouble, since)));
        let crossings = [Some(at_risk_at), Some(breached_at), Some(twice_at), Some(unprotected_at), missed_at];
        let next = crossings.into_iter().flatten().filter(|at| *at > now).min();
        // A timer that fires too early finds nothing to do and is set again. Moving it with every job would cost more.
        self.timer_at = match (self.timer_at, next) {
            (Some(set), Some(next)) if set > now && set <= next => Some(set),
            (_, next) => next,
        };
        self
    }

    /// The state for device reports: the same values that the device adds to the sums of its organization.
    pub fn backup_state(&self) -> BackupState {
        BackupState {
            eligible: self.standing.eligible(),
            protected: self.standing.protected,
            last_success_at: self.last_success_at,
        }
    }

    /// Whether the device has the condition of an alarm.
    pub fn has(&self, alarm: Alarm) -> bool {
        match alarm {
            Alarm::Failed => self.standing.eligible() && self.failing_since.is_some(),
            Alarm::Missed => self.standing.missed,
            Alarm::RpoBreach => self.standing.rpo == Some(Rpo::Breached),
        }
    }

    pub fn share(&self) -> Share {
        let Standing { protected, rpo, twice, .. } = self.standing;
        let (eligible, has_success) = (self.standing.eligible(), self.last_success_at.is_some());
        let count = u64::from;
        let weight = if self.is_server() { 3 } else { 1 } * count(eligible);
        let credit = match rpo {
            Some(Rpo::Ok) => 2,
            Some(Rpo::AtRisk) => 1,
            Some(Rpo::Breached) | None => 0,
        };
        Share {
            devices: 1,
            eligible: count(eligible),
            protected: count(protected),
            never_backed_up: count(eligible && !has_success),
            unprotected_servers: count(eligible && !protected && self.is_server()),
            weight,
            // A device without any backup has no recency.
            credit: if has_success { weight * credit } else { 0 },
            rpo_ok: count(has_success && rpo == Some(Rpo::Ok)),
            rpo_at_risk: count(has_success && rpo == Some(Rpo::AtRisk)),
            rpo_breached: count(rpo == Some(Rpo::Breached)),
            servers_breached_twice: count(twice && self.is_server()),
            bytes: self.bytes,
            rpo_pending: count(!has_success && matches!(rpo, Some(Rpo::Ok | Rpo::AtRisk))),
        }
    }
}
