//! Errors of users and of signing in.

use tenantd_api_keys::ApiKeyError;
use tenantd_base::{
    authority::Lacking,
    fault::{Fault, listed},
    id::TenantId,
    secrets::{PasswordError, SealError},
    versions::Stale,
};
use tenantd_directory::DirectoryError;
use tenantd_platform::Tenant;
use tenantd_store::StoreError;

use super::factors::SecondFactorRequest;
use super::model::{PasskeyFault, RefusalReason};
use super::sign_on::RequiredSignOn;

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
    /// A new password is refused: the field, and the reason.
    #[error("{1}")]
    BadPassword(&'static str, String),
    /// A signed-in person typed a wrong password into this field.
    #[error("{0} is wrong")]
    WrongPassword(&'static str),
    #[error("the user has no password")]
    NoPassword,
    /// The password is right, but it was an initial one.
    #[error("the initial password has expired")]
    InitialPasswordExpired,
    #[error("only a person has sessions and a password")]
    NoSession,
    /// Unknown account, wrong password, disabled account or suspended tenant. The error does not reveal which.
    #[error("e-mail address or password is wrong")]
    Refused,
    /// The password is right at several tenants.
    #[error("several tenants have this account")]
    TenantRequired(Vec<TenantChoice>),
    /// The password, link or token is right, but the account must sign in through a provider.
    #[error("single sign-on through {} is required", .0.provider.name)]
    SingleSignOnRequired(Box<RequiredSignOn>),
    #[error("no administrator could sign in if the identity provider failed")]
    LastBreakGlass,
    /// Provisioning would disable, remove or demote an account that signs in when everything else fails.
    #[error("the account is a break-glass account")]
    BreakGlassKept,
    /// The platform tenant has only operators, whom nobody provisions.
    #[error("the platform tenant is not provisioned")]
    NotProvisioned,
    #[error("too many wrong passwords")]
    Throttled { retry_after_seconds: u64 },
    #[error(transparent)]
    Factor(#[from] FactorError),
    #[error(transparent)]
    Portal(#[from] PortalError),
    #[error("only a person has preferences, saved views and second factors")]
    NotAPerson,
    #[error("the platform tenant has no custom roles")]
    NoRolesHere,
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
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a contact cannot get access to the portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortalError {
    #[error("the portal of the tenant is off")]
    Off,
    #[error("the platform tenant has no portal")]
    NotHere,
    #[error("the contact has no e-mail address")]
    NoAddress,
    #[error("the contact has no organization")]
    NoOrganization,
    #[error("the contact is disabled")]
    Disabled,
    #[error("a personal key gives nobody access")]
    PersonalKey,
}

/// Errors of second factors.
#[derive(Debug, thiserror::Error)]
pub enum FactorError {
    /// The password is right, and the person has a second factor.
    #[error("a second factor is required")]
    SecondFactorRequired(SecondFactorRequest),
    /// The challenge is unknown, used or expired, or its account has changed. The error does not reveal which.
    #[error("the challenge is not valid")]
    BadChallenge,
    #[error("the second factor is wrong or was used before")]
    WrongFactor { attempts_left: u8, reason: RefusalReason },
    /// The enrolment is forged, expired, used, or somebody else's. The error does not reveal which.
    #[error("the enrolment is not valid")]
    BadEnrolment,
    #[error("the code of the new factor is wrong")]
    WrongNewCode,
    #[error("the user already has a factor with this name")]
    FactorNameTaken,
    #[error("the user already has {most} factors")]
    TooManyFactors { most: usize },
    #[error("the user has no second factor")]
    NoFactor,
    #[error("the role of the user needs a second factor")]
    FactorRequired,
    #[error("users cannot remove all of their own factors if their role needs one")]
    OwnFactorsRequired,
    #[error("the second factor of the signed-in person is wrong or was used before")]
    WrongOwnFactor(RefusalReason),
    #[error("the user has a second factor that the session has not proven")]
    FactorToProve,
    /// The address of the installation has no host name, or no encryption.
    #[error("passkeys do not work at this address")]
    NoPasskeysHere,
    #[error("the user has no passkey for this host name")]
    NoPasskey,
    /// What a person sent to add a passkey: the field, and what is wrong with it.
    #[error("{0} {1}")]
    BadPasskey(&'static str, PasskeyFault),
    #[error("the passkey is known already")]
    PasskeyKnown,
    /// Unknown passkey, wrong signature, disabled account or suspended tenant. The error does not reveal which.
    #[error("the passkey does not sign anybody in")]
    RefusedPasskey,
}

impl From<Lacking> for AuthError {
    fn from(lacking: Lacking) -> Self {
        Self::Lacking(lacking)
    }
}
