//! Devices: what a tenant looks after, as agents and imports describe it.
//!
//! The parts of a device that only those read who want the whole of it are its [`Details`]; they are stored as one piece, so that a
//! look at a device's name does not read its list of software. **Invariant:** what the agent is doing follows from when it was last
//! seen and is not stored.

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
    /// What an agent is doing; `Never` when none was ever seen.
    AgentStatus:
    Online "online", Offline "offline", Overdue "overdue", Never "never",
}

/// From when on an agent that is not heard of counts as what.
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

/// A device. A stored one has the bytes of its details.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device<D = Details> {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub id: DeviceId,
    pub name: String,
    /// Its name in the system that it comes from; unique among the tenant's devices.
    pub external_id: Option<String>,
    pub class: DeviceClass,
    pub lifecycle: Lifecycle,
    pub organization_id: OrganizationId,
    pub site: Option<String>,
    pub owner_id: Option<UserId>,
    pub agent_version: Option<String>,
    pub last_seen_at: Option<Timestamp>,
    pub health: Health,
    /// When what is known of it was found out.
    pub collected_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: u64,
    pub details: D,
    /// Absent until somebody has looked whether the device is to be backed up. It has a row of its own, which changes more often.
    #[serde(skip)]
    pub backup: Option<BackupState>,
}

impl<D> Device<D> {
    /// The same device with details in another form.
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

/// A device that is to be created. Its id, its tenant and the times of its record follow.
#[derive(Clone, Debug)]
pub struct NewDevice {
    pub device: Device,
    /// The time of its creation when absent.
    pub collected_at: Option<Timestamp>,
}

/// How a device is named in the records that refer to it.
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
    /// The product that protects it.
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

/// Whether a device is backed up, as its backup jobs show. The only place that says so for all reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupState {
    /// Whether the device is to be backed up.
    pub eligible: bool,
    /// Whether it is to be backed up and has a recent restore point.
    pub protected: bool,
    /// When the newest restore point was made, recent or not.
    pub last_success_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_what_its_last_sign_of_life_says() {
        let rules = AgentRules { offline: Duration::from_mins(5), overdue: Duration::from_mins(30) };
        let seen = Timestamp::from_millis(1_000_000);
        let after = |seconds: u64| rules.status(Some(seen), seen + Duration::from_secs(seconds));
        assert_eq!(rules.status(None, seen), AgentStatus::Never);
        assert_eq!(rules.status(Some(seen + Duration::from_hours(1)), seen), AgentStatus::Online, "its clock is ahead of ours");
        assert_eq!([after(0), after(299), after(300)], [AgentStatus::Online, AgentStatus::Online, AgentStatus::Offline]);
        assert_eq!([after(1799), after(1800)], [AgentStatus::Offline, AgentStatus::Overdue]);
    }
}
