//! Errors of users and of signing in.

use tenantd_api_keys::ApiKeyError;
use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    id::TenantId,
    secrets::PasswordError,
    versions::Stale,
};
use tenantd_directory::DirectoryError;
use tenantd_platform::Tenant;
use tenantd_store::StoreError;

/// A tenant that the person can sign in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantChoice {
    pub id: TenantId,
    pub name: String,
    pub slug: String,
}

impl TenantChoice {
    pub fn of(tenant: &Tenant) -> Self {
        Self { id: tenant.id, name: tenant.name.clone(), slug: tenant.slug.clone() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the user does not exist")]
    NotFound,
    /// The token is unknown, used, expired or withdrawn. The error does not reveal which.
    #[error("the token is not valid")]
    BadToken,
    /// The sign-in link is unknown, used, expired or withdrawn, or its tenant is closed. The error does not reveal which.
    #[error("the sign-in link is not valid")]
    BadLink,
    #[error("only staff can sign in")]
    NotStaff,
    #[error("{0} is required for {1}")]
    Required(&'static str, &'static str),
    #[error("{0} is not allowed for {1}")]
    NotFor(&'static str, &'static str),
    /// The caller does not cover the account, before or after the change.
    #[error("the caller lacks {0}")]
    Lacking(Lacking),
    #[error("{0}")]
    BadPassword(&'static str),
    /// Unknown account, wrong password, disabled account or suspended tenant. The error does not reveal which.
    #[error("e-mail address or password is wrong")]
    Refused,
    /// The password is right at several tenants.
    #[error("several tenants have this account")]
    TenantRequired(Vec<TenantChoice>),
    #[error("too many wrong passwords")]
    Throttled { retry_after_seconds: u64 },
    #[error("only a person has preferences and saved views")]
    NotAPerson,
    #[error("the user already has a view with this name")]
    ViewNameTaken,
    #[error("the user already has {most} views")]
    TooManyViews { most: usize },
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error(transparent)]
    Keys(#[from] ApiKeyError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Lacking> for AuthError {
    fn from(lacking: Lacking) -> Self {
        Self::Lacking(lacking)
    }
}
