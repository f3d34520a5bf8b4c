//! Rotates the installation key, with or without a running server.
//!
//! First the next key is written to the disk. Then the store records that a rotation is in progress. From then on, new secrets
//! are sealed with the next key, and existing ones are sealed again, a few records per transaction, until a walk over all tables
//! finds none under the old key. Finally the store names the next key as its own, and the file of the old key is replaced.
//! **Invariant:** after a crash between any two of these steps, every key that sealed anything is available, and the rotation
//! continues where it stopped.

mod key_files;
mod sealed;
pub use key_files::KeyFiles;
pub use sealed::{SealedRecord, SealedSegments, SealedTable, SealedVisitor};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::{Clock, Timestamp},
    entropy::{Entropy, Seed},
    secrets::{InstallationKey, Sealer},
};

use super::{
    Installation, KeyFingerprint, Progress, Read, Store, StoreError, Table, WriteTx, catalog, codec::Record, engine::RawTable,
};

/// A rotation in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RotationRecord {
    from: KeyFingerprint,
    to: KeyFingerprint,
    started_at: Timestamp,
    /// How many records were sealed again.
    resealed: u64,
    /// How many of them in the current walk.
    in_this_walk: u64,
    /// The table that the walk is in, and the last key that it has examined.
    position: (String, Vec<u8>),
}

impl Record for RotationRecord {
    const VERSION: u8 = 1;
}

static ROTATION: Table<u8, RotationRecord> = Table::new(catalog::KEY_ROTATION, &[]);
const ROTATION_KEY: u8 = 0;
/// How many records one transaction binds to their targets.
const BOUND_AT_ONCE: usize = 100;

/// The progress of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationStatus {
    /// The fingerprint of the key that the store names.
    pub fingerprint: KeyFingerprint,
    pub under_way: Option<RotationProgress>,
    /// Whether no rotation is in progress and the key is in its file.
    pub settled: bool,
    /// What is left for the operator to do.
    pub operator_action: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationProgress {
    pub to: KeyFingerprint,
    pub started_at: Timestamp,
    pub resealed: u64,
}

/// Everything that a rotation needs. Clones share it.
#[derive(Clone)]
pub struct Rotation {
    pub store: Store,
    pub clock: Clock,
    pub sealer: Sealer,
    pub files: KeyFiles,
    /// Every table with sealed values.
    pub tables: Vec<&'static dyn SealedTable>,
}

impl std::fmt::Debug for Rotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotation").field("files", &self.files).finish_non_exhaustive()
    }
}

fn state(tx: &super::ReadTx) -> Result<(Installation, Option<RotationRecord>), StoreError> {
    Ok((Installation::read(tx)?, ROTATION.get(tx, &ROTATION_KEY)?))
}

/// Returns the key to seal with, and a sealer. During a rotation the sealer also opens what the previous key has sealed.
pub fn keys_in_force(store: &Store, files: &KeyFiles) -> Result<(InstallationKey, Sealer), StoreError> {
    let (installation, rotation) = store.read(state)?;
    let Some(rotation) = rotation else {
        let key = files.find(installation.key_fingerprint)?;
        files.settle(installation.key_fingerprint)?;
        let sealer = Sealer::new(&key);
        return Ok((key, sealer));
    };
    let under_way = |error: StoreError| {
        StoreError::Installation(format!("a rotation of the installation key is in progress and needs both keys: {error}"))
    };
    let (from, to) = (files.find(rotation.from).map_err(under_way)?, files.find(rotation.to).map_err(under_way)?);
    let sealer = Sealer::between(&to, Some(&from));
    Ok((to, sealer))
}

impl Rotation {
    pub fn status(&self) -> Result<RotationStatus, StoreError> {
        let (installation, rotation) = self.store.read(state)?;
        let under_way =
            rotation.map(|record| RotationProgress { to: record.to, started_at: record.started_at, resealed: record.resealed });
        let fingerprint = installation.key_fingerprint;
        let settled = under_way.is_none() && self.files.is_settled(fingerprint);
        let operator_action = self.files.operator_action(fingerprint)?;
        Ok(RotationStatus { fingerprint, under_way, settled, operator_action })
    }

    /// Starts a rotation unless one is in progress. [`Self::advance`] seals the secrets again.
    pub async fn begin(&self) -> Result<(), StoreError> {
        let (installation, rotation) = self.store.read(state)?;
        if rotation.is_some() {
            return Ok(());
        }
        // The rotation rewrites every secret.
        self.store.ensure_room()?;
        let current = self.files.find(installation.key_fingerprint)?;
        let next = self.files.stage(&current, &mut Entropy::from_os())?;
        let record = RotationRecord {
            from: current.fingerprint(),
            to: next.fingerprint(),
            started_at: self.clock.now(),
            resealed: 0,
            in_this_walk: 0,
            position: (String::new(), Vec::new()),
        };
        let begin = move |tx: &mut WriteTx| {
            let begun = ROTATION.get(tx, &ROTATION_KEY)?.is_some();
            if begun { Ok(()) } else { ROTATION.put(tx, &ROTATION_KEY, &record) }
        };
        self.store.write(begin).await
    }

