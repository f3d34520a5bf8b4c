//! The background task of a key rotation. It continues after a restart.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use tenantd_store::{
    Progress, Rotation,
    tasks::{Done, Task, TaskError},
};

#[derive(Clone, Debug)]
pub(super) struct KeyRotation {
    pub(super) rotation: Rotation,
    started: Arc<Notify>,
}

impl KeyRotation {
    pub(super) fn new(rotation: Rotation) -> Self {
        Self { rotation, started: Arc::default() }
    }

    /// Wakes the task so that it checks for work.
    pub(super) fn wake_up(&self) {
        self.started.notify_one();
    }
}

impl Task for KeyRotation {
    fn name(&self) -> &'static str {
        "key_rotation"
    }

    fn period(&self) -> Duration {
        Duration::from_hours(1)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        Ok(match self.rotation.advance().await? {
            Progress::More => Done::Some,
            Progress::Done => Done::All,
        })
    }

    async fn wake(&self) {
        self.started.notified().await;
    }
}
