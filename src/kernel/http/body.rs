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

/// Memory for the bodies of all requests.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<Semaphore>);

impl BodyBudget {
    pub fn new(limits: &Limits) -> Self {
        Self(Arc::new(Semaphore::new(limits.buffered_body_bytes.div_ceil(BLOCK))))
    }

    fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let blocks = u32::try_from(bytes.div_ceil(BLOCK)).unwrap_or(u32::MAX);
        let busy = || Problem::unavailable("Too many large requests are under way.", 1);
        self.0.clone().try_acquire_many_owned(blocks).map_err(|_| busy())
    }
}

/// A body in memory; its part of the budget is free again when this is dropped.
#[derive(Debug)]
pub struct BufferedBody {
    pub bytes: Bytes,
    _budget: Vec<OwnedSemaphorePermit>,
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
    if announced(headers).is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large());
    }
    let mut stream = Box::pin(body.into_bytes_stream());
    let started = Instant::now();
    let mut bytes = BytesMut::new();
    let mut permits = Vec::new();
    loop {
        let earned = Duration::from_millis((bytes.len() * 1000 / limits.body_min_bytes_per_second.max(1)) as u64);
        let deadline = (started + GRACE + earned).min(started + Duration::from_secs(limits.request_seconds));
        let chunk = tokio::time::timeout_at(deadline, stream.next()).await.map_err(|_| Problem::plain(Code::RequestTimeout))?;
        match chunk {
            None => break,
            Some(Err(error)) => return Err(Problem::new(Code::MalformedRequest, format!("The body broke off: {error}"))),
            Some(Ok(chunk)) if bytes.len() + chunk.len() > max_bytes => {
                drop(chunk);
                return Err(too_large());
            }
            Some(Ok(chunk)) => {
                permits.push(budget.take(chunk.len())?);
                bytes.extend_from_slice(&chunk);
            }
        }
    }
    Ok(BufferedBody { bytes: bytes.freeze(), _budget: permits })
}
