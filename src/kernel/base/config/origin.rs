//! An origin as browsers write it in the `Origin` header: scheme, host and port, without the default port of the scheme.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin(String);

impl Origin {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Origin {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text} is not an origin: expected one such as https://ops.example.com or http://localhost:3000");
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let usual_port = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return Err(wrong()),
        };
        let end_of_host = rest.find(']').map_or_else(|| rest.find(':'), |end| Some(end + 1)).unwrap_or(rest.len());
        let (host, port) = rest.split_at_checked(end_of_host).ok_or_else(wrong)?;
        let port = match port.strip_prefix(':') {
            Some(digits) if !digits.starts_with(['0', '+']) => Some(digits.parse::<u16>().map_err(|_| wrong())?),
            None if port.is_empty() => None,
            _ => return Err(wrong()),
        };
        let host = host_name(host).ok_or_else(wrong)?;
        let port = port.filter(|port| *port != usual_port).map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self(format!("{scheme}://{host}{port}")))
    }
}

/// Normalizes a host as browsers do.
fn host_name(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[') {
        return Some(format!("[{}]", address.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?));
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &str| label.bytes().all(is_part) && label.bytes().any(|byte| byte.is_ascii_alphanumeric());
    text.split('.').all(is_label).then(|| text.to_ascii_lowercase())
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_normalized_like_in_browsers() {
        let read = |text: &str| Origin::try_from(text.to_owned()).map(String::from);
        for (text, expected) in [
            ("https://Ops.Example.com", "https://ops.example.com"),
            ("https://ops.example.com:443", "https://ops.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:80", "http://[::1]"),
            ("https://[0:0:0:0:0:0:0:1]:8443", "https://[::1]:8443"),
            ("https://a_b.example.com", "https://a_b.example.com"),
        ] {
            assert_eq!(read(text).unwrap(), expected);
        }
        for text in [
            "*",
            "null",
            "ops.example.com",
            "https://",
            "https://ops.example.com/",
            "https://*.example.com",
            "ftp://x",
            "https://a b",
        ] {
            assert!(read(text).unwrap_err().contains("https://ops.example.com"), "{text}");
        }
    }
}
