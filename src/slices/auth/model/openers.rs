//! What the managers who have opened an account may do.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Grants,
    authority::{Authority, Within},
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};

/// The rights that everyone has who could have access to an account. Scopes are stored by name, so that a later release does not add
/// any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Openers {
    scopes: Vec<String>,
    /// `None` for the whole tenant.
    organization_ids: Option<Vec<OrganizationId>>,
    /// Whether one of them has created the account, and so chosen its address.
    pub chose_address: bool,
    /// When the first of them opened the account.
    pub since: Timestamp,
}

impl Openers {
    pub fn new(authority: &Authority, chose_address: bool, since: Timestamp) -> Self {
        let organization_ids = match authority.organizations() {
            Within::All => None,
            Within::Only(ids) => Some(ids.iter().copied().collect()),
        };
        let scopes = authority.scopes().iter().map(|scope| scope.name().to_owned()).collect();
        Self { scopes, organization_ids, chose_address, since }
    }

    pub fn authority(&self, tenant: TenantId) -> Authority {
        let authority = Authority::new(tenant, Grants::from_patterns(self.scopes.iter().map(String::as_str)));
        match &self.organization_ids {
            None => authority,
            Some(ids) => authority.with_organizations(Within::Only(ids.iter().copied().collect())),
        }
    }
}
