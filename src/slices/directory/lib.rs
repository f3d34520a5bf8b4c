//! The directory: organizations (the customers of a tenant), people (staff, and contacts at the organizations), and devices.
//!
//! Other records refer to these by ID and show their names, so the functions here are cheap: one lookup each. **Boundary:** the
//! `auth` slice owns passwords, sessions and the API of users. It combines the use cases of [`Directory`] with its own.

mod api;
mod error;
mod listing;
mod model;
mod repo;
mod service;

use std::{ops::Bound, sync::Arc};

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_base::{
    clock::Timestamp,
    clocks::Clocks,
    config,
    id::{DeviceId, OrganizationId, RoleId, TenantId, UserId},
};
use tenantd_http::outgoing::Streams;
use tenantd_platform::Tenants;
use tenantd_store::{Checked, Flow, Progress, Read, Store, StoreError, WriteTx, events::EventKind, portable::Portable};

pub use api::{OrganizationReference, PersonReference, RoleView, UserView};
pub use error::{DirectoryError, RoleError};

/// The wire form of devices and their sections, for slices that include them in their own responses.
pub mod view {
    pub use super::api::{Agent, BackupState, Device, Hardware, Network, OperatingSystem, Patch, Security, Software, Warranty};
}

/// The selection of devices for lists and reports.
pub mod devices {
    pub use super::{
        api::{DeviceFilters, QueryContext},
        listing::{DetailsQuery, DeviceQuery, Labels, SoftwareFilter, patch_status, reboot_required, warranty_status},
    };
}

pub use listing::{UserPage, UserQuery, list_users};
pub use model::{
    AgentStatus, BackupState, Cpu, CustomRole, Details, Device, DeviceClass, DeviceLabel, Disk, Hardware, Health, Interface,
    JobLine, JobStatus, Lifecycle, LineResult, LineStatus, LinkedIdentity, Network, NewOrganization, NewRole, NewUser,
    OperatingSystem, Organization, OrganizationLabel, OsFamily, Patch, PatchStatus, PersonKind, PersonLabel, Reference, RoleChange,
    Security, Software, Standing, User, UserLabels, UserStatus, Volume, Warranty, WarrantyStatus, normalize_email,
};
pub use repo::devices::FoldedDevice;
pub use service::{
    ContactChanged, Dependent, Dependents, Directory, JobReceiver, Subject, UserChange, role_grants, staff_authority,
    standing_authority, user_labels,
};

pub const EVENTS: &[&EventKind] = &[
    &service::ORGANIZATION_CREATED,
    &service::ORGANIZATION_UPDATED,
    &service::ORGANIZATION_REMOVED,
    &service::USER_CREATED,
    &service::USER_UPDATED,
    &service::USER_REMOVED,
    &service::ROLE_CREATED,
    &service::ROLE_UPDATED,
    &service::ROLE_REMOVED,
    &service::DEVICE_CREATED,
    &service::DEVICE_UPDATED,
    &service::DEVICE_REMOVED,
];

impl Directory {
    pub fn new(settings: &config::Directory, contact_changed: ContactChanged) -> Self {
        Self { agents: model::AgentRules::new(settings), contact_changed }
    }

    /// The status of an agent that was last seen at this time.
    pub fn agent_status(&self, last_seen_at: Option<Timestamp>, now: Timestamp) -> AgentStatus {
        self.agents.status(last_seen_at, now)
    }

    /// The schemas of the records in events.
    pub fn record_schemas() -> Map<String, Value> {
        api::record_schemas()
    }

    /// The directory tables that a tenant export contains.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        Ok(repo::portable::portable(api::shapes()?))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::organizations::ORGANIZATIONS,
            &repo::organizations::MEMBERS,
            &repo::users::USERS,
            &repo::roles::ROLES,
            &repo::devices::DEVICES,
            &repo::backups::BACKUPS,
        ]
    }
}

/// The import endpoints for agents and other systems.
#[derive(Clone, Debug)]
pub struct DirectoryIngest(api::Ingest);

impl DirectoryIngest {
    /// `jobs` receives the lines with backup jobs.
    pub fn new(directory: Directory, store: Store, clocks: Clocks, limits: &config::Limits, jobs: Arc<dyn JobReceiver>) -> Self {
        let imports = Streams::new("imports", limits, &store);
        Self(api::Ingest { directory, store, clocks, imports, jobs })
    }

    /// The internal API of the listener, which has its own OpenAPI document.
    pub fn api(&self) -> impl OpenApi + use<> {
        api::IngestApi(self.0.clone())
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        api::AdminIngestApi { ingest: self.0.clone(), tenants }
    }
}

/// The API of organizations, contacts and devices.
#[derive(Clone, Debug)]
pub struct DirectoryRecords {
    records: api::RecordService,
    exports: Streams,
}

impl DirectoryRecords {
    /// `dependents` know which records of other slices refer to directory records.
    pub fn new(directory: Directory, store: Store, limits: &config::Limits, dependents: Vec<Arc<dyn Dependents>>) -> Self {
        let exports = Streams::new("exports", limits, &store);
        let remover = service::Remover { directory, store: store.clone(), dependents: dependents.into() };
        Self { records: api::RecordService { directory, store, remover }, exports }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let (records, exports) = (|| self.records.clone(), || self.exports.clone());
        (
            api::OrganizationsApi { records: records(), exports: exports() },
            api::OrganizationApi { records: records() },
            api::ContactsApi { records: records(), exports: exports() },
            api::ContactApi { records: records() },
            api::DevicesApi { records: records(), exports: exports() },
            api::DeviceApi { records: records() },
        )
    }
}

