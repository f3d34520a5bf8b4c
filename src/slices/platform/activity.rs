//! Counts the events of each tenant and keeps the time of the last one, from the event log. The operator sees both next to the
//! tenant, without access to its content.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::TenantId};
use tenantd_store::{
    Read, StoreError, Table, WriteTx, catalog,
    codec::Record,
    events::{Consumer, Event},
};

pub(super) const NAME: &str = "tenant_activity";

/// What the operator can see of a tenant's activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantActivity {
    pub events: u64,
    pub last_event_at: Timestamp,
}

impl Record for TenantActivity {
    const VERSION: u8 = 1;
}

pub(super) static ACTIVITY: Table<TenantId, TenantActivity> = Table::new(catalog::TENANT_ACTIVITY, &[]);

pub(super) fn get(tx: &impl Read, tenant: TenantId) -> Result<Option<TenantActivity>, StoreError> {
    ACTIVITY.get(tx, &tenant)
}

#[derive(Debug)]
pub(super) struct ActivityCounter;

impl Consumer for ActivityCounter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn gathers(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn handle(&self, tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError> {
        let mut tenants: BTreeMap<TenantId, TenantActivity> = BTreeMap::new();
        for event in events {
            let at = event.record.at;
            let entry = tenants.entry(event.record.tenant_id).or_insert(TenantActivity { events: 0, last_event_at: at });
            entry.events += 1;
            entry.last_event_at = entry.last_event_at.max(at);
        }
        for (tenant, new) in tenants {
            let old = ACTIVITY.get(tx, &tenant)?.unwrap_or(TenantActivity { events: 0, last_event_at: new.last_event_at });
            let sum = TenantActivity { events: old.events + new.events, last_event_at: old.last_event_at.max(new.last_event_at) };
            ACTIVITY.put(tx, &tenant, &sum)?;
        }
        Ok(())
    }
}
