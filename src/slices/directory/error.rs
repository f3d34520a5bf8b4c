//! What can go wrong with organizations, people and devices.

use tenantd_base::versions::Stale;
use tenantd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("there is no such record")]
    NotFound,
    #[error("the e-mail address is taken")]
    EmailTaken,
    #[error("the external id is taken")]
    ExternalIdTaken,
    #[error("{0}")]
    BadEmail(&'static str),
    #[error("staff need an e-mail address to sign in with")]
    EmailMissing,
    #[error("there is no such organization")]
    UnknownOrganization,
    #[error("there is no organization with the external id {0}")]
    UnknownExternalOrganization(String),
    /// The record, or the organization that it would have, is not one that the caller reaches.
    #[error("the record is out of reach")]
    OutOfReach,
    #[error("there is no such user to be the owner")]
    UnknownOwner,
    #[error("there is no user with the external id {0}")]
    UnknownExternalOwner(String),
    /// A record that is not there yet must be told in full.
    #[error("{field} is required for a new record")]
    Incomplete { field: &'static str },
    #[error("this external id is that of a member of staff")]
    IsStaff,
    #[error("an operator belongs to the platform tenant, and everyone else to another")]
    RoleMismatch,
    #[error("staff belong to the tenant and to no organization")]
    StaffOrganization,
    #[error("a contact has no role")]
    ContactRole,
    #[error("this is the last active administrator of the tenant")]
    LastAdmin,
    #[error("the organization still has {devices} devices and {contacts} contacts")]
    OrganizationInUse { devices: u64, contacts: u64 },
    /// A line that was handed on, and refused there.
    #[error("{message}")]
    Line { pointer: &'static str, message: String },
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}
