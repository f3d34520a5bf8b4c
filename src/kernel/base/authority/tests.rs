//! The laws of authority, tested with generated values.

use proptest::{collection::vec, option, prelude::*, sample::subsequence};

use super::*;

fn organization(number: u8) -> OrganizationId {
    OrganizationId::from_bytes([number; 16])
}

fn network(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Each part has only a few values, so that generated authorities are often related.
fn scopes() -> impl Strategy<Value = Grants> {
    let few = vec![Scope::TicketsRead, Scope::TicketsWrite, Scope::VmsRead, Scope::ApiKeysWrite, Scope::UsersWrite];
    subsequence(few, 0..=5).prop_map(|scopes| scopes.into_iter().collect())
}

fn organizations() -> impl Strategy<Value = Within<Organizations>> {
    let some = subsequence(vec![1, 2, 3], 0..=3).prop_map(|ids| Within::Only(ids.into_iter().map(organization).collect()));
    prop_oneof![1 => Just(Within::All), 3 => some]
}

fn networks() -> impl Strategy<Value = Within<Networks>> {
    let v4 = (0_u32..8, 29_u8..=32).prop_map(|(host, length)| network(&format!("10.0.0.{host}/{length}")));
    let v6 = (0_u32..8, 125_u8..=128).prop_map(|(host, length)| network(&format!("fd00::{host}/{length}")));
    let ends = prop_oneof![
        Just(network("0.0.0.0/0")),
        Just(network("::/0")),
        Just(network("255.255.255.255/32")),
        Just(network("128.0.0.0/1"))
    ];
    let some = vec(prop_oneof![4 => v4, 2 => v6, 1 => ends], 0..5).prop_map(|list| Within::Only(Networks::new(list)));
    prop_oneof![1 => Just(Within::All), 3 => some]
}

fn authority() -> impl Strategy<Value = Authority> {
    let until = option::of((0_i64..4).prop_map(Timestamp::from_millis));
    (scopes(), organizations(), networks(), until).prop_map(|(scopes, organizations, networks, until)| {
        Authority::new(TenantId::from_bytes([1; 16]), scopes)
            .with_organizations(organizations)
            .with_networks(networks)
            .with_until(until)
    })
}

/// A pair that is often related, because independent authorities rarely cover each other.
fn related() -> impl Strategy<Value = (Authority, Authority)> {
    (authority(), authority(), 0_u8..4).prop_map(|(one, other, relation)| match relation {
        0 => (one.clone(), one.meet(&other)),
        1 => (one.meet(&other), one),
        2 => (one.clone(), one),
        _ => (one, other),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn covering_is_reflexive_and_antisymmetric((one, other) in related()) {
        prop_assert!(one.covers(&one));
        prop_assert_eq!(one.covers(&other) && other.covers(&one), one == other);
    }

    #[test]
    fn covering_is_transitive((one, other) in related(), third in authority()) {
        let below = other.meet(&third);
        prop_assert!(other.covers(&below));
        if one.covers(&other) {
            prop_assert!(one.covers(&below));
        }
        if one.covers(&other) && other.covers(&third) {
            prop_assert!(one.covers(&third));
        }
    }

    #[test]
    fn the_meet_is_the_greatest_lower_bound((one, other) in related(), third in authority()) {
        let meet = one.meet(&other);
        prop_assert!(one.covers(&meet) && other.covers(&meet));
        prop_assert_eq!(&meet, &other.meet(&one));
        prop_assert_eq!(one.covers(&other), meet == other);
        for below in [third.clone(), meet.meet(&third), one.meet(&third)] {
            prop_assert_eq!(one.covers(&below) && other.covers(&below), meet.covers(&below));
        }
        prop_assert_eq!(one.meet(&other).meet(&third), one.meet(&other.meet(&third)));
    }

    #[test]
    fn a_restricted_authority_holds_no_tenant_wide_scope((one, other) in related()) {
        let meet = one.meet(&other);
        prop_assert!(*meet.organizations() == Within::All || Grants::BY_ORGANIZATION.covers(meet.scopes()));
    }

    #[test]
    fn a_change_needs_both_sides_unless_it_reduces(caller in authority(), (before, after) in related()) {
        let covers_both = caller.covers(&before) && caller.covers(&after);
        let reduces = before.covers(&after);
        prop_assert_eq!(caller.may_change(Some(&before), Some(&after), false).is_ok(), reduces || covers_both);
        prop_assert_eq!(caller.may_change(Some(&before), Some(&after), true).is_ok(), covers_both);
        prop_assert_eq!(caller.may_change(None, Some(&after), false).is_ok(), caller.covers(&after));
        prop_assert!(caller.may_change(Some(&before), None, false).is_ok());
        prop_assert_eq!(caller.may_change(Some(&before), None, true).is_ok(), caller.covers(&before));
    }

    #[test]
    fn missing_rights_are_named((one, other) in related()) {
        match one.lacking(&other) {
            None => prop_assert!(one.covers(&other)),
            Some(lacking) => {
                prop_assert!(!lacking.to_string().is_empty());
                prop_assert!(other.scopes().covers(lacking.scopes) && !one.scopes().overlaps(lacking.scopes));
                prop_assert!(lacking.until.is_none_or(|end| one.until() == Some(end)));
            }
        }
    }

    /// Compares the results with those of a check address by address.
    #[test]
    fn networks_are_compared_by_their_addresses(one in networks(), other in networks()) {
        let (Within::Only(one), Within::Only(other)) = (one, other) else { return Ok(()) };
        let samples = ["10.0.0.0/32", "10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.4/32", "10.0.0.5/32", "10.0.0.6/32",
            "10.0.0.7/32", "10.0.0.8/32", "127.0.0.1/32", "200.0.0.1/32", "255.255.255.255/32", "fd00::/128", "fd00::5/128", "fe00::/128"];
        let (first, second) = (Within::Only(one.clone()), Within::Only(other.clone()));
        let Within::Only(meet) = first.meet(&second) else { return Err(TestCaseError::fail("a meet of some is some")) };
        for sample in samples.map(network) {
            prop_assert_eq!(meet.holds(&sample), one.holds(&sample) && other.holds(&sample));
            if first.lacking(&second).is_none() {
                prop_assert!(one.holds(&sample) || !other.holds(&sample));
            }
        }
    }
}

#[test]
fn an_empty_part_reaches_nothing() {
    let tenant = TenantId::from_bytes([1; 16]);
    let tickets = Grants::of(&[Scope::TicketsRead]);
    let nowhere = Authority::new(tenant, tickets).with_organizations(Within::Only(Organizations::new()));
    assert!(nowhere.may(&Label::new(tickets, [organization(1)])).is_err());
    assert!(nowhere.may(&Label::tenant_wide(tickets)).is_err());
    let everywhere = Authority::new(tenant, tickets);
    assert!(everywhere.covers(&nowhere) && !nowhere.covers(&everywhere));
    let no_network = everywhere.clone().with_networks(Within::Only(Networks::default()));
    assert!(everywhere.covers(&no_network) && !no_network.covers(&everywhere));
    assert_eq!(*everywhere.meet(&nowhere).organizations(), Within::Only(Organizations::new()));
}

#[test]
fn two_halves_cover_the_whole_network() {
    let halves = Networks::new(vec![network("10.0.0.0/25"), network("10.0.0.128/25")]);
    assert_eq!(halves, Networks::new(vec![network("10.0.0.7/24")]));
    let tenant = TenantId::from_bytes([1; 16]);
    let from = |networks: &[&str]| {
        let networks = networks.iter().map(|text| network(text)).collect();
        Authority::new(tenant, Grants::NONE).with_networks(Within::Only(networks))
    };
    assert!(from(&["10.0.0.0/25", "10.0.0.128/25"]).covers(&from(&["10.0.0.0/24"])));
    assert!(!from(&["10.0.0.0/25"]).covers(&from(&["10.0.0.0/24"])));
    assert!(!from(&["0.0.0.0/0"]).covers(&from(&["::/0"])));
}

#[test]
fn another_tenant_is_never_covered() {
    let [one, other] = [1, 2].map(|number| Authority::everything(TenantId::from_bytes([number; 16])));
    assert!(!one.covers(&other) && one.lacking(&other).is_some_and(|lacking| lacking.tenant));
    assert_eq!(one.meet(&other).scopes(), Grants::NONE);
}

#[test]
fn a_label_needs_all_its_rights() {
    let tenant = TenantId::from_bytes([1; 16]);
    let read = Grants::of(&[Scope::TicketsRead]);
    let one = Authority::new(tenant, read).with_organizations(Within::Only([organization(1)].into()));
    assert!(one.may(&Label::new(read, [organization(1)])).is_ok());
    let both = one.may(&Label::new(read, [organization(1), organization(2)])).unwrap_err();
    assert_eq!(both.organizations, Some(Within::Only([organization(2)].into())));
    assert_eq!(one.may(&Label::new(read, [])).unwrap_err().organizations, Some(Within::All));
    let write = Label::new(Grants::of(&[Scope::TicketsRead, Scope::TicketsWrite]), [organization(1)]);
    assert_eq!(one.may(&write).unwrap_err().scope_names(), ["tickets:write"]);
    assert!(Authority::new(tenant, read).may(&Label::tenant_wide(read)).is_ok());
}
