//! Hourly metrics of an endpoint. They are counted in the transaction that stores the attempts, so reading them costs one row per
//! hour.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{TenantId, WebhookId},
};
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog,
    codec::Record,
    portable::{Carrier, PortError, Portable},
};

use super::{
    delivery::{Delivery, DeliveryStatus},
    repo::EndpointKey,
};

/// Upper bounds of the latency buckets in milliseconds. The last bucket is open.
const LATENCY_BOUNDS: [u32; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const BUCKETS: usize = LATENCY_BOUNDS.len() + 1;
const HOUR_MILLIS: i64 = 3_600_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Figures {
    pub(super) attempts: u64,
    pub(super) failed_attempts: u64,
    pub(super) delivered: u64,
    pub(super) exhausted: u64,
    pub(super) aborted: u64,
    pub(super) skipped: u64,
    pub(super) expired: u64,
    latencies: [u64; BUCKETS],
}

impl Record for Figures {
    const VERSION: u8 = 1;
}

type FiguresKey = (TenantId, WebhookId, u32);

pub(super) static FIGURES: Table<FiguresKey, Figures> = Table::new(catalog::WEBHOOK_STATS, &[]);

pub(super) fn hour_of(at: Timestamp) -> u32 {
    u32::try_from(at.as_millis().div_euclid(HOUR_MILLIS)).unwrap_or(0)
}

pub(super) fn start_of(hour: u32) -> Timestamp {
    Timestamp::from_millis(i64::from(hour) * HOUR_MILLIS)
}

/// More than an endpoint can count in an hour, and small enough that sums and percentages over all hours do not overflow.
const MAX_COUNT: u64 = 1 << 40;

/// The metrics that move to another installation.
pub(super) fn portable() -> Box<dyn Portable> {
    let figures = Carrier::plain("webhook_figures", &FIGURES, |_, _, figures| {
        let Figures { attempts, failed_attempts, delivered, exhausted, aborted, skipped, expired, latencies } = figures;
        let counts = [attempts, failed_attempts, delivered, exhausted, aborted, skipped, expired];
        let most = counts.into_iter().chain(latencies).max().copied().unwrap_or_default();
        if most > MAX_COUNT { Err(PortError::wrong("a count is larger than possible")) } else { Ok(()) }
    });
    figures.boxed()
}

impl Figures {
    /// Counts a delivery that was attempted or given up.
    pub(super) fn count(&mut self, delivery: &Delivery, attempted: bool) {
        if attempted && let Some(attempt) = delivery.attempts.last() {
            self.attempts += 1;
            self.failed_attempts += u64::from(delivery.status != DeliveryStatus::Delivered);
            let bucket = LATENCY_BOUNDS.iter().position(|bound| attempt.durations.total <= *bound).unwrap_or(BUCKETS - 1);
            if let Some(count) = self.latencies.get_mut(bucket) {
                *count += 1;
            }
        }
        match delivery.status {
            DeliveryStatus::Pending | DeliveryStatus::Retrying => {}
            DeliveryStatus::Delivered => self.delivered += 1,
            DeliveryStatus::Exhausted => self.exhausted += 1,
            DeliveryStatus::Aborted => self.aborted += 1,
            DeliveryStatus::Skipped => self.skipped += 1,
            DeliveryStatus::Expired => self.expired += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.failed_attempts += other.failed_attempts;
        self.delivered += other.delivered;
        self.exhausted += other.exhausted;
        self.aborted += other.aborted;
        self.skipped += other.skipped;
        self.expired += other.expired;
        for (count, more) in self.latencies.iter_mut().zip(other.latencies) {
            *count += more;
        }
    }

    /// The upper bound of the bucket that contains this percentile of the latencies.
    pub(super) fn latency_millis(&self, percent: u64) -> Option<u32> {
        let total: u64 = self.latencies.iter().sum();
        let mut left = (total * percent).div_ceil(100);
        if total == 0 {
            return None;
        }
        for (place, count) in self.latencies.iter().enumerate() {
            if left <= *count {
                return Some(LATENCY_BOUNDS.get(place).copied().unwrap_or(60_000));
            }
            left -= count;
        }
        None
    }
}

/// Adds to the metrics of the hour of `at`.
pub(super) fn add(tx: &mut WriteTx, endpoint: EndpointKey, at: Timestamp, more: &Figures) -> Result<(), StoreError> {
    let key = (endpoint.0, endpoint.1, hour_of(at));
    let mut figures = FIGURES.get(tx, &key)?.unwrap_or_default();
    figures.add(more);
    FIGURES.put(tx, &key, &figures)
}

/// The metrics of an endpoint, hour by hour, from the hour of `since` on.
pub(super) fn read(tx: &impl Read, endpoint: EndpointKey, since: Timestamp) -> Result<Vec<(u32, Figures)>, StoreError> {
    let mut range = KeyRange::prefix(&endpoint.to_bytes());
    range.start = std::ops::Bound::Included((endpoint.0, endpoint.1, hour_of(since)).to_bytes());
    let mut found = Vec::new();
    FIGURES.scan(tx, &range, Direction::Forward, |(_, _, hour), figures| {
        found.push((hour, figures));
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

/// Removes metrics older than `keep`. Examines at most `limit` rows, and returns the key to continue from.
pub(super) fn purge(
    tx: &mut WriteTx,
    now: Timestamp,
    keep: Duration,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let oldest = hour_of(now - keep);
    let range = after.map_or(KeyRange::ALL, |after| KeyRange::ALL.after(after, Direction::Forward));
    let rows = FIGURES.list(tx, &range, limit)?;
    for (key, _) in rows.iter().filter(|((_, _, hour), _)| *hour < oldest) {
        FIGURES.remove(tx, key)?;
    }
    Ok(rows.last().filter(|_| rows.len() == limit).map(|(key, _)| key.to_bytes()))
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_matches_its_golden_file() {
        let mut latencies = [0; BUCKETS];
        latencies[2] = 9;
        latencies[5] = 1;
        let figures = Figures { attempts: 10, failed_attempts: 1, delivered: 9, latencies, ..Figures::default() };
        assert_golden("webhook_figures", &figures);
        assert_eq!((figures.latency_millis(50), figures.latency_millis(95)), (Some(5), Some(50)));
        assert_eq!(Figures::default().latency_millis(50), None);
    }
}
