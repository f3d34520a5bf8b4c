//! The IPv4 addresses that an IPv6 address can stand for. A gateway may translate such an address to IPv4. Checking only its IPv6
//! form would therefore make every blocked IPv4 address reachable in disguise.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most addresses that one address can stand for: see `local_nat64`.
const MOST: usize = 4;

/// Every address that `ip` can be translated to. All of them must be allowed.
pub(super) fn readings(ip: IpAddr) -> impl Iterator<Item = IpAddr> {
    let readings = match ip {
        IpAddr::V4(_) => [Some(ip), None, None, None],
        IpAddr::V6(address) => hidden(address).map_or([Some(ip), None, None, None], |found| found.map(|v4| v4.map(IpAddr::V4))),
    };
    readings.into_iter().flatten()
}

fn hidden(address: Ipv6Addr) -> Option<[Option<Ipv4Addr>; MOST]> {
    let one = |a, b, c, d| Some([Some(Ipv4Addr::new(a, b, c, d)), None, None, None]);
    match address.octets() {
        // The unspecified address and loopback belong to IPv6 itself.
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // Mapped (::ffff:0:0/96), translated (::ffff:0:0:0/96), compatible (::/96), NAT64 (64:ff9b::/96), 6to4 (2002::/16).
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
        | [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, a, b, c, d]
        | [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        | [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        | [0x20, 0x02, a, b, c, d, ..] => one(a, b, c, d),
        [0, 0x64, 0xff, 0x9b, 0, 1, ..] => Some(local_nat64(address.octets())),
        // Teredo (2001::/32): the server, and the client with inverted bits.
        [0x20, 0x01, 0, 0, s1, s2, s3, s4, _, _, _, _, a, b, c, d] => {
            Some([Some(Ipv4Addr::new(s1, s2, s3, s4)), Some(Ipv4Addr::new(!a, !b, !c, !d)), None, None])
        }
        _ => None,
    }
}

/// In `64:ff9b:1::/48` the gateway may use any prefix length of RFC 6052, and only its operator knows which. So every reading whose
/// unused bits are zero counts. A reading of 0.0.0.0 is ignored, unless there is no other.
fn local_nat64(octets: [u8; 16]) -> [Option<Ipv4Addr>; MOST] {
    let [_, _, _, _, _, _, o6, o7, o8, o9, o10, o11, o12, o13, o14, o15] = octets;
    let zero = |unused: &[u8]| unused.iter().all(|octet| *octet == 0);
    let readings = [
        zero(&[o8, o11, o12, o13, o14, o15]).then_some(Ipv4Addr::new(o6, o7, o9, o10)),
        zero(&[o8, o12, o13, o14, o15]).then_some(Ipv4Addr::new(o7, o9, o10, o11)),
        zero(&[o8, o13, o14, o15]).then_some(Ipv4Addr::new(o9, o10, o11, o12)),
        Some(Ipv4Addr::new(o12, o13, o14, o15)),
    ];
    let specified = readings.map(|reading| reading.filter(|address| !address.is_unspecified()));
    if specified.iter().any(Option::is_some) { specified } else { [Some(Ipv4Addr::UNSPECIFIED), None, None, None] }
}
