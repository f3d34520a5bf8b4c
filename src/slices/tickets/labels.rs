//! The names of what tickets refer to, looked up in the directory once per page.
//!
//! A ticket can refer to a device or contact of another organization, for example after one of them has moved. Readers who
//! cannot see that organization get only the id. They do not see references to tickets of that organization.

use std::collections::{HashMap, HashSet};

use tenantd_base::{
    access::Reach,
    id::{DeviceId, OrganizationId, TenantId, TicketId, UserId},
};
use tenantd_directory::{self as directory, PersonKind};
use tenantd_store::{Read, StoreError};

use super::{
    model::{Comment, Ticket, TicketLink},
    repo,
};

/// The name of a person, and the email address if it is known.
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
    /// The tickets that the reader may not see.
    unseen: HashSet<TicketId>,
}

impl Labels {
    pub(super) fn of_tickets<'a>(
        tx: &impl Read,
        tenant: TenantId,
        reach: &Reach,
        tickets: impl IntoIterator<Item = &'a Ticket>,
    ) -> Result<Self, StoreError> {
        let mut labels = Self::default();
        for ticket in tickets {
            labels.add_organization(tx, tenant, ticket.organization_id)?;
            for person in ticket.contact_id.iter().chain(&ticket.assignee_id) {
                labels.add_person(tx, tenant, reach, *person)?;
            }
            for device in &ticket.device_ids {
                if !labels.devices.contains_key(device)
                    && let Some(found) = directory::device(tx, tenant, *device)?
                    && reach.covers(Some(found.organization_id))
                {
                    labels.devices.insert(*device, found.name);
                }
            }
            for link in ticket.parent.iter().chain(&ticket.merged_into) {
                labels.add_link(tx, tenant, reach, link)?;
            }
        }
        Ok(labels)
    }

    pub(super) fn of_comments(tx: &impl Read, tenant: TenantId, reach: &Reach, comments: &[Comment]) -> Result<Self, StoreError> {
        let mut labels = Self::default();
        for contact in comments.iter().filter_map(|comment| comment.contact_id) {
            labels.add_person(tx, tenant, reach, contact)?;
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

    /// Staff belong to the tenant, and every reader may see their names.
    pub(super) fn add_person(&mut self, tx: &impl Read, tenant: TenantId, reach: &Reach, id: UserId) -> Result<(), StoreError> {
        if !self.people.contains_key(&id)
            && let Some(found) = directory::person(tx, tenant, id)?
            && (found.kind == PersonKind::Staff || reach.covers(found.organization_id))
        {
            self.people.insert(id, Person { name: found.name, email: found.email });
        }
        Ok(())
    }

    fn add_link(&mut self, tx: &impl Read, tenant: TenantId, reach: &Reach, link: &TicketLink) -> Result<(), StoreError> {
        if !is_seen(tx, tenant, reach, link.number)? {
            self.unseen.insert(link.id);
        }
        Ok(())
    }

    /// Returns a reference to another ticket, unless the reader may not see that ticket.
    pub(super) fn link(&self, link: Option<TicketLink>) -> Option<TicketLink> {
        link.filter(|link| !self.unseen.contains(&link.id))
    }

    /// Returns the id if the directory does not have the organization, or the reader may not see it.
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

/// Whether a reader may see the ticket with this number. A ticket that no longer exists had an organization that is unknown.
pub(super) fn is_seen(tx: &impl Read, tenant: TenantId, reach: &Reach, number: u64) -> Result<bool, StoreError> {
    if *reach == Reach::Everything {
        return Ok(true);
    }
    Ok(repo::get(tx, tenant, number)?.is_some_and(|ticket| reach.covers(Some(ticket.organization_id))))
}
