//! Indexes of due times. A key is the timeline, the time and the record. Each timeline is walked up to its own current time.
//!
//! **Invariant:** an entry is on the timeline of its record's tenant. Stores of format 1 have no timelines; [`regroup`] adds
//! them.

use std::ops::Bound;

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
    id::TenantId,
};

use super::{
    catalog::{self, TableName},
    engine::{Direction, Flow, KeyRange},
    error::StoreError,
    installation::Installation,
    key::{FixedKey, Key},
    migrate::Progress,
    table::Index,
    transaction::{Read, ReadTx, WriteTx},
};

/// How many entries one walk examines at most. `wanted` may reject all of the first ones.
const MAX_EXAMINED: usize = 20_000;

/// Builds the key of an index of due times.
pub fn due_key(tenant: TenantId, at: Timestamp) -> Vec<u8> {
    (Timeline::of(tenant), at).to_bytes()
}

/// Builds the key of an index in which every tenant has its own timeline, even if it shares the installation's clock. A backlog
/// of one tenant does not slow down the search for another's entries.
pub fn tenant_due_key(tenant: TenantId, at: Timestamp) -> Vec<u8> {
    (Timeline::Own(tenant), at).to_bytes()
}

/// The due records of a walk.
#[derive(Debug)]
pub struct Due<K> {
    pub found: Vec<K>,
    /// When the first record becomes due that is not due yet. `None` if the walk stopped before it reached that record.
    pub next: Option<Timestamp>,
}

impl<K: FixedKey, V> Index<K, V> {
    /// Returns the records that are due on one timeline at `now` and that `wanted` accepts: the longest overdue first, at most
    /// `limit`.
    pub fn due_on(
        &self,
        tx: &impl Read,
        timeline: Timeline,
        now: Timestamp,
        limit: usize,
        mut wanted: impl FnMut(&K) -> bool,
    ) -> Result<Due<K>, StoreError> {
        let prefix = timeline.to_bytes();
        let (mut due, mut examined) = (Due { found: Vec::new(), next: None }, 0);
        if limit == 0 {
            return Ok(due);
        }
        self.scan(tx, &KeyRange::prefix(&prefix), Direction::Forward, |key, entry| {
            let at = entry.get(prefix.len()..).and_then(|mut rest| Timestamp::read(&mut rest));
            let at = at.ok_or_else(|| StoreError::damaged(self.table.name(), entry, "the entry has no time"))?;
            if at > now {
                due.next = Some(at);
                return Ok(Flow::Stop);
            }
            examined += 1;
            if wanted(&key) {
                due.found.push(key);
            }
            Ok(if due.found.len() < limit && examined < MAX_EXAMINED { Flow::Continue } else { Flow::Stop })
        })?;
        Ok(due)
    }

    /// Returns when the first entry of each tenant is due, in an index of [`tenant_due_key`]s. Makes one lookup per tenant.
    pub fn first_due(&self, tx: &impl Read) -> Result<Vec<(TenantId, Timestamp)>, StoreError> {
        let mut found: Vec<(TenantId, Timestamp)> = Vec::new();
        let mut range = KeyRange::ALL;
        loop {
            let mut first = None;
            self.scan(tx, &range, Direction::Forward, |_, entry| {
                let mut rest = entry;
                first = match (Timeline::read(&mut rest), Timestamp::read(&mut rest)) {
                    (Some(Timeline::Own(tenant)), Some(at)) => Some((tenant, at)),
                    _ => return Err(StoreError::damaged(self.table.name(), entry, "the entry has no tenant or no time")),
                };
                Ok(Flow::Stop)
            })?;
            let Some((tenant, at)) = first else { return Ok(found) };
            found.push((tenant, at));
            let Bound::Excluded(next_tenant) = KeyRange::prefix(&Timeline::Own(tenant).to_bytes()).end else { return Ok(found) };
            range.start = Bound::Included(next_tenant);
        }
    }

    /// Does the same for all timelines. The next time is in the installation's time.
    pub fn due(
        &self,
        tx: &impl Read,
        reading: &Reading,
        limit: usize,
        mut wanted: impl FnMut(&K) -> bool,
    ) -> Result<Due<K>, StoreError> {
        let mut all = Due { found: Vec::new(), next: None };
        for timeline in reading.timelines() {
            let left = limit.saturating_sub(all.found.len());
            let due = self.due_on(tx, timeline, reading.on(timeline), left, &mut wanted)?;
            all.found.extend(due.found);
            let next = due.next.map(|at| reading.reached(timeline, at));
            all.next = all.next.into_iter().chain(next).min();
        }
        Ok(all)
    }
}

