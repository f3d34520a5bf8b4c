//! The backup state of each device. It has a separate row because jobs change it every night and a device is much larger.
//!
//! **Boundary:** only the backup slice writes it, in the transaction that evaluates a job; see [`super::super::set_backup`].

use std::{collections::VecDeque, ops::Bound};

use tenantd_store::{Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::{super::model::BackupState, devices::DeviceKey};

impl Record for BackupState {
    const VERSION: u8 = 1;
}

pub(crate) static BACKUPS: Table<DeviceKey, BackupState> = Table::new(catalog::DEVICE_BACKUPS, &[]);

pub(crate) fn get(tx: &impl Read, key: DeviceKey) -> Result<Option<BackupState>, StoreError> {
    BACKUPS.get(tx, &key)
}

pub(crate) fn put(tx: &mut WriteTx, key: DeviceKey, state: &BackupState) -> Result<(), StoreError> {
    BACKUPS.put(tx, &key, state)
}

pub(crate) fn remove(tx: &mut WriteTx, key: DeviceKey) -> Result<(), StoreError> {
    BACKUPS.remove(tx, &key).map(drop)
}

/// The number of rows to read at a time: few for a page, and more as a scan continues.
const FIRST_PART: usize = 16;
const LARGEST_PART: usize = 4_096;

/// Looks up rows for devices of one tenant in key order, and reads the following rows ahead.
#[derive(Debug)]
pub(super) struct ReadAhead {
    rows: VecDeque<(DeviceKey, BackupState)>,
    part: usize,
    /// Whether there are no more rows to read.
    is_over: bool,
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self { rows: VecDeque::new(), part: FIRST_PART, is_over: false }
    }
}

impl ReadAhead {
    pub(super) fn get(&mut self, tx: &impl Read, key: DeviceKey) -> Result<Option<BackupState>, StoreError> {
        while self.rows.front().is_some_and(|(found, _)| *found < key) {
            self.rows.pop_front();
        }
        if self.rows.is_empty() && !self.is_over {
            self.read(tx, key)?;
        }
        Ok(self.rows.front().filter(|(found, _)| *found == key).map(|(_, state)| *state))
    }

    /// Reads the rows that start at a device.
    fn read(&mut self, tx: &impl Read, from: DeviceKey) -> Result<(), StoreError> {
        let mut range = KeyRange::prefix(&from.0.to_bytes());
        range.start = Bound::Included(from.to_bytes());
        BACKUPS.scan(tx, &range, Direction::Forward, |key, state| {
            self.rows.push_back((key, state));
            Ok(if self.rows.len() < self.part { Flow::Continue } else { Flow::Stop })
        })?;
        self.is_over = self.rows.len() < self.part;
        self.part = (self.part * 4).min(LARGEST_PART);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        clock::Timestamp,
        id::{DeviceId, TenantId},
    };
    use tenantd_store::{RedbEngine, Store, WriterSettings, codec::assert_golden};

    use super::*;

    #[test]
    fn stored_record_matches_the_golden_file() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        assert_golden("device_backup", &BackupState { eligible: true, protected: false, last_success_at: Some(at) });
    }

    #[test]
    fn read_ahead_returns_the_same_rows_as_lookups() {
        let folder = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&folder.path().join("store"), 1 << 20).unwrap();
        let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
        let key = |tenant: u8, device: u16| {
            let mut bytes = [0; 16];
            bytes[..2].copy_from_slice(&device.to_be_bytes());
            (TenantId::from_bytes([tenant; 16]), DeviceId::from_bytes(bytes))
        };
        let state = |device: u16| BackupState { eligible: true, protected: device.is_multiple_of(2), last_success_at: None };
        let has_row = |device: u16| !device.is_multiple_of(3) && !(200..500).contains(&device);
        let written = store.write(move |tx| {
            for device in (0..1_000).filter(|device| has_row(*device)) {
                put(tx, key(2, device), &state(device))?;
            }
            put(tx, key(3, 0), &state(0))
        });
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(written).unwrap();
        for from in [0, 150, 333, 998] {
            let mut ahead = ReadAhead::default();
            for device in from..1_100 {
                let found = store.read(|tx| ahead.get(tx, key(2, device))).unwrap();
                assert_eq!(found, (device < 1_000 && has_row(device)).then(|| state(device)), "{device} from {from}");
            }
        }
    }
}
