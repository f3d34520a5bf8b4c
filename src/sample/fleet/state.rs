//! The state of a sample device. Most devices are healthy, and every problem that a report can filter by occurs.

use std::time::Duration;

use tenantd_base::{clock::Timestamp, entropy::Entropy};
use tenantd_directory::{Details, DeviceClass, Health, Patch, PatchStatus, Security, Warranty, WarrantyStatus};

use super::packages::ANTIVIRUS;
use crate::pick;

const DAY: Duration = Duration::from_hours(24);

pub(super) struct State {
    /// `None` if no agent was ever seen.
    pub(super) last_seen_at: Option<Timestamp>,
    pub(super) collected_at: Timestamp,
    pub(super) last_boot_at: Option<Timestamp>,
    patch: PatchStatus,
    missing: (u32, u32),
    /// Days until the warranty ends. Negative if it has ended.
    warranty_days: i64,
    now: Timestamp,
}

fn days(number: u64) -> Duration {
    DAY * u32::try_from(number).unwrap_or_default()
}

impl State {
    pub(super) fn draw(random: &mut Entropy, has_agent: bool, now: Timestamp) -> Self {
        let silence = match random.below(100) {
            0..78 => Some(Duration::from_secs(random.below(200))),
            78..84 => Some(Duration::from_secs(400 + random.below(1_200))),
            84..96 => Some(Duration::from_mins(35) + Duration::from_mins(random.below(60 * 24 * 40))),
            _ => None,
        };
        let last_seen_at = silence.filter(|_| has_agent).map(|silence| now - silence);
        let patch = match random.below(100) {
            0..62 => PatchStatus::Compliant,
            62..80 => PatchStatus::Pending,
            80..87 => PatchStatus::Failing,
            87..95 => PatchStatus::RebootPending,
            _ => PatchStatus::Unknown,
        };
        let count = |random: &mut Entropy, below: u64| u32::try_from(random.below(below)).unwrap_or_default();
        let missing = match patch {
            PatchStatus::Failing => (1 + count(random, 6), count(random, 12)),
            PatchStatus::Pending => (count(random, 3), 1 + count(random, 8)),
            _ => (0, 0),
        };
        Self {
            last_seen_at,
            collected_at: last_seen_at.unwrap_or(now - Duration::from_mins(random.below(60 * 24))),
            last_boot_at: last_seen_at.map(|seen| seen - days(random.below(45)) - Duration::from_mins(random.below(1_400))),
            patch,
            missing,
            warranty_days: i64::try_from(random.below(1_800)).unwrap_or_default() - 600,
            now,
        }
    }

    pub(super) fn reboot_required(&self) -> bool {
        self.patch == PatchStatus::RebootPending
    }

    /// Only an agent reports updates.
    pub(super) fn patch(&self) -> Option<Patch> {
        let (missing_critical, missing_other) = self.missing;
        self.last_seen_at.map(|seen| Patch {
            status: self.patch,
            missing_critical,
            missing_other,
            last_scan_at: Some(seen - Duration::from_hours(5)),
        })
    }

    pub(super) fn warranty(&self, class: DeviceClass) -> Warranty {
        if class == DeviceClass::Vm {
            return Warranty { status: WarrantyStatus::None, ends_at: None };
        }
        let span = days(self.warranty_days.unsigned_abs());
        let ends_at = if self.warranty_days < 0 { self.now - span } else { self.now + span };
        let status = match self.warranty_days {
            ..0 => WarrantyStatus::Expired,
            0..90 => WarrantyStatus::ExpiringSoon,
            // For some devices, the warranty was never looked up.
            1_150.. => return Warranty { status: WarrantyStatus::Unknown, ends_at: None },
            _ => WarrantyStatus::Active,
        };
        Warranty { status, ends_at: Some(ends_at) }
    }

    pub(super) fn security(&self, random: &mut Entropy, class: DeviceClass) -> Option<Security> {
        let guarded = matches!(class, DeviceClass::Workstation | DeviceClass::Server | DeviceClass::Vm);
        let protected = random.below(20) > 0;
        let antivirus = pick(random, &ANTIVIRUS).filter(|_| protected).map(|name| (*name).to_owned());
        let (firewall, disk_encryption) = (Some(random.below(15) > 0), None);
        self.last_seen_at.filter(|_| guarded).map(|_| Security { antivirus, firewall, disk_encryption })
    }

    pub(super) fn health(&self, details: &Details, now: Timestamp) -> Health {
        let past_eol = details.os.as_ref().and_then(|os| os.eol_at).is_some_and(|eol| eol <= now);
        match (self.last_seen_at, self.patch) {
            (None, _) => Health::Unknown,
            (Some(_), PatchStatus::Failing) => Health::Unhealthy,
            (Some(seen), _) if now.since(seen) > days(7) => Health::Unhealthy,
            (Some(_), PatchStatus::RebootPending) => Health::NeedsAttention,
            _ if past_eol => Health::NeedsAttention,
            _ => Health::Healthy,
        }
    }
}
