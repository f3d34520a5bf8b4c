//! The part of a request body that the handler did not read. HTTP/1.1 sends the next request after it on the same connection, so
//! the server reads a small remainder to its end and keeps the connection. For a larger remainder it answers `Connection: close`
//! and reads on for a moment. Closing a socket with unread bytes resets the connection, and the client may then lose the answer.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header;
use poem::{Body, Request};

/// The server reads this much of a remainder before it answers, in bytes.
const KEPT_OPEN: usize = 256 << 10;
/// How long the answer waits for a remainder of that size.
const BEFORE_ANSWER: Duration = Duration::from_millis(500);
/// The server reads this much after an answer with `Connection: close`, in bytes.
const LINGERING: usize = 1 << 20;
/// How long the server reads on after such an answer.
const AFTER_ANSWER: Duration = Duration::from_secs(2);

type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
type Rest = Arc<Mutex<Option<Pieces>>>;

/// A body that stores its remainder when it is dropped.
struct Followed {
    pieces: Option<Pieces>,
    rest: Rest,
}

impl Stream for Followed {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(pieces) = &mut self.pieces else { return Poll::Ready(None) };
        let next = pieces.as_mut().poll_next(context);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.pieces = None;
        }
        next
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = self.pieces.take();
    }
}

/// The part of a request body that its handler does not read.
pub(super) struct Unread {
    rest: Rest,
    /// Whether the client waits for `100 Continue`. Reading would make it send a body that nobody needs.
    awaits_continue: bool,
}

impl Unread {
    pub(super) fn follow(request: &mut Request) -> Self {
        let rest = Rest::default();
        let pieces: Pieces = Box::pin(request.take_body().into_bytes_stream());
        request.set_body(Body::from_bytes_stream(Followed { pieces: Some(pieces), rest: rest.clone() }));
        Self { rest, awaits_continue: request.headers().contains_key(header::EXPECT) }
    }

    /// Reads the remainder. Returns whether the connection can take another request.
    pub(super) async fn drain(self) -> bool {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut pieces) = rest else { return true };
        if self.awaits_continue {
            return false;
        }
        if tokio::time::timeout(BEFORE_ANSWER, ends_within(&mut pieces, KEPT_OPEN)).await == Ok(true) {
            return true;
        }
        tokio::spawn(async move { tokio::time::timeout(AFTER_ANSWER, ends_within(&mut pieces, LINGERING)).await });
        false
    }
}

/// Reads `pieces` until they end or exceed `most` bytes. Returns whether they ended.
async fn ends_within(pieces: &mut Pieces, most: usize) -> bool {
    let mut read = 0;
    while read <= most {
        match pieces.next().await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(piece)) => read += piece.len(),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pieces: Vec<Vec<u8>>) -> Request {
        let pieces = futures_util::stream::iter(pieces.into_iter().map(|piece| io::Result::Ok(Bytes::from(piece))));
        Request::builder().body(Body::from_bytes_stream(pieces))
    }

    #[tokio::test]
    async fn a_large_remainder_ends_the_connection() {
        for (pieces, is_drained) in [(0, true), (1, true), (4, true), (6, false)] {
            let mut request = request(vec![vec![0; 64 << 10]; pieces]);
            let unread = Unread::follow(&mut request);
            drop(request);
            assert_eq!(unread.drain().await, is_drained, "{pieces} pieces");
        }
    }

    #[tokio::test]
    async fn a_body_that_was_read_leaves_nothing() {
        let mut request = request(vec![vec![0; 64 << 10]; 6]);
        let unread = Unread::follow(&mut request);
        assert_eq!(request.take_body().into_bytes().await.unwrap().len(), 6 * (64 << 10));
        drop(request);
        assert!(unread.drain().await);
    }

    #[tokio::test]
    async fn a_client_that_awaits_continue_is_not_asked_for_its_body() {
        let mut request = request(vec![vec![0; 10]]);
        request.headers_mut().insert(header::EXPECT, http::HeaderValue::from_static("100-continue"));
        let unread = Unread::follow(&mut request);
        drop(request);
        assert!(!unread.drain().await);
    }
}
