//! The filters for devices: texts that ignore case and accents, addresses and networks, MAC addresses in any notation, and packages
//! with versions. No store, no clock, no wire types.

use std::{cmp::Ordering, net::IpAddr};

use ipnet::IpNet;
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::{
    super::model::{Network, Software},
    version,
};

/// A text without case and accents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded(String);

impl Folded {
    pub fn new(text: &str) -> Self {
        Self(fold(text))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is(&self, text: &str) -> bool {
        if text.is_ascii() { self.0.eq_ignore_ascii_case(text) } else { fold(text) == self.0 }
    }

    /// Whether a text contains it. In double quotes, it stands for the whole text.
    pub fn is_in(&self, text: &str) -> bool {
        let whole = self.0.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        whole.map_or_else(|| fold(text).contains(&self.0), |whole| fold(text) == whole)
    }

    /// Whether it equals a host name, with or without the domain.
    pub fn is_host(&self, name: &str) -> bool {
        self.is(name) || name.split_once('.').is_some_and(|(host, _)| self.is(host))
    }

    fn begins(&self, text: &str) -> bool {
        fold(text).starts_with(&self.0)
    }
}

/// Removes case and accents from a text. Names are sorted by the result.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.trim().to_ascii_lowercase();
    }
    let folded = text.trim().nfkd().filter(|letter| !is_combining_mark(*letter));
    folded.flat_map(char::to_lowercase).collect()
}

/// An IP address, or a network that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressFilter(IpNet);

impl AddressFilter {
    pub fn parse(text: &str) -> Option<Self> {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>().or(address).ok().map(Self)
    }

    pub fn admits(&self, network: &Network) -> bool {
        let of_device = network.primary_ip.iter().chain(&network.public_ip);
        let of_interfaces = network.interfaces.iter().flat_map(|interface| &interface.ips);
        // An invalid address from a source system is in no network.
        of_device.chain(of_interfaces).filter_map(|text| text.parse::<IpAddr>().ok()).any(|address| self.0.contains(&address))
    }
}

/// A MAC address, or its first half, which identifies the manufacturer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacFilter(String);

impl MacFilter {
    pub fn parse(text: &str) -> Option<Self> {
        const SIGNS: [char; 4] = [':', '-', '.', ' '];
        let digits: String = text.chars().filter(|letter| !SIGNS.contains(letter)).collect();
        let whole = matches!(digits.len(), 6 | 12) && digits.chars().all(|letter| letter.is_ascii_hexdigit());
        whole.then(|| Self(digits.to_ascii_lowercase()))
    }

    pub fn admits(&self, network: &Network) -> bool {
        network.interfaces.iter().filter_map(|interface| interface.mac.as_deref()).any(|mac| {
            let mut digits = mac.chars().filter(char::is_ascii_hexdigit).map(|letter| letter.to_ascii_lowercase());
            self.0.chars().all(|wanted| digits.next() == Some(wanted))
        })
    }
}

/// A package by name and optionally by version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftwareFilter {
    name: Folded,
    /// Whether the name is only a prefix.
    prefix: bool,
    version: Option<(Comparison, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    More,
    Less,
    Same,
}

