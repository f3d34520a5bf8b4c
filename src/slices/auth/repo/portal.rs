//! The tables of the portal: its settings, and which contacts have access.

use tenantd_base::id::{TenantId, UserId};
use tenantd_directory::{self as directory, User};
use tenantd_store::{Counts, Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::{
    super::model::{PortalAccess, PortalSettings},
    PASSWORD_TOKENS, PASSWORD_TOKENS_BY_USER, SESSIONS_BY_USER, UserKey,
    factors::{CHALLENGES, CHALLENGES_BY_USER},
    get_session, remove_session,
};

/// How many contacts of an address are looked at. Contacts beyond that sign in by naming the tenant.
const MOST_OF_ADDRESS: usize = 32;

impl Record for PortalSettings {
    const VERSION: u8 = 1;
}

pub(crate) static SETTINGS: Table<TenantId, PortalSettings> = Table::new(catalog::PORTAL_SETTINGS, &[]);

/// Returns the settings of a tenant, or the default ones.
pub(crate) fn settings_of(tx: &impl Read, tenant: TenantId) -> Result<PortalSettings, StoreError> {
    Ok(SETTINGS.get(tx, &tenant)?.unwrap_or_default())
}

impl Record for PortalAccess {
    const VERSION: u8 = 1;
}

static BY_ADDRESS: Index<UserKey, PortalAccess> = Index {
    table: catalog::PORTAL_ACCESS_BY_ADDRESS,
    unique: false,
    keys: |(tenant, _), access| vec![(access.email.clone(), *tenant).to_bytes()],
};
pub(crate) static ACCESS: Table<UserKey, PortalAccess> =
    Table::new(catalog::PORTAL_ACCESS, &[&BY_ADDRESS]).counting(Counts::Records);

/// Whether the contact can sign in to the portal now.
pub(crate) fn has_access(tx: &impl Read, user: &User) -> Result<bool, StoreError> {
    let access = ACCESS.get(tx, &(user.tenant_id, user.id))?;
    Ok(access.is_some_and(|access| access.counts_for(user)) && settings_of(tx, user.tenant_id)?.enabled)
}

/// Removes the sessions, the links and the half-finished sign-ins of all contacts of a tenant. Walks what is open, which is less than the
/// contacts.
pub(crate) fn end_open_sign_ins(tx: &mut WriteTx, tenant: TenantId) -> Result<(), StoreError> {
    let prefix = tenant.to_bytes();
    let range = KeyRange::prefix(&prefix);
    for token in SESSIONS_BY_USER.list(tx, &range, usize::MAX)? {
        let user = get_session(tx, &token)?.map(|session| session.user_id);
        if is_contact(tx, tenant, user)? {
            remove_session(tx, &token)?;
        }
    }
    for token in PASSWORD_TOKENS_BY_USER.list(tx, &range, usize::MAX)? {
        let user = PASSWORD_TOKENS.get(tx, &token)?.map(|token| token.user_id);
        if is_contact(tx, tenant, user)? {
            PASSWORD_TOKENS.remove(tx, &token)?;
        }
    }
    for token in CHALLENGES_BY_USER.list(tx, &range, usize::MAX)? {
        let user = CHALLENGES.get(tx, &token)?.map(|challenge| challenge.user_id);
        if is_contact(tx, tenant, user)? {
            CHALLENGES.remove(tx, &token)?;
        }
    }
    Ok(())
}

/// Whether a user is a contact that got access once. Staff never have.
fn is_contact(tx: &impl Read, tenant: TenantId, user: Option<UserId>) -> Result<bool, StoreError> {
    match user {
        Some(user) => Ok(ACCESS.get(tx, &(tenant, user))?.is_some()),
        None => Ok(false),
    }
}

/// Returns the contacts with this address who have access, in all tenants or in one. The address must be normalized.
pub(crate) fn contacts_by_address(
    tx: &impl Read,
    email: &str,
    tenant: Option<TenantId>,
    limit: usize,
) -> Result<Vec<User>, StoreError> {
    let email = email.to_owned();
    let prefix = match tenant {
        Some(tenant) => (email, tenant).to_bytes(),
        None => email.to_bytes(),
    };
    let mut found = Vec::new();
    for (tenant, id) in BY_ADDRESS.list(tx, &KeyRange::prefix(&prefix), MOST_OF_ADDRESS)? {
        if found.len() == limit {
            break;
        }
        if let Some(user) = directory::user(tx, tenant, id)?
            && has_access(tx, &user)?
        {
            found.push(user);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tenantd_base::clock::Timestamp;
    use tenantd_store::{
        codec::assert_golden,
        events::{Actor, ActorKind},
    };

    use super::*;

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let given_at = Timestamp::from_millis(1_767_225_600_000);
        let given_by = Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() };
        assert_golden("portal_access", &PortalAccess { email: "bo@acme.example".to_owned(), given_at, given_by, ended: false });
        assert_golden("portal_settings", &PortalSettings { enabled: true, version: 2 });
    }
}
