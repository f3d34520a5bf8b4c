//! The host that a request is for. Proxies, caches and links rely on it, so a request that names no host, several, or two different
//! ones is refused (RFC 9112, section 3.2; RFC 9113, section 8.3.1).

use http::{Version, header, uri::Authority};
use poem::Request;

use super::problem::{Code, Problem};

/// A name has at most 253 characters, and a port has five digits.
const MAX_LENGTH: usize = 260;

/// The host that the request names. HTTP/1.0 may omit it.
pub(super) fn find(request: &Request) -> Result<Option<Authority>, Problem> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let (first, second) = (headers.next(), headers.next());
    if second.is_some() {
        return Err(refuse("The request has more than one Host header. Send one."));
    }
    let unusable =
        || refuse("The host of the request is not valid. Send a name or an address, with a port if it is not the default one.");
    let named = first.map(|value| parse(value.as_bytes())).transpose().map_err(|()| unusable())?;
    // In HTTP/2 the target is `:authority`; in HTTP/1 it may be a whole URL.
    let target = request.uri().authority().map(|authority| parse(authority.as_str().as_bytes()));
    let target = target.transpose().map_err(|()| unusable())?;
    match (named, target) {
        (Some(named), Some(target)) if !is_same(&named, &target, request) => {
            Err(refuse("The Host header and the target of the request name different hosts. Send the same host in both."))
        }
        (None, None) if request.version() > Version::HTTP_10 => Err(refuse("The request has no Host header. Send one.")),
        (named, target) => Ok(target.or(named)),
    }
}

fn refuse(detail: &str) -> Problem {
    Problem::new(Code::MalformedRequest, detail)
}

fn parse(text: &[u8]) -> Result<Authority, ()> {
    let usable = !text.is_empty() && text.len() <= MAX_LENGTH && !text.contains(&b'@');
    let authority = usable.then(|| Authority::try_from(text).ok()).flatten().ok_or(())?;
    // A colon without a number after it does not make a port.
    let port = authority.as_str().rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    if authority.host().is_empty() || (port.is_some() && authority.port_u16().is_none()) {
        return Err(());
    }
    Ok(authority)
}

fn is_same(one: &Authority, other: &Authority, request: &Request) -> bool {
    let usual = if request.scheme() == &http::uri::Scheme::HTTPS { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version, uri: &str, hosts: &[&[u8]]) -> Request {
        let mut request = Request::builder().version(version).uri_str(uri).finish();
        for host in hosts {
            request.headers_mut().append(header::HOST, http::HeaderValue::from_bytes(host).unwrap());
        }
        request
    }

    #[test]
    fn a_request_names_one_host() {
        let found = |version, uri: &str, hosts: &[&[u8]]| {
            find(&request(version, uri, hosts)).map(|host| host.map(|host| host.to_string())).map_err(|problem| problem.code)
        };
        let host = |text: &str| Ok(Some(text.to_owned()));
        for good in ["ops.example.com", "ops.example.com:8443", "127.0.0.1:80", "[::1]", "[::1]:8443", "localhost"] {
            assert_eq!(found(Version::HTTP_11, "/x", &[good.as_bytes()]), host(good));
            assert_eq!(found(Version::HTTP_2, &format!("http://{good}/x"), &[]), host(good));
            assert_eq!(found(Version::HTTP_11, &format!("http://{good}/x"), &[good.as_bytes()]), host(good));
        }
        assert_eq!(found(Version::HTTP_10, "/x", &[]), Ok(None));
        assert_eq!(found(Version::HTTP_11, "http://ops.example.com/x", &[b"OPS.example.com:80"]), host("ops.example.com"));
        let long = "x".repeat(300);
        let bad: [(&str, &[&[u8]]); 13] = [
            ("/x", &[]),
            ("/x", &[b""]),
            ("/x", &[b"a.example", b"a.example"]),
            ("/x", &[b"a.example", b"b.example"]),
            ("/x", &[b"a.example b.example"]),
            ("/x", &[b"user@a.example"]),
            ("/x", &[b"a.example:"]),
            ("/x", &[b"a.example:99999"]),
            ("/x", &[b":80"]),
            ("/x", &[b"\xff"]),
            ("/x", &[long.as_bytes()]),
            ("http://a.example/x", &[b"b.example"]),
            ("http://a.example:8080/x", &[b"a.example"]),
        ];
        for (uri, hosts) in bad {
            assert_eq!(found(Version::HTTP_11, uri, hosts), Err(Code::MalformedRequest), "{uri} {hosts:?}");
        }
    }
}
