//! Where passkeys work: the host name and the origin of this installation. Browsers bind a passkey to the host name.

use std::net::Ipv4Addr;

/// What a browser must have shown in its address bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelyingParty {
    /// The host name, without the port.
    pub id: String,
    /// Scheme, host name and port, as browsers write them.
    pub origin: String,
}

impl RelyingParty {
    /// `None` if browsers offer no passkeys at this address: it has no host name, or it is not HTTPS.
    pub fn at(base_url: &str) -> Option<Self> {
        let (scheme, rest) = base_url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
            None => (authority.as_str(), None),
        };
        let is_local = host == "localhost" || host.ends_with(".localhost");
        let default_port = match scheme.as_str() {
            "https" => 443,
            // Browsers trust the local host without encryption.
            "http" if is_local => 80,
            _ => return None,
        };
        if !is_name(host) {
            return None;
        }
        let port = port.filter(|port| *port != default_port).map(|port| format!(":{port}"));
        Some(Self { id: host.to_owned(), origin: format!("{scheme}://{host}{}", port.unwrap_or_default()) })
    }
}

/// Whether a text is a host name and not an IP address. To browsers, a name that ends in a number is an address too.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.bytes().all(of_name)
    };
    let ends_in_number = host.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    host.split('.').all(is_label) && !ends_in_number && host.parse::<Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_need_a_host_name_and_encryption() {
        let at = |url: &str| RelyingParty::at(url).map(|party| (party.id, party.origin));
        for (url, id, origin) in [
            ("https://console.acme.example", "console.acme.example", "https://console.acme.example"),
            ("https://Console.Acme.Example:443/", "console.acme.example", "https://console.acme.example"),
            ("https://acme.example:8443", "acme.example", "https://acme.example:8443"),
            ("http://localhost:8080", "localhost", "http://localhost:8080"),
            ("http://demo.localhost:80", "demo.localhost", "http://demo.localhost"),
        ] {
            assert_eq!(at(url), Some((id.to_owned(), origin.to_owned())), "{url}");
        }
        for url in [
            "http://acme.example",
            "https://192.0.2.7",
            "https://127.1",
            "http://127.0.0.1:8080",
            "https://[::1]:8080",
            "https://acme.example:port",
            "https://user@acme.example",
            "https://acme..example",
            "https://",
            "ftp://acme.example",
            "acme.example",
        ] {
            assert_eq!(at(url), None, "{url}");
        }
    }
}
