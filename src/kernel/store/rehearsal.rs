//! Work that is done to see what becomes of it, and stored by nobody: each of its writes runs in the writer as any other, and is undone there.

tokio::task_local! {
    static REHEARSING: ();
}

/// Runs `work` without storing anything. A write of it that would succeed fails with
/// [`StoreError::Rehearsed`](super::StoreError::Rehearsed). What `work` spawns is not part of the rehearsal.
pub async fn rehearse<F: Future>(work: F) -> F::Output {
    REHEARSING.scope((), work).await
}

/// Whether the current task is a rehearsal: for what reaches beyond the store.
pub fn is_rehearsal() -> bool {
    REHEARSING.try_with(|()| ()).is_ok()
}
