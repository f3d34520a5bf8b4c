//! The verdict on every spelling of an address that a URL can have, and on IPv4 in its disguises.

use proptest::prelude::*;

use super::{super::target::TargetUrl, *};

/// What is to come of a URL's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Judged(Class),
    /// Refused before there is an address to judge.
    NoUrl,
    /// For the resolver.
    Name,
}

const PUBLIC: Verdict = Verdict::Judged(Class::Public);
const PRIVATE: Verdict = Verdict::Judged(Class::Private);
const LOOPBACK: Verdict = Verdict::Judged(Class::Forbidden(Reason::Loopback));
const UNSPECIFIED: Verdict = Verdict::Judged(Class::Forbidden(Reason::Unspecified));
const LINK_LOCAL: Verdict = Verdict::Judged(Class::Forbidden(Reason::LinkLocal));
const METADATA_SERVICE: Verdict = Verdict::Judged(Class::Forbidden(Reason::Metadata));
const MULTICAST: Verdict = Verdict::Judged(Class::Forbidden(Reason::Multicast));
const BROADCAST: Verdict = Verdict::Judged(Class::Forbidden(Reason::Broadcast));
const RESERVED: Verdict = Verdict::Judged(Class::Forbidden(Reason::Reserved));

#[rustfmt::skip]
const SPELLINGS: &[(Verdict, &[&str])] = &[
    (LOOPBACK, &[
        "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.255.255.254", "127.000.000.001", "2130706433", "017700000001", "0x7f000001",
        "0x7F.1", "0x7f.0x0.0x0.0x1", "0177.0.0.1", "0177.0.0.01", "00000177.1", "0x7f.0.1", "0X7F000001", "127.0x0.1", "127.0.0.0x", "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1", "１２７.0.0.1", "１２７．０．０．１", "①②⑦.⓪.⓪.①", "127。0。0。1", "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]", "[::7f00:1]", "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::127.0.0.1]", "[64:ff9b:1:7f00:0:100::]", "[64:ff9b:1:7f:0:1::]",
        "[2002:7f00:1::]", "[2002:7f00:0001:abcd::1]", "[2001:0:808:808:0:0:80ff:fffe]", "[2001:0:7f00:1:0:0:f7f7:f7f7]",
    ]),
    (UNSPECIFIED, &["0.0.0.0", "0", "0x0", "00", "0.0", "0.0.0.0.", "[::]", "[0:0:0:0:0:0:0:0]", "[::ffff:0.0.0.0]", "[64:ff9b::]", "[64:ff9b:1::]"]),
    (LINK_LOCAL, &[
        "169.254.169.254", "169.254.0.1", "169.254.170.2", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376",
        "169.254.43518", "169.16689662", "[::ffff:169.254.169.254]", "[::a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]",
        "[2002:a9fe:a9fe::1]", "[2001:0:808:808:0:0:5601:5601]", "[fe80::1]", "[febf::1]", "[fe80::a9fe:a9fe]",
    ]),
    (METADATA_SERVICE, &["168.63.129.16", "0xa83f8110", "2822734096", "[::ffff:168.63.129.16]", "[2002:a83f:8110::]", "[fd00:ec2::254]", "[fd00:0ec2:0::0254]"]),
    (MULTICAST, &["224.0.0.1", "239.255.255.250", "[ff02::1]", "[ff0e::1]", "[::ffff:224.0.0.1]"]),
    (BROADCAST, &["255.255.255.255", "4294967295", "0xffffffff", "[::ffff:255.255.255.255]"]),
    (RESERVED, &[
        "0.0.0.1", "0.1.2.3", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
        "203.0.113.9", "240.0.0.1", "254.255.255.255", "[::2]", "[100::1]", "[100:0:0:1::1]", "[2001:2::1]", "[2001:10::1]", "[2001:20::1]",
        "[2001:db8::1]", "[3fff::1]", "[3fff:fff::1]", "[5f00::1]", "[fec0::1]", "[4000::1]", "[64:ff9b:2::1]", "[::ffff:192.0.2.1]",
    ]),
    (PRIVATE, &[
        "10.0.0.1", "10.255.255.255", "10.1", "0xa000001", "012.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.1",
        "3232235521", "100.64.0.1", "100.127.255.255", "100.100.100.200", "[fc00::1]", "[fdff:ffff::1]", "[fd00:ec2::253]", "[::ffff:10.0.0.1]", "[::10.0.0.1]",
        "[64:ff9b::10.0.0.1]", "[2002:c0a8:1::]", "[2001:0:808:808:0:0:f5ff:fffe]",
    ]),
    (PUBLIC, &[
        "8.8.8.8", "134744072", "0x08080808", "1.1.1.1", "1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.1", "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "192.169.0.0",
        "198.17.255.255", "198.20.0.0", "223.255.255.255", "[2606:4700::1111]", "[2a00:1450:4001:81b::200e]", "[::ffff:8.8.8.8]",
        "[::8.8.8.8]", "[64:ff9b::8.8.8.8]", "[2002:808:808::1]", "[2001:0:808:808:0:0:f7f7:f7f7]",
    ]),
    (Verdict::NoUrl, &[
        "1.2.3.256", "256.0.0.1", "127.0.0.1.5", "0x100000000", "4294967296", "0800.0.0.1", "09.1", "1.2.3.08", "[fe80::1%25eth0]", "[fe80::1%eth0]",
        "[::1", "::1", "[127.0.0.1]", "[::ffff:127.1]", "user@127.0.0.1", "user:secret@8.8.8.8", "@8.8.8.8", "8.8.8.8\\@127.0.0.1", "127.0.0.1\t",
        "127.0.0.1 ", "127.0.\n0.1", "", "8.8.8.8:0", "8.8.8.8:65536", "8.8.8.8:http", "8.8.8.8/#part", "8.8.8.8#@127.0.0.1", "a%00b", "a%2fb", "a%40b", "a b", "ex^ample.com",
    ]),
    (Verdict::Name, &["localhost", "localhost.", "LOCALHOST", "ⓛocalhost", "example.com", "EXAMPLE.com.", "127.0.0.1.nip.io", "bücher.example", "0x7f.example", "intranet"]),
];

