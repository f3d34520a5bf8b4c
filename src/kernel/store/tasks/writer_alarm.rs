//! Writes to the log when the writer does not come back, with the code that holds it, and when it does again.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{Done, Task, TaskError};
use crate::WriterWatch;

#[derive(Debug)]
pub struct WriterAlarm {
    writer: WriterWatch,
    /// Whether the log says so already.
    reported: AtomicBool,
}

impl WriterAlarm {
    pub fn new(writer: WriterWatch) -> Self {
        Self { writer, reported: AtomicBool::new(false) }
    }
}

impl Task for WriterAlarm {
    fn name(&self) -> &'static str {
        "store_writer_alarm"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        let stalled = self.writer.stalled();
        match (stalled, self.reported.swap(stalled.is_some(), Ordering::Relaxed)) {
            (Some(busy), false) => tracing::error!(
                seconds = busy.elapsed.as_secs(),
                work = busy.work,
                "the writer does not come back, and every other write waits for it; reads go on. If it stays so, stop the server and \
                 start it with --safe-mode"
            ),
            (None, true) => tracing::warn!("the writer has come back"),
            _ => {}
        }
        Ok(Done::All)
    }
}
