//! Serves one connection from its first byte to its last: HTTP/1.1 or HTTP/2 by hyper, and a watch over what hyper does not limit.
//! A connection that sends the head of a request too slowly, is idle for too long or is evicted is first shut down gracefully and
//! then closed.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use http::{HeaderValue, Version, header};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use poem::web::{LocalAddr, RemoteAddr};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use tenantd_base::config::Limits;

use super::{
    gate::{Activity, ConnectionPermit},
    unread::Unread,
    watched::Watched,
};
use crate::{
    edge::{Edge, Peer},
    outgoing::{Outcome, StreamHandle},
};

/// How long a connection may take to write its remaining data after a graceful shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for an evicted connection. It takes a place from others, and its time would only help an attacker.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(10);
/// How long a shutdown waits for a request that is arriving, from its first byte or from the start of a new connection.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the shutdown checks whether the request has arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionSettings {
    pub(super) handshake: Duration,
    header: Duration,
    idle: Duration,
    header_bytes: usize,
    header_count: usize,
    streams: u32,
}

impl ConnectionSettings {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            handshake: Duration::from_secs(limits.handshake_seconds),
            header: Duration::from_secs(limits.header_seconds),
            idle: Duration::from_secs(limits.idle_seconds),
            header_bytes: limits.header_bytes,
            header_count: limits.header_count,
            streams: limits.http2_streams,
        }
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // The header timeout of hyper also runs while a connection is idle, so ours decides.
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.idle + self.header)
            .max_buf_size(self.header_bytes)
            .max_headers(self.header_count);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams)
            .max_header_list_size(u32::try_from(self.header_bytes).unwrap_or(u32::MAX))
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(256 << 10)
            .max_send_buf_size(64 << 10)
            .max_pending_accept_reset_streams(20)
            .keep_alive_interval(self.idle)
            .keep_alive_timeout(self.header);
        builder
    }
}

/// The phase of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Serving,
    /// New connections are refused. Open connections finish their request.
    Draining,
    /// The remaining connections are closed.
    Closing,
}

pub(super) async fn serve<S>(
    stream: S,
    edge: Arc<Edge>,
    peer: Peer,
    settings: ConnectionSettings,
    permit: ConnectionPermit,
    phase: watch::Receiver<Phase>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (activity, permit) = (permit.activity.clone(), Arc::new(permit));
    let scheme = if peer.secure { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (edge, scheme, permit, in_flight) = (edge.clone(), scheme.clone(), permit.clone(), activity.request_started());
        async move {
            let one_by_one = request.version() < Version::HTTP_2;
            let has_body = one_by_one && !request.body().is_end_stream();
            let mut request = poem::Request::from((request, LocalAddr::default(), RemoteAddr::default(), scheme));
            let unread = has_body.then(|| Unread::follow(&mut request));
            // hyper reserves memory for this future as long as the connection lives, and most of that time there is no request.
            let mut response = Box::pin(edge.answer(request, peer)).await;
            if let Some(handle) = response.extensions().get::<StreamHandle>() {
                // The answer may end before the body of the request does.
                in_flight.leaves_body(has_body);
                handle.at_end(move |outcome| {
                    drop(in_flight);
                    // In HTTP/1 nothing can follow a stuck answer.
                    if outcome == Outcome::Stuck && one_by_one {
                        permit.activity.evicted.notify_one();
                    }
                    // Released only now: a shutdown waits until the answer is complete, even if its connection is gone.
                    drop(permit);
                });
            } else {
                let is_drained = match unread {
                    Some(unread) => Box::pin(unread.drain()).await,
                    None => true,
                };
                if !is_drained {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                in_flight.ended(!is_drained);
            }
            Ok::<_, Infallible>(http::Response::from(response))
        }
    });
    let builder = settings.builder();
    let watched = Watched::new(stream, activity.clone());
    let connection = std::pin::pin!(builder.serve_connection(TokioIo::new(watched), service));
    watch(connection, &activity, settings, phase).await;
}

/// A connection that can be shut down gracefully.
trait GracefulShutdown: Future {
    fn start_shutdown(self: Pin<&mut Self>);
}

impl<'a, I, S, B> GracefulShutdown for auto::Connection<'a, I, S, TokioExecutor>
where
    auto::Connection<'a, I, S, TokioExecutor>: Future,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
    S: hyper::service::Service<hyper::Request<Incoming>, Response = hyper::Response<B>>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    TokioExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn start_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

fn over(millis: Option<u64>, limit: Duration) -> bool {
    millis.is_some_and(|millis| u128::from(millis) > limit.as_millis())
}

/// Waits until no request is arriving, or until one takes too long to arrive.
async fn wait_for_arrival(activity: &Activity) {
    while activity.head_millis().is_some() && !over(activity.head_millis(), ARRIVAL_TIMEOUT) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn watch<C: GracefulShutdown>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
    settings: ConnectionSettings,
    mut phase: watch::Receiver<Phase>,
) {
    let interval = (settings.header.min(settings.idle) / 2).max(Duration::from_millis(500));
    let patience = loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = activity.evicted.notified() => break EVICTION_TIMEOUT,
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break SHUTDOWN_TIMEOUT,
            () = tokio::time::sleep(interval) => {
                if over(activity.head_millis(), settings.header) {
                    break EVICTION_TIMEOUT;
                }
                if over(activity.idle_millis(), settings.idle) {
                    break SHUTDOWN_TIMEOUT;
                }
            }
        }
    };
    let draining = *phase.borrow() >= Phase::Draining;
    if draining && patience == SHUTDOWN_TIMEOUT {
        // hyper would drop a new connection that has not sent a request yet. Its client was accepted and could not tell why.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = wait_for_arrival(activity) => {}
        }
    }
    connection.as_mut().start_shutdown();
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = phase.wait_for(|phase| *phase == Phase::Closing) => return,
            () = tokio::time::sleep(patience) => {
                // A request in progress keeps the connection until the whole server gives up on it.
                if activity.idle_millis().is_some() {
                    return;
                }
            }
        }
    }
}