fn closed() -> config::Egress {
    config::Egress {
        allowed_networks: Vec::new(),
        allowed_addresses: Vec::new(),
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
    Verdict::Judged(opened(&[], &[]).judge(address, TENANT).map_or_else(|refusal| refusal.class, |()| Class::Public))
}

#[test]
fn every_spelling_of_a_host_gets_its_verdict() {
    let mut judged = 0;
    for (expected, hosts) in SPELLINGS {
        for host in *hosts {
            assert_eq!(verdict(host), *expected, "{host:?}");
            judged += 1;
        }
    }
    println!("{judged} spellings judged");
    assert!(judged >= 120);
}

#[test]
fn a_url_is_refused_for_what_two_readers_could_read_differently() {
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
fn private_addresses_open_by_network_and_forbidden_ones_by_exact_address_only() {
    let policy = opened(&["10.0.0.0/8", "fd00::/8"], &["127.0.0.1", "::ffff:169.254.169.254"]);
    for open in ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"] {
        assert_eq!(policy.judge(at(open), TENANT), Ok(()), "{open}");
    }
    for shut in ["192.168.0.1", "fc00::1", "127.0.0.2", "::1", "169.254.169.253", "fd00:ec2::254"] {
        assert!(policy.judge(at(shut), TENANT).is_err(), "{shut}");
    }
    // A network in the settings never opens what is forbidden inside of it.
    assert!(opened(&["fd00:ec2::/32"], &[]).judge(at("fd00:ec2::254"), TENANT).is_err());
}

#[test]
fn an_evaluation_reaches_loopback_and_nothing_else_that_is_forbidden() {
    let policy = opened(&[], &[]);
    for open in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(policy.judge(at(open), EVALUATION), Ok(()), "{open}");
    }
    for shut in ["0.0.0.0", "::", "169.254.169.254", "10.0.0.1", "255.255.255.255"] {
        assert!(policy.judge(at(shut), EVALUATION).is_err(), "{shut}");
    }
}

