//! Organizations, people and devices: types and rules. No store, no clock, no wire.

mod device;
mod ingest;
mod organization;
mod user;

pub use device::{
    AgentRules, AgentStatus, BackupState, Cpu, Details, Device, DeviceClass, DeviceLabel, Disk, Hardware, Health, Interface,
    Lifecycle, Network, OperatingSystem, OsFamily, Patch, PatchStatus, Security, Software, Volume, Warranty, WarrantyStatus,
};
pub use ingest::{
    AgentReport, ContactLine, DeviceLine, IngestLine, JobLine, JobStatus, LineDone, LineStatus, OrganizationLine, RecordKind,
    Reference, SentLine,
};
pub use organization::{Members, NewOrganization, Organization, OrganizationLabel};
pub use user::{LinkedIdentity, NewUser, PersonKind, PersonLabel, Standing, User, UserStatus, mail_domain, normalize_email};
