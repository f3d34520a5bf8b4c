//! The errors of provisioning.

use tenantd_auth::AuthError;
use tenantd_base::{
    fault::{Fault, listed},
    id::UserId,
    versions::Stale,
};
use tenantd_directory::DirectoryError;
use tenantd_store::StoreError;

/// Why a request of the protocol is refused, in the words of RFC 7644.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    InvalidFilter,
    TooMany,
    Uniqueness,
    Mutability,
    InvalidSyntax,
    InvalidPath,
    NoTarget,
    InvalidValue,
}

impl Reason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidFilter => "invalidFilter",
            Self::TooMany => "tooMany",
            Self::Uniqueness => "uniqueness",
            Self::Mutability => "mutability",
            Self::InvalidSyntax => "invalidSyntax",
            Self::InvalidPath => "invalidPath",
            Self::NoTarget => "noTarget",
            Self::InvalidValue => "invalidValue",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ScimError {
    #[error("not found")]
    NotFound,
    #[error("{detail}")]
    Refused { reason: Reason, detail: String },
    /// A session or the admin socket cannot provision. A client needs a key.
    #[error("only an API key can provision")]
    NotAKey,
    /// The account was neither created nor changed by provisioning, so provisioning does not remove it.
    #[error("provisioning does not manage the account")]
    NotManaged,
    #[error("the tenant already has {most} groups")]
    TooManyGroups { most: usize },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ScimError {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self::Refused { reason, detail: detail.into() }
    }

    pub(super) fn value(detail: impl Into<String>) -> Self {
        Self::new(Reason::InvalidValue, detail)
    }

    /// The error of an account, in the words of the protocol where it has some.
    pub(super) fn of_account(error: AuthError) -> Self {
        match error {
            AuthError::Directory(DirectoryError::EmailTaken) => Self::taken(),
            AuthError::Directory(DirectoryError::BadEmail(message)) => {
                Self::value(format!("The e-mail address of the account {message}."))
            }
            AuthError::Directory(DirectoryError::EmailMissing) => Self::value("The account needs an e-mail address."),
            AuthError::NotFound | AuthError::Directory(DirectoryError::NotFound) => Self::NotFound,
            AuthError::Stale(stale) | AuthError::Directory(DirectoryError::Stale(stale)) => Self::Stale(stale),
            error => Self::Auth(error),
        }
    }

    /// Provisioning cannot see contacts, so the error says how to find the one.
    pub(super) fn taken_by_contact(id: UserId) -> Self {
        let detail = format!(
            "The contact {id} has this e-mail address, and an address belongs to one person of a tenant. Change the address of the \
             contact, or delete the contact: `/api/directory/contacts/{id}`, or `/contacts/{id}` in the console. Then provision again."
        );
        Self::new(Reason::Uniqueness, detail)
    }

    pub(super) fn taken() -> Self {
        Self::new(Reason::Uniqueness, "Another user already has this userName or e-mail address.")
    }
}
