//! Who may sign in: passwords, sessions, and the check of every credential. The people themselves are the directory's.
//!
//! **Boundary:** this slice is the kernel's `Authenticator`. For that it asks `api_keys` about keys, `platform` about tenants and
//! `directory` about people, through their faces.

mod accounts;
mod api;
mod authenticator;
mod checks;
mod error;
mod holders;
mod model;
mod repo;
mod service;
mod sign_in;
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

pub const EVENTS: &[&EventKind] = &[&service::LOGGED_IN, &service::LOGIN_FAILED, &service::SESSIONS_ENDED];

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
        (session, users, user, sessions, sso)
    }

    /// The schemas of the records that only events carry.
    pub fn record_schemas() -> Map<String, Value> {
        openapi::schemas::<api::RefusedSignIn>()
    }

    /// What only the admin socket serves.
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

    /// Password hashes go along to another installation, so that people can sign in there; sessions and one-time tokens do not. Of a file
    /// that nobody vouches for they do not arrive: an administrator gives out new tokens.
    pub fn portable() -> Vec<Box<dyn Portable>> {
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
            user.ok_or_else(|| PortError::Wrong(format!("it is the password of {}, who is not in the file", key.1)))?;
            Ok(repo::CREDENTIALS.put(tx, key, credential)?)
        });
        vec![kept.boxed()]
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::CREDENTIALS, &repo::PASSWORD_TOKENS, &repo::SESSIONS, &repo::LOGIN_FAILURES]
    }

    /// What tenants have in tables whose keys do not begin with them.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![&repo::SESSIONS_OF_TENANTS, &repo::PASSWORD_TOKENS_OF_TENANTS]
    }
}
