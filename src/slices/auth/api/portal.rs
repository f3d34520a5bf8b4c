//! `/api/admin/portal`: whether contacts can sign in. `/api/directory/contacts/{id}/portal-access`: which of them can.

use poem_openapi::{Object, OpenApi, Tags, param::Path};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::UserId};
use tenantd_http::{
    author::Author,
    input::Lenient,
    mark::{Marked, RecentSignIn},
    need::{Allowed, DirectoryRead, DirectoryWrite, UsersRead, UsersWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::{Code, Problem},
    reply::{Answer, Changed, Empty, Found},
};
use tenantd_store::{
    Store,
    events::{Describe, Described},
};

use super::{
    super::{
        accounts::{Manager, PasswordToken},
        error::{AuthError, PortalError},
        model,
        portal::{AccessState, access_state, replace_settings},
        repo::portal::settings_of,
        service::Users,
    },
    Area, OrConflict,
};

#[derive(Tags)]
enum ContactArea {
    /// Organizations, their contacts, and devices.
    Directory,
}

/// Whether the tenant has a portal for contacts.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct PortalSettings {
    /// Whether contacts that have access can sign in.
    enabled: bool,
    /// The version of the settings. It is 0 until somebody changes them, and every change increases it by one.
    version: u64,
}

impl From<model::PortalSettings> for PortalSettings {
    fn from(settings: model::PortalSettings) -> Self {
        let model::PortalSettings { enabled, version } = settings;
        Self { enabled, version }
    }
}

impl Describe for model::PortalSettings {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&PortalSettings::from(*self))
    }
}

/// The settings of the portal to set.
#[derive(Debug, Object)]
#[oai(example)]
pub(super) struct ReplacePortalSettings {
    /// Whether contacts that have access can sign in.
    enabled: bool,
}

/// The access of a contact to the portal.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct PortalAccess {
    /// Whether the contact has access. They can sign in while the portal of the tenant is on.
    has_access: bool,
    /// Whether the contact has set a password.
    has_password: bool,
    /// The address that the contact signs in with. Absent without access.
    email: Option<String>,
    /// When the contact got access. Absent without access.
    given_at: Option<Timestamp>,
    /// Who gave the access. Absent without access.
    given_by: Option<Author>,
    /// When the contact last signed in. Absent if they never did.
    last_login_at: Option<Timestamp>,
    /// The token for `POST /api/auth/password`. Only in the response that gives access: it works once and is not shown again.
    password_token: Option<String>,
    /// The page where the contact sets their password. The link contains the token. Only in the response that gives access.
    password_link: Option<String>,
    /// When the token expires. Only in the response that gives access.
    password_token_expires_at: Option<Timestamp>,
}

impl PortalAccess {
    fn new(state: AccessState, token: Option<&PasswordToken>, base_url: &str) -> Self {
        let AccessState { user, access, has_password } = state;
        let (email, given_at, given_by) = match access {
            Some(model::PortalAccess { email, given_at, given_by, ended: _ }) => {
                (Some(email), Some(given_at), Some(given_by.into()))
            }
            None => (None, None, None),
        };
        Self {
            has_access: email.is_some(),
            has_password,
            email,
            given_at,
            given_by,
            last_login_at: user.last_login_at,
            password_token: token.map(|token| token.token.expose().to_owned()),
            password_link: token.map(|token| format!("{base_url}/set-password?token={}", token.token.expose())),
            password_token_expires_at: token.map(|token| token.expires_at),
        }
    }
}

impl From<PortalError> for Problem {
    fn from(error: PortalError) -> Self {
        let detail = match error {
            PortalError::Off => "The portal is off. Turn it on with `PUT /api/admin/portal`, or ask an administrator to.",
            PortalError::NotHere => "The platform tenant has no contacts and no portal.",
            PortalError::NoAddress => "The contact has no e-mail address to sign in with. Add one first.",
            PortalError::NoOrganization => "The contact has no organization, so they would see no tickets. Set it first.",
            PortalError::Disabled => "The contact is disabled. Enable them first.",
            PortalError::PersonalKey => {
                let detail = "A personal key gives nobody access to the portal. Sign in, or use a key of the tenant.";
                return Self::new(Code::InsufficientAuthority, detail);
            }
        };
        Self::new(Code::InvalidTransition, detail)
    }
}

