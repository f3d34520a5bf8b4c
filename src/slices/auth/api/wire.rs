//! Wire types of users and sessions.

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

/// The request to create a user.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateUser {
    /// The e-mail address. Required for staff, who sign in with it.
    #[oai(validator(min_length = 3, max_length = 254))]
    pub(super) email: Option<String>,
    /// The name of the person.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) name: String,
    /// The kind of user. Defaults to `staff`.
    pub(super) kind: Option<PersonKind>,
    /// The role, which determines the scopes. Required for staff, not allowed for contacts.
    pub(super) role: Option<Role>,
    /// The organization of a contact. Not allowed for staff.
    pub(super) organization_id: Option<OrganizationId>,
    /// The id of the user in the system that they come from, unique within the tenant.
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

/// The request to change a user. Fields that you omit keep their values; `null` clears a field.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateUser {
    /// The id of the user. Required unless the path or the query contains it.
    pub(super) id: Option<UserId>,
    /// The e-mail address. Staff sign in with it.
    #[oai(validator(min_length = 3, max_length = 254))]
    pub(super) email: Option<String>,
    /// The name of the person.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) name: Option<String>,
    /// The role of a member of staff.
    pub(super) role: Option<Role>,
    /// The organization of a contact. `null` removes it.
    pub(super) organization_id: Change<OrganizationId>,
    /// Whether the user can sign in. Disabling a user ends their sessions.
    pub(super) status: Option<Word<UserStatus>>,
    /// The id of the user in the system that they come from, unique within the tenant. `null` removes it.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Change<String>,
}

impl From<UpdateUser> for UserChange {
    fn from(body: UpdateUser) -> Self {
        let UpdateUser { id: _, email, name, role, organization_id, status, external_id } = body;
        Self { name, email, role, organization_id, status: status.map(Into::into), external_id }
    }
}

/// Names the user to remove.
#[derive(Debug, Object)]
pub(super) struct RemoveUser {
    /// The id of the user. Required unless the query contains `id`.
    pub(super) id: Option<UserId>,
}

/// A user, with a token to set their password.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UserWithToken {
    /// The token for `POST /api/auth/password`. It works once and is not shown again: give it to the person over a secure channel.
    /// Absent for contacts.
    pub(super) password_token: Option<String>,
    /// The page where the person sets their password. The link contains the token. Absent for contacts.
    pub(super) password_link: Option<String>,
    /// When the token expires. Absent for contacts.
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

/// A session of a user.
#[derive(Debug, Object, Serialize)]
pub(super) struct UserSession {
    /// The id of the session.
    pub(super) id: SessionId,
    /// When the user signed in.
    pub(super) created_at: Timestamp,
    /// When the session was last used. Updated about once a minute.
    pub(super) last_seen_at: Timestamp,
    /// When the session ends at the latest. It ends earlier if it is not used.
    pub(super) expires_at: Timestamp,
}

#[derive(Clone, Copy, Debug, Enum, Serialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(crate) enum SignInMethod {
    Password,
    Sso,
    Link,
}

/// The identity provider of a sign-in attempt.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(crate) struct IdentityProviderReference {
    /// The id of the identity provider.
    id: IdentityProviderId,
    /// The name of the identity provider. Absent if it no longer exists.
    name: Option<String>,
}

/// A refused sign-in.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(crate) struct RefusedSignIn {
    /// How the person tried to sign in.
    method: SignInMethod,
    /// Why the sign-in was refused, such as `wrong_password`, `wrong_nonce`, `email_not_verified` or `account_disabled`.
    reason: String,
    /// The user who tried to sign in. Absent if unknown.
    user: Option<PersonReference>,
    /// The identity provider of the attempt. Present only for single sign-on.
    identity_provider: Option<IdentityProviderReference>,
}

impl Describe for model::RefusedSignIn {
    fn describe(&self, (): ()) -> Described {
        let provider =
            |(id, name): &(IdentityProviderId, Option<String>)| IdentityProviderReference { id: *id, name: name.clone() };
        let method = match (&self.identity_provider, self.reason) {
            (Some(_), _) => SignInMethod::Sso,
            (None, model::RefusalReason::BadLink) => SignInMethod::Link,
            (None, _) => SignInMethod::Password,
        };
        to_raw_value(&RefusedSignIn {
            method,
            reason: self.reason.name().to_owned(),
            user: self.user.as_ref().map(|(id, name)| PersonReference { id: *id, name: name.clone() }),
            identity_provider: self.identity_provider.as_ref().map(provider),
        })
    }
}