impl Comparison {
    /// Longer operators come first, because shorter ones are their prefixes.
    const SIGNS: [(&'static str, Self); 5] =
        [(">=", Self::AtLeast), ("<=", Self::AtMost), (">", Self::More), ("<", Self::Less), ("=", Self::Same)];

    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::AtLeast => order.is_ge(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::Less => order.is_lt(),
            Self::Same => order.is_eq(),
        }
    }
}

impl SoftwareFilter {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, version) = match text.find(['<', '>', '=']) {
            None => (text, None),
            Some(at) => {
                let (name, rest) = text.split_at(at);
                let sign = Comparison::SIGNS.iter().find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)));
                let (comparison, version) =
                    sign.map(|(comparison, version)| (comparison, version.trim())).ok_or("no comparison")?;
                // For equality, the version can also be a word.
                let is_word = comparison == Comparison::Same && version.starts_with(|letter: char| letter.is_alphabetic());
                if !is_word && !version::is_version(version) {
                    return Err("a comparison needs a version that starts with a number, as in name>=1.2 or name<1:2.0");
                }
                (name, Some((comparison, version.to_owned())))
            }
        };
        let whole = name.trim();
        let (name, prefix) = whole.strip_suffix('*').map_or((whole, false), |name| (name, true));
        let name = Folded::new(name);
        if name.is_empty() {
            return Err("the package name is missing: use name or name>=1.2");
        }
        Ok(Self { name, prefix, version })
    }

    pub fn admits(&self, package: &Software) -> bool {
        let named = if self.prefix { self.name.begins(&package.name) } else { self.name.is(&package.name) };
        named
            && self.version.as_ref().is_none_or(|(comparison, wanted)| {
                let found = package.version.as_deref();
                found.is_some_and(|found| comparison.holds(version::compare(found, wanted)))
            })
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Interface;

    use super::*;

    fn network(mac: &str, ips: &[&str]) -> Network {
        let ips = ips.iter().map(|ip| (*ip).to_owned()).collect();
        let interfaces = vec![Interface { name: None, mac: Some(mac.to_owned()), ips }];
        Network { hostname: None, primary_ip: Some("10.0.0.9".to_owned()), public_ip: Some("unknown".to_owned()), interfaces }
    }

    #[test]
    fn a_mac_address_matches_in_any_notation() {
        let device = network("D4:BE:D9:01:02:0A", &[]);
        for spelling in ["d4:be:d9:01:02:0a", "D4-BE-D9-01-02-0A", "d4be.d901.020a", "d4bed901020a", "D4:BE:D9"] {
            assert!(MacFilter::parse(spelling).unwrap().admits(&device), "{spelling}");
        }
        assert!(!MacFilter::parse("d4:be:d9:01:02:0b").unwrap().admits(&device));
        for broken in ["", "d4:be", "d4:be:d9:01:02:0g", "d4:be:d9:01:02:0a:0b", "ääääää"] {
            assert_eq!(MacFilter::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_address_matches_itself_and_its_network() {
        let device = network("", &["2001:db8::7", "192.0.2.5"]);
        for (text, found) in [
            ("10.0.0.9", true),
            ("192.0.2.0/24", true),
            ("2001:DB8::7", true),
            ("2001:db8::/32", true),
            ("10.0.0.8", false),
            ("10.0.0.0/30", false),
        ] {
            assert_eq!(AddressFilter::parse(text).unwrap().admits(&device), found, "{text}");
        }
        for broken in ["", "10.0.0", "10.0.0.0/33", "host"] {
            assert_eq!(AddressFilter::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_package_matches_by_name_and_version() {
        let package = |name: &str, version: Option<&str>| Software {
            name: name.to_owned(),
            version: version.map(str::to_owned),
            publisher: None,
        };
        let chrome = package("Google Chrome", Some("131.0.6778.86"));
        for (text, found) in [
            ("google chrome", true),
            ("google", false),
            ("Google*", true),
            ("google*>=131", true),
            ("Google Chrome >= 131.0.6778.86", true),
            ("Google Chrome>131.0.6778.86", false),
            ("Google Chrome<=131.0.6778.86", true),
            ("Google Chrome<131.0.6778.9", false),
            ("Google Chrome<132", true),
            ("Google Chrome=131.0.6778.86", true),
            ("Google Chrome=131", false),
        ] {
            assert_eq!(SoftwareFilter::parse(text).unwrap().admits(&chrome), found, "{text}");
        }
        let unversioned = package("Google Chrome", None);
        assert!(SoftwareFilter::parse("google chrome").unwrap().admits(&unversioned));
        assert!(!SoftwareFilter::parse("google chrome>=0").unwrap().admits(&unversioned), "the version is unknown");
        assert!(SoftwareFilter::parse("école*").unwrap().admits(&package("Ecole Directe", None)));
        for broken in ["", "  ", ">=1", "name>=", "name>>1", "name==1", "*"] {
            assert!(SoftwareFilter::parse(broken).is_err(), "{broken}");
        }
    }
}
