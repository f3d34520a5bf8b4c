//! Who may still write when the disk is nearly full. Most writes wait then; what must go on, or makes room, is let through, into space
//! that is kept for it. When that space runs out too, requests are refused and tasks wait.
//!
//! A write that waits is neither lost nor tried again and again: it is made when there is room. **Boundary:** how full a disk is, and what
//! that means, is decided by whoever holds the store and by the [`Volume`](super::Volume) below it; here it is only kept to.

use tokio::sync::watch;

use super::error::StoreError;

/// What becomes of a write that may use the reserve when that is used up too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WithoutReserve {
    Fails,
    Waits,
}

tokio::task_local! {
    static ENTITLED: WithoutReserve;
}

/// Lets the writes of `work` through while others wait for room. When the reserve is used up, they fail. What `work` spawns is not
/// part of it.
pub async fn within_reserve<F: Future>(work: F) -> F::Output {
    ENTITLED.scope(WithoutReserve::Fails, work).await
}

/// The same for work that nobody waits for: when the reserve is used up, its writes wait.
pub(super) async fn within_reserve_in_background<F: Future>(work: F) -> F::Output {
    ENTITLED.scope(WithoutReserve::Waits, work).await
}

/// How much room there is for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteRoom {
    Ample,
    /// Only what is made [`within_reserve`] is written.
    Short,
    /// Nothing is written: what is left of the disk is for the next start.
    Exhausted,
}

#[derive(Clone, Copy, Debug)]
struct State {
    room: WriteRoom,
    /// The server ends: what still waits is little, and must not hold that up.
    waived: bool,
}

impl State {
    fn room(self) -> WriteRoom {
        if self.waived { WriteRoom::Ample } else { self.room }
    }
}

#[derive(Debug)]
pub(super) struct Gate(watch::Sender<State>);

impl Gate {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(State { room: WriteRoom::Ample, waived: false }))
    }

    pub(super) fn room(&self) -> WriteRoom {
        self.0.borrow().room()
    }

    pub(super) fn set(&self, room: WriteRoom) {
        self.0.send_if_modified(|state| std::mem::replace(&mut state.room, room) != room);
    }

    /// Holds back what does not fit into `room`. Never lets anything go on. Whether that is new.
    pub(super) fn restrict(&self, room: WriteRoom) -> bool {
        self.0.send_if_modified(|state| {
            let is_new = state.room < room;
            state.room = state.room.max(room);
            is_new
        })
    }

    pub(super) fn waive(&self) {
        self.0.send_modify(|state| state.waived = true);
    }

    /// Returns when the caller may write.
    pub(super) async fn pass(&self) -> Result<(), StoreError> {
        let needed = match (self.room(), ENTITLED.try_with(|entitled| *entitled).ok()) {
            (WriteRoom::Ample, _) | (WriteRoom::Short, Some(_)) => return Ok(()),
            (WriteRoom::Exhausted, Some(WithoutReserve::Fails)) => return Err(StoreError::NoReserve),
            (WriteRoom::Exhausted, Some(WithoutReserve::Waits)) => WriteRoom::Short,
            (WriteRoom::Short | WriteRoom::Exhausted, None) => WriteRoom::Ample,
        };
        let closed = |_| StoreError::Unavailable("it is being closed".to_owned());
        self.0.subscribe().wait_for(|state| state.room() <= needed).await.map_err(closed).map(drop)
    }
}
