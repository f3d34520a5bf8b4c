//! Streamed answers: how places are shared, and how answers end.

use futures_util::StreamExt;
use tokio::sync::oneshot;

use tenantd_base::quotas::Quotas;
use tenantd_store::{RedbEngine, WriterSettings};

use super::*;

fn streams(idle: Duration) -> Streams {
    let limits = Limits { streams: 1, ..tenantd_base::config::load(None, [], &[]).unwrap().limits };
    Streams { idle, ..Streams::new("tests", &limits, &store(Quotas::UNLIMITED)) }
}

fn store(quotas: Quotas) -> Store {
    let directory = tempfile::tempdir().unwrap();
    let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
    let store = Store::new(engine, WriterSettings { batch_size: 4, queue_length: 4 }).unwrap();
    store.set_quotas(quotas);
    store
}

fn tenant(number: u8) -> TenantId {
    TenantId::from_bytes([number; 16])
}

#[tokio::test]
async fn a_tenant_is_limited_to_its_share_of_the_places() {
    let limits = tenantd_base::config::load(None, [], &[]).unwrap().limits;
    let streams = Streams::new("tests", &limits, &store(Quotas { streams: 4, ..Quotas::UNLIMITED }));
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(streams.start(tenant(1), LINES, async |out| out.send("1\n").await).unwrap());
    }
    let refused = streams.start(tenant(1), LINES, async |_| Ok(())).unwrap_err();
    assert!(refused.detail.starts_with("Your tenant has 4 tests in progress"), "{}", refused.detail);
    assert_eq!(refused.code, Code::RateLimited);
    let other = streams.start(tenant(2), LINES, async |out| out.send("2\n").await).unwrap();
    assert_eq!(text(other).await.unwrap(), "2\n");
    let taken = open.pop().unwrap();
    let over = outcome(&taken.handle);
    assert_eq!(text(taken).await.unwrap(), "1\n");
    assert_eq!(over.await.unwrap(), Outcome::Taken);
    streams.start(tenant(1), LINES, async |_| Ok(())).unwrap();
    drop(open);
}

#[tokio::test]
async fn a_tenant_without_a_place_gets_one_when_all_are_taken() {
    let streams = streams(Duration::from_hours(1));
    let start = |number| streams.start(tenant(number), LINES, async |out| out.send("1\n").await);
    let mut open = Vec::new();
    for number in 1..=5 {
        open.push(start(number).unwrap());
        assert_eq!(start(number).unwrap_err().detail, "Too many tests are in progress.", "a second one of {number}");
    }
    assert_eq!(start(6).unwrap_err().code, Code::Unavailable, "four more at most");
    let over = outcome(&open[4].handle);
    text(open.pop().unwrap()).await.unwrap();
    over.await.unwrap();
    start(6).unwrap();
}

/// The outcome of the answer, once it has ended.
fn outcome(handle: &StreamHandle) -> oneshot::Receiver<Outcome> {
    let (sender, receiver) = oneshot::channel();
    handle.at_end(|outcome| sender.send(outcome).unwrap());
    receiver
}

