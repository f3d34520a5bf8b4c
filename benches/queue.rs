//! Finding the first row of a queue after many removals, compared with a queue without removals. Three cases: only the layer of
//! recent changes, with a reader that stays open, and with rows in the redb file. The store runs in this process, in memory.

use std::time::Instant;

use redb::backends::InMemoryBackend;
use serde::{Deserialize, Serialize};
use tenantd_base::clock::Clock;
use tenantd_store::{Flushing, KeyRange, Opening, RedbEngine, Store, StoreError, Table, WriterSettings, catalog, codec::Record};

use crate::{
    Plan,
    report::{Report, Target, median},
};

const REMOVED: u32 = 20_000;
/// The number of rows per commit.
const BATCH: u32 = 200;
/// Half of it holds all writes of the bench.
const LARGE_JOURNAL: u64 = 64 << 20;
/// Half of it holds the removals, and the rows go to the file.
const SMALL_JOURNAL: u64 = 3 << 20;
const CACHE_BYTES: usize = 64 << 20;

#[derive(Clone, Serialize, Deserialize)]
struct Row(Vec<u8>);

impl Record for Row {
    const VERSION: u8 = 1;
}

static QUEUE: Table<u32, Row> = Table::new(catalog::WEBHOOK_DUE, &[]);

pub fn measure(plan: Plan) {
    let mut report = Report::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut alone, mut beside, mut in_file, mut first_walks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let store = open(LARGE_JOURNAL);
        runtime.block_on(put(&store, REMOVED..REMOVED + 1));
        let fresh = first_row_micros(&store, 2_000);

        let store = open(LARGE_JOURNAL);
        runtime.block_on(pass_through(&store));
        alone.push((first_row_micros(&store, 2_000), fresh));

        let store = open(LARGE_JOURNAL);
        runtime.block_on(put(&store, 0..1));
        let with_reader = store.read(|_| {
            runtime.block_on(pass_through(&store));
            Ok::<_, StoreError>(first_row_micros(&store, 2_000))
        });
        beside.push((with_reader.unwrap(), fresh));

        let store = open(SMALL_JOURNAL);
        runtime.block_on(put(&store, 0..REMOVED + 1));
        runtime.block_on(async {
            for first in (0..REMOVED).step_by(BATCH as usize) {
                remove(&store, first).await;
            }
        });
        first_walks.push(first_row_micros(&store, 1));
        in_file.push((first_row_micros(&store, 2_000), fresh));
    }
    report.ratio("first row after 20,000 removals", "µs", &alone, Target::AtMost(1.5));
    report.ratio("the same with a reader that was open before", "µs", &beside, Target::AtMost(1.5));
    // The walk also reads the file. The first walk has found the position to jump to.
    report.ratio("the same, and the rows were in the file", "µs", &in_file, Target::AtMost(10.0));
    report.measurement("the first walk after these removals", "µs", &first_walks, Target::None);
    println!("\n{}", report.render());
}

fn open(journal_bytes: u64) -> Store {
    let [file, journal, witness] = std::array::from_fn(|_| InMemoryBackend::new());
    let opening =
        Opening { cache_bytes: CACHE_BYTES, journal_bytes, journal_id: [1; 16], flushing: Flushing::Inline, clock: Clock::System };
    let engine = RedbEngine::on_backends(file, journal, witness, opening).unwrap();
    Store::new(engine, WriterSettings { batch_size: 64, queue_length: 64 }).unwrap()
}

async fn put(store: &Store, rows: std::ops::Range<u32>) {
    let row = Row(vec![7; 60]);
    store.write(move |tx| rows.clone().try_for_each(|number| QUEUE.put(tx, &number, &row))).await.unwrap();
}

async fn remove(store: &Store, first: u32) {
    let rows = first..first + BATCH;
    store.write(move |tx| rows.clone().try_for_each(|number| QUEUE.remove(tx, &number).map(drop))).await.unwrap();
}

/// Writes all rows and removes all except the last.
async fn pass_through(store: &Store) {
    for first in (0..REMOVED).step_by(BATCH as usize) {
        put(store, first..first + BATCH + 1).await;
        remove(store, first).await;
    }
}

/// The median of several walks, so that an interrupted walk does not count.
fn first_row_micros(store: &Store, times: usize) -> f64 {
    let walk = |_| {
        let started = Instant::now();
        let rows = store.read(|tx| QUEUE.list(tx, &KeyRange::ALL, 1)).unwrap();
        let micros = started.elapsed().as_secs_f64() * 1e6;
        assert_eq!(rows.first().map(|(number, _)| *number), Some(REMOVED));
        micros
    };
    median(&mut (0..times).map(walk).collect::<Vec<_>>())
}