pub(crate) struct PortalApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin", tag = "Area::Users")]
impl PortalApi {
    /// Read the settings of the portal
    ///
    /// Returns whether contacts that have access can sign in to the portal at `/portal`. It is off until it is turned on with
    /// `PUT /api/admin/portal`.
    #[oai(path = "/portal", method = "get", operation_id = "read_portal_settings")]
    async fn read_portal_settings(
        &self,
        auth: Allowed<UsersRead>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<PortalSettings>, Problem> {
        let shown = PortalSettings::from(self.store.read(|tx| settings_of(tx, auth.principal.tenant_id))?);
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Turn the portal on or off
    ///
    /// Turns the portal for contacts on or off. Turning it on gives nobody access: see
    /// `PUT /api/directory/contacts/{id}/portal-access`. While it is off, contacts cannot sign in. Turning it off ends their sessions
    /// and their links for setting a password. Their access and their passwords stay.
    ///
    /// Turning it on lets all contacts that have access sign in again. It requires `directory:write`, `tickets:read` and `tickets:write`
    /// besides `users:write`.
    #[oai(path = "/portal", method = "put", operation_id = "replace_portal_settings")]
    async fn replace_portal_settings(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        if_match: IfMatch,
        body: Lenient<ReplacePortalSettings>,
    ) -> Result<Changed<PortalSettings>, Problem> {
        let (manager, intent) = (Manager::of(&auth.principal), auth.context.guarding_intent(&auth.principal));
        let enabled = body.0.enabled;
        let changed = self.store.write(move |tx| replace_settings(tx, &mut intent.begin(), &manager, &if_match, enabled));
        let shown = PortalSettings::from(changed.await?);
        Ok(Changed::new(&shown, shown.version))
    }
}

pub(crate) struct PortalAccessApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/directory/contacts", tag = "ContactArea::Directory")]
impl PortalAccessApi {
    /// Read the portal access of a contact
    ///
    /// Returns whether the contact has access to the portal, since when, and whether they have set a password.
    #[oai(path = "/:id/portal-access", method = "get", operation_id = "read_portal_access")]
    async fn read_portal_access(&self, auth: Allowed<DirectoryRead>, id: Path<UserId>) -> Result<Answer<PortalAccess>, Problem> {
        let act = auth.context.guarding_intent(&auth.principal).begin();
        let state = self.store.read(|tx| access_state(tx, &act, id.0))?;
        Ok(Answer::new(&PortalAccess::new(state, None, "")))
    }

    /// Give a contact access to the portal
    ///
    /// Lets the contact sign in with their e-mail address, and returns a link with which they set their password. Anyone with the link
    /// can read and answer the tickets of the contact, so your credential also needs `tickets:read` and `tickets:write` over the
    /// organization of the contact. The link stops working if you lose one of these rights. It works once,
    /// within three days, and is not shown again. Earlier links stop working. If the contact already has access, the request only
    /// returns a new link. The contact must be active, and have an address and an organization. The access ends when one of these
    /// changes: give it again for a new address or a new organization.
    #[oai(path = "/:id/portal-access", method = "put", operation_id = "give_portal_access")]
    async fn give_portal_access(
        &self,
        auth: Allowed<DirectoryWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<UserId>,
    ) -> Result<OrConflict<Changed<PortalAccess>>, Problem> {
        // Access is a credential, and such a secret creates none.
        if auth.principal.superseded {
            return Err(Problem::plain(Code::SupersededSecret));
        }
        let (users, manager) = (self.users.clone(), Manager::of(&auth.principal));
        let intent = auth.context.guarding_intent(&auth.principal);
        let given = self.store.write(move |tx| users.give_access(tx, &mut intent.begin(), &manager, id.0));
        let (state, token) = given.await?;
        let shown = PortalAccess::new(state, Some(&token), &auth.context.base_url.to_string());
        Ok(OrConflict(Changed::unversioned(&shown).secret()))
    }

    /// Take the portal access of a contact away
    ///
    /// Ends the access of the contact, with their password, second factors, sessions and links. Their tickets stay. Has no effect if
    /// the contact has no access.
    #[oai(path = "/:id/portal-access", method = "delete", operation_id = "remove_portal_access")]
    async fn remove_portal_access(&self, auth: Allowed<DirectoryWrite>, id: Path<UserId>) -> Result<Empty, Problem> {
        let (users, intent) = (self.users.clone(), auth.context.guarding_intent(&auth.principal));
        self.store
            .write(move |tx| users.remove_access(tx, &mut intent.begin(), id.0))
            .await
            .map_err(|error: AuthError| error.into())
            .map(|()| Empty::new())
    }
}
