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
    /// The ID in its source system. Unique among the tenant's organizations.
    pub external_id: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub version: u64,
}

/// An organization to create.
#[derive(Clone, Debug)]
pub struct NewOrganization {
    pub external_id: Option<String>,
    pub name: String,
}

/// The name of an organization, for records that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganizationLabel {
    pub id: OrganizationId,
    pub name: String,
}

/// The number of members of an organization. An organization with members cannot be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    pub devices: u64,
    pub contacts: u64,
}
