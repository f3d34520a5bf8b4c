//! Reads the log for what becomes of devices and organizations. **Invariant:** what it takes up and its cursor commit together.

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

/// What is read of an event: the rest may have changed since.
#[derive(Deserialize)]
struct Told {
    resource: ToldResource,
}

#[derive(Deserialize)]
struct ToldResource {
    id: String,
}

fn id_of<T: std::str::FromStr>(event: &Event) -> Option<T> {
    serde_json::from_slice::<Told>(&event.record.body).ok()?.resource.id.parse().ok()
}

impl Follower {
    fn take_up(&self, tx: &mut WriteTx, event: &Event) -> Result<(), BackupError> {
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
                tracing::error!(seq = event.seq, "an event names no record of its kind");
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
        // The log no longer has the devices that came before this reader: the directory has.
        if events::cursor(tx, NAME)? == 0 && events.first().is_some_and(|event| event.seq > 1) {
            sweeps::begin(tx, sweeps::DIRECTORY)?;
        }
        for event in events {
            self.take_up(tx, event).map_err(|error| match error {
                BackupError::Store(error) => error,
                other => StoreError::engine(other),
            })?;
        }
        Ok(())
    }
}
