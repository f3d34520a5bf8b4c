//! The client against receivers and DNS servers of its own on loopback. Time limits are short in place of waiting. Whoever calls out
//! through the client has its receivers and certificates for its own tests.

mod broken_answers;
pub(crate) mod certificates;
mod dns;
mod exchanges;
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

/// Ample for what answers at once.
const AMPLE: Duration = Duration::from_secs(20);
/// For what never answers.
const SHORT: Duration = Duration::from_millis(300);

fn settings() -> config::Egress {
    config::load(None, [], &[]).unwrap().egress
}

/// Settings under which 127.0.0.1 can be reached and names are asked of `dns`.
fn open_settings(dns: &[SocketAddr]) -> config::Egress {
    config::Egress { allowed_addresses: vec![ip("127.0.0.1")], dns_servers: dns.to_vec(), ..settings() }
}

fn egress(settings: &config::Egress) -> Egress {
    Egress::with_limits(settings, &[], TimeLimits { dns: Duration::from_secs(3), connect: Duration::from_secs(5) }).unwrap()
}

/// Gives up look-ups and connections soon.
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
