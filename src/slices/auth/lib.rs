//! Authentication: passwords, sessions, and the check of every credential. The directory owns the user records.
//!
//! **Boundary:** this slice implements the kernel's `Authenticator`. It uses the public interfaces of `api_keys` for keys,
//! `platform` for tenants and `directory` for users.

mod accounts;
mod api;
mod authenticator;
mod checks;
mod error;
mod factors;
mod holders;
mod model;
mod openers;
mod own_account;
mod passkey_sign_in;
mod portal;
mod preferences;
mod provisioned;
mod repo;
mod rights;
mod roles;
mod service;
mod sign_in;
mod sign_in_link;
mod sign_on;
mod upkeep;
mod ways_in;

use std::sync::{Arc, Mutex};

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_api_keys::ApiKeySlice;
use tenantd_base::{
    clock::Clock,
    config,
    id::TenantId,
    secrets::{Passwords, Sealer},
};
use tenantd_directory::{self as directory, Directory};
use tenantd_http::openapi;
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, SealedTable, Store, StoreError, TenantRows, WriteTx,
    events::EventKind,
    portable::{Arrival, Carrier, PortError, Portable},
    tasks::Tasks,
};

pub use accounts::Manager;
pub use api::browser;
pub use authenticator::SliceAuthenticator;
pub use error::{AuthError, TenantChoice};
pub use holders::{CredentialRights, ProviderIsOn};
pub use model::{Browser, NewUser, PasswordContext, RefusalReason, RefusedSignIn, Session, SessionSignOn, SignInMethod};
pub use portal::contact_changed;
pub use service::{FirstPassword, Login, PersonRemoved, RoleRules, Users};
pub use sign_in::Attempt;
pub use sign_on::{EndedSignOn, PasswordAccess, RequiredProvider, RequiredSignOn, SignOnRules};

pub const EVENTS: &[&EventKind] = &[
    &service::LOGGED_IN,
    &service::LOGIN_FAILED,
    &service::SESSIONS_ENDED,
    &openers::ACCESS_ENDED,
    &factors::FACTOR_ADDED,
    &factors::FACTOR_UPDATED,
    &factors::FACTOR_REMOVED,
    &factors::RECOVERY_CODES_CREATED,
    &factors::RECOVERY_CODE_USED,
    &factors::FACTORS_RESET,
    &factors::PASSKEY_SUSPECTED,
    &factors::POLICY_UPDATED,
    &portal::SETTINGS_UPDATED,
    &portal::ACCESS_GIVEN,
    &portal::ACCESS_REMOVED,
    &sign_on::BREAK_GLASS_USED,
    &service::CONFIRMED,
    &service::PASSWORD_CHANGED,
    &preferences::PREFERENCES_UPDATED,
    &preferences::VIEW_CREATED,
    &preferences::VIEW_DELETED,
];

/// What hashes passwords and seals the keys of authenticator apps.
#[derive(Debug)]
pub struct SecretParts {
    pub passwords: Passwords,
    pub sealer: Sealer,
}

#[derive(Clone, Debug)]
pub struct Auth {
    pub users: Users,
    pub authenticator: Arc<SliceAuthenticator>,
    rights: CredentialRights,
    store: Store,
    clock: Clock,
}

/// The parts of other slices that this one uses.
#[derive(Clone, Debug)]
pub struct OtherSlices<'a> {
    pub directory: Directory,
    pub tenants: Tenants,
    pub keys: &'a ApiKeySlice,
    pub sign_on_rules: SignOnRules,
    pub person_removed: PersonRemoved,
    pub role_rules: RoleRules,
    pub rights: CredentialRights,
}

