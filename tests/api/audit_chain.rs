//! The audit chain against an attacker who has the store file or an export, but not the installation key. The attacker writes valid
//! checksums, so only the chain can reveal the change.

use std::path::Path;

use serde::{Deserialize, Serialize};

use tenantd_audit::{self as audit, Checkpoint, ExportCheck, Verified, parse_checkpoint};
use tenantd_base::{
    clock::{Clock, Timestamp},
    entropy::Entropy,
    id::TenantId,
    secrets::{InstallationKey, PublicKey, digest},
};
use tenantd_store::{
    DataDirectory, Direction, Flow, Key, KeyRange, Store, StoreError, StoreSettings, Table, WriterSettings, catalog,
    codec::{self, Record},
};

use crate::harness::{Setup, TestApp};

/// The stored forms, which an attacker knows from the source code.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredRecord {
    number: u64,
    #[serde(with = "codec::bytes")]
    body: Vec<u8>,
    hash: [u8; 32],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredCheckpoint {
    first: u64,
    number: u64,
    hash: [u8; 32],
    at: Timestamp,
    #[serde(with = "codec::bytes")]
    signature: Vec<u8>,
    seq: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredHead {
    end: StoredCheckpoint,
    kept_at: Timestamp,
    /// The number of the last imported record and the offset of the keys after it.
    imported: Option<(u64, u64)>,
}

impl Record for StoredRecord {
    const VERSION: u8 = 1;
}

impl Record for StoredCheckpoint {
    const VERSION: u8 = 1;
}

impl Record for StoredHead {
    const VERSION: u8 = 2;
}

static RECORDS: Table<(TenantId, u64), StoredRecord> = Table::new(catalog::AUDIT_RECORDS, &[]);
static CHECKPOINTS: Table<(TenantId, u64), StoredCheckpoint> = Table::new(catalog::AUDIT_CHECKPOINTS, &[]);
static HEADS: Table<TenantId, StoredHead> = Table::new(catalog::AUDIT_HEADS, &[]);

/// The number of keys of a tenant: more than there are records between two checkpoints.
const KEYS: usize = 70;

/// A stopped installation with an audit chain, and a checkpoint that was stored elsewhere.
struct Crime {
    _directory: tempfile::TempDir,
    _data: DataDirectory,
    store: Store,
    key: PublicKey,
    tenant: TenantId,
    /// The original log positions and records.
    chain: Vec<(u64, StoredRecord)>,
    head: StoredHead,
    kept: Checkpoint,
    export: String,
}

async fn crime() -> Crime {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, Timestamp::from_millis(1_767_225_600_000)).await;
    let acme = app.tenant("acme").await;
    for number in 0..KEYS {
        acme.new_key(&format!("key {number}"), &["tickets:read"]).await;
    }
    let reader = acme.key(&["*:read"]).await;
    let export = reader.get("/api/admin/audit?format=ndjson").send().await.text;
    let kept = reader.get("/api/admin/audit/checkpoint").send().await;
    let kept = parse_checkpoint(&kept.text).unwrap();
    let tenant: TenantId = acme.id.parse().unwrap();
    let (directory, _) = app.stop().await;
    let key = public_key(directory.path());
    let data = DataDirectory::lock(directory.path()).unwrap();
    let writer = WriterSettings { batch_size: 1, queue_length: 8 };
    let settings = StoreSettings { cache_bytes: 4 << 20, journal_bytes: 1 << 20, writer, clock: Clock::System };
    let (store, _) = data.open_store(settings, None).unwrap();
    let mut chain = Vec::new();
    let range = KeyRange::prefix(&tenant.to_bytes());
    let read = store.read(|tx| {
        RECORDS.scan(tx, &range, Direction::Forward, |(_, seq), record| {
            chain.push((seq, record));
            Ok(Flow::Continue)
        })?;
        Ok::<_, StoreError>(HEADS.get(tx, &tenant)?.unwrap())
    });
    Crime { head: read.unwrap(), _directory: directory, _data: data, store, key, tenant, chain, kept, export }
}

