//! Dry runs: each write of the work runs in the writer like any other and is then rolled back.

tokio::task_local! {
    static REHEARSING: ();
}

/// Runs `work` without storing anything. A write that would succeed fails with
/// [`StoreError::Rehearsed`](super::StoreError::Rehearsed). Tasks that `work` spawns are not part of the rehearsal.
pub async fn rehearse<F: Future>(work: F) -> F::Output {
    REHEARSING.scope((), work).await
}

/// Whether the current task is a rehearsal. Code with effects outside the store checks this.
pub fn is_rehearsal() -> bool {
    REHEARSING.try_with(|()| ()).is_ok()
}