#[test]
fn an_address_that_tenantd_listens_on_is_forbidden_even_when_its_network_is_allowed() {
    let settings = config::Egress { allowed_networks: vec!["10.0.0.0/8".parse().unwrap()], ..closed() };
    let own = |refused: Result<(), Refusal>| refused.is_err_and(|refusal| refusal.class == Class::Forbidden(Reason::Own));
    let policy = Policy::new(&settings, &["10.0.0.5:8443".parse().unwrap(), "127.0.0.1:8443".parse().unwrap()]);
    assert!(own(policy.judge("10.0.0.5:8443".parse().unwrap(), TENANT)));
    assert!(own(policy.judge("10.0.0.5:9100".parse().unwrap(), TENANT)));
    assert!(own(policy.judge("[::ffff:10.0.0.5]:8443".parse().unwrap(), TENANT)));
    assert_eq!(policy.judge("10.0.0.6:8443".parse().unwrap(), TENANT), Ok(()));
    assert!(own(policy.judge("127.0.0.1:8443".parse().unwrap(), EVALUATION)));
    assert_eq!(policy.judge("127.0.0.1:3000".parse().unwrap(), EVALUATION), Ok(()));
    policy.set_listening(&["127.0.0.1:3000".parse().unwrap()]);
    assert!(own(policy.judge("127.0.0.1:3000".parse().unwrap(), EVALUATION)));

    let everywhere = Policy::new(&settings, &["0.0.0.0:8443".parse().unwrap()]);
    let everywhere = Policy { machine: Machine::with_address("10.0.0.7".parse().unwrap()), ..everywhere };
    assert!(own(everywhere.judge("10.0.0.7:80".parse().unwrap(), TENANT)));
    assert!(own(everywhere.judge("127.0.0.9:8443".parse().unwrap(), EVALUATION)));
    assert_eq!(everywhere.judge("127.0.0.9:80".parse().unwrap(), EVALUATION), Ok(()));
}

fn settings_for(kind: u8) -> Policy {
    match kind {
        0 => opened(&[], &[]),
        1 => opened(&["10.0.0.0/8", "192.168.0.0/16"], &[]),
        _ => opened(&["100.64.0.0/10"], &["127.0.0.1", "169.254.169.254"]),
    }
}

/// Addresses near the edges of the ranges as often as any others.
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
    fn ipv4_in_every_ipv6_disguise_is_judged_as_ipv4(v4 in ipv4(), kind in 0..3_u8, noise in any::<[u16; 5]>(), loopback in any::<bool>()) {
        let policy = settings_for(kind);
        let audience = Audience { allow_loopback: loopback };
        let plain = policy.judge(SocketAddr::new(v4.into(), 443), audience).map_err(|refusal| (refusal.judged_as, refusal.class));
        let [a, b, c, d] = v4.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let [n1, n2, n3, n4, n5] = noise;
        let mut disguises = vec![
            Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, n1, n2, n3, n4, n5),
            // Its server is public: the client decides.
            Ipv6Addr::new(0x2001, 0, 0x0808, 0x0808, n1, n2, !high, !low),
            Ipv6Addr::new(0x2001, 0, high, low, n1, n2, !0x0808, !0x0808),
        ];
        // ::0.0.0.0 and ::0.0.0.1 are the unspecified address and loopback of IPv6.
        if u32::from(v4) > 1 {
            disguises.push(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low));
        }
        for disguise in disguises {
            let judged = policy.judge(SocketAddr::new(disguise.into(), 443), audience).map_err(|refusal| (refusal.judged_as, refusal.class));
            prop_assert_eq!(judged, plain, "{}", disguise);
        }
        // Where the gateway's prefix length is not known, other readings may refuse as well; none may open what is closed.
        for disguise in [
            Ipv6Addr::new(0x64, 0xff9b, 1, n1, n2, n3, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, high, u16::from(c), u16::from_be_bytes([d, 0]), 0, 0),
            Ipv6Addr::new(0x64, 0xff9b, 1, u16::from_be_bytes([n1.to_be_bytes()[0], a]), u16::from(b), low, 0, 0),
            Ipv6Addr::new(0x64, 0xff9b, 1, n1, u16::from(a), u16::from_be_bytes([b, c]), u16::from_be_bytes([d, 0]), 0),
        ] {
            let judged = policy.judge(SocketAddr::new(disguise.into(), 443), audience);
            prop_assert!(plain.is_ok() || judged.is_err() || v4.is_unspecified(), "{}", disguise);
        }
    }

    #[test]
    fn a_url_never_hides_an_address_from_the_judge(v4 in ipv4(), form in 0..7_u8) {
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
