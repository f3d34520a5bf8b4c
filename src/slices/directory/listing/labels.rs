//! The names of the organizations and owners of devices, looked up and kept for as long as one list or report takes.
//!
//! **Invariant:** however many devices a list passes, only so many names are kept.

use std::collections::HashMap;

use tenantd_base::id::{OrganizationId, TenantId, UserId};
use tenantd_store::{Read, StoreError};

use super::super::{
    model::{OrganizationLabel, PersonLabel},
    organization, person,
};

/// Names of one kind that are kept at a time. A tenant has fewer organizations; of its people some are looked up again.
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

    /// An organization that the directory does not have is shown by its id.
    pub fn organization(&mut self, tx: &impl Read, id: OrganizationId) -> Result<OrganizationLabel, StoreError> {
        if let Some(label) = self.organizations.get(&id) {
            return Ok(label.clone());
        }
        let found = organization(tx, self.tenant_id, id)?;
        let label = found.unwrap_or_else(|| OrganizationLabel { id, name: id.to_string() });
        keep(&mut self.organizations, id, label.clone());
        Ok(label)
    }

    /// Nobody, when the owner is gone.
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
