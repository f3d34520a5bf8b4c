//! Who may still write when the disk is nearly full. Most writes wait then; what must go on, or makes room, is let through, into space
//! that is kept for it.
//!
//! A write that waits is neither lost nor tried again and again: it is made when there is room. **Boundary:** how full a disk is, and what
//! that means, is decided by whoever holds the store; here it is only kept to.

use tokio::sync::watch;

use super::error::StoreError;

tokio::task_local! {
    static ENTITLED: ();
}

/// Lets the writes of `work` through while others wait for room. What it spawns is not part of it.
pub async fn within_reserve<F: Future>(work: F) -> F::Output {
    ENTITLED.scope((), work).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Ample,
    Short,
    /// The server ends: what still waits is little, and must not hold that up.
    Waived,
}

#[derive(Debug)]
pub(super) struct Gate(watch::Sender<Room>);

impl Gate {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Room::Ample))
    }

    /// Whether writes wait.
    pub(super) fn is_held(&self) -> bool {
        *self.0.borrow() == Room::Short
    }

    pub(super) fn hold(&self, held: bool) {
        let next = if held { Room::Short } else { Room::Ample };
        self.0.send_if_modified(|room| *room != Room::Waived && std::mem::replace(room, next) != next);
    }

    pub(super) fn waive(&self) {
        self.0.send_replace(Room::Waived);
    }

    /// Returns when the caller may write.
    pub(super) async fn pass(&self) -> Result<(), StoreError> {
        if !self.is_held() || ENTITLED.try_with(|()| ()).is_ok() {
            return Ok(());
        }
        let closed = |_| StoreError::Unavailable("it is being closed".to_owned());
        self.0.subscribe().wait_for(|room| *room != Room::Short).await.map_err(closed).map(drop)
    }
}
