//! A site as browsers name it in the header `Origin`: scheme, host and port, without the scheme's usual port.

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
        let wrong = || format!("{text} is no site: expected one such as https://ops.example.com or http://localhost:3000");
        let (scheme, host) = text.split_once("://").ok_or_else(wrong)?;
        let usual_port = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return Err(wrong()),
        };
        let host = host.strip_suffix(usual_port).unwrap_or(host);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']');
        if host.is_empty() || !host.bytes().all(is_part) {
            return Err(wrong());
        }
        Ok(Self(format!("{scheme}://{}", host.to_ascii_lowercase())))
    }
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
    fn sites_are_read_as_browsers_write_them() {
        let read = |text: &str| Origin::try_from(text.to_owned()).map(String::from);
        for (text, expected) in [
            ("https://Ops.Example.com", "https://ops.example.com"),
            ("https://ops.example.com:443", "https://ops.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:80", "http://[::1]"),
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
