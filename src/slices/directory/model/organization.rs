//! Organizations: the customers of a tenant.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub id: OrganizationId,
    pub name: String,
    /// Its name in the system that it comes from; unique among the tenant's organizations.
    pub external_id: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: u64,
}

/// An organization that is to be created.
#[derive(Clone, Debug)]
pub struct NewOrganization {
    pub external_id: Option<String>,
    pub name: String,
}

/// How an organization is named in the records that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganizationLabel {
    pub id: OrganizationId,
    pub name: String,
}

/// How much belongs to an organization: while anything does, it cannot be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    pub devices: u64,
    pub contacts: u64,
}
