//! The credential of a request, and the trait that checks it.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use http::{
    HeaderMap, HeaderName,
    header::{AUTHORIZATION, SET_COOKIE},
};

use tenantd_base::{
    access::Principal,
    clock::Timestamp,
    clocks::Reading,
    id::TenantId,
    secrets::{Secret, digest},
};
use tenantd_store::StoreError;

use super::{
    context::{Client, header},
    problem::{Code, Problem},
};

/// The name of the session cookie on a TLS listener. `__Host-` makes browsers require `Secure`, `Path=/` and no domain.
pub const SECURE_COOKIE: &str = "__Host-tenantd_session";
pub const PLAIN_COOKIE: &str = "tenantd_session";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

fn cookie_name(secure: bool) -> &'static str {
    if secure { SECURE_COOKIE } else { PLAIN_COOKIE }
}

/// The `Set-Cookie` header that gives a browser its session.
pub fn session_cookie(secure: bool, token: &str, max_age_seconds: u64) -> String {
    set_cookie(secure, cookie_name(secure), token, max_age_seconds)
}

/// The headers that make a browser delete a session and its cached answers. The cookie is removed by name, because the word
/// `"cookies"` would remove those of all sites under the same domain.
pub fn forget_session(secure: bool) -> [(HeaderName, String); 2] {
    const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
    let cookie = session_cookie(secure, "", 0);
    [(SET_COOKIE, cookie), (CLEAR_SITE_DATA, "\"cache\", \"storage\"".to_owned())]
}

/// A cookie for this host alone. Scripts cannot read it, and browsers do not send it with what another site embeds or posts.
pub fn set_cookie(secure: bool, name: &str, value: &str, max_age_seconds: u64) -> String {
    let mark = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age_seconds}{mark}")
}

#[derive(Clone, Debug)]
pub enum Credential {
    Session(Secret),
    ApiKey(Secret),
}

/// When to repeat a change of a tenant that is being filled.
const FILLING_SECONDS: u64 = 2;

/// Why a credential is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuthError {
    #[error("the credential is not valid: {0}")]
    Invalid(&'static str),
    #[error("the API key has expired")]
    KeyExpired,
    #[error("the API key was revoked")]
    KeyRevoked,
    #[error("the API key is disabled")]
    KeyDisabled,
    /// A personal key works only while its person can sign in.
    #[error("the person of the API key cannot sign in")]
    PersonBlocked,
    #[error("the sign-in policy of the tenant forbids personal keys")]
    PersonalKeysForbidden,
    #[error("the session has ended")]
    SessionExpired,
    #[error("the API key is not allowed from this address")]
    AddressNotAllowed,
    #[error("the tenant is suspended")]
    TenantSuspended,
    /// The tenant does not work now, for another reason than that the operator suspended it.
    #[error("the tenant is closed: {0}")]
    TenantClosed(&'static str),
    #[error("tenantd fills the evaluation tenant with sample data")]
    BeingFilled,
    #[error("the evaluation tenant has reached its limit of {most} events")]
    NoRoom { most: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Turns a credential into an identity. It is called on every request, on the async threads, so it answers from memory or by point
/// reads.
pub trait Authenticator: Send + Sync + 'static {
    fn session(&self, token: &Secret, now: Timestamp) -> Result<Arc<Principal>, AuthError>;
    fn api_key(&self, key: &Secret, client: Option<IpAddr>, clocks: &Reading) -> Result<Arc<Principal>, AuthError>;

    /// Fails if an evaluation tenant accepts no change: it has no room for one more, or its sample data is not complete.
    fn check_room(&self, tenant: TenantId) -> Result<(), AuthError>;
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let challenge = |problem: Problem| problem.header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"");
        match error {
            AuthError::Invalid(detail) => challenge(Self::new(Code::InvalidCredentials, detail)),
            AuthError::KeyExpired => challenge(Self::plain(Code::KeyExpired)),
            AuthError::KeyRevoked => challenge(Self::plain(Code::KeyRevoked)),
            AuthError::KeyDisabled => challenge(Self::plain(Code::KeyDisabled)),
            AuthError::PersonBlocked => {
                let detail = "The key acts for a person who cannot sign in now. It works again after they have signed in.";
                challenge(Self::new(Code::KeyDisabled, detail))
            }
            AuthError::PersonalKeysForbidden => challenge(Self::plain(Code::PersonalKeysForbidden)),
            AuthError::SessionExpired => challenge(Self::plain(Code::SessionExpired)),
            AuthError::AddressNotAllowed => Self::plain(Code::IpNotAllowed),
            AuthError::TenantSuspended => Self::plain(Code::TenantSuspended),
            AuthError::TenantClosed(detail) => Self::new(Code::TenantSuspended, detail),
            AuthError::BeingFilled => Self::unavailable(
                "tenantd is still writing the sample data of this evaluation tenant. Reading works; retry this change in a moment.",
                FILLING_SECONDS,
            ),
            AuthError::NoRoom { most } => Self::new(
                Code::LimitReached,
                format!("This evaluation tenant has reached its limit of {most} events. Its operator can reset it."),
            ),
            AuthError::Store(error) => error.into(),
        }
    }
}

