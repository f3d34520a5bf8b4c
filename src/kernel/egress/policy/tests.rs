//! The verdict on every spelling of an address that a URL can have, and on embedded IPv4 addresses.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{super::target::TargetUrl, *};

/// The expected result for the host of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Judged(Class),
    /// Refused before there is an address to check.
    NoUrl,
    /// A name for the resolver.
    Name,
}

/// Hosts of URLs, grouped by their expected result. The API tests check the same ones from outside.
const SPELLINGS: &str = include_str!("spellings.json");

fn expected(group: &str) -> Verdict {
    let forbidden = |reason| Verdict::Judged(Class::Forbidden(reason));
    match group {
        "loopback" => forbidden(Reason::Loopback),
        "unspecified" => forbidden(Reason::Unspecified),
        "link_local" => forbidden(Reason::LinkLocal),
        "metadata" => forbidden(Reason::Metadata),
        "multicast" => forbidden(Reason::Multicast),
        "broadcast" => forbidden(Reason::Broadcast),
        "reserved" => forbidden(Reason::Reserved),
        "private" => Verdict::Judged(Class::Private),
        "public" => Verdict::Judged(Class::Public),
        "no_url" => Verdict::NoUrl,
        "name" => Verdict::Name,
        unknown => panic!("there is no group {unknown}"),
    }
}

fn closed() -> config::Egress {
    config::Egress {
        allowed_networks: Vec::new(),
        allowed_addresses: Vec::new(),
        only_targets: Vec::new(),
        dns_servers: Vec::new(),
        ca_file: None,
        pool_connections: 1,
        pool_connections_per_target: 1,
        pool_idle_seconds: 1,
        pool_lifetime_seconds: 1,
    }
}

fn opened(networks: &[&str], addresses: &[&str]) -> Policy {
    let settings = config::Egress {
        allowed_networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
        allowed_addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..closed()
    };
    Policy::new(&settings, &[])
}

fn at(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 443)
}

const TENANT: Audience = Audience { allow_loopback: false };
const EVALUATION: Audience = Audience { allow_loopback: true };

fn verdict(host: &str) -> Verdict {
    let Ok(url) = TargetUrl::parse(&format!("https://{host}/hook?a=b")) else { return Verdict::NoUrl };
    let Some(address) = url.literal() else { return Verdict::Name };
    Verdict::Judged(opened(&[], &[]).check(address, TENANT).map_or_else(|refusal| refusal.class, |()| Class::Public))
}

#[test]
fn every_spelling_of_a_host_has_its_verdict() {
    let groups: BTreeMap<String, Vec<String>> = serde_json::from_str(SPELLINGS).unwrap();
    let mut judged = 0;
    for (group, hosts) in &groups {
        for host in hosts {
            assert_eq!(verdict(host), expected(group), "{host:?}");
            judged += 1;
        }
    }
    println!("{judged} spellings checked");
    assert!(judged >= 120);
}

#[test]
fn an_ambiguous_url_is_refused() {
    use super::super::target::UrlProblem::{Ambiguous, Fragment, Invalid, NoHost, Scheme, TooLong, Userinfo};
    let long = format!("https://example.com/{}", "a".repeat(2048));
    let grows = format!("https://example.com/{}", "é".repeat(900));
    for (text, problem) in [
        ("ftp://example.com/", Scheme),
        ("file:///etc/passwd", Scheme),
        ("gopher://127.0.0.1:6379/_x", Scheme),
        ("//example.com/", Scheme),
        ("https:example.com", Scheme),
        ("https:/example.com", Scheme),
        ("javascript:alert(1)//https://example.com", Scheme),
        ("https:///example.com", NoHost),
        ("https://?x", NoHost),
        (" https://example.com", Ambiguous),
        ("https://example.com\\@evil.example", Ambiguous),
        ("https://exam\tple.com/", Ambiguous),
        ("https://example.com/a\r\nHost: b", Ambiguous),
        ("https://example.com/\u{a0}", Ambiguous),
        ("https://example.com/#top", Fragment),
        ("https://example.com#", Fragment),
        ("https://me@example.com/", Userinfo),
        ("https://:@example.com/", Userinfo),
        ("https://example.com:99999/", Invalid),
        (&long, TooLong),
        (&grows, TooLong),
    ] {
        assert_eq!(TargetUrl::parse(text).map(|url| url.as_str().to_owned()), Err(problem), "{text}");
    }
    let url = TargetUrl::parse("HTTPS://Example.COM:443/a/../b?c=d@e").unwrap();
    assert_eq!(url.as_str(), "https://example.com/b?c=d@e");
    let shown = format!("{:?}", TargetUrl::parse("https://example.com/secret-token?key=secret-token").unwrap());
    assert!(!shown.contains("secret-token"), "{shown}");
}