impl Auth {
    pub fn new(store: Store, clock: Clock, settings: &config::Sessions, secrets: SecretParts, others: OtherSlices<'_>) -> Self {
        let sessions = model::SessionRules::new(settings);
        let users = Users::new(store.clone(), secrets, sessions, &others);
        let OtherSlices { keys, rights, .. } = others;
        let authenticator = Arc::new(SliceAuthenticator::new(store.clone(), sessions, keys.keys.clone(), rights.clone()));
        Self { users, authenticator, rights, store, clock }
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        let session = api::AuthApi { users: self.users.clone(), clock: self.clock.clone() };
        let own = api::OwnAccountApi { users: self.users.clone(), store: self.store.clone(), clock: self.clock.clone() };
        let users = api::UsersApi { users: self.users.clone(), store: self.store.clone() };
        let user = api::UserApi { users: self.users.clone(), store: self.store.clone() };
        let sessions = api::UserSessionsApi { users: self.users.clone(), store: self.store.clone() };
        let sso = api::UserSsoApi { users: self.users.clone(), store: self.store.clone() };
        let factors = api::FactorsApi { users: self.users.clone(), store: self.store.clone() };
        let second = api::SecondFactorApi { users: self.users.clone(), clock: self.clock.clone() };
        let passkeys = api::PasskeysApi { users: self.users.clone(), clock: self.clock.clone() };
        let user_factors = api::UserFactorsApi { users: self.users.clone(), store: self.store.clone() };
        let policy = api::PolicyApi { store: self.store.clone() };
        let portal = (
            api::PortalApi { store: self.store.clone() },
            api::PortalAccessApi { users: self.users.clone(), store: self.store.clone() },
        );
        let roles = api::RolesApi { users: self.users.clone(), store: self.store.clone() };
        let preferences = api::PreferencesApi { store: self.store.clone() };
        let views = api::ViewsApi { store: self.store.clone() };
        let rights = api::RightsApi { explainer: self.explainer(), store: self.store.clone() };
        (
            (session, (second, passkeys), factors, own),
            preferences,
            views,
            users,
            user,
            sessions,
            sso,
            (user_factors, policy, roles, rights, portal),
        )
    }

    fn explainer(&self) -> rights::Explainer {
        rights::Explainer { rights: self.rights.clone(), authenticator: self.authenticator.clone(), sessions: self.users.sessions }
    }

    /// Whether the sign-in policy of a tenant permits personal keys.
    pub fn permits_personal_keys(tx: &WriteTx, tenant: TenantId) -> Result<bool, StoreError> {
        Ok(repo::factors::policy_of(tx, tenant)?.personal_keys == model::PersonalKeys::Allowed)
    }

    /// The schemas of records that appear only in events.
    pub fn record_schemas() -> Map<String, Value> {
        let mut schemas = openapi::schemas::<api::RefusedSignIn>();
        schemas.extend(openapi::schemas::<api::FactorOfUser>());
        schemas
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self, tenants: Tenants) -> impl OpenApi + use<> {
        let factors = api::ResetFactorsApi { users: self.users.clone() };
        (api::AdminUsersApi { users: self.users.clone(), tenants, store: self.store.clone() }, factors)
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::SessionUpkeep {
            store: self.store.clone(),
            clock: self.clock.clone(),
            authenticator: self.authenticator.clone(),
            users: self.users.clone(),
            examined: Mutex::default(),
        });
    }

    /// The tables that move with a tenant to another installation. Password hashes move, so that people can sign in there, and so do
    /// second factors, preferences and saved views. Sessions, one-time tokens and sign-in links do not. Password hashes and second
    /// factors from an unverified file are not imported: an administrator issues new tokens, and people add factors again. Passkeys work at one
    /// host name only and are never imported.
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
        portable.extend(repo::portable::factors());
        portable.extend(repo::portable::portable(move |view| view_fields.check(view)));
        Ok(portable)
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![
            &repo::CREDENTIALS,
            &repo::OPENERS,
            &repo::PASSWORD_TOKENS,
            &repo::SIGN_IN_LINKS,
            &repo::SESSIONS,
            &repo::LOGIN_FAILURES,
            &repo::factors::FACTORS,
            &repo::factors::RECOVERY_CODES,
            &repo::factors::CHALLENGES,
            &repo::passkeys::SPENT_CHALLENGES,
            &repo::factors::POLICIES,
            &repo::portal::ACCESS,
            &repo::portal::SETTINGS,
            &repo::preferences::PREFERENCES,
            &repo::preferences::VIEWS,
        ]
    }

    /// The tables whose values are sealed with the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&repo::factors::FACTORS]
    }

    /// The rows of tenants in tables whose keys do not begin with the tenant.
    pub fn tenant_rows() -> Vec<&'static dyn TenantRows> {
        vec![
            &repo::SESSIONS_OF_TENANTS,
            &repo::PASSWORD_TOKENS_OF_TENANTS,
            &repo::SIGN_IN_LINKS_OF_TENANTS,
            &repo::factors::CHALLENGES_OF_TENANTS,
        ]
    }
}
