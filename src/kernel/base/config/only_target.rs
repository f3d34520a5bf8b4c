//! An entry of `egress.only_targets`: a name, all names below a domain, or a network, each with an optional port.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use url::Host;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OnlyTarget {
    place: Place,
    /// `None`: every port.
    port: Option<u16>,
}

/// Names are in ASCII and lower case, without a final dot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Name(String),
    /// All names below this domain, but not the domain itself.
    Below(String),
    Network(IpNet),
}

impl OnlyTarget {
    /// Whether the entry lists this name. `host` is normalized, and is not an address.
    pub fn has_name(&self, host: &str, port: u16) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let matches = match &self.place {
            Place::Name(name) => host == name,
            Place::Below(domain) => {
                let rest = host.strip_suffix(domain.as_str()).and_then(|rest| rest.strip_suffix('.'));
                rest.is_some_and(|rest| !rest.is_empty())
            }
            Place::Network(_) => false,
        };
        matches && self.has_port(port)
    }

    /// Whether the entry lists this address.
    pub fn has_address(&self, address: IpAddr, port: u16) -> bool {
        self.network().is_some_and(|network| network.contains(&address)) && self.has_port(port)
    }

    /// Whether the entry could list the address of a name, for this port.
    pub fn has_addresses(&self, port: u16) -> bool {
        self.network().is_some() && self.has_port(port)
    }

    pub(super) fn network(&self) -> Option<IpNet> {
        match self.place {
            Place::Network(network) => Some(network),
            Place::Name(_) | Place::Below(_) => None,
        }
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }
}

impl TryFrom<String> for OnlyTarget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse(&text).ok_or_else(|| {
            format!(
                "{text} is not a target: expected a name such as \"hooks.example.com\", \"*.example.com\" for the names below it, or \
                 a network such as \"10.20.0.0/16\", with or without a port such as \"hooks.example.com:443\" or \"[2001:db8::1]:443\""
            )
        })
    }
}

fn parse(text: &str) -> Option<OnlyTarget> {
    if let Some(network) = network(text) {
        return Some(OnlyTarget { place: Place::Network(network), port: None });
    }
    let (place, port) = match text.rsplit_once(':') {
        Some((place, digits)) if !digits.contains(']') => (place, Some(port(digits)?)),
        _ => (text, None),
    };
    let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    // An IPv6 address needs brackets before a port.
    let network = match bare {
        Some(bare) => Some(network(bare).filter(|network| matches!(network, IpNet::V6(_)))?),
        None => network(place).filter(|network| matches!(network, IpNet::V4(_))),
    };
    let place = match (network, place.strip_prefix("*.")) {
        (Some(network), _) => Place::Network(network),
        (None, Some(domain)) => Place::Below(name(domain)?),
        (None, None) => Place::Name(name(place)?),
    };
    Some(OnlyTarget { place, port })
}

fn network(text: &str) -> Option<IpNet> {
    let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse::<IpNet>().ok().map(|network| network.trunc()).or_else(single)
}

fn port(digits: &str) -> Option<u16> {
    digits.parse().ok().filter(|port| *port != 0 && !digits.starts_with(['0', '+']))
}

/// Normalizes a name as the URL of a request is normalized.
fn name(text: &str) -> Option<String> {
    let plain = text.strip_suffix('.').unwrap_or(text);
    if plain.is_empty() || plain.contains(['*', '/', '@', '%', '[', ']', ':', '?', '#', '\\']) {
        return None;
    }
    match Host::parse(plain).ok()? {
        Host::Domain(name) if name.split('.').all(|label| !label.is_empty()) => Some(name),
        Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => None,
    }
}

impl fmt::Display for OnlyTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.port) {
            (Place::Name(name), _) => formatter.write_str(name)?,
            (Place::Below(domain), _) => write!(formatter, "*.{domain}")?,
            (Place::Network(network @ IpNet::V6(_)), Some(_)) => write!(formatter, "[{network}]")?,
            (Place::Network(network), _) => write!(formatter, "{network}")?,
        }
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

impl From<OnlyTarget> for String {
    fn from(target: OnlyTarget) -> Self {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<OnlyTarget, String> {
        OnlyTarget::try_from(text.to_owned())
    }

    #[test]
    fn targets_are_normalized_and_read_back() {
        for (text, expected) in [
            ("Hooks.Example.com", "hooks.example.com"),
            ("hooks.example.com.", "hooks.example.com"),
            ("hooks.example.com:8443", "hooks.example.com:8443"),
            ("*.Example.com", "*.example.com"),
            ("*.example.com:443", "*.example.com:443"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("intranet", "intranet"),
            ("203.0.113.7", "203.0.113.7/32"),
            ("203.0.113.7:443", "203.0.113.7/32:443"),
            ("10.20.30.40/16", "10.20.0.0/16"),
            ("10.20.0.0/16:8443", "10.20.0.0/16:8443"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("[2001:db8::1]", "2001:db8::1/128"),
            ("[2001:db8::1]:443", "[2001:db8::1/128]:443"),
            ("[fd00::/8]:443", "[fd00::/8]:443"),
        ] {
            let target = read(text).unwrap();
            assert_eq!(target.to_string(), expected, "{text}");
            assert_eq!(read(expected).unwrap(), target, "{text}");
        }
        for text in [
            "",
            "*",
            "*.",
            "*.*.example.com",
            "a.*.example.com",
            "*example.com",
            "https://hooks.example.com",
            "hooks.example.com/path",
            "hooks.example.com:",
            "hooks.example.com:0",
            "hooks.example.com:65536",
            "hooks.example.com:080",
            "hooks..example.com",
            "me@example.com",
            "10.0.0.0/33",
            "[10.0.0.1]:443",
            "0x7f000001",
        ] {
            assert!(read(text).unwrap_err().contains("is not a target"), "{text}");
        }
    }

    #[test]
    fn an_entry_lists_exactly_its_names_addresses_and_port() {
        let lists = |entry: &str, host: &str, port: u16| read(entry).unwrap().has_name(host, port);
        assert!(lists("hooks.example.com", "hooks.example.com", 1) && lists("hooks.example.com", "hooks.example.com.", 443));
        assert!(
            lists("hooks.example.com:443", "hooks.example.com", 443) && !lists("hooks.example.com:443", "hooks.example.com", 80)
        );
        assert!(lists("*.example.com", "a.example.com", 443) && lists("*.example.com", "b.a.example.com.", 443));
        for host in ["example.com", "badexample.com", ".example.com", "example.com.evil.test", "hooks.example.org"] {
            assert!(!lists("*.example.com", host, 443) && !lists("hooks.example.com", host, 443), "{host}");
        }
        let address = |entry: &str, ip: &str, port: u16| read(entry).unwrap().has_address(ip.parse().unwrap(), port);
        assert!(address("10.20.0.0/16", "10.20.9.9", 1) && !address("10.20.0.0/16", "10.21.0.0", 1));
        assert!(address("[fd00::/8]:443", "fd12::1", 443) && !address("[fd00::/8]:443", "fd12::1", 80));
        assert!(!address("10.20.0.0/16", "fd12::1", 1) && !address("hooks.example.com", "10.20.0.1", 1));
    }
}