#[test]
fn forbidden_addresses_open_only_by_exact_address() {
    let policy = opened(&["10.0.0.0/8", "fd00::/8"], &["127.0.0.1", "::ffff:169.254.169.254"]);
    for open in ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"] {
        assert_eq!(policy.check(at(open), TENANT), Ok(()), "{open}");
    }
    for shut in ["192.168.0.1", "fc00::1", "127.0.0.2", "::1", "169.254.169.253", "fd00:ec2::254"] {
        assert!(policy.check(at(shut), TENANT).is_err(), "{shut}");
    }
    // An allowed network never opens a forbidden address inside it.
    assert!(opened(&["fd00:ec2::/32"], &[]).check(at("fd00:ec2::254"), TENANT).is_err());
}

#[test]
fn an_evaluation_reaches_only_loopback() {
    let policy = opened(&[], &[]);
    for open in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(policy.check(at(open), EVALUATION), Ok(()), "{open}");
    }
    for shut in ["0.0.0.0", "::", "169.254.169.254", "10.0.0.1", "255.255.255.255"] {
        assert!(policy.check(at(shut), EVALUATION).is_err(), "{shut}");
    }
}

#[test]
fn own_addresses_are_forbidden_in_an_allowed_network() {
    let settings = config::Egress { allowed_networks: vec!["10.0.0.0/8".parse().unwrap()], ..closed() };
    let own = |refused: Result<(), Refusal>| refused.is_err_and(|refusal| refusal.class == Class::Forbidden(Reason::Own));
    let policy = Policy::new(&settings, &["10.0.0.5:8443".parse().unwrap(), "127.0.0.1:8443".parse().unwrap()]);
    assert!(own(policy.check("10.0.0.5:8443".parse().unwrap(), TENANT)));
    assert!(own(policy.check("10.0.0.5:9100".parse().unwrap(), TENANT)));
    assert!(own(policy.check("[::ffff:10.0.0.5]:8443".parse().unwrap(), TENANT)));
    assert_eq!(policy.check("10.0.0.6:8443".parse().unwrap(), TENANT), Ok(()));
    assert!(own(policy.check("127.0.0.1:8443".parse().unwrap(), EVALUATION)));
    assert_eq!(policy.check("127.0.0.1:3000".parse().unwrap(), EVALUATION), Ok(()));
    policy.set_listening(&["127.0.0.1:3000".parse().unwrap()]);
    assert!(own(policy.check("127.0.0.1:3000".parse().unwrap(), EVALUATION)));

    let everywhere = Policy::new(&settings, &["0.0.0.0:8443".parse().unwrap()]);
    let everywhere = Policy { machine: Machine::with_address("10.0.0.7".parse().unwrap()), ..everywhere };
    assert!(own(everywhere.check("10.0.0.7:80".parse().unwrap(), TENANT)));
    assert!(own(everywhere.check("127.0.0.9:8443".parse().unwrap(), EVALUATION)));
    assert_eq!(everywhere.check("127.0.0.9:80".parse().unwrap(), EVALUATION), Ok(()));
}

fn settings_for(kind: u8) -> Policy {
    match kind {
        0 => opened(&[], &[]),
        1 => opened(&["10.0.0.0/8", "192.168.0.0/16"], &[]),
        _ => opened(&["100.64.0.0/10"], &["127.0.0.1", "169.254.169.254"]),
    }
}