async fn text(answer: Streamed) -> Result<String, String> {
    answer.into_response().into_body().into_string().await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_abandoned() {
    let streams = streams(Duration::from_millis(1));
    let (sender, gave_up) = oneshot::channel();
    let answer = streams.start(tenant(1), LINES, async |out| {
        for _ in 0..PIECES {
            out.send("1\n").await?;
        }
        let sent = out.send("1\n").await;
        drop(sender.send(sent.clone()));
        sent
    });
    let answer = answer.unwrap();
    let outcome = outcome(&answer.handle);
    assert_eq!(gave_up.await.unwrap(), Err(StreamError::Unwanted));
    assert_eq!(outcome.await.unwrap(), Outcome::Stuck);
    assert!(answer.pieces.0.lock().is_empty(), "the pieces are freed although the answer still exists");
    assert_eq!(streams.places.available_permits(), 1);
    assert!(text(answer).await.is_err(), "a client that returns does not mistake the rest for the whole");
}

#[tokio::test]
async fn an_answer_lasts_until_its_last_piece_is_taken() {
    let streams = streams(Duration::from_hours(1));
    let answer = streams.start(tenant(1), LINES, async |out| out.send("1\n").await).unwrap();
    let (other, mut outcome) = (streams.start(tenant(1), LINES, async |_| Ok(())), outcome(&answer.handle));
    assert_eq!(other.unwrap_err().detail, "Too many tests are in progress.");
    tokio::task::yield_now().await;
    assert_eq!(outcome.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it is produced, but not read");
    assert_eq!(text(answer).await.unwrap(), "1\n");
    assert_eq!(outcome.await.unwrap(), Outcome::Taken);
    assert_eq!(streams.places.available_permits(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_the_end_is_abandoned() {
    let answer = streams(Duration::from_millis(1)).start(tenant(1), LINES, async |out| out.send("1\n").await).unwrap();
    assert_eq!(outcome(&answer.handle).await.unwrap(), Outcome::Stuck);
    assert!(text(answer).await.is_err());
}

#[tokio::test]
async fn an_incomplete_answer_breaks_off() {
    let streams = streams(Duration::from_hours(1));
    let failed = streams.start(tenant(1), LINES, async |out| {
        out.send("1\n").await?;
        Err(StreamError::failed("the disk is gone"))
    });
    let failed = text(failed.unwrap()).await.unwrap_err();
    assert!(!failed.contains("disk"), "the client does not see what failed: {failed}");
    let panicked = streams.start(tenant(1), LINES, async |out| {
        out.send("1\n").await?;
        panic!("a maker that panics on purpose")
    });
    assert!(text(panicked.unwrap()).await.is_err());
    assert_eq!(streams.places.available_permits(), 1);
}

#[tokio::test]
async fn an_answer_breaks_off_when_its_caller_loses_their_rights() {
    for allowed in 0..4 {
        let streams = streams(Duration::from_hours(1));
        let answer = streams.start(tenant(1), LINES, async |out| {
            out.send("1\n").await?;
            out.send("2\n").await
        });
        let answer = answer.unwrap();
        let (outcome, asked) = (outcome(&answer.handle), std::sync::atomic::AtomicUsize::new(0));
        answer.handle.watch(move || asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < allowed);
        let mut body = Box::pin(answer.into_response().into_body().into_bytes_stream());
        let mut taken = 0;
        let ended_well = loop {
            match body.next().await {
                Some(Ok(_)) => taken += 1,
                Some(Err(_)) => break false,
                None => break true,
            }
        };
        // There are two pieces and the end.
        assert_eq!((taken, ended_well), (allowed.min(2), allowed == 3), "{allowed}");
        drop(body);
        assert_eq!(outcome.await.unwrap(), Outcome::Taken);
        assert_eq!(streams.places.available_permits(), 1);
    }
}

#[tokio::test]
async fn a_dropped_answer_ends_at_the_next_piece() {
    let (go, gone) = oneshot::channel::<()>();
    let answer = streams(Duration::from_hours(1)).start(tenant(1), LINES, async |out| {
        drop(gone.await);
        out.send("").await
    });
    let answer = answer.unwrap();
    let outcome = outcome(&answer.handle);
    drop((answer, go));
    assert_eq!(outcome.await.unwrap(), Outcome::Taken);
}

#[tokio::test]
async fn the_outcome_is_known_after_the_end() {
    let answer = streams(Duration::from_hours(1)).start(tenant(1), LINES, async |_| Ok(())).unwrap();
    let handle = answer.handle.clone();
    assert_eq!(text(answer).await.unwrap(), "");
    for _ in 0..2 {
        assert_eq!(outcome(&handle).await.unwrap(), Outcome::Taken);
    }
}