    /// Does a bounded part of the rotation in progress, if there is one.
    pub async fn advance(&self) -> Result<Progress, StoreError> {
        let (installation, rotation) = self.store.read(state)?;
        let Some(rotation) = rotation else {
            self.files.settle(installation.key_fingerprint)?;
            return Ok(Progress::Done);
        };
        let next = self.files.find(rotation.to)?;
        self.sealer.turn_to(&next);
        let (from, position) = (rotation.from, rotation.position.clone());
        let found = self.store.scan(move |tx| sealed::find(tx, from, &position)).await?;
        // A write may restore a value under the old key after the walk has passed it. Only a full walk that finds none is proof.
        if found.places.is_empty() && found.next.is_none() && rotation.in_this_walk == 0 {
            self.finish(rotation, &next).await?;
            return Ok(Progress::Done);
        }
        let in_this_walk = if found.next.is_some() { rotation.in_this_walk + found.places.len() as u64 } else { 0 };
        let record = RotationRecord {
            resealed: rotation.resealed + found.places.len() as u64,
            in_this_walk,
            position: found.next.unwrap_or_default(),
            ..rotation
        };
        let (places, seed, this) = (found.places, Seed::from_os(), self.clone());
        let reseal = move |tx: &mut WriteTx| {
            let mut entropy = seed.stream();
            places.iter().try_for_each(|(table, key)| this.reseal(tx, *table, key, from, &mut entropy))?;
            ROTATION.put(tx, &ROTATION_KEY, &record)
        };
        self.store.write(reseal).await?;
        Ok(Progress::More)
    }

    /// Seals secrets that an earlier release sealed without their targets again, with their targets. Returns the number of these
    /// records.
    pub async fn bind_targets(&self) -> Result<u64, StoreError> {
        let mut bound = 0;
        for &table in &self.tables {
            let sealer = self.sealer.clone();
            let unbound = self.store.scan(move |tx| table.unbound(tx, &sealer)).await?;
            for keys in unbound.chunks(BOUND_AT_ONCE).map(<[Vec<u8>]>::to_vec) {
                bound += keys.len() as u64;
                let (seed, sealer) = (Seed::from_os(), self.sealer.clone());
                let bind = move |tx: &mut WriteTx| {
                    let mut entropy = seed.stream();
                    keys.iter().try_for_each(|key| table.reseal(tx, None, key, &sealer, &mut entropy))
                };
                self.store.write(bind).await?;
            }
        }
        Ok(bound)
    }

    fn reseal(
        &self,
        tx: &mut WriteTx,
        table: RawTable,
        key: &[u8],
        from: KeyFingerprint,
        entropy: &mut Entropy,
    ) -> Result<(), StoreError> {
        let wrong = |reason: &str| Err(StoreError::damaged(&table.to_string(), key, reason));
        let Some(sealed) = self.tables.iter().find(|sealed| sealed.name() == table.table) else {
            return wrong("it holds a secret, but its table is not declared for key rotation");
        };
        sealed.reseal(tx, table.segment, key, &self.sealer, entropy)?;
        match tx.raw_get(table, key)? {
            Some(stored) if sealed::names_key(&stored, from) => {
                wrong("it still names the old installation key after all of its secrets were sealed again")
            }
            _ => Ok(()),
        }
    }

    /// Removes the old key after everything was opened without it.
    async fn finish(&self, rotation: RotationRecord, next: &InstallationKey) -> Result<(), StoreError> {
        let (tables, without_the_old) = (self.tables.clone(), Sealer::new(next));
        let opened = self.store.scan(move |tx| {
            tables.iter().try_fold(0, |count, table| Ok::<_, StoreError>(count + table.open_all(tx, &without_the_old)?))
        });
        let secrets = opened.await?;
        let installation = self.store.read(Installation::read)?;
        let to = rotation.to;
        let finish = move |tx: &mut WriteTx| {
            Installation { key_fingerprint: to, ..installation.clone() }.write(tx)?;
            ROTATION.remove(tx, &ROTATION_KEY).map(drop)
        };
        self.store.write(finish).await?;
        tracing::info!(resealed = rotation.resealed, secrets, "the installation key was rotated");
        self.files.settle(to)
    }
}

#[cfg(test)]
mod tests;
