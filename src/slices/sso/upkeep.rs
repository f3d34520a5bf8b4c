//! Deletes the states of expired sign-ons. They could not be used again anyway.

use std::time::Duration;

use tenantd_base::clock::Clock;
use tenantd_store::{
    Store,
    tasks::{Done, Task, TaskError},
};

use super::repo;

/// The number of records in one transaction.
const BATCH: usize = 500;

#[derive(Debug)]
pub(super) struct SignOnUpkeep {
    pub(super) store: Store,
    pub(super) clock: Clock,
}

impl Task for SignOnUpkeep {
    fn name(&self) -> &'static str {
        "sign_on_upkeep"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let now = self.clock.now();
        let deleted = self.store.write(move |tx| repo::delete_expired(tx, now, BATCH)).await?;
        Ok(if deleted == BATCH { Done::Some } else { Done::All })
    }
}
