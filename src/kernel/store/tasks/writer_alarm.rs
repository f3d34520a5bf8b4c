//! Logs when the writer hangs, with the code that blocks it, and when it recovers.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::{Done, Task, TaskError};
use crate::WriterWatch;

#[derive(Debug)]
pub struct WriterAlarm {
    writer: WriterWatch,
    /// Whether the stall is already logged.
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
                "the writer hangs and blocks every other write; reads continue. If this does not end, stop the server and \
                 start it with --safe-mode"
            ),
            (None, true) => tracing::warn!("the writer has recovered"),
            _ => {}
        }
        Ok(Done::All)
    }
}
