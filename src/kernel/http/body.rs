//! Reads request bodies: never more than the limit, never slower than the least rate, and never more memory for all of them together
//! than the budget. Bodies that overstep cost their sender the request and nobody else anything.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::{HeaderMap, header};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::problem::{Code, Problem};
use crate::kernel::config::Limits;

/// A body may arrive at any rate for this long.
const GRACE: Duration = Duration::from_secs(5);
/// The budget is counted in blocks of this size.
const BLOCK: usize = 1024;
/// A body is kept in pieces of this size until it is complete: one buffer that grows would leave its smaller selves behind.
const SEGMENT: usize = 32 << 10;
/// What is set aside for a body that does not announce its length.
const SMALL: usize = 1024;

/// Memory for the bodies of all requests.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<Semaphore>);

impl BodyBudget {
    pub fn new(limits: &Limits) -> Self {
        Self(Arc::new(Semaphore::new(limits.buffered_body_bytes.div_ceil(BLOCK))))
    }

    /// Makes `held` enough for `bytes` in all.
    fn extend(&self, held: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), Problem> {
        let missing = bytes.div_ceil(BLOCK).saturating_sub(held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if missing == 0 {
            return Ok(());
        }
        let busy = || Problem::unavailable("Too many large requests are under way.", 1);
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let more = self.0.clone().try_acquire_many_owned(missing).map_err(|_| busy())?;
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// A body in memory; its part of the budget is free again when this is dropped.
#[derive(Debug)]
pub struct BufferedBody {
    pub bytes: Bytes,
    _budget: Option<OwnedSemaphorePermit>,
}

/// A body that is coming in.
struct Pieces {
    pieces: Vec<BytesMut>,
    length: usize,
}

impl Pieces {
    fn new(announced: Option<u64>) -> Self {
        let first = announced.map_or(SMALL, |length| usize::try_from(length).unwrap_or(SEGMENT).min(SEGMENT));
        Self { pieces: vec![BytesMut::with_capacity(first)], length: 0 }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        self.length += chunk.len();
        while !chunk.is_empty() {
            let full = |piece: &BytesMut| piece.len() == piece.capacity();
            if self.pieces.last().is_none_or(full) {
                self.pieces.push(BytesMut::with_capacity(SEGMENT));
            }
            let Some(piece) = self.pieces.last_mut() else { return };
            let (fits, rest) = chunk.split_at(chunk.len().min(piece.capacity() - piece.len()));
            piece.extend_from_slice(fits);
            chunk = rest;
        }
    }

    fn join(mut self) -> Bytes {
        if self.pieces.len() > 1 {
            return self.pieces.concat().into();
        }
        self.pieces.pop().unwrap_or_default().freeze()
    }
}

/// The length that the client announces, if it does.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the client says that a body follows.
pub fn is_announced(headers: &HeaderMap) -> bool {
    announced(headers).is_some_and(|length| length > 0) || headers.contains_key(header::TRANSFER_ENCODING)
}

pub async fn read(
    headers: &HeaderMap,
    body: poem::Body,
    max_bytes: usize,
    limits: &Limits,
    budget: &BodyBudget,
) -> Result<BufferedBody, Problem> {
    let too_large = || Problem::new(Code::PayloadTooLarge, format!("The body is larger than {max_bytes} bytes."));
    let announced = announced(headers);
    if announced.is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large());
    }
    let mut stream = Box::pin(body.into_bytes_stream());
    let started = Instant::now();
    let (mut pieces, mut held) = (Pieces::new(announced), None);
    loop {
        let earned = Duration::from_millis((pieces.length * 1000 / limits.body_min_bytes_per_second.max(1)) as u64);
        let deadline = (started + GRACE + earned).min(started + Duration::from_secs(limits.request_seconds));
        let chunk = tokio::time::timeout_at(deadline, stream.next()).await.map_err(|_| Problem::plain(Code::RequestTimeout))?;
        match chunk {
            None => break,
            Some(Err(error)) => return Err(Problem::new(Code::MalformedRequest, format!("The body broke off: {error}"))),
            Some(Ok(chunk)) if pieces.length + chunk.len() > max_bytes => {
                drop(chunk);
                return Err(too_large());
            }
            Some(Ok(chunk)) => {
                budget.extend(&mut held, pieces.length + chunk.len())?;
                pieces.push(&chunk);
            }
        }
    }
    Ok(BufferedBody { bytes: pieces.join(), _budget: held })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(buffered_body_bytes: usize) -> Limits {
        let config = crate::kernel::config::load(None, [], &[]).unwrap();
        Limits { buffered_body_bytes, ..config.limits }
    }

    fn body(chunks: Vec<Vec<u8>>) -> poem::Body {
        poem::Body::from_bytes_stream(futures_util::stream::iter(chunks.into_iter().map(std::io::Result::Ok)))
    }

    #[tokio::test]
    async fn a_body_arrives_as_it_was_sent() {
        let limits = limits(1 << 20);
        let budget = BodyBudget::new(&limits);
        for length in [0, 1, SMALL, SMALL + 1, SEGMENT, 3 * SEGMENT + 7] {
            let sent: Vec<u8> = (0..=250).cycle().take(length).collect();
            for piece in [1, 1000, 50_000] {
                let chunks: Vec<Vec<u8>> = sent.chunks(piece).map(<[u8]>::to_vec).collect();
                let read = read(&HeaderMap::new(), body(chunks), 1 << 20, &limits, &budget).await.unwrap();
                assert_eq!(read.bytes, sent, "{length} bytes in chunks of {piece}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_in_tiny_chunks_takes_no_more_of_the_budget_than_its_length() {
        let limits = limits(4 * BLOCK);
        let budget = BodyBudget::new(&limits);
        let tiny = || body(vec![b"a".to_vec(); 2 * BLOCK]);
        let held = read(&HeaderMap::new(), tiny(), 1 << 20, &limits, &budget).await.unwrap();
        assert_eq!(budget.0.available_permits(), 2);
        let refused = read(&HeaderMap::new(), body(vec![vec![0; 2 * BLOCK + 1]]), 1 << 20, &limits, &budget).await.unwrap_err();
        assert_eq!(refused.code, Code::Unavailable);
        drop(held);
        assert_eq!(budget.0.available_permits(), 4);
    }
}
