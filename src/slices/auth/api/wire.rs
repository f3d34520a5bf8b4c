//! Users as administrators send them.

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::Role,
    change::Change,
    clock::Timestamp,
    id::{IdentityProviderId, OrganizationId, SessionId, UserId},
};
use tenantd_directory::{NewUser, PersonKind, PersonReference, Standing, UserChange, UserStatus, UserView};
use tenantd_http::wire::Word;
use tenantd_store::events::{Describe, Described};

use super::super::{accounts::PasswordToken, error::AuthError, model};

/// A user to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateUser {
    /// The e-mail address that staff sign in with; required for them.
    #[oai(validator(min_length = 3, max_length = 254))]
    pub(super) email: Option<String>,
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) name: String,
    /// `staff` when absent.
    pub(super) kind: Option<PersonKind>,
    /// What staff may do; required for them.
    pub(super) role: Option<Role>,
    /// Where a contact belongs.
    pub(super) organization_id: Option<OrganizationId>,
    /// The id in the system that the user comes from, unique in the tenant.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Option<String>,
}

impl TryFrom<CreateUser> for NewUser {
    type Error = AuthError;

    fn try_from(body: CreateUser) -> Result<Self, AuthError> {
        let CreateUser { email, name, kind, role, organization_id, external_id } = body;
        let standing = match (kind.unwrap_or(PersonKind::Staff), role, organization_id) {
            (PersonKind::Staff, _, Some(_)) => return Err(AuthError::NotFor("organization_id", "staff")),
            (PersonKind::Staff, None, None) => return Err(AuthError::Required("role", "staff")),
            (PersonKind::Staff, Some(role), None) => Standing::Staff { role },
            (PersonKind::Contact, Some(_), _) => return Err(AuthError::NotFor("role", "contacts")),
            (PersonKind::Contact, None, organization_id) => Standing::Contact { organization_id },
        };
        Ok(Self { external_id, email, name, standing })
    }
}

/// A change of a user. What is absent stays as it is; `null` clears.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateUser {
    /// The user, unless the path or the query names them.
    pub(super) id: Option<UserId>,
    /// The e-mail address.
    #[oai(validator(min_length = 3, max_length = 254))]
    pub(super) email: Option<String>,
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) name: Option<String>,
    /// Of staff.
    pub(super) role: Option<Role>,
    /// Of a contact.
    pub(super) organization_id: Change<OrganizationId>,
    /// A disabled user cannot sign in, and their sessions end.
    pub(super) status: Option<Word<UserStatus>>,
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Change<String>,
}

impl From<UpdateUser> for UserChange {
    fn from(body: UpdateUser) -> Self {
        let UpdateUser { id: _, email, name, role, organization_id, status, external_id } = body;
        Self { name, email, role, organization_id, status: status.map(Into::into), external_id }
    }
}

/// The user to remove.
#[derive(Debug, Object)]
pub(super) struct RemoveUser {
    /// The user, unless the query names them.
    pub(super) id: Option<UserId>,
}

/// A user, with the token that staff set their password with.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UserWithToken {
    /// For `POST /api/auth/password`, once. It cannot be had again; give it to the person on a way that is safe.
    pub(super) password_token: Option<String>,
    /// The page where the person sets their password with the token, without anything else.
    pub(super) password_link: Option<String>,
    /// When the token ends.
    pub(super) password_token_expires_at: Option<Timestamp>,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) user: UserView,
}

impl UserWithToken {
    pub(super) fn new(user: UserView, token: Option<&PasswordToken>, base_url: &str) -> Self {
        Self {
            password_token: token.map(|token| token.token.expose().to_owned()),
            password_link: token.map(|token| format!("{base_url}/set-password?token={}", token.token.expose())),
            password_token_expires_at: token.map(|token| token.expires_at),
            user,
        }
    }
}

/// Someone who is signed in.
#[derive(Debug, Object, Serialize)]
pub(super) struct UserSession {
    pub(super) id: SessionId,
    pub(super) created_at: Timestamp,
    /// When it was last used, to the minute.
    pub(super) last_seen_at: Timestamp,
    /// When it ends in any case.
    pub(super) expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(crate) enum SignInMethod {
    Password,
    Sso,
}

/// The identity provider that somebody wanted to sign in through.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(crate) struct IdentityProviderReference {
    id: IdentityProviderId,
    name: Option<String>,
}

/// A sign-in that was refused.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(crate) struct RefusedSignIn {
    /// How they tried to sign in.
    method: SignInMethod,
    /// Such as `wrong_password`, `wrong_nonce`, `email_not_verified` or `account_disabled`.
    reason: String,
    /// Absent where it is not known who it was.
    user: Option<PersonReference>,
    identity_provider: Option<IdentityProviderReference>,
}

impl Describe for model::RefusedSignIn {
    fn describe(&self, (): ()) -> Described {
        let provider =
            |(id, name): &(IdentityProviderId, Option<String>)| IdentityProviderReference { id: *id, name: name.clone() };
        to_raw_value(&RefusedSignIn {
            method: if self.identity_provider.is_some() { SignInMethod::Sso } else { SignInMethod::Password },
            reason: self.reason.name().to_owned(),
            user: self.user.as_ref().map(|(id, name)| PersonReference { id: *id, name: name.clone() }),
            identity_provider: self.identity_provider.as_ref().map(provider),
        })
    }
}
