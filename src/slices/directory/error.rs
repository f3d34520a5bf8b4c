//! What can go wrong with organizations, people and devices.

use tenantd_base::{access::Grants, versions::Stale};
use tenantd_store::StoreError;

use super::model::InvalidChange;

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
    /// Other records refer to it: what they are and how many, and whether there are some that the caller cannot read.
    #[error("other records refer to it")]
    InUse { found: Vec<(&'static str, u64)>, unseen: bool },
    /// The caller cannot change what refers to it.
    #[error("what refers to it needs more scopes to be moved")]
    MissingScopes(Grants),
    /// More records refer to it than one request moves.
    #[error("{0} records refer to it")]
    TooManyDependents(u64),
    /// Something that refers to it cannot refer to the target.
    #[error("cannot be moved: {0}")]
    CannotMove(String),
    #[error("the target is the record itself, or not found")]
    UnknownTarget,
    #[error("{}: {}", .0.pointer, .0.message)]
    InvalidChange(InvalidChange),
    #[error("an organization belongs to itself: a caller for some organizations has none to create one in")]
    OrganizationsOnly,
    /// A line that was handed on, and refused there.
    #[error("{message}")]
    Line { pointer: &'static str, message: String },
    #[error("{0}; {1}")]
    Both(Box<Self>, Box<Self>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DirectoryError {
    /// Both results, or all that is wrong.
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
