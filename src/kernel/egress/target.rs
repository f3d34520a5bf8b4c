//! A URL that requests may be sent to, parsed once and stored in the form that the client dials. The host is normalized by the
//! WHATWG rules (numbers in any base, short forms, full-width digits, percent-encoding, Punycode). That form is checked and dialed.
//! A URL that two parsers could read differently is refused.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::{HeaderValue, Uri};
use url::{Host, Position, Url};

/// The longest URL.
pub const MAX_URL_BYTES: usize = 2048;

/// Why a text is not a target. The messages are for the author of the text.
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
    #[error("must not contain white space, a control character or a backslash, which URL parsers read differently")]
    Ambiguous,
    #[error("has no host")]
    NoHost,
    #[error("has an invalid host or port")]
    Invalid,
}

/// The target of a request.
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
        // Normalizing may lengthen the URL, and the stored form has to fit as well.
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(UrlProblem::TooLong);
        }
        Ok(Self { url, host, ip, port, request_target, host_header })
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// The normalized host: a name in ASCII, or an address (in brackets for IPv6).
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Scheme, host and port in canonical form: the port is included, and the host has no final dot.
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

    /// The path and the query, as in the first line of a request.
    pub(super) fn request_target(&self) -> Uri {
        self.request_target.clone()
    }

    pub(super) fn host_header(&self) -> HeaderValue {
        self.host_header.clone()
    }
}

/// Omits the path and the query, because those of webhooks often carry tokens that must not be logged.
impl fmt::Debug for TargetUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TargetUrl({}://{}:{}/…)", self.url.scheme(), self.host, self.port)
    }
}

/// The URL without its query. Queries often carry tokens that readers of events must not see.
pub fn without_query(url: &str) -> &str {
    url.split_once('?').map_or(url, |(place, _)| place)
}

/// Refuses what the parser would accept silently.
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