/// The organization's name, if the tenant has it.
pub fn organization(tx: &impl Read, tenant: TenantId, id: OrganizationId) -> Result<Option<OrganizationLabel>, StoreError> {
    let found = repo::organizations::get(tx, tenant, id)?;
    Ok(found.map(|organization| OrganizationLabel { id, name: organization.name }))
}

/// The name and kind of a staff member or contact, if the tenant has them.
pub fn person(tx: &impl Read, tenant: TenantId, id: UserId) -> Result<Option<PersonLabel>, StoreError> {
    Ok(repo::users::get(tx, tenant, id)?.map(PersonLabel::from))
}

/// A person of the tenant by email address, ignoring case. An invalid address finds nobody.
pub fn person_by_email(tx: &impl Read, tenant: TenantId, email: &str) -> Result<Option<PersonLabel>, StoreError> {
    let Ok(email) = normalize_email(email) else { return Ok(None) };
    Ok(repo::users::find_email(tx, tenant, &email)?.map(PersonLabel::from))
}

/// The device's name and organization, if the tenant has it.
pub fn device(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<DeviceLabel>, StoreError> {
    repo::devices::label(tx, tenant, id)
}

/// Visits the tenant's devices in the order of their IDs, which is the order of their creation.
pub fn scan_devices(
    tx: &impl Read,
    tenant: TenantId,
    from: Bound<DeviceId>,
    visit: impl FnMut(FoldedDevice) -> Result<Flow, StoreError>,
) -> Result<(), StoreError> {
    repo::devices::scan(tx, tenant, from, visit)
}

/// The whole record of a user.
pub fn user(tx: &impl Read, tenant: TenantId, id: UserId) -> Result<Option<User>, StoreError> {
    repo::users::get(tx, tenant, id)
}

/// A custom role of the tenant.
pub fn role(tx: &impl Read, tenant: TenantId, id: RoleId) -> Result<Option<CustomRole>, StoreError> {
    repo::roles::get(tx, tenant, id)
}

/// The custom roles of the tenant, by name. They are few.
pub fn roles(tx: &impl Read, tenant: TenantId) -> Result<Vec<CustomRole>, StoreError> {
    repo::roles::list(tx, tenant, usize::MAX)
}

/// The staff who have a custom role.
pub fn role_members(tx: &impl Read, tenant: TenantId, id: RoleId) -> Result<Vec<UserId>, StoreError> {
    repo::roles::members(tx, (tenant, id), usize::MAX)
}

/// The staff of all tenants with this email address, which must be normalized. At most `limit`.
pub fn staff_by_address(tx: &impl Read, email: &str, limit: usize) -> Result<Vec<User>, StoreError> {
    repo::users::list_login(tx, email, limit)
}

/// A staff member of the tenant by email address, which must be normalized.
pub fn staff_of_tenant(tx: &impl Read, tenant: TenantId, email: &str) -> Result<Option<User>, StoreError> {
    Ok(repo::users::find_email(tx, tenant, email)?.filter(|user| user.role().is_some()))
}

/// Whether another tenant has staff with an address in this domain, which must be in DNS form.
pub fn has_staff_elsewhere(tx: &impl Read, tenant: TenantId, domain: &str) -> Result<bool, StoreError> {
    repo::users::has_login_elsewhere(tx, tenant, domain)
}

/// Rebuilds the index of sign-in addresses, so that several tenants can have staff with the same address.
pub fn share_logins(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    repo::users::share_logins(tx)
}

/// A staff member of the tenant by their account at an identity provider.
pub fn staff_by_identity(tx: &impl Read, tenant: TenantId, issuer: &str, subject: &str) -> Result<Option<User>, StoreError> {
    repo::users::find_identity(tx, tenant, issuer, subject)
}

/// The whole record of an organization.
pub fn organization_record(tx: &impl Read, tenant: TenantId, id: OrganizationId) -> Result<Option<Organization>, StoreError> {
    repo::organizations::get(tx, tenant, id)
}

/// A device by its ID in the source system.
pub fn device_by_external_id(tx: &impl Read, tenant: TenantId, external_id: &str) -> Result<Option<DeviceId>, StoreError> {
    repo::devices::find_external(tx, tenant, external_id)
}

/// A device without its details, which are more expensive to read.
pub fn device_outline(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<Device>, StoreError> {
    repo::devices::outline(tx, tenant, id)
}

/// Stores the backup state of a device, in the transaction that determined it. All reports read it from here.
pub fn set_backup(tx: &mut WriteTx, tenant: TenantId, id: DeviceId, state: Option<&BackupState>) -> Result<(), StoreError> {
    match state {
        Some(state) => repo::backups::put(tx, (tenant, id), state),
        None => repo::backups::remove(tx, (tenant, id)),
    }
}

/// The whole record of a device.
pub fn device_record(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<Option<Device>, StoreError> {
    repo::devices::get(tx, tenant, id)
}

/// The organizations of all tenants after the given key, in key order.
pub fn organizations_after(
    tx: &impl Read,
    after: Option<(TenantId, OrganizationId)>,
    limit: usize,
) -> Result<Vec<Organization>, StoreError> {
    repo::organizations::list_after(tx, after, limit)
}

/// The people of all tenants after the given key, in key order.
pub fn users_after(tx: &impl Read, after: Option<(TenantId, UserId)>, limit: usize) -> Result<Vec<User>, StoreError> {
    repo::users::list_after(tx, after, limit)
}

/// The devices of all tenants after the given key, in key order.
pub fn devices_after(tx: &impl Read, after: Option<(TenantId, DeviceId)>, limit: usize) -> Result<Vec<Device>, StoreError> {
    repo::devices::list_after(tx, after, limit)
}

/// The tenant's staff, oldest first. At most `limit`.
pub fn staff(tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, StoreError> {
    repo::users::list_staff(tx, tenant, limit)
}