/// The indexes whose keys started with the time in format 1. The record's key after it starts with its tenant.
const REGROUPED: &[TableName] = &[
    catalog::API_KEYS_BY_DUE,
    catalog::TICKETS_BY_TIMER,
    catalog::WORKFLOWS_BY_SCHEDULE,
    catalog::WORKFLOW_RUNS_BY_DUE,
    catalog::CLOUD_SYNCS_BY_DUE,
    catalog::OPERATIONS_BY_DUE,
    catalog::BACKUP_POSTURES_BY_TIMER,
];
const GROUPED_SINCE: u32 = 2;
/// The index in which every tenant has its own timeline since format 7.
const BY_TENANT: TableName = catalog::WORKFLOW_RUNS_BY_DUE;
const BY_TENANT_SINCE: u32 = 7;
/// How many entries one transaction moves.
const BATCH: usize = 2_000;
/// The lowest first byte of a format 1 entry. The sign bit of a time is flipped, so the first byte of every realistic time is
/// 0x7f or 0x80. A timeline starts with 0 or 1. So the entries themselves show which ones still have to move.
const FIRST_OF_OLD: u8 = 2;

/// Whether the entry exists in its older form: without a timeline, or on the shared one. A store that this release has not
/// migrated yet is not damaged.
pub(super) fn exists_in_old_form(tx: &ReadTx, table: TableName, entry: &[u8]) -> Result<bool, StoreError> {
    let mut rest = entry;
    if !REGROUPED.contains(&table) || Timeline::read(&mut rest).is_none() {
        return Ok(false);
    }
    let format = Installation::read(tx)?.format;
    let exists = |former: &[u8]| Ok::<_, StoreError>(tx.raw_get(table.into(), former)?.is_some());
    Ok((format < GROUPED_SINCE && exists(rest)?)
        || (format < BY_TENANT_SINCE && table == BY_TENANT && exists(&[&Timeline::Shared.to_bytes(), rest].concat())?))
}

/// Moves the entries of workflow runs from the shared timeline to their tenants' timelines, a batch at a time.
pub fn regroup_by_tenant(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    let shared = Timeline::Shared.to_bytes();
    let mut entries = Vec::new();
    tx.raw_scan(BY_TENANT.into(), &KeyRange::prefix(&shared), Direction::Forward, &mut |entry, value| {
        entries.push((entry.to_vec(), value.to_vec()));
        Ok(if entries.len() < BATCH { Flow::Continue } else { Flow::Stop })
    })?;
    if entries.is_empty() {
        return Ok(Progress::Done);
    }
    for (entry, value) in entries {
        let mut rest = entry.get(shared.len()..).unwrap_or_default();
        let time = Timestamp::read(&mut rest);
        let moved = time.zip(TenantId::read(&mut { rest })).map(|(at, tenant)| [&tenant_due_key(tenant, at), rest].concat());
        let moved = moved.ok_or_else(|| StoreError::damaged(BY_TENANT.name(), &entry, "the entry has no time or no tenant"))?;
        tx.raw_remove(BY_TENANT.into(), entry);
        tx.raw_put(BY_TENANT.into(), moved, value);
    }
    Ok(Progress::More)
}