/// Addresses near the edges of ranges are as frequent as any others.
fn ipv4() -> impl Strategy<Value = Ipv4Addr> {
    let special = prop::sample::select(vec![
        0x0000_0000_u32,
        0x0a00_0000,
        0x6440_0000,
        0x7f00_0001,
        0xa9fe_a9fe,
        0xac10_0000,
        0xc000_0000,
        0xc0a8_0000,
        0xc612_0000,
        0xe000_0000,
        0xffff_ffff,
        0xa83f_8110,
    ]);
    prop_oneof![any::<u32>(), (special, -2..=2_i32).prop_map(|(base, off)| base.wrapping_add_signed(off))].prop_map(Ipv4Addr::from)
}

proptest! {
    #[test]
    fn embedded_ipv4_addresses_are_checked_as_ipv4(v4 in ipv4(), kind in 0..3_u8, noise in any::<[u16; 5]>(), loopback in any::<bool>()) {
        let policy = settings_for(kind);
        let audience = Audience { allow_loopback: loopback };
        let plain = policy.check(SocketAddr::new(v4.into(), 443), audience).map_err(|refusal| (refusal.judged_as, refusal.class));
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let [n1, n2, n3, n4, n5] = noise;
        let mut disguises = vec![
            Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, n1, n2, n3, n4, n5),
            // The server is public, so the client decides.
            Ipv6Addr::new(0x2001, 0, 0x0808, 0x0808, n1, n2, !high, !low),
            Ipv6Addr::new(0x2001, 0, high, low, n1, n2, !0x0808, !0x0808),
        ];
        // ::0.0.0.0 and ::0.0.0.1 are the unspecified address and loopback of IPv6.
        if u32::from(v4) > 1 {
            disguises.push(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low));
        }
        for disguise in disguises {
            let judged = policy.check(SocketAddr::new(disguise.into(), 443), audience).map_err(|refusal| (refusal.judged_as, refusal.class));
            prop_assert_eq!(judged, plain, "{}", disguise);
        }
        // If the gateway's prefix length is unknown, other readings may also refuse. None may open a blocked address.
        for disguise in [
            Ipv6Addr::new(0x64, 0xff9b, 1, n1, n2, n3, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, high, u16::from(c), u16::from_be_bytes([d, 0]), 0, 0),
            Ipv6Addr::new(0x64, 0xff9b, 1, u16::from_be_bytes([n1.to_be_bytes()[0], a]), u16::from(b), low, 0, 0),
            Ipv6Addr::new(0x64, 0xff9b, 1, n1, u16::from(a), u16::from_be_bytes([b, c]), u16::from_be_bytes([d, 0]), 0),
        ] {
            let judged = policy.check(SocketAddr::new(disguise.into(), 443), audience);
            prop_assert!(plain.is_ok() || judged.is_err() || v4.is_unspecified(), "{}", disguise);
        }
    }

    #[test]
    fn a_url_never_hides_an_address_from_the_policy(v4 in ipv4(), form in 0..7_u8) {
        let number = u32::from(v4);
        let [a, b, c, d] = v4.octets();
        let host = match form {
            0 => format!("{number}"),
            1 => format!("0x{number:x}"),
            2 => format!("0{number:o}"),
            3 => format!("{a}.{}", number & 0x00ff_ffff),
            4 => format!("0x{a:x}.0{b:o}.{}", u32::from(c) << 8 | u32::from(d)),
            5 => format!("{a}.{b}.{c}.{d}").bytes().map(|byte| format!("%{byte:02x}")).collect(),
            _ => format!("{a}.{b}.{c}.{d}.").chars().map(|letter| letter.to_digit(10).map_or(letter, |digit| char::from_u32(0xff10 + digit).unwrap())).collect(),
        };
        let url = TargetUrl::parse(&format!("http://{host}/")).unwrap();
        prop_assert_eq!(url.literal(), Some(SocketAddr::new(v4.into(), 80)), "{}", host);
    }
}
