//! The log of the server during a test. Its tasks run on the test's thread, so the lines of other tests are not included.

use std::{
    io::Write,
    sync::{Arc, LazyLock, Mutex},
};

use serde_json::Value;
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber},
};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// With one listener only, `tracing` asks the first thread that reaches a line whether anybody wants it and caches the answer. That
/// thread may belong to another test. With several listeners, it asks each one.
static SECOND_LISTENER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// Listens until it is dropped.
pub struct Log {
    written: Written,
    _listening: DefaultGuard,
}

impl Log {
    pub fn listen() -> Self {
        LazyLock::force(&SECOND_LISTENER);
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish();
        Self { written, _listening: tracing::subscriber::set_default(lines) }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.written.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines with this message, in order.
    pub fn lines(&self, message: &str) -> Vec<Value> {
        let lines = self.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["message"] == message).collect()
    }
}
