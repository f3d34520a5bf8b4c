//! The ceiling of webhook delivery: a loop that signs a body, posts it, and commits one record together with the records of other
//! senders. It runs in a separate process like the real server.

use std::{
    net::SocketAddr,
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use redb::{Database, Durability, TableDefinition};
use serde_json::json;
use sha2::Sha256;
use tokio::sync::oneshot;

use crate::load::{self, Measured};

pub const DELIVER: &str = "--bare-deliveries";
const SENDERS: usize = 32;
/// The length of the event of a created ticket.
const BODY_BYTES: usize = 1500;
const RECORD_BYTES: usize = 150;

/// A sender that waits until its record is on disk.
type Waiting = oneshot::Sender<()>;

/// Delivers to the receiver for the duration of `span`, and prints the measurement.
pub fn deliver(receiver: SocketAddr, directory: &Path, span: Duration) {
    let path = directory.join("deliveries.redb");
    let (sender, records) = mpsc::sync_channel::<Waiting>(SENDERS);
    let writer = std::thread::spawn({
        let path = path.clone();
        move || write(&path, &records)
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let begin = Instant::now();
    let latencies = runtime.block_on(async {
        let tasks: Vec<_> = (0..SENDERS).map(|_| tokio::spawn(send(receiver, sender.clone(), begin + span))).collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.unwrap());
        }
        latencies
    });
    drop(sender);
    writer.join().unwrap();
    let measured = Measured::new(latencies, begin.elapsed(), Duration::ZERO);
    println!("{}", json!({"per_second": measured.per_second, "p50_seconds": measured.p50.as_secs_f64()}));
    std::fs::remove_file(path).unwrap();
}

async fn send(receiver: SocketAddr, records: mpsc::SyncSender<Waiting>, end: Instant) -> Vec<Duration> {
    let mut connection = load::Connection::open(receiver).await;
    let key = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
    let body = "x".repeat(BODY_BYTES);
    let mut latencies = Vec::new();
    while Instant::now() < end {
        let started = Instant::now();
        let mut mac = key.clone();
        mac.update(b"evt_01hf0000000000000000000000.1700000000.");
        mac.update(body.as_bytes());
        let signature = BASE64.encode(&mac.finalize().into_bytes());
        connection.exchange(&mut load::Request::delivery(&signature, &body)).await;
        let (notify, committed) = oneshot::channel();
        records.send(notify).unwrap();
        committed.await.unwrap();
        latencies.push(started.elapsed());
    }
    latencies
}

/// Commits the waiting records in a loop.
fn write(path: &Path, records: &mpsc::Receiver<Waiting>) {
    const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
    let database = Database::create(path).unwrap();
    let mut key = 0;
    while let Ok(first) = records.recv() {
        let batch: Vec<Waiting> = std::iter::once(first).chain(records.try_iter()).collect();
        let mut transaction = database.begin_write().unwrap();
        transaction.set_durability(Durability::Immediate).unwrap();
        let mut table = transaction.open_table(RECORDS).unwrap();
        for _ in &batch {
            key += 1;
            table.insert(key, [7_u8; RECORD_BYTES].as_slice()).unwrap();
        }
        drop(table);
        transaction.commit().unwrap();
        for waiting in batch {
            waiting.send(()).unwrap();
        }
    }
}
