//! A connection's bytes. Notes when they arrive, and closes the connection without losing the last answer.
//!
//! Closing a socket with unread bytes resets it. A client that is still sending would then see the reset instead of the answer that
//! refuses its request. So the server reads and discards the rest of a refused body for a while.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use super::gate::Activity;

/// How long, and up to how many bytes, the server reads the rest of a refused body.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 << 20;

pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    lingering: Option<Lingering>,
}

struct Lingering {
    end: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, lingering: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.bytes_read();
        }
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, activity, lingering } = self.get_mut();
        let lingering = if let Some(lingering) = lingering {
            lingering
        } else {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            if !activity.has_body_left() {
                return Poll::Ready(Ok(()));
            }
            lingering.insert(Lingering { end: Box::pin(tokio::time::sleep(LINGER)), bytes_left: LINGER_BYTES })
        };
        lingering.poll(stream, cx).map(Ok)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Lingering {
    /// Discards what arrives until the client closes, or until the time or the bytes are used up.
    fn poll(&mut self, stream: &mut (impl AsyncRead + Unpin), cx: &mut Context<'_>) -> Poll<()> {
        let mut space = [0; 8 << 10];
        loop {
            if self.end.as_mut().poll(cx).is_ready() || self.bytes_left == 0 {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut space);
            let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            self.bytes_left = self.bytes_left.saturating_sub(buffer.filled().len());
        }
    }
}
