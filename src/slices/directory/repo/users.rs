//! People, indexed by ID, by email address and by external ID. Staff have their own index, because they are few compared to
//! contacts.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{Role, StaffRole},
    clock::Timestamp,
    id::{OrganizationId, TenantId, UserId},
};
use tenantd_store::{
    Counts, Direction, Flow, Index, Key, KeyRange, Progress, Read, StoreError, Table, WriteTx, catalog,
    codec::{Record, decode_fields},
};

use super::super::model::{LinkedIdentity, Standing, User, UserStatus, mail_domain};

pub(crate) type UserKey = (TenantId, UserId);

/// The format before single sign-on.
#[derive(Debug, Serialize, Deserialize)]
struct UserV1 {
    name: String,
    email: Option<String>,
    external_id: Option<String>,
    standing: StandingV2,
    status: UserStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
    last_login_at: Option<Timestamp>,
    version: u64,
}

/// The format before custom roles.
#[derive(Debug, Serialize, Deserialize)]
struct UserV2 {
    name: String,
    email: Option<String>,
    external_id: Option<String>,
    standing: StandingV2,
    status: UserStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
    last_login_at: Option<Timestamp>,
    sso: Option<LinkedIdentity>,
    version: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum StandingV2 {
    Staff { role: Role },
    Contact { organization_id: Option<OrganizationId> },
}

impl From<UserV1> for UserV2 {
    fn from(before: UserV1) -> Self {
        let UserV1 { name, email, external_id, standing, status, created_at, updated_at, last_login_at, version } = before;
        Self { name, email, external_id, standing, status, created_at, updated_at, last_login_at, sso: None, version }
    }
}

impl From<UserV2> for User {
    fn from(before: UserV2) -> Self {
        let UserV2 { name, email, external_id, standing, status, created_at, updated_at, last_login_at, sso, version } = before;
        let standing = match standing {
            StandingV2::Staff { role } => Standing::Staff { role: role.into(), organization_ids: None },
            StandingV2::Contact { organization_id } => Standing::Contact { organization_id },
        };
        let (tenant_id, id) = (TenantId::default(), UserId::default());
        Self { tenant_id, id, name, email, external_id, standing, status, created_at, updated_at, last_login_at, sso, version }
    }
}

impl Record for User {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
        match version {
            1 => decode_fields::<UserV1>(fields).map(|before| UserV2::from(before).into()),
            2 => decode_fields::<UserV2>(fields).map(Self::from),
            _ => Err(format!("this release does not know format version {version}")),
        }
    }

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        (self.tenant_id, self.id) = Key::from_bytes(key)?;
        Some(())
    }
}

static BY_EMAIL: Index<UserKey, User> = Index {
    table: catalog::USERS_BY_EMAIL,
    unique: true,
    keys: |(tenant, _), user| user.email.iter().map(|email| (*tenant, email.clone()).to_bytes()).collect(),
};
static BY_LOGIN: Index<UserKey, User> = Index {
    table: catalog::USERS_BY_LOGIN,
    unique: false,
    keys: |_, user| user.email.iter().filter(|_| user.role().is_some()).map(|email| login_key(email)).collect(),
};
/// The key starts with the domain, so that all addresses of a domain are adjacent.
fn login_key(email: &str) -> Vec<u8> {
    (mail_domain(email), email.to_owned()).to_bytes()
}

static BY_EXTERNAL_ID: Index<UserKey, User> = Index {
    table: catalog::USERS_BY_EXTERNAL_ID,
    unique: true,
    keys: |(tenant, _), user| user.external_id.iter().map(|id| (*tenant, id.clone()).to_bytes()).collect(),
};
static BY_IDENTITY: Index<UserKey, User> = Index {
    table: catalog::USERS_BY_IDENTITY,
    unique: true,
    keys: |(tenant, _), user| user.sso.iter().map(|sso| identity_key(*tenant, &sso.issuer, &sso.subject)).collect(),
};
pub(crate) static STAFF: Index<UserKey, User> = Index {
    table: catalog::USERS_STAFF,
    unique: false,
    keys: |(tenant, _), user| if user.role().is_some() { vec![tenant.to_bytes()] } else { Vec::new() },
};
pub(crate) static BY_ROLE: Index<UserKey, User> = Index {
    table: catalog::USERS_BY_ROLE,
    unique: false,
    keys: |(tenant, _), user| user.role().and_then(StaffRole::custom).map(|id| (*tenant, id).to_bytes()).into_iter().collect(),
};
pub(crate) static USERS: Table<UserKey, User> =
    Table::new(catalog::USERS, &[&BY_EMAIL, &BY_LOGIN, &BY_EXTERNAL_ID, &BY_IDENTITY, &STAFF, &BY_ROLE]).counting(Counts::Records);

pub(crate) fn get(tx: &impl Read, tenant: TenantId, id: UserId) -> Result<Option<User>, StoreError> {
    USERS.get(tx, &(tenant, id))
}

