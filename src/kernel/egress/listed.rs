//! The list of the only targets (`egress.only_targets`). It is checked in addition to the address policy.
//!
//! **Invariant:** the list can only refuse. A target that it lists must still pass the policy. A name that no entry can list is
//! refused before it is looked up, so that not even a DNS question leaves the host.

use std::net::IpAddr;

use tenantd_base::config::OnlyTarget;

use super::{error::Blocked, hidden::readings, target::TargetUrl};

/// What the list says about the host of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// The name or the address is listed, or the list is empty.
    Listed,
    /// The name is not listed, but the list has networks. All addresses of the name must be in them.
    ByAddresses,
    Unlisted,
}

#[derive(Debug)]
pub(super) struct OnlyTargets(Vec<OnlyTarget>);

impl OnlyTargets {
    pub(super) fn new(targets: &[OnlyTarget]) -> Self {
        Self(targets.to_vec())
    }

    pub(super) fn listing(&self, url: &TargetUrl) -> Listing {
        let port = url.port();
        let is_listed = match url.literal() {
            Some(address) => self.has_address(address.ip(), port),
            None => self.0.iter().any(|target| target.has_name(url.host(), port)),
        };
        match () {
            () if self.0.is_empty() || is_listed => Listing::Listed,
            () if url.literal().is_none() && self.0.iter().any(|target| target.has_addresses(port)) => Listing::ByAddresses,
            () => Listing::Unlisted,
        }
    }

    /// Whether every address that `address` can stand for is in a listed network.
    pub(super) fn has_address(&self, address: IpAddr, port: u16) -> bool {
        readings(address).all(|reading| self.0.iter().any(|target| target.has_address(reading, port)))
    }
}

/// Logs the refusal for the operator, and returns the error for the tenant.
pub(super) fn refuse(url: &TargetUrl) -> Blocked {
    let (host, port, setting) = (url.host(), url.port(), "egress.only_targets");
    tracing::warn!(host, port, setting, "refused to connect: the setting does not list the target");
    Blocked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_listed_by_its_name_or_by_its_addresses() {
        let list = |entries: &[&str]| {
            let parsed: Vec<OnlyTarget> = entries.iter().map(|entry| (*entry).to_owned().try_into().unwrap()).collect();
            OnlyTargets::new(&parsed)
        };
        let of = |entries: &[&str], url: &str| list(entries).listing(&TargetUrl::parse(url).unwrap());
        assert_eq!(of(&[], "https://anything.example/"), Listing::Listed);
        let names = ["hooks.example.com", "*.example.org:8443"];
        for url in ["https://HOOKS.example.com./x", "http://hooks.example.com:81/", "https://a.b.example.org:8443/"] {
            assert_eq!(of(&names, url), Listing::Listed, "{url}");
        }
        for url in
            ["https://example.org:8443/", "https://a.example.org/", "https://hooks.example.com.evil.test/", "https://8.8.8.8/"]
        {
            assert_eq!(of(&names, url), Listing::Unlisted, "{url}");
        }
        let networks = ["10.20.0.0/16:443", "hooks.example.com"];
        for url in ["https://10.20.1.2/", "https://0x0a140102/", "https://[::ffff:10.20.1.2]/", "https://[64:ff9b::10.20.1.2]/"] {
            assert_eq!(of(&networks, url), Listing::Listed, "{url}");
        }
        for url in ["https://10.21.1.2/", "http://10.20.1.2/", "https://[64:ff9b::10.21.1.2]/", "http://inside.example/"] {
            assert_eq!(of(&networks, url), Listing::Unlisted, "{url}");
        }
        assert_eq!(of(&networks, "https://inside.example/"), Listing::ByAddresses);
    }
}
