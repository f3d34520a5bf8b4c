//! Background tasks: store the uses of keys, and apply changes that are due.

use std::time::Duration;

use tenantd_store::{
    Due, Store, StoreError,
    events::{Actor, Intent},
    tasks::{Alarm, Done, Task, TaskError},
};

use super::{admission::ApiKeys, error::ApiKeyError, repo, service::Service};

/// The maximum number of keys per transaction.
const BATCH: usize = 200;

/// Stores how often and when keys were used: at most once a minute per key, many keys in one transaction.
#[derive(Debug)]
pub(super) struct UsageWriter {
    pub(super) store: Store,
    pub(super) keys: ApiKeys,
}

impl UsageWriter {
    async fn write_uses(&self) -> Result<(), TaskError> {
        for batch in self.keys.take_uses().chunks(BATCH) {
            let batch = batch.to_vec();
            let gone = self
                .store
                .write(move |tx| {
                    let mut gone = Vec::new();
                    for used in &batch {
                        if !repo::record_use(tx, used.key, used.count, used.last_at, used.last_ip)? {
                            gone.push(used.key);
                        }
                    }
                    Ok::<_, StoreError>(gone)
                })
                .await?;
            self.keys.forget(&gone);
        }
        Ok(())
    }
}

impl Task for UsageWriter {
    fn name(&self) -> &'static str {
        "api_key_usage"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.write_uses().await?;
        Ok(Done::All)
    }

    async fn finish(&self) -> Result<(), TaskError> {
        self.write_uses().await
    }
}

/// Announces keys that expire soon or have expired, and removes keys that ended long ago.
#[derive(Debug)]
pub(super) struct KeyCalendar {
    pub(super) store: Store,
    pub(super) alarm: Alarm,
    pub(super) service: Service,
}

impl Task for KeyCalendar {
    fn name(&self) -> &'static str {
        "api_key_calendar"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn wake(&self) {
        self.alarm.ring().await;
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let reading = self.alarm.look();
        let Due { found: due, next } = self.store.read(|tx| repo::due(tx, &reading, BATCH))?;
        self.alarm.set(next);
        let found = due.len();
        if found == 0 {
            return Ok(Done::All);
        }
        let service = self.service;
        let intents: Vec<Intent> = due
            .iter()
            .map(|key| Intent::new(key.tenant_id, reading.of(key.tenant_id), Actor::system("API key calendar")))
            .collect();
        self.store
            .write(move |tx| {
                for (overdue, intent) in due.iter().zip(&intents) {
                    // The key may have changed since it was found.
                    let mut act = intent.begin();
                    let current = repo::get(tx, overdue.tenant_id, overdue.id)?;
                    if let Some(key) = current.filter(|key| key.next_due(&service.rules) <= act.now) {
                        service.age(tx, &mut act, key)?;
                    }
                }
                Ok::<_, ApiKeyError>(())
            })
            .await
            .map_err(|error| TaskError(error.to_string()))?;
        Ok(if found == BATCH { Done::Some } else { Done::All })
    }
}
