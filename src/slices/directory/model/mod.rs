//! Types and rules of organizations, people and devices. No store, no clock, no wire types.

mod change;
mod device;
mod ingest;
mod organization;
mod role;
mod user;

pub use change::{
    AgentChange, ContactChange, CpuChange, DeviceChange, HardwareChange, InvalidChange, NetworkChange, OperatingSystemChange,
    OrganizationChange, PatchChange, SecurityChange, WarrantyChange,
};
pub(crate) use change::{MAX_CUSTOM_FIELDS, check_custom_fields};
pub use device::{
    AgentRules, AgentStatus, BackupState, Cpu, Details, Device, DeviceClass, DeviceLabel, Disk, Hardware, Health, Interface,
    Lifecycle, Network, NewDevice, OperatingSystem, OsFamily, Patch, PatchStatus, Security, Software, Volume, Warranty,
    WarrantyStatus,
};
pub use ingest::{
    ContactLine, DeviceLine, IngestLine, JobLine, JobStatus, LineResult, LineStatus, OrganizationLine, RecordKind, Reference,
    SentLine,
};
pub use organization::{Members, NewOrganization, Organization, OrganizationLabel};
pub use role::{CustomRole, NewRole, RoleChange, RoleLabel};
pub(crate) use role::{MAX_MEMBERS, MAX_ROLES};
pub use user::{
    LinkedIdentity, NewUser, PersonKind, PersonLabel, Standing, User, UserLabels, UserStatus, mail_domain, normalize_email,
};