/// Moves entries of format 1 to their timelines, a batch at a time.
pub fn regroup(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    let old = KeyRange { start: Bound::Included(vec![FIRST_OF_OLD]), end: Bound::Unbounded };
    for table in REGROUPED.iter().copied() {
        let mut entries = Vec::new();
        tx.raw_scan(table.into(), &old, Direction::Forward, &mut |entry, value| {
            entries.push((entry.to_vec(), value.to_vec()));
            Ok(if entries.len() < BATCH { Flow::Continue } else { Flow::Stop })
        })?;
        if entries.is_empty() {
            continue;
        }
        for (entry, value) in entries {
            let mut rest = entry.as_slice();
            let time = Timestamp::read(&mut rest);
            let moved = time.zip(TenantId::read(&mut { rest })).map(|(at, tenant)| [&due_key(tenant, at), rest].concat());
            let moved = moved.ok_or_else(|| StoreError::damaged(table.name(), &entry, "the entry has no time or no tenant"))?;
            tx.raw_remove(table.into(), entry);
            tx.raw_put(table.into(), moved, value);
        }
        return Ok(Progress::More);
    }
    Ok(Progress::Done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use tenantd_base::{clock::Clock, clocks::Clocks, entropy::Entropy};

    use super::*;
    use crate::{DataDirectory, Store, StoreSettings, Table, WriterSettings, codec::Record};

    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    struct Timer {
        at: Timestamp,
    }

    impl Record for Timer {
        const VERSION: u8 = 1;
    }

    type TimerKey = (TenantId, u64);

    static BY_TIMER: Index<TimerKey, Timer> =
        Index { table: catalog::TICKETS_BY_TIMER, unique: false, keys: |key, timer| vec![due_key(key.0, timer.at)] };
    static TIMERS: Table<TimerKey, Timer> = Table::new(catalog::TICKETS, &[&BY_TIMER]);

    const SETTINGS: StoreSettings = StoreSettings {
        cache_bytes: 1 << 20,
        journal_bytes: 1 << 20,
        writer: WriterSettings { batch_size: 8, queue_length: 8 },
        clock: Clock::System,
    };
    const START: i64 = 1_767_225_600_000;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(START) + std::time::Duration::from_secs(second)
    }

    /// Two tenants with their own clocks and one without.
    fn tenants() -> [TenantId; 3] {
        let mut entropy = Entropy::from_seed(9);
        [
            TenantId::with_own_clock(at(0), &mut entropy),
            TenantId::with_own_clock(at(0), &mut entropy),
            TenantId::with_shared_clock(at(0), &mut entropy),
        ]
    }

    fn store(directory: &tempfile::TempDir) -> Store {
        let data = DataDirectory::lock(directory.path()).unwrap();
        data.initialize([7; 16], || Ok([1; 8])).unwrap();
        data.open_store(SETTINGS, None).unwrap().0
    }

    fn due_numbers(store: &Store, reading: &Reading) -> (Vec<TimerKey>, Option<Timestamp>) {
        let Due { mut found, next } = store.read(|tx| BY_TIMER.due(tx, reading, usize::MAX, |_| true)).unwrap();
        found.sort_unstable();
        (found, next)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn each_timeline_is_walked_up_to_its_own_time(
            timers in proptest::collection::vec((0_usize..3, 0_u64..200), 0..40),
            ahead in [0_u64..150, 0..150],
            now in 0_u64..100,
        ) {
            let (directory, tenants) = (tempfile::tempdir().unwrap(), tenants());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let store = store(&directory);
            let rows: Vec<(TimerKey, Timer)> =
                timers.iter().zip(0..).map(|((owner, second), number)| ((tenants[*owner], number), Timer { at: at(*second) })).collect();
            let stored = rows.clone();
            let write = store.write(move |tx| stored.iter().try_for_each(|(key, timer)| TIMERS.put(tx, key, timer)));
            runtime.block_on(write).unwrap();
            let clocks = Clocks::new(Clock::movable(at(now)));
            clocks.set(tenants.iter().copied().zip(ahead.into_iter().map(std::time::Duration::from_secs)));
            let reading = clocks.read();
            let is_due = |(key, timer): &&(TimerKey, Timer)| timer.at <= reading.of(key.0);
            let mut expected: Vec<TimerKey> = rows.iter().filter(is_due).map(|(key, _)| *key).collect();
            expected.sort_unstable();
            let waits = |(key, timer): &(TimerKey, Timer)| {
                (timer.at > reading.of(key.0)).then(|| reading.reached(Timeline::of(key.0), timer.at))
            };
            prop_assert_eq!(due_numbers(&store, &reading), (expected, rows.iter().filter_map(waits).min()));
            for (key, timer) in &rows {
                let found = store.read(|tx| BY_TIMER.due_on(tx, Timeline::of(key.0), timer.at, usize::MAX, |_| true)).unwrap();
                prop_assert!(found.found.contains(key));
            }
        }
    }

    #[tokio::test]
    async fn moving_format_1_entries_to_timelines_resumes_after_a_crash() {
        let (directory, tenants) = (tempfile::tempdir().unwrap(), tenants());
        let store = store(&directory);
        let rows: Vec<(TimerKey, Timer)> = (0..3 * BATCH as u64 / 2)
            .map(|number| ((tenants[usize::try_from(number % 3).unwrap()], number), Timer { at: at(number) }))
            .collect();
        let written = rows.clone();
        let first = Installation { format: 1, ..store.read(Installation::read).unwrap() };
        store
            .write(move |tx| {
                for (key, timer) in &written {
                    TIMERS.put(tx, key, timer)?;
                    let primary = key.to_bytes();
                    tx.raw_remove(catalog::TICKETS_BY_TIMER.into(), [due_key(key.0, timer.at), primary.clone()].concat());
                    tx.raw_put(catalog::TICKETS_BY_TIMER.into(), [timer.at.to_bytes(), primary].concat(), Vec::new());
                }
                first.write(tx)
            })
            .await
            .unwrap();
        let checked = store.check(vec![&TIMERS]).await.unwrap();
        assert!(checked.is_clean(), "an older store is not damaged: {checked:?}");
        // The process dies after the first batch.
        assert_eq!(store.write(regroup).await.unwrap(), Progress::More);
        assert!(store.check(vec![&TIMERS]).await.unwrap().is_clean());
        while store.write(regroup).await.unwrap() == Progress::More {}
        let second = Installation { format: GROUPED_SINCE, ..store.read(Installation::read).unwrap() };
        store.write(move |tx| second.write(tx)).await.unwrap();
        assert!(store.check(vec![&TIMERS]).await.unwrap().is_clean());
        let clocks = Clocks::new(Clock::movable(at(1_000_000)));
        clocks.set(tenants.into_iter().map(|tenant| (tenant, std::time::Duration::ZERO)));
        assert_eq!(due_numbers(&store, &clocks.read()).0.len(), rows.len());
        // After the migration, an entry in the old form is damage.
        let (key, timer) = rows[0];
        store
            .write(move |tx| {
                let primary = key.to_bytes();
                tx.raw_remove(catalog::TICKETS_BY_TIMER.into(), [due_key(key.0, timer.at), primary.clone()].concat());
                tx.raw_put(catalog::TICKETS_BY_TIMER.into(), [timer.at.to_bytes(), primary].concat(), Vec::new());
                Ok::<_, StoreError>(())
            })
            .await
            .unwrap();
        assert!(!store.check(vec![&TIMERS]).await.unwrap().is_clean());
    }

    static BY_RUN: Index<TimerKey, Timer> =
        Index { table: catalog::WORKFLOW_RUNS_BY_DUE, unique: false, keys: |key, timer| vec![tenant_due_key(key.0, timer.at)] };
    static RUNS: Table<TimerKey, Timer> = Table::new(catalog::WORKFLOW_RUNS, &[&BY_RUN]);

    #[tokio::test]
    async fn a_backlog_of_one_tenant_does_not_hide_another() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let [_, many, one] = tenants();
        store
            .write(move |tx| {
                (0..2 * MAX_EXAMINED as u64).try_for_each(|number| RUNS.put(tx, &(many, number), &Timer { at: at(number % 7) }))?;
                RUNS.put(tx, &(one, 1), &Timer { at: at(9) })
            })
            .await
            .unwrap();
        let first: BTreeMap<_, _> = store.read(|tx| BY_RUN.first_due(tx)).unwrap().into_iter().collect();
        assert_eq!(first, BTreeMap::from([(many, at(0)), (one, at(9))]));
        let due = store.read(|tx| BY_RUN.due_on(tx, Timeline::Own(one), at(10), 5, |_| true)).unwrap();
        assert_eq!((due.found, due.next), (vec![(one, 1)], None));
    }

    #[tokio::test]
    async fn moving_run_entries_to_tenant_timelines_resumes_after_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        let keys: Vec<TimerKey> =
            tenants().into_iter().flat_map(|tenant| (0..BATCH as u64).map(move |number| (tenant, number))).collect();
        let former = Installation { format: BY_TENANT_SINCE - 1, ..store.read(Installation::read).unwrap() };
        let written = keys.clone();
        store
            .write(move |tx| {
                for key in &written {
                    let (timer, primary) = (Timer { at: at(key.1) }, key.to_bytes());
                    RUNS.put(tx, key, &timer)?;
                    tx.raw_remove(BY_TENANT.into(), [tenant_due_key(key.0, timer.at), primary.clone()].concat());
                    tx.raw_put(BY_TENANT.into(), [due_key(key.0, timer.at), primary].concat(), Vec::new());
                }
                former.write(tx)
            })
            .await
            .unwrap();
        let checked = store.check(vec![&RUNS]).await.unwrap();
        assert!(checked.is_clean(), "an older store is not damaged: {checked:?}");
        // The process dies after the first batch.
        assert_eq!(store.write(regroup_by_tenant).await.unwrap(), Progress::More);
        assert!(store.check(vec![&RUNS]).await.unwrap().is_clean());
        while store.write(regroup_by_tenant).await.unwrap() == Progress::More {}
        let now = Installation { format: BY_TENANT_SINCE, ..store.read(Installation::read).unwrap() };
        store.write(move |tx| now.write(tx)).await.unwrap();
        assert!(store.check(vec![&RUNS]).await.unwrap().is_clean());
        for tenant in tenants() {
            let due = store.read(|tx| BY_RUN.due_on(tx, Timeline::Own(tenant), at(BATCH as u64), BATCH, |_| true)).unwrap();
            assert_eq!(due.found.len(), BATCH);
        }
    }
}
