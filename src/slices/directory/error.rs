//! The errors of the directory.

use tenantd_base::{access::Grants, id::OrganizationId, versions::Stale};
use tenantd_store::StoreError;

use super::model::InvalidChange;

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("record not found")]
    NotFound,
    #[error("the email address is already in use")]
    EmailTaken,
    #[error("the external ID is already in use")]
    ExternalIdTaken,
    #[error("{0}")]
    BadEmail(&'static str),
    #[error("staff need an email address to sign in")]
    EmailMissing,
    #[error("organization not found")]
    UnknownOrganization,
    #[error("no organization has the external ID {0}")]
    UnknownExternalOrganization(String),
    /// The record, or its organization after the change, is not within the caller's reach.
    #[error("the record is out of reach")]
    OutOfReach,
    #[error("owner not found")]
    UnknownOwner,
    #[error("no user has the external ID {0}")]
    UnknownExternalOwner(String),
    /// A new record requires this field.
    #[error("{field} is required for a new record")]
    Incomplete { field: &'static str },
    #[error("this external ID belongs to a member of staff")]
    IsStaff,
    #[error("only the platform tenant has operators, and it has no other roles")]
    RoleMismatch,
    #[error("staff do not belong to an organization")]
    StaffOrganization,
    #[error("a contact has no role")]
    ContactRole,
    #[error(transparent)]
    Role(#[from] RoleError),
    #[error("no other administrator of the tenant can sign in")]
    LastAdmin,
    /// Other records refer to it: their kinds and counts, and whether there are others that the caller cannot read.
    #[error("other records refer to it")]
    InUse { found: Vec<(&'static str, u64)>, unseen: bool },
    /// The caller cannot change the records that refer to it.
    #[error("moving the records that refer to it requires more scopes")]
    MissingScopes(Grants),
    /// More records refer to it than one request can move.
    #[error("{0} records refer to it")]
    TooManyDependents(u64),
    /// A record that refers to it cannot refer to the target.
    #[error("cannot be moved: {0}")]
    CannotMove(String),
    #[error("the target is the same record or does not exist")]
    UnknownTarget,
    #[error("{}: {}", .0.pointer, .0.message)]
    InvalidChange(InvalidChange),
    #[error("a caller restricted to organizations cannot create organizations")]
    OrganizationsOnly,
    /// Another slice refused a line that was passed to it.
    #[error("{message}")]
    Line { pointer: &'static str, message: String },
    #[error("{0}; {1}")]
    Both(Box<Self>, Box<Self>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("cannot write an event: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The errors of custom roles, and of staff who are limited to organizations.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    #[error("role not found")]
    Unknown,
    #[error("the role name is already in use")]
    NameTaken,
    #[error("the name is that of a built-in role")]
    BuiltInName,
    #[error("the tenant already has {most} roles")]
    TooMany { most: usize },
    #[error("the role already has {most} members")]
    Full { most: usize },
    #[error("{users} users have the role, and {rules} rules give it")]
    InUse { users: u64, rules: u64 },
    #[error("a contact cannot be limited to organizations")]
    ContactLimits,
    #[error("an operator cannot be limited to organizations")]
    OperatorLimits,
    #[error("organization {0} not found")]
    UnknownLimit(OrganizationId),
}

impl DirectoryError {
    /// Returns both results, or all errors.
    pub(crate) fn both<A, B>(first: Result<A, Self>, second: Result<B, Self>) -> Result<(A, B), Self> {
        match (first, second) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            (Err(first), Err(second)) => Err(Self::Both(Box::new(first), Box::new(second))),
            (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        }
    }
}

impl From<InvalidChange> for DirectoryError {
    fn from(invalid: InvalidChange) -> Self {
        Self::InvalidChange(invalid)
    }
}
