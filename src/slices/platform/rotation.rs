//! Carries a change of the installation key on: after the operator has asked for it, and after a restart that came in between.

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;

use tenantd_store::{
    Progress, Rotation,
    tasks::{Done, Task, TaskError},
};

#[derive(Clone, Debug)]
pub(super) struct KeyRotation {
    pub(super) rotation: Rotation,
    begun: Arc<Notify>,
}

impl KeyRotation {
    pub(super) fn new(rotation: Rotation) -> Self {
        Self { rotation, begun: Arc::default() }
    }

    /// Lets the task look what there is to do.
    pub(super) fn wake_up(&self) {
        self.begun.notify_one();
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
        self.begun.notified().await;
    }
}
