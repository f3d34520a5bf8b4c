//! The devices that a tenant manages, as agents and imports describe them.
//!
//! The [`Details`] of a device are stored as one block of bytes, so that reading a device's name does not decode its list of
//! software. **Invariant:** the status of the agent is derived from the time at which it was last seen. It is not stored.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    config,
    id::{DeviceId, OrganizationId, TenantId, UserId},
    vocabulary::vocabulary,
};

vocabulary! {
    #[derive(Default)]
    DeviceClass as variants:
    Workstation "workstation", Server "server", Vm "vm", Hypervisor "hypervisor", Network "network", Printer "printer",
    Mobile "mobile", Storage "storage", Iot "iot",
    #[default]
    Other "other",
}

vocabulary! {
    #[derive(Default)]
    Lifecycle as variants:
    #[default]
    Active "active", Spare "spare", InRepair "in_repair", Retired "retired", Missing "missing",
}

vocabulary! {
    #[derive(Default)]
    Health as variants:
    Healthy "healthy", NeedsAttention "needs_attention", Unhealthy "unhealthy",
    #[default]
    Unknown "unknown",
}

vocabulary! {
    /// The status of an agent; `Never` if it was never seen.
    AgentStatus:
    Online "online", Offline "offline", Overdue "overdue", Never "never",
}

/// The silence after which an agent counts as offline and as overdue.
#[derive(Clone, Copy, Debug)]
pub struct AgentRules {
    offline: Duration,
    overdue: Duration,
}

impl AgentRules {
    pub fn new(settings: &config::Directory) -> Self {
        Self {
            offline: Duration::from_secs(settings.agent_offline_seconds),
            overdue: Duration::from_secs(settings.agent_overdue_seconds),
        }
    }

    pub fn status(&self, last_seen_at: Option<Timestamp>, now: Timestamp) -> AgentStatus {
        match last_seen_at.map(|at| now.since(at)) {
            None => AgentStatus::Never,
            Some(silence) if silence >= self.overdue => AgentStatus::Overdue,
            Some(silence) if silence >= self.offline => AgentStatus::Offline,
            Some(_) => AgentStatus::Online,
        }
    }
}

/// A device. A stored device holds its details as bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device<D = Details> {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub id: DeviceId,
    pub name: String,
    /// The ID in its source system. Unique among the tenant's devices.
    pub external_id: Option<String>,
    pub class: DeviceClass,
    pub lifecycle: Lifecycle,
    pub organization_id: OrganizationId,
    pub site: Option<String>,
    pub owner_id: Option<UserId>,
    pub agent_version: Option<String>,
    pub last_seen_at: Option<Timestamp>,
    pub health: Health,
    /// When the data of this device was collected.
    pub collected_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: u64,
    pub details: D,
    /// `None` until the backup slice has evaluated the device. Stored in a separate row, which changes more often.
    #[serde(skip)]
    pub backup: Option<BackupState>,
}

impl<D> Device<D> {
    /// Replaces the details, which can change their type.
    pub fn with_details<E>(&self, details: E) -> Device<E> {
        Device {
            tenant_id: self.tenant_id,
            id: self.id,
            name: self.name.clone(),
            external_id: self.external_id.clone(),
            class: self.class,
            lifecycle: self.lifecycle,
            organization_id: self.organization_id,
            site: self.site.clone(),
            owner_id: self.owner_id,
            agent_version: self.agent_version.clone(),
            last_seen_at: self.last_seen_at,
            health: self.health,
            collected_at: self.collected_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
            version: self.version,
            details,
            backup: self.backup,
        }
    }
}

/// A device to create. The directory sets its ID, its tenant and the times of the record.
#[derive(Clone, Debug)]
pub struct NewDevice {
    pub device: Device,
    /// Defaults to the time of creation.
    pub collected_at: Option<Timestamp>,
}

/// The name of a device, for records that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLabel {
    pub id: DeviceId,
    pub name: String,
    pub organization_id: OrganizationId,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    pub tags: Vec<String>,
    pub custom_fields: BTreeMap<String, String>,
    pub hardware: Option<Hardware>,
    pub os: Option<OperatingSystem>,
    pub network: Option<Network>,
    pub security: Option<Security>,
    pub patch: Option<Patch>,
    pub software: Vec<Software>,
    pub warranty: Option<Warranty>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub cpu: Option<Cpu>,
    pub memory_bytes: Option<u64>,
    pub disks: Vec<Disk>,
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    pub model: Option<String>,
    pub cores: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    pub model: Option<String>,
    pub bytes: Option<u64>,
    pub kind: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    pub name: String,
    pub bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    pub encrypted: Option<bool>,
}

vocabulary! {
    #[derive(Default)]
    OsFamily as variants:
    Windows "windows", Macos "macos", Linux "linux", Esxi "esxi", Ios "ios", Android "android", NetworkOs "network_os",
    #[default]
    Other "other",
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatingSystem {
    pub family: OsFamily,
    pub name: Option<String>,
    pub version: Option<String>,
    pub build: Option<String>,
    pub reboot_required: Option<bool>,
    pub eol_at: Option<Timestamp>,
    pub last_boot_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    pub hostname: Option<String>,
    pub primary_ip: Option<String>,
    pub public_ip: Option<String>,
    pub interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    pub name: Option<String>,
    pub mac: Option<String>,
    pub ips: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Security {
    /// The name of the antivirus product.
    pub antivirus: Option<String>,
    pub firewall: Option<bool>,
    pub disk_encryption: Option<bool>,
}

vocabulary! {
    #[derive(Default)]
    PatchStatus as variants:
    Compliant "compliant", Pending "pending", Failing "failing", RebootPending "reboot_pending",
    #[default]
    Unknown "unknown",
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    pub status: PatchStatus,
    pub missing_critical: u32,
    pub missing_other: u32,
    pub last_scan_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Software {
    pub name: String,
    pub version: Option<String>,
    pub publisher: Option<String>,
}

vocabulary! {
    #[derive(Default)]
    WarrantyStatus as variants:
    Active "active", ExpiringSoon "expiring_soon", Expired "expired", None "none",
    #[default]
    Unknown "unknown",
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warranty {
    pub status: WarrantyStatus,
    pub ends_at: Option<Timestamp>,
}

/// The backup state of a device, derived from its backup jobs. All reports read it from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupState {
    /// Whether the device must be backed up.
    pub eligible: bool,
    /// Whether it is eligible and has a recent restore point.
    pub protected: bool,
    /// When the newest restore point was made.
    pub last_success_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_status_depends_on_the_last_contact() {
        let rules = AgentRules { offline: Duration::from_mins(5), overdue: Duration::from_mins(30) };
        let seen = Timestamp::from_millis(1_000_000);
        let after = |seconds: u64| rules.status(Some(seen), seen + Duration::from_secs(seconds));
        assert_eq!(rules.status(None, seen), AgentStatus::Never);
        assert_eq!(rules.status(Some(seen + Duration::from_hours(1)), seen), AgentStatus::Online, "its clock is ahead of ours");
        assert_eq!([after(0), after(299), after(300)], [AgentStatus::Online, AgentStatus::Online, AgentStatus::Offline]);
        assert_eq!([after(1799), after(1800)], [AgentStatus::Offline, AgentStatus::Overdue]);
    }
}