fn public_key(directory: &Path) -> PublicKey {
    audit::public_key(&InstallationKey::load(&directory.join("installation.key")).unwrap()).unwrap()
}

impl Crime {
    fn verify(&self, known: &[Checkpoint]) -> Verified {
        self.store.read(|tx| audit::verify(tx, &self.key, known)).unwrap()
    }

    /// The first break in the chain of the tenant, and the reason.
    fn broken(&self, known: &[Checkpoint]) -> (u64, String) {
        let found = self.verify(known).breaks;
        let first = found.first().unwrap_or_else(|| panic!("nothing was found"));
        assert_eq!(first.tenant_id, self.tenant);
        (first.number, first.reason.clone())
    }

    /// Replaces the stored chain.
    async fn replace(&self, chain: Vec<(u64, StoredRecord)>, head: Option<StoredHead>) {
        let (tenant, old) = (self.tenant, self.chain.clone());
        let write = move |tx: &mut _| {
            for (seq, _) in &old {
                RECORDS.remove(tx, &(tenant, *seq))?;
            }
            for (seq, record) in &chain {
                RECORDS.put(tx, &(tenant, *seq), record)?;
            }
            match &head {
                Some(head) => HEADS.put(tx, &tenant, head),
                None => HEADS.remove(tx, &tenant).map(drop),
            }
        };
        self.store.write::<(), StoreError>(write).await.unwrap();
    }

    fn record(&self, number: u64) -> usize {
        self.chain.iter().position(|(_, record)| record.number == number).unwrap()
    }
}

/// The hash of a record. Computing it needs no secret.
fn link(previous: [u8; 32], body: &[u8]) -> [u8; 32] {
    digest(&[b"tenantd audit record\0".as_slice(), &previous, body].concat())
}

fn edited(record: &StoredRecord) -> StoredRecord {
    let body = String::from_utf8(record.body.clone()).unwrap().replacen("local_operator", "LOCAL_operator", 1).into_bytes();
    assert_ne!(body, record.body);
    StoredRecord { body, ..record.clone() }
}

#[tokio::test]
async fn every_change_to_stored_records_is_detected() {
    let crime = crime().await;
    let sound = crime.verify(&[crime.kept]);
    assert!(sound.is_sound(), "{:?}", sound.breaks);
    assert_eq!((sound.chains, sound.checkpoints), (2, 2), "the platform has a chain too");
    let whole = || crime.chain.clone();
    let head = || Some(crime.head.clone());
    let place = crime.record(20);

    let mut chain = whole();
    chain[place].1 = edited(&chain[place].1);
    crime.replace(chain.clone(), head()).await;
    assert_eq!(crime.broken(&[]).0, 20, "a record was edited");

    for at in place..chain.len() {
        let previous = chain[at - 1].1.hash;
        chain[at].1.hash = link(previous, &chain[at].1.body.clone());
    }
    crime.replace(chain, head()).await;
    let (number, reason) = crime.broken(&[]);
    assert_eq!(number, 1, "{reason}");
    assert!(reason.contains("one of the records 1 to 64"), "all later hashes were recomputed: {reason}");

    let mut chain = whole();
    chain.remove(place);
    crime.replace(chain, head()).await;
    assert_eq!(crime.broken(&[]).0, 20, "a record was removed");

    let mut chain = whole();
    let (first, second) = (chain[place].1.clone(), chain[place + 1].1.clone());
    (chain[place].1, chain[place + 1].1) = (second, first);
    crime.replace(chain, head()).await;
    let (number, reason) = crime.broken(&[]);
    assert_eq!((number, reason.as_str()), (20, "record 21 is in its place"));

    let mut chain = whole();
    chain.drain(..place);
    crime.replace(chain, head()).await;
    assert_eq!(crime.broken(&[]).0, 1, "the beginning was removed");

    crime.replace(whole(), head()).await;
    assert!(crime.verify(&[crime.kept]).is_sound());
}

