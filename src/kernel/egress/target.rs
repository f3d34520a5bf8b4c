//! A URL that requests may be sent to, read once and kept in the form that the client dials. The host is normalised by the WHATWG
//! rules (numbers in any base, short forms, full-width digits, percent-encoding, Punycode), and it is that form which is judged
//! and dialled. What two readers could read differently is refused.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::{HeaderValue, Uri};
use url::{Host, Position, Url};

/// The longest URL.
pub const MAX_URL_BYTES: usize = 2048;

/// Why a text is no target. The messages are for whoever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlProblem {
    #[error("is longer than 2048 bytes")]
    TooLong,
    #[error("must start with http:// or https://")]
    Scheme,
    #[error("must not have a user name or password")]
    Userinfo,
    #[error("must not have a fragment (#)")]
    Fragment,
    #[error("has white space, a control character or a backslash, which readers of URLs understand differently")]
    Ambiguous,
    #[error("has no host")]
    NoHost,
    #[error("has a host or port that cannot be")]
    Invalid,
}

/// Where a request goes.
#[derive(Clone)]
pub struct TargetUrl {
    url: Url,
    host: Arc<str>,
    ip: Option<IpAddr>,
    port: u16,
    request_target: Uri,
    host_header: HeaderValue,
}

impl TargetUrl {
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        check_text(text)?;
        let url = Url::parse(text).map_err(|_| UrlProblem::Invalid)?;
        let ip = match url.host().ok_or(UrlProblem::NoHost)? {
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
            Host::Domain(_) => None,
        };
        let host = url.host_str().ok_or(UrlProblem::NoHost)?.into();
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(UrlProblem::Invalid)?;
        let request_target = url[Position::BeforePath..Position::AfterQuery].parse().map_err(|_| UrlProblem::Invalid)?;
        let host_header = url[Position::BeforeHost..Position::AfterPort].parse().map_err(|_| UrlProblem::Invalid)?;
        // Normalising may lengthen it: what is kept and sent has to fit as well.
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(UrlProblem::TooLong);
        }
        Ok(Self { url, host, ip, port, request_target, host_header })
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The normalised host: a name in ASCII, or an address (in brackets for IPv6).
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Scheme, host and port, each in one form: the port is spelled out, and the host has no dot at its end.
    pub fn origin(&self) -> String {
        let host = self.host.strip_suffix('.').unwrap_or(&self.host);
        format!("{}://{host}:{}", self.url.scheme(), self.port)
    }

    pub(super) fn shared_host(&self) -> Arc<str> {
        self.host.clone()
    }

    /// The address, if the host is one.
    pub(super) fn literal(&self) -> Option<SocketAddr> {
        self.ip.map(|ip| SocketAddr::new(ip, self.port))
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Path and query, as the first line of a request has them.
    pub(super) fn request_target(&self) -> Uri {
        self.request_target.clone()
    }

    pub(super) fn host_header(&self) -> HeaderValue {
        self.host_header.clone()
    }
}

/// Paths and queries of webhooks often carry tokens: a log line that shows a target has no business with them.
impl fmt::Debug for TargetUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TargetUrl({}://{}:{}/…)", self.url.scheme(), self.host, self.port)
    }
}

/// The URL as far as its path. Queries often carry tokens, which readers of events have no business with.
pub fn without_query(url: &str) -> &str {
    url.split_once('?').map_or(url, |(place, _)| place)
}

/// What the parser would forgive.
fn check_text(text: &str) -> Result<(), UrlProblem> {
    if text.len() > MAX_URL_BYTES {
        return Err(UrlProblem::TooLong);
    }
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control() || letter == '\\') {
        return Err(UrlProblem::Ambiguous);
    }
    let (scheme, rest) = text.split_once("://").ok_or(UrlProblem::Scheme)?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(UrlProblem::Scheme);
    }
    if text.contains('#') {
        return Err(UrlProblem::Fragment);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UrlProblem::Userinfo);
    }
    if authority.is_empty() { Err(UrlProblem::NoHost) } else { Ok(()) }
}
