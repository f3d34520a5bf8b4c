//! One connection from its first byte to its last: HTTP/1.1 or HTTP/2 by hyper, and a watch over what hyper does not limit. A
//! connection that is slow with a request's head, or idle for too long, or told to go, is ended in order and then cut off.

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
    gate::{Activity, Pass},
    unread::Unread,
    watched::Watched,
};
use crate::{
    edge::{Edge, Peer},
    outgoing::{Outcome, UnderWay},
};

/// How long a connection that was told to go may take to write what it has.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The same for one that takes a place from others and is owed nothing: its time is the attacker's gain.
const FAREWELL: Duration = Duration::from_millis(10);
/// How long a stop waits for a request that is on its way, from its first byte on, or from the beginning of a new connection.
const FIRST_WORDS: Duration = Duration::from_secs(2);
/// How often it looks whether the request has come.
const LISTENING: Duration = Duration::from_millis(10);

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
        // hyper's own header clock also runs while a connection is idle, so ours is the one that counts.
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

/// How far a stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Serving,
    /// No new connections; those that are open finish their request.
    Draining,
    /// The rest is cut off.
    Closing,
}

pub(super) async fn serve<S>(
    stream: S,
    edge: Arc<Edge>,
    peer: Peer,
    settings: ConnectionSettings,
    pass: Pass,
    phase: watch::Receiver<Phase>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (activity, pass) = (pass.activity.clone(), Arc::new(pass));
    let scheme = if peer.secure { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP };
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (edge, scheme, pass, in_flight) = (edge.clone(), scheme.clone(), pass.clone(), activity.request_started());
        async move {
            let one_by_one = request.version() < Version::HTTP_2;
            let has_body = one_by_one && !request.body().is_end_stream();
            let mut request = poem::Request::from((request, LocalAddr::default(), RemoteAddr::default(), scheme));
            let unread = has_body.then(|| Unread::follow(&mut request));
            // hyper keeps room for this future as long as the connection lives; most of that time there is no request.
            let mut response = Box::pin(edge.answer(request, peer)).await;
            if let Some(under_way) = response.extensions().get::<UnderWay>() {
                // Its answer may end before its body does.
                in_flight.leaves_body(has_body);
                under_way.at_end(move |outcome| {
                    drop(in_flight);
                    // In HTTP/1 nothing can follow an answer that is stuck.
                    if outcome == Outcome::Stuck && one_by_one {
                        pass.activity.evicted.notify_one();
                    }
                    // Only now: a stop waits until the answer is made, also when its connection is gone.
                    drop(pass);
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

/// A connection that can be asked to end in order.
trait Ending: Future {
    fn end(self: Pin<&mut Self>);
}

impl<'a, I, S, B> Ending for auto::Connection<'a, I, S, TokioExecutor>
where
    auto::Connection<'a, I, S, TokioExecutor>: Future,
    I: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
    S: hyper::service::Service<hyper::Request<Incoming>, Response = hyper::Response<B>>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    TokioExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

fn over(millis: Option<u64>, limit: Duration) -> bool {
    millis.is_some_and(|millis| u128::from(millis) > limit.as_millis())
}

/// Returns when no request is coming in, or when it takes too long to.
async fn heard_out(activity: &Activity) {
    while activity.head_millis().is_some() && !over(activity.head_millis(), FIRST_WORDS) {
        tokio::time::sleep(LISTENING).await;
    }
}

async fn watch<C: Ending>(
    mut connection: Pin<&mut C>,
    activity: &Activity,
    settings: ConnectionSettings,
    mut phase: watch::Receiver<Phase>,
) {
    let interval = (settings.header.min(settings.idle) / 2).max(Duration::from_millis(500));
    let patience = loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = activity.evicted.notified() => break FAREWELL,
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break LAST_WORDS,
            () = tokio::time::sleep(interval) => {
                if over(activity.head_millis(), settings.header) {
                    break FAREWELL;
                }
                if over(activity.idle_millis(), settings.idle) {
                    break LAST_WORDS;
                }
            }
        }
    };
    let draining = *phase.borrow() >= Phase::Draining;
    if draining && patience == LAST_WORDS {
        // hyper would drop a new connection that has not asked yet, and its client, whom the listener let in, could not tell why.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = heard_out(activity) => {}
        }
    }
    connection.as_mut().end();
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = phase.wait_for(|phase| *phase == Phase::Closing) => return,
            () = tokio::time::sleep(patience) => {
                // A request under way keeps the connection until the whole server gives up on it.
                if activity.idle_millis().is_some() {
                    return;
                }
            }
        }
    }
}
