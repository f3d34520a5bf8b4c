//! Removes events that are past their time and that every consumer has read: a whole segment at once.

use std::time::Duration;

use super::{
    consumer,
    log::{drop_segment, first_kept, last_of_segment},
};
use crate::kernel::{
    clock::Clock,
    store::{Store, StoreError, end_of_segment, segment_of},
    tasks::{Done, Task, TaskError},
};

#[derive(Debug)]
pub struct Retention {
    store: Store,
    clock: Clock,
    keep: Duration,
    consumers: Vec<&'static str>,
}

impl Retention {
    pub fn new(store: Store, clock: Clock, keep_days: u32, consumers: Vec<&'static str>) -> Self {
        Self { store, clock, keep: Duration::from_secs(u64::from(keep_days) * 86_400), consumers }
    }
}

impl Task for Retention {
    fn name(&self) -> &'static str {
        "event_retention"
    }

    fn period(&self) -> Duration {
        Duration::from_hours(1)
    }

    fn goes_on_when_full(&self) -> bool {
        true
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let oldest_kept = self.clock.now() - self.keep;
        let consumers = self.consumers.clone();
        let dropped = self
            .store
            .write(move |tx| {
                let segment = segment_of(first_kept(tx)?);
                let expired = last_of_segment(tx, segment)?.is_some_and(|event| event.at < oldest_kept);
                let read = consumer::slowest(tx, &consumers)?.is_none_or(|seq| seq + 1 >= end_of_segment(segment));
                if !(expired && read) {
                    return Ok(false);
                }
                drop_segment(tx, segment)?;
                Ok::<_, StoreError>(true)
            })
            .await?;
        Ok(if dropped { Done::Some } else { Done::All })
    }
}
