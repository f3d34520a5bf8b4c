//! A cache of the names of organizations and owners, for the duration of one list or report.
//!
//! **Invariant:** the number of cached names is limited, however many devices a list visits.

use std::collections::HashMap;

use tenantd_base::id::{OrganizationId, TenantId, UserId};
use tenantd_store::{Read, StoreError};

use super::super::{
    model::{OrganizationLabel, PersonLabel},
    organization, person,
};

/// The maximum number of cached names of each kind. A tenant has fewer organizations; some people are looked up again.
const KEPT: usize = 10_000;

#[derive(Debug)]
pub struct Labels {
    tenant_id: TenantId,
    organizations: HashMap<OrganizationId, OrganizationLabel>,
    people: HashMap<UserId, Option<PersonLabel>>,
}

impl Labels {
    pub fn new(tenant_id: TenantId) -> Self {
        Self { tenant_id, organizations: HashMap::new(), people: HashMap::new() }
    }

    /// Returns the name of an organization. If it does not exist, its ID replaces the name.
    pub fn organization(&mut self, tx: &impl Read, id: OrganizationId) -> Result<OrganizationLabel, StoreError> {
        if let Some(label) = self.organizations.get(&id) {
            return Ok(label.clone());
        }
        let found = organization(tx, self.tenant_id, id)?;
        let label = found.unwrap_or_else(|| OrganizationLabel { id, name: id.to_string() });
        keep(&mut self.organizations, id, label.clone());
        Ok(label)
    }

    /// Returns the name of a person, or `None` if the person does not exist.
    pub fn person(&mut self, tx: &impl Read, id: UserId) -> Result<Option<PersonLabel>, StoreError> {
        if let Some(label) = self.people.get(&id) {
            return Ok(label.clone());
        }
        let label = person(tx, self.tenant_id, id)?;
        keep(&mut self.people, id, label.clone());
        Ok(label)
    }
}

fn keep<K: std::hash::Hash + Eq, V>(names: &mut HashMap<K, V>, id: K, label: V) {
    if names.len() >= KEPT {
        names.clear();
    }
    names.insert(id, label);
}
