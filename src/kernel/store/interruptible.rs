//! A snapshot whose reads fail once the server stops. Maintenance that reads the whole store uses it, so that it does not delay a
//! shutdown.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    engine::{Direction, EngineRead, KeyRange, RawTable, Visitor},
    error::StoreError,
};

pub(super) struct Interruptible {
    engine: Box<dyn EngineRead>,
    stop: Arc<AtomicBool>,
}

impl Interruptible {
    pub(super) fn new(engine: Box<dyn EngineRead>, stop: Arc<AtomicBool>) -> Self {
        Self { engine, stop }
    }

    fn ensure_running(&self) -> Result<(), StoreError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("it is shutting down".to_owned()));
        }
        Ok(())
    }
}

impl EngineRead for Interruptible {
    fn get(&self, table: RawTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.ensure_running()?;
        self.engine.get(table, key)
    }

    fn scan(&self, table: RawTable, range: &KeyRange, direction: Direction, visit: Visitor<'_>) -> Result<(), StoreError> {
        self.engine.scan(table, range, direction, &mut |key, value| {
            self.ensure_running()?;
            visit(key, value)
        })
    }

    fn tables(&self) -> Result<Vec<String>, StoreError> {
        self.ensure_running()?;
        self.engine.tables()
    }
}
