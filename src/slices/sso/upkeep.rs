//! Forgets the states of sign-ons that have ended: they could not be used any more in any case.

use std::time::Duration;

use tenantd_base::clock::Clock;
use tenantd_store::{
    Store,
    tasks::{Done, Task, TaskError},
};

use super::repo;

/// How many records one transaction touches.
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
        let forgotten = self.store.write(move |tx| repo::forget_ended(tx, now, BATCH)).await?;
        Ok(if forgotten == BATCH { Done::Some } else { Done::All })
    }
}
