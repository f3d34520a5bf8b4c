//! Wire types of users and sessions.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::StaffRole,
    change::Change,
    clock::Timestamp,
    id::{IdentityProviderId, OrganizationId, SessionId, UserId},
};
use tenantd_directory::{NewUser, PersonKind, PersonReference, Standing, UserChange, UserStatus, UserView};
use tenantd_http::wire::{Word, word_type};
use tenantd_store::events::{Describe, Described};

use super::super::{
    accounts::PasswordToken,
    error::AuthError,
    model::{self, SignInMethod},
};

word_type! {
    SignInMethod, "SignInMethod";
}

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
    /// The role, which determines the scopes: `admin`, `technician`, `viewer`, `operator`, or the id of a custom role. Required for
    /// staff, not allowed for contacts.
    pub(super) role: Option<StaffRole>,
    /// Limits a member of staff to records of these organizations. They then lose all scopes over the whole tenant. Absent: no limit.
    #[oai(validator(min_items = 1, max_items = 100, unique_items))]
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
    /// The organization of a contact. Not allowed for staff.
    pub(super) organization_id: Option<OrganizationId>,
    /// The id of the user in the system that they come from, unique within the tenant.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Option<String>,
}

impl TryFrom<CreateUser> for NewUser {
    type Error = AuthError;

    fn try_from(body: CreateUser) -> Result<Self, AuthError> {
        let CreateUser { email, name, kind, role, organization_ids, organization_id, external_id } = body;
        let standing = match (kind.unwrap_or(PersonKind::Staff), role, organization_id) {
            (PersonKind::Staff, _, Some(_)) => return Err(AuthError::NotFor("organization_id", "staff")),
            (PersonKind::Staff, None, None) => return Err(AuthError::Required("role", "staff")),
            (PersonKind::Staff, Some(role), None) => Standing::Staff { role, organization_ids },
            (PersonKind::Contact, Some(_), _) => return Err(AuthError::NotFor("role", "contacts")),
            (PersonKind::Contact, None, _) if organization_ids.is_some() => {
                return Err(AuthError::NotFor("organization_ids", "contacts"));
            }
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
    /// The role of a member of staff: `admin`, `technician`, `viewer`, `operator`, or the id of a custom role.
    pub(super) role: Option<StaffRole>,
    /// Limits a member of staff to records of these organizations. `null` removes the limit.
    #[oai(validator(min_items = 1, max_items = 100, unique_items))]
    pub(super) organization_ids: Change<Vec<OrganizationId>>,
    /// The organization of a contact. `null` removes it.
    pub(super) organization_id: Change<OrganizationId>,
    /// Whether the user can sign in. Disabling a user ends their sessions.
    pub(super) status: Option<Word<UserStatus>>,
    /// The id of the user in the system that they come from, unique within the tenant. `null` removes it.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Change<String>,
}

impl UpdateUser {
    /// Whether the request disables the user and changes nothing else.
    pub(super) fn only_disables(&self) -> bool {
        let Self { id: _, email, name, role, organization_ids, organization_id, status, external_id } = self;
        let keeps = *organization_ids == Change::Keep && *organization_id == Change::Keep && *external_id == Change::Keep;
        let disables = status.is_some_and(|status| UserStatus::from(status) == UserStatus::Disabled);
        disables && keeps && email.is_none() && name.is_none() && role.is_none()
    }
}

impl From<UpdateUser> for UserChange {
    fn from(body: UpdateUser) -> Self {
        let UpdateUser { id: _, email, name, role, organization_ids, organization_id, status, external_id } = body;
        Self { name, email, role, organization_ids, organization_id, status: status.map(Into::into), external_id }
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
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct UserSession {
    /// The id of the session.
    pub(super) id: SessionId,
    /// When the user signed in.
    pub(super) created_at: Timestamp,
    /// When the session was last used. Updated about once a minute.
    pub(super) last_seen_at: Timestamp,
    /// When the session ends at the latest. It ends earlier if it is not used.
    pub(super) expires_at: Timestamp,
    /// How the user signed in, in order. Empty if an older release started the session.
    pub(super) methods: Vec<SignInMethod>,
    /// When the user last proved who they are: at the sign-in, or when they confirmed it later.
    pub(super) proven_at: Timestamp,
    /// The IP address of the sign-in. Absent if unknown.
    pub(super) ip_address: Option<String>,
    /// The identity provider that started the session. Absent for other sessions.
    pub(super) identity_provider_id: Option<IdentityProviderId>,
    /// How the user authenticated at the provider, in its own words (`amr`), such as `pwd` or `hwk`. Absent for other sessions.
    pub(super) provider_methods: Option<Vec<String>>,
    /// The `User-Agent` of the sign-in, cut to 256 bytes. Absent if the client sent none.
    pub(super) user_agent: Option<String>,
    /// The device in words, such as `Firefox on Linux`, from the user agent.
    pub(super) device: String,
    /// Whether the request uses this session.
    pub(super) is_current: bool,
}

impl UserSession {
    /// `time` converts a time of the installation to the time of the tenant.
    /// `current` is the session of the request.
    pub(super) fn new(session: model::Session, current: Option<SessionId>, time: impl Fn(Timestamp) -> Timestamp) -> Self {
        Self {
            device: model::device(session.origin.user_agent.as_deref()),
            is_current: current == Some(session.id),
            id: session.id,
            created_at: session.id.time(),
            last_seen_at: time(session.last_seen_at),
            expires_at: time(session.expires_at),
            methods: session.methods,
            proven_at: time(session.proven_at),
            identity_provider_id: session.sign_on.as_ref().map(|sign_on| sign_on.identity_provider_id),
            provider_methods: session.sign_on.map(|sign_on| sign_on.amr),
            ip_address: session.origin.address.map(|address| address.to_string()),
            user_agent: session.origin.user_agent,
        }
    }
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
        to_raw_value(&RefusedSignIn {
            method: self.method,
            reason: self.reason.name().to_owned(),
            user: self.user.as_ref().map(|(id, name)| PersonReference { id: *id, name: name.clone() }),
            identity_provider: self.identity_provider.as_ref().map(provider),
        })
    }
}
