//! Users as administrators send them.

use poem_openapi::Object;
use serde::Serialize;

use super::super::{accounts::PasswordToken, error::AuthError};
use crate::{
    kernel::{
        clock::Timestamp,
        http::wire::Change,
        id::{OrganizationId, SessionId, UserId},
    },
    slices::directory::{NewUser, RoleView, Standing, UserChange, UserKindView, UserStatusView, UserView},
};

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
    pub(super) kind: Option<UserKindView>,
    /// What staff may do; required for them.
    pub(super) role: Option<RoleView>,
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
        let standing = match (kind.unwrap_or(UserKindView::Staff), role, organization_id) {
            (UserKindView::Staff, _, Some(_)) => return Err(AuthError::NotFor("organization_id", "staff")),
            (UserKindView::Staff, None, None) => return Err(AuthError::Required("role", "staff")),
            (UserKindView::Staff, Some(role), None) => Standing::Staff { role: role.into() },
            (UserKindView::Contact, Some(_), _) => return Err(AuthError::NotFor("role", "contacts")),
            (UserKindView::Contact, None, organization_id) => Standing::Contact { organization_id },
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
    pub(super) role: Option<RoleView>,
    /// Of a contact.
    pub(super) organization_id: Change<OrganizationId>,
    /// A disabled user cannot sign in, and their sessions end.
    pub(super) status: Option<UserStatusView>,
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) external_id: Change<String>,
}

impl From<UpdateUser> for UserChange {
    fn from(body: UpdateUser) -> Self {
        let UpdateUser { id: _, email, name, role, organization_id, status, external_id } = body;
        Self { name, email, role: role.map(Into::into), organization_id, status: status.map(Into::into), external_id }
    }
}

/// The user to remove.
#[derive(Debug, Object)]
pub(super) struct RemoveUser {
    /// The user, unless the query names them.
    pub(super) id: Option<UserId>,
}

/// A user, with the token that staff set their password with.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UserWithToken {
    /// For `POST /api/auth/password`, once. It cannot be had again; give it to the person on a way that is safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) password_token: Option<String>,
    /// When the token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) password_token_expires_at: Option<Timestamp>,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) user: UserView,
}

impl UserWithToken {
    pub(super) fn new(user: UserView, token: Option<&PasswordToken>) -> Self {
        Self {
            password_token: token.map(|token| token.token.expose().to_owned()),
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
