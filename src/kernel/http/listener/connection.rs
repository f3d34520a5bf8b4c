//! One connection from its first byte to its last: HTTP/1.1 or HTTP/2 by hyper, and a watch over what hyper does not limit. A
//! connection that is slow with a request's head, or idle for too long, or told to go, is ended in order and then cut off.

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode, Version, header};
use http_body_util::Full;
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
    net::TcpListener,
    sync::watch,
};

use super::{
    Phase,
    gate::{Activity, Gate, Pass},
    watched::Watched,
};
use crate::kernel::{
    config::Limits,
    http::{
        edge::{Edge, Peer},
        outgoing::{Outcome, UnderWay},
    },
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
            let request = poem::Request::from((request, LocalAddr::default(), RemoteAddr::default(), scheme));
            // hyper keeps room for this future as long as the connection lives; most of that time there is no request.
            let response = Box::pin(edge.answer(request, peer)).await;
            match response.extensions().get::<UnderWay>() {
                Some(under_way) => {
                    // Its answer may end before its body does.
                    in_flight.leaves_body(has_body);
                    under_way.at_end(move |outcome| {
                        drop(in_flight);
                        // In HTTP/1 nothing can follow an answer that is stuck.
                        if outcome == Outcome::Stuck && one_by_one {
                            pass.activity.evicted.notify_one();
                        }
                        // Only now: a stop waits for whoever makes an answer, also when its connection is gone.
                        drop(pass);
                    });
                }
                None => in_flight.ended(has_body && !response.status().is_success()),
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

/// Answers with a redirect to HTTPS and nothing else.
pub(super) async fn accept_redirect(
    listener: TcpListener,
    https_port: u16,
    settings: ConnectionSettings,
    gate: Arc<Gate>,
    mut phase: watch::Receiver<Phase>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = phase.wait_for(|phase| *phase >= Phase::Draining) => return,
        };
        let Ok((stream, remote)) = accepted else {
            tokio::time::sleep(super::ACCEPT_PAUSE).await;
            continue;
        };
        let Some(pass) = gate.enter(Some(remote.ip())) else { continue };
        let phase = phase.clone();
        tokio::spawn(async move {
            let activity = pass.activity.clone();
            let service = service_fn(|request: hyper::Request<Incoming>| {
                let _in_flight = activity.request_started();
                let response = redirect(&request, https_port);
                async move { Ok::<_, Infallible>(response) }
            });
            let watched = Watched::new(stream, pass.activity.clone());
            let builder = settings.builder();
            let connection = std::pin::pin!(builder.serve_connection(TokioIo::new(watched), service));
            watch(connection, &activity, settings, phase).await;
        });
    }
}

fn redirect(request: &hyper::Request<Incoming>, https_port: u16) -> hyper::Response<Full<bytes::Bytes>> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let port = if https_port == 443 { String::new() } else { format!(":{https_port}") };
    let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut response = hyper::Response::new(Full::new(bytes::Bytes::new()));
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    match HeaderValue::from_str(&format!("https://{host}{port}{target}")) {
        Ok(location) => drop(response.headers_mut().insert(header::LOCATION, location)),
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}
