//! Determines whether an address belongs to this machine. The routing table knows, including addresses that were added after the
//! start: on the way to a local address, the source is that address itself. The query sends no packets.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use tenantd_base::cache::Cache;

/// How long an answer is cached, and the most answers in the cache.
const FRESH: Duration = Duration::from_secs(10);
const MAX_ENTRIES: u64 = 4096;
/// Any port works, because connecting a datagram socket sends nothing.
const DISCARD_PORT: u16 = 9;

#[derive(Debug)]
pub(super) struct Machine {
    known: Cache<IpAddr, bool>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { known: Cache::expiring(MAX_ENTRIES, FRESH) }
    }

    pub(super) fn has(&self, ip: IpAddr) -> bool {
        if let Some(known) = self.known.get(&ip) {
            return known;
        }
        let found = source_towards(ip) == Some(ip);
        self.known.insert(ip, found);
        found
    }

    #[cfg(test)]
    pub(super) fn with_address(ip: IpAddr) -> Self {
        let machine = Self::new();
        machine.known.insert(ip, true);
        machine
    }
}

/// Without a route there is no source, and then nobody can connect there either.
fn source_towards(ip: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((ip, DISCARD_PORT)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_recognized() {
        let machine = Machine::new();
        assert!(machine.has(Ipv4Addr::LOCALHOST.into()));
        assert!(!machine.has(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