fn get_found(tx: &impl Read, found: Option<UserKey>) -> Result<Option<User>, StoreError> {
    match found {
        Some((tenant, id)) => get(tx, tenant, id),
        None => Ok(None),
    }
}

/// A person of the tenant by email address, which must be normalized.
pub(crate) fn find_email(tx: &impl Read, tenant: TenantId, email: &str) -> Result<Option<User>, StoreError> {
    get_found(tx, BY_EMAIL.find(tx, &(tenant, email.to_owned()).to_bytes())?)
}

/// The staff of all tenants with this email address, in the order of their tenants. At most `limit`.
pub(crate) fn list_login(tx: &impl Read, email: &str, limit: usize) -> Result<Vec<User>, StoreError> {
    let mut found = Vec::new();
    for (tenant, id) in BY_LOGIN.list(tx, &KeyRange::prefix(&login_key(email)), limit)? {
        found.extend(get(tx, tenant, id)?);
    }
    Ok(found)
}

/// Whether another tenant has staff with an address in this domain.
pub(crate) fn has_login_elsewhere(tx: &impl Read, tenant: TenantId, domain: &str) -> Result<bool, StoreError> {
    let mut found = false;
    BY_LOGIN.scan(tx, &KeyRange::prefix(&domain.to_owned().to_bytes()), Direction::Forward, |key, _| {
        found = key.0 != tenant;
        Ok(if found { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(found)
}

/// Rebuilds the index of sign-in addresses. Earlier releases allowed an address in one tenant only.
pub(crate) fn share_logins(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    BY_LOGIN.share(tx, |entry| String::from_bytes(entry).map(|email| login_key(&email)))
}

fn identity_key(tenant: TenantId, issuer: &str, subject: &str) -> Vec<u8> {
    (tenant, issuer.to_owned(), subject.to_owned()).to_bytes()
}

/// A person of the tenant by their account at an identity provider.
pub(crate) fn find_identity(tx: &impl Read, tenant: TenantId, issuer: &str, subject: &str) -> Result<Option<User>, StoreError> {
    get_found(tx, BY_IDENTITY.find(tx, &identity_key(tenant, issuer, subject))?)
}

pub(crate) fn find_external(tx: &impl Read, tenant: TenantId, external_id: &str) -> Result<Option<UserId>, StoreError> {
    Ok(BY_EXTERNAL_ID.find(tx, &(tenant, external_id.to_owned()).to_bytes())?.map(|(_, id)| id))
}

pub(crate) fn list_after(tx: &impl Read, after: Option<UserKey>, limit: usize) -> Result<Vec<User>, StoreError> {
    let found = USERS.list_after(tx, after.as_ref(), limit)?;
    Ok(found.into_iter().map(|(_, user)| user).collect())
}

pub(crate) fn list_staff(tx: &impl Read, tenant: TenantId, limit: usize) -> Result<Vec<User>, StoreError> {
    let mut staff = Vec::new();
    for (tenant, id) in STAFF.list(tx, &KeyRange::prefix(&tenant.to_bytes()), limit)? {
        staff.extend(get(tx, tenant, id)?);
    }
    Ok(staff)
}

pub(crate) fn put(tx: &mut WriteTx, user: &User) -> Result<(), StoreError> {
    USERS.put(tx, &(user.tenant_id, user.id), user)
}

pub(crate) fn remove(tx: &mut WriteTx, key: UserKey) -> Result<(), StoreError> {
    USERS.remove(tx, &key).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_base::id::{IdentityProviderId, RoleId};
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn stored_records_match_the_golden_files() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let staff = User {
            id: UserId::from_bytes([1; 16]),
            tenant_id: TenantId::from_bytes([2; 16]),
            external_id: None,
            email: Some("ada@example.com".to_owned()),
            name: "Ada".to_owned(),
            standing: Standing::Staff {
                role: StaffRole::Custom(RoleId::from_bytes([5; 16])),
                organization_ids: Some(vec![OrganizationId::from_bytes([3; 16])]),
            },
            status: UserStatus::Disabled,
            created_at: at,
            updated_at: at,
            last_login_at: Some(at),
            sso: Some(LinkedIdentity {
                identity_provider_id: IdentityProviderId::from_bytes([4; 16]),
                issuer: "https://id.example.com".to_owned(),
                subject: "248289761001".to_owned(),
                linked_at: at,
            }),
            version: 2,
        };
        let contact = User {
            external_id: Some("crm-7".to_owned()),
            email: None,
            standing: Standing::Contact { organization_id: Some(OrganizationId::from_bytes([3; 16])) },
            status: UserStatus::Active,
            last_login_at: None,
            sso: None,
            ..staff.clone()
        };
        for (name, user) in [("user_staff", staff), ("user_contact", contact)] {
            assert_golden(name, &user);
        }
    }
}
