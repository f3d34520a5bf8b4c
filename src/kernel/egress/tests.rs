//! Tests the client against its own receivers and DNS servers on loopback. Short time limits replace waiting. Other crates that use
//! the client share these receivers and certificates for their tests.

mod broken_answers;
pub(crate) mod certificates;
mod dns;
mod exchanges;
mod listed;
mod names;
pub(crate) mod receiver;
mod secure;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method};

use tenantd_base::config;

use super::{Audience, Egress, EgressError, Exchange, MAX_BODY_BYTES, Request, Response, TargetUrl, client::TimeLimits};

/// Enough time for anything that answers immediately.
const AMPLE: Duration = Duration::from_secs(20);
/// For servers that never answer.
const SHORT: Duration = Duration::from_millis(300);

fn settings() -> config::Egress {
    config::load(None, [], &[]).unwrap().egress
}

/// Settings that allow 127.0.0.1 and resolve names with `dns`.
fn open_settings(dns: &[SocketAddr]) -> config::Egress {
    config::Egress { allowed_addresses: vec![ip("127.0.0.1")], dns_servers: dns.to_vec(), ..settings() }
}

fn egress(settings: &config::Egress) -> Egress {
    Egress::with_limits(settings, &[], TimeLimits { dns: Duration::from_secs(3), connect: Duration::from_secs(5) }).unwrap()
}

/// A client that gives up lookups and connections quickly.
fn hasty(settings: &config::Egress) -> Egress {
    Egress::with_limits(settings, &[], TimeLimits { dns: SHORT, connect: SHORT }).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn url(text: &str) -> TargetUrl {
    TargetUrl::parse(text).unwrap()
}

fn post(target: &str) -> Request {
    Request {
        method: Method::POST,
        url: url(target),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{\"hello\":1}"),
        timeout: AMPLE,
        audience: Audience::default(),
        ca_pem: None,
        pinned_certificate: None,
        max_body_bytes: MAX_BODY_BYTES,
        repeatable: true,
    }
}

fn answer(exchange: Exchange) -> Response {
    exchange.outcome.unwrap()
}

fn error(exchange: Exchange) -> EgressError {
    exchange.outcome.map(|response| response.status).unwrap_err()
}