#[tokio::test]
async fn a_truncated_tail_is_detected() {
    let crime = crime().await;
    let last = crime.chain.last().unwrap().1.number;
    let mut chain = crime.chain.clone();
    chain.truncate(crime.record(66));
    crime.replace(chain.clone(), Some(crime.head.clone())).await;
    let (number, reason) = crime.broken(&[]);
    assert_eq!((number, reason), (66, format!("the records up to {last} are signed but missing")));

    crime.replace(chain, None).await;
    let (number, reason) = crime.broken(&[]);
    assert_eq!((number, reason.as_str()), (65, "the records 65 to 65 are not signed"), "without its end");

    // Truncates the chain to the checkpoint of record 64, which the installation signed.
    let mut chain = crime.chain.clone();
    chain.truncate(crime.record(65));
    let tenant = crime.tenant;
    let older = crime.store.read(|tx| CHECKPOINTS.get(tx, &(tenant, 64))).unwrap().unwrap();
    crime.replace(chain, Some(StoredHead { end: older, ..crime.head.clone() })).await;
    let (number, reason) = crime.broken(&[]);
    assert!(number == 65 && reason.contains("of the log has no record"), "the log tells: {reason}");
    let (number, reason) = crime.broken(&[crime.kept]);
    assert!(number == 65 && reason.contains("stored elsewhere"), "a checkpoint tells: {reason}");
}

#[tokio::test]
async fn signatures_of_other_installations_do_not_count() {
    let crime = crime().await;
    let stranger = audit::public_key(&InstallationKey::generate(&mut Entropy::from_seed(1))).unwrap();
    let found = crime.store.read(|tx| audit::verify(tx, &stranger, &[])).unwrap().breaks;
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|found| found.reason.contains("was not signed by this installation")), "{found:?}");
    let mut check = ExportCheck::new(&stranger, &[]);
    crime.export.lines().for_each(|line| check.line(line).unwrap());
    assert!(check.end().unwrap().breaks[0].reason.contains("was not signed by this installation"));
}

fn check(crime: &Crime, lines: &[&str], known: &[Checkpoint]) -> Result<Verified, String> {
    let mut check = ExportCheck::new(&crime.key, known);
    lines.iter().try_for_each(|line| check.line(line))?;
    check.end()
}

#[tokio::test]
async fn an_export_is_verified_without_the_store() {
    let crime = crime().await;
    let lines: Vec<&str> = crime.export.lines().collect();
    let sound = check(&crime, &lines, &[crime.kept]);
    // The export is recorded before it starts. The checkpoint was created after it.
    assert!(sound.as_ref().is_ok_and(Verified::is_sound), "{sound:?}");
    assert_eq!(sound.unwrap().records, crime.chain.len() as u64);
    let at = lines.iter().position(|line| line.contains("\"number\":20,")).unwrap();

    let edited = lines[at].replace("local_operator", "LOCAL_operator");
    let mut changed = lines.clone();
    changed[at] = &edited;
    assert_eq!(check(&crime, &changed, &[]).unwrap().breaks[0].number, 20);

    let mut shorter = lines.clone();
    shorter.remove(at);
    assert_eq!(check(&crime, &shorter, &[]).unwrap().breaks[0].number, 20);

    let mut swapped = lines.clone();
    swapped.swap(at, at + 1);
    assert_eq!(check(&crime, &swapped, &[]).unwrap().breaks[0].number, 20);

    let cut = &lines[..lines.len() - 1];
    assert!(check(&crime, cut, &[]).unwrap_err().contains("incomplete"));
    let kept = lines.iter().position(|line| line.contains("checkpoint")).unwrap();
    let mut set_back = lines[..=kept].to_vec();
    set_back.push(lines.last().unwrap());
    assert!(check(&crime, &set_back, &[]).unwrap().is_sound(), "an export up to a checkpoint is one of an earlier time");
    let found = check(&crime, &set_back, &[crime.kept]).unwrap().breaks;
    assert!(found[0].number == 65 && found[0].reason.contains("stored elsewhere"), "{found:?}");

    let without_chain = check(&crime, &lines[1..], &[]);
    assert!(without_chain.unwrap_err().contains("only an export without filters can be verified"));
}
