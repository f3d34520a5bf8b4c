//! Authentication: passwords, sessions, and the check of every credential. The directory owns the user records.
//!
//! **Boundary:** this slice implements the kernel's `Authenticator`. It uses the public interfaces of `api_keys` for keys,
//! `platform` for tenants and `directory` for users.

mod accounts;
mod api;
mod authenticator;
mod checks;
mod error;
mod holders;
mod model;
mod preferences;
mod repo;
mod service;
mod sign_in;
mod sign_in_link;
mod upkeep;

use std::sync::Arc;

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_api_keys::ApiKeySlice;
use tenantd_base::{clock::Clock, config, secrets::Passwords};
use tenantd_directory::{self as directory, Directory};
use tenantd_http::openapi;
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, Store, TenantRows,
    events::EventKind,
    portable::{Arrival, Carrier, PortError, Portable},
    tasks::Tasks,
};

pub use accounts::Manager;
pub use authenticator::SliceAuthenticator;
pub use error::{AuthError, TenantChoice};
pub use holders::{CredentialRights, ProviderIsOn};
pub use model::{NewUser, RefusalReason, RefusedSignIn};
pub use service::{Login, Users};
pub use sign_in::Attempt;

pub const EVENTS: &[&EventKind] = &[
    &service::LOGGED_IN,
    &service::LOGIN_FAILED,
    &service::SESSIONS_ENDED,
    &preferences::PREFERENCES_UPDATED,
    &preferences::VIEW_CREATED,
    &preferences::VIEW_DELETED,
];

#[derive(Clone, Debug)]
pub struct Auth {
    pub users: Users,
    pub authenticator: Arc<SliceAuthenticator>,
    store: Store,
    clock: Clock,
}

impl Auth {
    pub fn new(
        store: Store,
        clock: Clock,
        settings: &config::Sessions,
        passwords: Passwords,
        directory: Directory,
        tenants: Tenants,
        keys: &ApiKeySlice,
    ) -> Self {
        let sessions = model::SessionRules::new(settings);
        let users = Users::new(store.clone(), passwords, sessions, directory, tenants.clone(), keys.owners());
        let authenticator = Arc::new(SliceAuthenticator::new(store.clone(), sessions, tenants, keys.keys.clone()));
        Self { users, authenticator, store, clock }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let session = api::AuthApi { users: self.users.clone(), clock: self.clock.clone() };
        let users = api::UsersApi { users: self.users.clone(), store: self.store.clone() };
        let user = api::UserApi { users: self.users.clone(), store: self.store.clone() };
        let sessions = api::UserSessionsApi { users: self.users.clone(), store: self.store.clone() };
        let sso = api::UserSsoApi { users: self.users.clone(), store: self.store.clone() };
        let preferences = api::PreferencesApi { store: self.store.clone() };
        let views = api::ViewsApi { store: self.store.clone() };
        (session, preferences, views, users, user, sessions, sso)
    }

    /// The schemas of records that appear only in events.
    pub fn record_schemas() -> Map<String, Value> {
        openapi::schemas::<api::RefusedSignIn>()
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        api::AdminUsersApi { users: self.users.clone(), tenants, store: self.store.clone() }
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::SessionUpkeep {
            store: self.store.clone(),
            clock: self.clock.clone(),
            authenticator: self.authenticator.clone(),
        });
    }

    /// The tables that move with a tenant to another installation. Password hashes move, so that people can sign in there, and so do
    /// preferences and saved views. Sessions, one-time tokens and sign-in links do not. Password hashes from an unverified file are
    /// not imported: an administrator issues new tokens.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        let view_fields = api::view_fields()?;
        let arrive = |arrival: &mut Arrival, key: repo::UserKey, credential: repo::CredentialRecord| {
            credential.password.check().map_err(PortError::wrong)?;
            if arrival.is_verified() {
                return Ok(Some((key, credential)));
            }
            arrival.switch_off("passwords", &key.1.to_string());
            Ok(None)
        };
        let credentials = Carrier::turning("credential", &repo::CREDENTIALS, |_, key, record| Ok(Some((key, record))), arrive);
        let kept = credentials.kept_by(|tx, key, credential| {
            let user = directory::user(tx, key.0, key.1)?;
            user.ok_or_else(|| PortError::Wrong(format!("the password belongs to the user {}, who is not in the file", key.1)))?;
            Ok(repo::CREDENTIALS.put(tx, key, credential)?)
        });
        let mut portable = vec![kept.boxed()];
        portable.extend(repo::portable::portable(move |view| view_fields.check(view)));
        Ok(portable)
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::CREDENTIALS,
            &repo::PASSWORD_TOKENS,
            &repo::SIGN_IN_LINKS,
            &repo::SESSIONS,
            &repo::LOGIN_FAILURES,
            &repo::preferences::PREFERENCES,
            &repo::preferences::VIEWS,
        ]
    }

    /// The rows of tenants in tables whose keys do not begin with the tenant.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![&repo::SESSIONS_OF_TENANTS, &repo::PASSWORD_TOKENS_OF_TENANTS, &repo::SIGN_IN_LINKS_OF_TENANTS]
    }
}
