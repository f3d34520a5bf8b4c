//! The storage below the engine: files that use the reserve when the volume is full.
//!
//! A write that was interrupted by a full volume is repeated from its start, so the engine sees all of it or none.

use std::{io, ops::Bound, sync::Arc};

use redb::{BackendError, StorageBackend};
use rustix::io::Errno;

use super::volume::Volume;

/// Storage on a [`Volume`].
#[derive(Debug)]
pub struct SpareBackend<B> {
    storage: B,
    volume: Arc<Volume>,
}

/// Whether the volume, or the user's disk quota, is full.
fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| full.contains(&code))
}

impl<B: StorageBackend> SpareBackend<B> {
    pub fn new(storage: B, volume: Arc<Volume>) -> Self {
        Self { storage, volume }
    }

    fn with_room(&self, work: impl Fn(&B) -> io::Result<()>) -> io::Result<()> {
        loop {
            match work(&self.storage) {
                Err(error) if is_full(&error) => self.volume.make_room(error)?,
                other => return other,
            }
        }
    }
}

impl<B: StorageBackend> StorageBackend for SpareBackend<B> {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.storage.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_room(|storage| storage.set_len(len))
    }

    /// A sync on a full volume is not retried: after a failed sync the state of the kernel's cache is unknown.
    fn sync_data(&self) -> io::Result<()> {
        self.storage.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_room(|storage| storage.write(offset, data))?;
        self.volume.wrote(data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.storage.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.storage.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.storage.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        os::unix::fs::MetadataExt,
        path::{Path, PathBuf},
        sync::{
            Mutex,
            atomic::{AtomicU64, Ordering},
        },
    };

    use tenantd_base::clock::Clock;

    use super::*;
    use crate::{
        Flushing, Opening, Read, RedbEngine, Space, Store, StoreError, WriteRoom, WriteTx, WriterSettings, catalog, within_reserve,
    };

    const MIB: u64 = 1 << 20;
    const BLOCK: u64 = 4096;
    const WRITER: WriterSettings = WriterSettings { batch_size: 16, queue_length: 64 };

    /// A volume of limited size. The reserve is a real file whose blocks count.
    #[derive(Debug)]
    struct Pool {
        capacity: AtomicU64,
        used: AtomicU64,
        reserve: PathBuf,
    }

    impl Pool {
        fn new(directory: &Path, capacity: u64) -> Arc<Self> {
            let (capacity, reserve) = (AtomicU64::new(capacity), directory.join("tenantd.reserve"));
            Arc::new(Self { capacity, used: AtomicU64::new(0), reserve })
        }

        fn space(&self) -> Space {
            let reserved = std::fs::metadata(&self.reserve).map_or(0, |data| data.blocks() * 512);
            let total = self.capacity.load(Ordering::SeqCst);
            Space { free: total.saturating_sub(self.used.load(Ordering::SeqCst) + reserved), total }
        }

        /// The volume as a newly started process sees it.
        fn volume(self: &Arc<Self>) -> Arc<Volume> {
            let pool = self.clone();
            Arc::new(Volume::measured(self.reserve.parent().unwrap(), move || Ok(pool.space())).unwrap())
        }

        /// A file on the volume.
        fn file(self: &Arc<Self>) -> Limited {
            Limited(Arc::new(Content { pool: self.clone(), bytes: Mutex::default(), blocks: Mutex::default() }))
        }
    }

    #[derive(Debug)]
    struct Content {
        pool: Arc<Pool>,
        bytes: Mutex<Vec<u8>>,
        blocks: Mutex<BTreeSet<u64>>,
    }

    #[derive(Clone, Debug)]
    struct Limited(Arc<Content>);

    impl StorageBackend for Limited {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.bytes.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let bytes = self.0.bytes.lock().unwrap();
            let start = usize::try_from(offset).unwrap();
            out.copy_from_slice(bytes.get(start..start + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
            self.0.blocks.lock().unwrap().retain(|block| block * BLOCK < len);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        /// Takes blocks one by one, so a write may fail in the middle.
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let (mut bytes, mut blocks) = (self.0.bytes.lock().unwrap(), self.0.blocks.lock().unwrap());
            let start = usize::try_from(offset).unwrap();
            if bytes.len() < start + data.len() {
                bytes.resize(start + data.len(), 0);
            }
            let mut done = 0;
            while done < data.len() {
                let place = offset + done as u64;
                let block = place / BLOCK;
                if !blocks.contains(&block) {
                    if self.0.pool.space().free < BLOCK {
                        return Err(Errno::NOSPC.into());
                    }
                    self.0.pool.used.fetch_add(BLOCK, Ordering::SeqCst);
                    blocks.insert(block);
                }
                let end = data.len().min(done + usize::try_from(BLOCK - place % BLOCK).unwrap());
                bytes[start + done..start + end].copy_from_slice(&data[done..end]);
                done = end;
            }
            Ok(())
        }
    }

    /// A volume of `capacity` bytes with a full reserve of 1 MiB, monitored as in a server.
    fn watched(directory: &Path, capacity: u64, threshold: u64) -> (Arc<Pool>, Arc<Volume>) {
        let pool = Pool::new(directory, capacity);
        let volume = pool.volume();
        volume.watch(threshold, 20 * MIB, MIB);
        volume.refill(u64::MAX).unwrap();
        assert_eq!((volume.reserve().left, pool.space().free), (MIB, capacity - MIB));
        (pool, volume)
    }

    #[test]
    fn a_write_on_a_full_volume_uses_half_of_the_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, volume) = watched(directory.path(), 2 * MIB, 0);
        let file = SpareBackend::new(pool.file(), volume.clone());
        file.write(0, &vec![1; 1 << 20]).unwrap();
        assert_eq!((volume.reserve().touched, volume.gate.room()), (false, WriteRoom::Ample));
        let content = [2; 10_000];
        file.write(MIB - 5_000, &content).unwrap();
        let reserve = volume.reserve();
        assert_eq!((reserve.left, reserve.touched, volume.gate.room()), (MIB / 2, true, WriteRoom::Short));
        let mut found = [0; 10_000];
        file.read(MIB - 5_000, &mut found).unwrap();
        assert_eq!(found, content, "all of it, although it was interrupted");
        pool.capacity.fetch_add(MIB, Ordering::SeqCst);
        volume.refill(u64::MAX).unwrap();
        assert_eq!((volume.reserve().missing(), volume.reserve().touched), (0, false));
    }

    #[test]
    fn free_space_is_checked_while_writing() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, volume) = watched(directory.path(), 4 * MIB, MIB);
        let file = SpareBackend::new(pool.file(), volume.clone());
        let mut end = 0;
        while volume.gate.room() == WriteRoom::Ample {
            file.write(end, &[3; 16 << 10]).unwrap();
            end += 16 << 10;
        }
        let free = pool.space().free;
        assert!((MIB / 2..MIB).contains(&free), "{free}");
        assert_eq!((volume.reserve().touched, volume.written()), (false, end));
        volume.set_room(WriteRoom::Ample);
        assert!(!volume.has_room_for(0));
    }

    #[test]
    fn a_write_leaves_a_part_of_the_reserve_to_the_next_start() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, volume) = watched(directory.path(), 2 * MIB, 0);
        let file = SpareBackend::new(pool.file(), volume.clone());
        let writing = std::thread::spawn(move || file.write(0, &vec![1; 2 << 20]));
        while !volume.reserve().starved {
            std::thread::yield_now();
        }
        assert_eq!((volume.reserve().left, volume.gate.room()), (MIB / 4, WriteRoom::Exhausted));
        assert!(!writing.is_finished());
        pool.capacity.fetch_add(MIB, Ordering::SeqCst);
        volume.set_room(WriteRoom::Short);
        writing.join().unwrap().unwrap();
        // The next process may use the kept part.
        let next = pool.volume();
        let file = SpareBackend::new(pool.file(), next.clone());
        file.write(0, &vec![1; usize::try_from(pool.space().free).unwrap() + (200 << 10)]).unwrap();
        assert!(next.reserve().left < MIB / 4 && next.gate.room() == WriteRoom::Ample);
        let refused = file.write(4 * MIB, &vec![1; 1 << 20]).unwrap_err();
        assert_eq!((refused.kind(), next.reserve().left), (io::ErrorKind::StorageFull, 0));
    }

    #[test]
    fn writes_do_not_wait_when_the_server_stops() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, volume) = watched(directory.path(), 2 * MIB, 0);
        let file = SpareBackend::new(pool.file(), volume.clone());
        let writing = std::thread::spawn(move || file.write(0, &vec![1; 2 << 20]));
        while !volume.reserve().starved {
            std::thread::yield_now();
        }
        volume.end();
        assert_eq!(writing.join().unwrap().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(volume.reserve().left, MIB / 4);
    }

    async fn put(store: &Store, number: u32, value: Option<Vec<u8>>) -> Result<(), StoreError> {
        let key = number.to_be_bytes().to_vec();
        let change = move |tx: &mut WriteTx| {
            match &value {
                Some(value) => tx.raw_put(catalog::USERS.into(), key.clone(), value.clone()),
                None => tx.raw_remove(catalog::USERS.into(), key.clone()),
            }
            Ok(())
        };
        within_reserve(store.write(change)).await
    }

    /// The files of a store. The journal has all of its blocks, as in a data directory.
    fn files(pool: &Arc<Pool>) -> [Limited; 3] {
        let files = [pool.file(), pool.file(), pool.file()];
        files[1].write(0, &vec![0; 1 << 20]).unwrap();
        files
    }

    fn open(files: &[Limited; 3], volume: &Arc<Volume>, id: u8) -> Store {
        let [redb, journal, witness] = files.each_ref().map(|file| SpareBackend::new(file.clone(), volume.clone()));
        let (journal_bytes, journal_id) = (128 << 10, [id; 16]);
        let opening = Opening { cache_bytes: 1 << 20, journal_bytes, journal_id, flushing: Flushing::Inline, clock: Clock::System };
        let engine = RedbEngine::on_backends(redb, journal, witness, opening).unwrap();
        Store::on_volume(engine, WRITER, volume.clone()).unwrap()
    }

    /// The engine on a full volume: every accepted write succeeds, and the next process finds all of them on the same full
    /// volume.
    #[tokio::test]
    async fn a_store_on_a_full_volume_loses_nothing() {
        for capacity in [3 * MIB, 5 * MIB] {
            let directory = tempfile::tempdir().unwrap();
            let (pool, volume) = watched(directory.path(), capacity, capacity / 20);
            let files = files(&pool);
            let store = open(&files, &volume, 1);
            let mut number = 0;
            while store.ensure_room().is_ok() {
                put(&store, number, Some(vec![1; 6_000])).await.unwrap();
                number += 1;
            }
            assert!(number > 50, "{number}");
            for gone in 0..number / 2 {
                put(&store, gone, None).await.unwrap();
            }
            assert_eq!((store.failure(), volume.reserve().starved), (None, false));
            // The process dies, and another program takes the free space.
            std::mem::forget(store);
            pool.used.fetch_add(pool.space().free, Ordering::SeqCst);
            let store = open(&files, &pool.volume(), 2);
            for place in 0..number {
                let found =
                    store.read(|tx| Ok::<_, StoreError>(tx.raw_get(catalog::USERS.into(), &place.to_be_bytes())?.is_some()));
                assert_eq!(found.unwrap(), place >= number / 2, "{place} of {number} in {capacity}");
            }
        }
    }

    /// A commit that waits for space does not block readers, and succeeds.
    #[tokio::test]
    async fn reads_continue_while_a_commit_waits_for_space() {
        let directory = tempfile::tempdir().unwrap();
        let (pool, volume) = watched(directory.path(), 6 * MIB, 0);
        let store = open(&files(&pool), &volume, 1);
        let filling = tokio::spawn({
            let store = store.clone();
            async move {
                for number in 0.. {
                    match put(&store, number, Some(vec![1; 6_000])).await {
                        Ok(()) => {}
                        Err(StoreError::NoReserve) => return number,
                        Err(other) => panic!("{other}"),
                    }
                }
                0
            }
        });
        while !volume.reserve().starved {
            tokio::task::yield_now().await;
        }
        let stored = |number: u32| {
            let found = store.read(|tx| tx.raw_get(catalog::USERS.into(), &number.to_be_bytes()));
            found.unwrap().is_some()
        };
        assert!(stored(0) && stored(50) && !filling.is_finished());
        pool.capacity.fetch_add(4 * MIB, Ordering::SeqCst);
        volume.set_room(WriteRoom::Exhausted);
        let number = filling.await.unwrap();
        assert!(number > 50 && (0..number).all(stored), "{number}");
        assert_eq!((store.failure(), volume.reserve().left), (None, MIB / 4));
    }
}
