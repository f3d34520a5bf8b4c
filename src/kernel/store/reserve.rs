//! Decides which writes continue when the disk is nearly full. Most writes wait. Writes that must go on, or that free space, may
//! use space that is reserved for them. When the reserve is used up too, requests are refused and tasks wait.
//!
//! A waiting write is neither lost nor retried: it runs when there is space again. **Boundary:** this module only enforces the
//! decision. The owner of the store and the [`Volume`](super::Volume) below it decide how full the disk is.

use tokio::sync::watch;

use super::error::StoreError;

/// What a write with access to the reserve does when the reserve is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnExhausted {
    Fail,
    Wait,
}

tokio::task_local! {
    static RESERVE_ACCESS: OnExhausted;
}

/// Lets the writes of `work` use the reserve while other writes wait. When the reserve is used up, they fail. Tasks that `work`
/// spawns are not included.
pub async fn within_reserve<F: Future>(work: F) -> F::Output {
    RESERVE_ACCESS.scope(OnExhausted::Fail, work).await
}

/// Does the same for background work: when the reserve is used up, its writes wait.
pub(super) async fn within_reserve_in_background<F: Future>(work: F) -> F::Output {
    RESERVE_ACCESS.scope(OnExhausted::Wait, work).await
}

/// How much space there is for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteRoom {
    Ample,
    /// Only writes made [`within_reserve`] continue.
    Short,
    /// No write continues. The rest of the disk is for the next start.
    Exhausted,
}

#[derive(Clone, Copy, Debug)]
struct State {
    room: WriteRoom,
    /// The server is shutting down. The remaining writes are few and must not delay it.
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

    /// Reduces the room to `room`, never increases it. Returns whether it changed.
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
        let needed = match (self.room(), RESERVE_ACCESS.try_with(|access| *access).ok()) {
            (WriteRoom::Ample, _) | (WriteRoom::Short, Some(_)) => return Ok(()),
            (WriteRoom::Exhausted, Some(OnExhausted::Fail)) => return Err(StoreError::NoReserve),
            (WriteRoom::Exhausted, Some(OnExhausted::Wait)) => WriteRoom::Short,
            (WriteRoom::Short | WriteRoom::Exhausted, None) => WriteRoom::Ample,
        };
        let closed = |_| StoreError::Unavailable("it is shutting down".to_owned());
        self.0.subscribe().wait_for(|state| state.room() <= needed).await.map_err(closed).map(drop)
    }
}