pub fn missing() -> Problem {
    Problem::plain(Code::MissingCredentials).header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
}

/// Finds the credential of the request. Two different ones are refused, because the request would not say for whom it acts.
pub fn find(headers: &HeaderMap, secure: bool) -> Result<Option<Credential>, Problem> {
    let unreadable = || Problem::from(AuthError::Invalid("The credential is not readable text."));
    for name in [AUTHORIZATION, API_KEY] {
        let mut values = headers.get_all(name).iter();
        let first = values.next();
        if values.any(|value| Some(value) != first) {
            return Err(Problem::plain(Code::AmbiguousCredentials));
        }
    }
    let text = |name: HeaderName| match headers.get(name) {
        Some(value) => value.to_str().map(|text| Some(text.trim())).map_err(|_| unreadable()),
        None => Ok(None),
    };
    let bearer = match text(AUTHORIZATION)? {
        Some(value) => match value.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim()),
            _ => return Err(AuthError::Invalid("Use `Authorization: Bearer <API key>`.").into()),
        },
        None => None,
    };
    let key = match (bearer, text(API_KEY)?) {
        (Some(bearer), Some(key)) if bearer != key => return Err(Problem::plain(Code::AmbiguousCredentials)),
        (bearer, key) => bearer.or(key),
    };
    let mut sessions = cookies(headers, cookie_name(secure)).filter(|token| !token.is_empty());
    let session = sessions.next();
    let is_ambiguous = sessions.any(|other| Some(other) != session) || (key.is_some() && session.is_some());
    if is_ambiguous {
        return Err(Problem::plain(Code::AmbiguousCredentials));
    }
    let session = || session.map(|token| Credential::Session(Secret::new(token)));
    Ok(key.map(|key| Credential::ApiKey(Secret::new(key))).or_else(session))
}

/// The token of the browser's session. It may be invalid.
pub fn session_token(headers: &HeaderMap, secure: bool) -> Option<Secret> {
    cookie(headers, cookie_name(secure)).map(Secret::new)
}

/// The token that forms carry, so that another site cannot make one. It follows from the session and does not reveal it.
pub fn form_token(session: &Secret) -> String {
    let text = format!("form of a page\0{}", session.expose());
    data_encoding::BASE64URL_NOPAD.encode(&digest(text.as_bytes()))
}

/// Comparing digests takes the same time wherever the texts differ.
pub(super) fn is_form_token(given: &str, expected: &str) -> bool {
    digest(given.as_bytes()) == digest(expected.as_bytes())
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    cookies(headers, name).next()
}

/// The values of all cookies with a name.
fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let cookies = headers.get_all(http::header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(found, _)| *found == name).map(|(_, value)| value)
}

