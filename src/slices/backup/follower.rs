//! Follows the event log for changes of devices and organizations. **Invariant:** the changes and the cursor commit together.

use std::sync::Arc;

use serde::Deserialize;

use tenantd_base::clocks::Clocks;
use tenantd_store::{
    StoreError, WriteTx,
    events::{self, Actor, Consumer, Event, Intent},
};

use super::{error::BackupError, repo::sweeps, service::Service};

pub(super) const NAME: &str = "backup_follower";

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) clocks: Clocks,
    pub(super) service: Arc<Service>,
}

/// The part of an event that the follower reads. The rest may be stale.
#[derive(Deserialize)]
struct EventBody {
    resource: EventResource,
}

#[derive(Deserialize)]
struct EventResource {
    id: String,
}

fn id_of<T: std::str::FromStr>(event: &Event) -> Option<T> {
    serde_json::from_slice::<EventBody>(&event.record.body).ok()?.resource.id.parse().ok()
}

impl Follower {
    fn apply(&self, tx: &mut WriteTx, event: &Event) -> Result<(), BackupError> {
        let (area, _) = event.record.kind.split_once('.').unwrap_or_default();
        if !matches!(area, "device" | "organization") {
            return Ok(());
        }
        let tenant = event.record.tenant_id;
        let mut act = Intent::new(tenant, self.clocks.now(tenant), Actor::system("Backup")).begin();
        match (area, id_of(event), id_of(event)) {
            ("device", Some(id), _) => self.service.follow_device(tx, &mut act, id),
            ("organization", _, Some(id)) => Service::follow_organization(tx, &act, id),
            _ => {
                tracing::error!(seq = event.seq, "an event does not contain the ID of its record");
                Ok(())
            }
        }
    }
}

impl Consumer for Follower {
    fn name(&self) -> &'static str {
        NAME
    }

    fn waits_for_quiet(&self) -> bool {
        true
    }

    fn handle(&self, tx: &mut WriteTx, events: &[Event]) -> Result<(), StoreError> {
        // Devices from before this consumer may be missing in the log, so read them from the directory.
        if events::cursor(tx, NAME)? == 0 && events.first().is_some_and(|event| event.seq > 1) {
            sweeps::begin(tx, sweeps::DIRECTORY)?;
        }
        for event in events {
            self.apply(tx, event).map_err(|error| match error {
                BackupError::Store(error) => error,
                other => StoreError::engine(other),
            })?;
        }
        Ok(())
    }
}
