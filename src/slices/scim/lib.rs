//! Provisioning of staff and groups by SCIM 2.0 (RFC 7643 and 7644), as identity providers do it: `/scim/v2`. An administrator maps
//! groups to roles.
//!
//! **Invariant:** only an API key with `provisioning:write` provisions. It counts as an administrator, so only somebody who covers one
//! creates it. **Boundary:** this slice stores what clients say about people and groups. Accounts belong to the directory and to
//! `auth`, whose use cases change them.

mod api;
mod error;
mod model;
mod repo;
mod service;
mod upkeep;

use poem_openapi::OpenApi;
use serde_json::{Map, Value};

use tenantd_auth::Users;
use tenantd_base::clock::Clock;
use tenantd_http::{openapi, protocol::Protocol};
use tenantd_platform::Tenants;
use tenantd_store::{
    Checked, Store,
    events::{EventKind, Member},
    portable::Portable,
    tasks::Tasks,
};

pub use error::{Reason, ScimError};
pub use service::{person_removed, role_rules};

use service::Service;

pub const EVENTS: &[&EventKind] =
    &[&service::GROUP_CREATED, &service::GROUP_UPDATED, &service::GROUP_REMOVED, &service::RULES_UPDATED];
pub const EVENT_MEMBERS: &[Member] =
    &[members_of(&service::GROUP_CREATED), members_of(&service::GROUP_UPDATED), members_of(&service::GROUP_REMOVED)];

/// The events of groups say who joined and who left.
const fn members_of(kind: &EventKind) -> Member {
    Member { kind: kind.name, name: service::MEMBERS, schema: "GroupMemberChange" }
}

#[derive(Clone, Debug)]
pub struct Provisioning {
    store: Store,
    clock: Clock,
    tenants: Tenants,
    service: Service,
}

impl Provisioning {
    pub fn new(store: Store, clock: Clock, users: Users, tenants: Tenants) -> Self {
        Self { store, clock, tenants, service: Service { users } }
    }

    /// The API for people who decide which roles groups give.
    pub fn api(&self) -> impl OpenApi + use<> {
        api::ProvisioningApi { store: self.store.clone(), service: self.service.clone() }
    }

    /// The protocol for identity providers.
    pub fn protocol(&self) -> Result<Box<dyn Protocol>, String> {
        Ok(Box::new(api::Scim::new(self.store.clone(), self.service.clone())?))
    }

    pub fn spawn(&self, tasks: &mut Tasks) {
        tasks.spawn(upkeep::RoleUpkeep {
            store: self.store.clone(),
            clock: self.clock.clone(),
            tenants: self.tenants.clone(),
            service: self.service.clone(),
        });
    }

    /// The schemas of records that appear only in events.
    pub fn record_schemas() -> Map<String, Value> {
        openapi::schemas::<api::GroupMemberChange>()
    }

    /// The tables that a tenant export contains. Rules from an unverified file are left out.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::group_fields()?;
        Ok(repo::portable::portable(move |record| fields.check(record)))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::PROFILES, &repo::GROUPS, &repo::MEMBERS, &repo::RULES, &repo::PENDING]
    }
}
