//! Removes expired events that every consumer has read, one whole segment at a time.

use std::time::Duration;

use tenantd_base::clock::Clock;

use super::{
    consumer,
    log::{drop_segment, first_kept, is_older},
};
use crate::{
    Store, StoreError, end_of_segment, segment_of,
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
        let now = self.clock.now();
        let kept_from = now - self.keep;
        let consumers = self.consumers.clone();
        let expired = self.store.scan(move |tx| {
            let segment = segment_of(first_kept(tx)?);
            Ok::<_, StoreError>(is_older(tx, segment, kept_from, now)?.then_some(segment))
        });
        let Some(segment) = expired.await? else { return Ok(Done::All) };
        let dropped = self
            .store
            .write(move |tx| {
                let is_first = segment == segment_of(first_kept(tx)?);
                let read = consumer::slowest(tx, &consumers)?.is_none_or(|seq| seq + 1 >= end_of_segment(segment));
                if !(is_first && read) {
                    return Ok(false);
                }
                drop_segment(tx, segment)?;
                Ok::<_, StoreError>(true)
            })
            .await?;
        Ok(if dropped { Done::Some } else { Done::All })
    }
}