/// Refuses changes that come from another site, because a browser sends cookies from any site. A client that is not a browser sends
/// neither header and passes.
pub fn check_same_origin(headers: &HeaderMap, base_url: &str) -> Result<(), Problem> {
    let same = match (header(headers, "sec-fetch-site"), header(headers, "origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => origin.eq_ignore_ascii_case(base_url),
        (None, None) => true,
    };
    if same { Ok(()) } else { Err(Problem::plain(Code::CsrfFailed)) }
}

/// The address that counts as the client's: that of the connection, or the one that a trusted proxy reports.
pub fn client_address(peer: Client, headers: &HeaderMap, trusted: &[ipnet::IpNet]) -> Client {
    let Client::Address(mut address) = peer else { return peer };
    if trusted.is_empty() {
        return peer;
    }
    // A header that is not text stands for one unreadable hop.
    let values = headers.get_all("x-forwarded-for").iter().map(|value| value.to_str().unwrap_or_default());
    let hops: Vec<&str> = values.flat_map(|list| list.split(',')).collect();
    // Starts at the nearest hop. The first hop that is not a trusted proxy is the client. Hops behind an unreadable one could be
    // forged.
    for hop in hops.into_iter().rev() {
        if !trusted.iter().any(|network| network.contains(&address)) {
            break;
        }
        let Some(next) = hop_address(hop) else { break };
        address = next;
    }
    Client::Address(address)
}

/// The address of a hop, which may have a port: `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]` or
/// `[2001:db8::1]:443`.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::from);
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    hop.parse().ok().or_else(with_port).or_else(bracketed).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn two_different_credentials_are_refused() {
        let key = |pairs: &[(&'static str, &str)]| match find(&headers(pairs), true) {
            Ok(Some(Credential::ApiKey(key))) => key.expose().to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(key(&[("authorization", "bearer k1")]), "k1");
        assert_eq!(key(&[("x-api-key", "k2")]), "k2");
        assert_eq!(key(&[("authorization", "Bearer k1"), ("x-api-key", "k1")]), "k1");
        for pair in [
            [("authorization", "Bearer k1"), ("x-api-key", "k2")],
            [("authorization", "Bearer k1"), ("cookie", "__Host-tenantd_session=s")],
            [("x-api-key", "k1"), ("cookie", "a=b; __Host-tenantd_session=s")],
            [("accept", "*/*"), ("cookie", "__Host-tenantd_session=s; __Host-tenantd_session=t")],
        ] {
            assert_eq!(find(&headers(&pair), true).unwrap_err().code, Code::AmbiguousCredentials, "{pair:?}");
        }
        assert_eq!(key(&[("authorization", "Bearer k1"), ("cookie", "__Host-tenantd_session=")]), "k1", "a removed cookie");
        assert_eq!(key(&[("authorization", "Bearer k1"), ("cookie", "tenantd_session=s")]), "k1", "the cookie of a plain listener");
        let mut twice = headers(&[("x-api-key", "k1")]);
        twice.append("x-api-key", "k2".parse().unwrap());
        assert_eq!(find(&twice, true).unwrap_err().code, Code::AmbiguousCredentials);
        assert_eq!(find(&headers(&[("authorization", "Basic abc")]), true).unwrap_err().code, Code::InvalidCredentials);
    }

    #[test]
    fn a_secure_listener_ignores_the_plain_cookie() {
        let plain = headers(&[("cookie", "a=b; tenantd_session=s")]);
        assert!(find(&plain, true).unwrap().is_none());
        assert!(matches!(find(&plain, false), Ok(Some(Credential::Session(token))) if token.expose() == "s"));
    }

    #[test]
    fn changes_from_another_site_are_refused() {
        let check = |pairs: &[(&'static str, &str)]| check_same_origin(&headers(pairs), "https://ops.example.com").is_ok();
        assert!(check(&[]));
        assert!(check(&[("origin", "https://ops.example.com")]));
        assert!(check(&[("sec-fetch-site", "same-origin"), ("origin", "https://proxy.example")]));
        assert!(!check(&[("origin", "https://evil.example")]));
        assert!(!check(&[("origin", "null")]));
        assert!(!check(&[("sec-fetch-site", "cross-site")]));
        assert!(!check(&[("sec-fetch-site", "same-site"), ("origin", "https://ops.example.com")]));
    }

    #[test]
    fn forwarded_addresses_count_only_behind_a_trusted_proxy() {
        let trusted: Vec<ipnet::IpNet> = vec!["10.0.0.0/8".parse().unwrap()];
        let forwarded = headers(&[("x-forwarded-for", "1.1.1.1, 203.0.113.7, 10.0.0.2")]);
        let from = |peer: &str| client_address(Client::Address(peer.parse().unwrap()), &forwarded, &trusted).to_string();
        assert_eq!(from("10.0.0.1"), "203.0.113.7");
        assert_eq!(from("198.51.100.4"), "198.51.100.4");
    }

    #[test]
    fn an_unreadable_hop_ends_the_search_for_the_client() {
        let trusted: Vec<ipnet::IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let from = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-forwarded-for", http::HeaderValue::from_bytes(value).unwrap());
            }
            client_address(Client::Address("10.0.0.1".parse().unwrap()), &headers, &trusted).to_string()
        };
        for (hops, client) in [
            ("203.0.113.7", "203.0.113.7"),
            ("203.0.113.7:51234", "203.0.113.7"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("203.0.113.7, [fd00::2]:443, 10.0.0.2:80", "203.0.113.7"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("203.0.113.7, ::ffff:10.0.0.2", "203.0.113.7"),
            // A forged address that a client sends stands before the address that a proxy adds.
            ("127.0.0.1, 203.0.113.7", "203.0.113.7"),
            ("127.0.0.1, unknown", "10.0.0.1"),
            ("127.0.0.1, _hidden, 10.0.0.2", "10.0.0.2"),
            ("127.0.0.1, ", "10.0.0.1"),
            ("127.0.0.1,,10.0.0.2", "10.0.0.2"),
            ("127.0.0.1, 203.0.113.7:99999", "10.0.0.1"),
            ("127.0.0.1, fe80::1%eth0", "10.0.0.1"),
            ("127.0.0.1, [203.0.113.7]", "10.0.0.1"),
            ("", "10.0.0.1"),
        ] {
            assert_eq!(from(&[hops.as_bytes()]), client, "{hops}");
        }
        assert_eq!(from(&[b"127.0.0.1", b"\xff"]), "10.0.0.1", "a header that is not text is an unreadable hop");
        assert_eq!(from(&[b"127.0.0.1", b"203.0.113.7"]), "203.0.113.7");
    }
}
