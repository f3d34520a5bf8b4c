//! Applies the stored clocks of evaluation tenants. Code that creates a tenant or advances its clock only writes to the store.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tenantd_store::{
    Store, catalog,
    tasks::{Done, Task, TaskError},
};

use super::service::Tenants;

#[derive(Debug)]
pub(super) struct ClockKeeper {
    store: Store,
    tenants: Tenants,
    seen_version: AtomicU64,
}

impl ClockKeeper {
    pub(super) fn new(store: Store, tenants: Tenants) -> Self {
        Self { store, tenants, seen_version: AtomicU64::new(0) }
    }
}

impl Task for ClockKeeper {
    fn name(&self) -> &'static str {
        "tenant_clocks"
    }

    fn period(&self) -> Duration {
        Duration::from_hours(1)
    }

    async fn wake(&self) {
        self.store.changed(catalog::TENANTS, self.seen_version.load(Ordering::SeqCst)).await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.seen_version.store(self.store.version(catalog::TENANTS), Ordering::SeqCst);
        self.tenants.follow_clocks()?;
        Ok(Done::All)
    }
}
