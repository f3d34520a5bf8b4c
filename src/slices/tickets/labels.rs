//! The names of what tickets refer to, looked up in the directory once for a whole page.

use std::collections::HashMap;

use super::model::{Comment, Ticket};
use crate::{
    kernel::{
        id::{DeviceId, OrganizationId, TenantId, UserId},
        store::{Read, StoreError},
    },
    slices::directory,
};

/// Someone's name, and address where it is known.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) email: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    organizations: HashMap<OrganizationId, String>,
    people: HashMap<UserId, Person>,
    devices: HashMap<DeviceId, String>,
}

impl Labels {
    pub(super) fn of_tickets<'a>(
        tx: &impl Read,
        tenant: TenantId,
        tickets: impl IntoIterator<Item = &'a Ticket>,
    ) -> Result<Self, StoreError> {
        let mut labels = Self::default();
        for ticket in tickets {
            labels.add_organization(tx, tenant, ticket.organization_id)?;
            for person in ticket.contact_id.iter().chain(&ticket.assignee_id) {
                labels.add_person(tx, tenant, *person)?;
            }
            for device in &ticket.device_ids {
                if !labels.devices.contains_key(device)
                    && let Some(found) = directory::device(tx, tenant, *device)?
                {
                    labels.devices.insert(*device, found.name);
                }
            }
        }
        Ok(labels)
    }

    pub(super) fn of_comments(tx: &impl Read, tenant: TenantId, comments: &[Comment]) -> Result<Self, StoreError> {
        let mut labels = Self::default();
        for contact in comments.iter().filter_map(|comment| comment.contact_id) {
            labels.add_person(tx, tenant, contact)?;
        }
        Ok(labels)
    }

    pub(super) fn add_organization(&mut self, tx: &impl Read, tenant: TenantId, id: OrganizationId) -> Result<(), StoreError> {
        if !self.organizations.contains_key(&id)
            && let Some(found) = directory::organization(tx, tenant, id)?
        {
            self.organizations.insert(id, found.name);
        }
        Ok(())
    }

    pub(super) fn add_person(&mut self, tx: &impl Read, tenant: TenantId, id: UserId) -> Result<(), StoreError> {
        if !self.people.contains_key(&id)
            && let Some(found) = directory::person(tx, tenant, id)?
        {
            self.people.insert(id, Person { name: found.name, email: found.email });
        }
        Ok(())
    }

    /// What the directory no longer has is shown by its id.
    pub(super) fn organization(&self, id: OrganizationId) -> String {
        self.organizations.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    pub(super) fn person(&self, id: UserId) -> Person {
        self.people.get(&id).cloned().unwrap_or_else(|| Person { name: id.to_string(), email: None })
    }

    pub(super) fn device(&self, id: DeviceId) -> String {
        self.devices.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}
