//! The grammar of the query language. No text makes the parser fail.

use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Query {
    Query::parse(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

fn first_fault(text: &str) -> Fault {
    Query::parse(text).unwrap_err().remove(0)
}

fn word(raw: &str) -> Term {
    Term::Word { raw: raw.to_owned(), words: text::tokens(raw) }
}

fn one(term: Term) -> Group {
    Group { any: vec![term], negated: false }
}

#[test]
fn or_joins_only_its_neighbors() {
    let query = parsed("printer lobby OR hall broken");
    assert_eq!(
        query.groups,
        [one(word("printer")), Group { any: vec![word("lobby"), word("hall")], negated: false }, one(word("broken"))]
    );
}

#[test]
fn phrases_prefixes_and_exclusions_are_parsed() {
    let query = parsed("\"out of  paper\" prin* -fax well-known");
    let phrase = Term::Phrase { words: text::tokens("out of paper") };
    let prefix = Term::Prefix { words: vec!["prin".to_owned()] };
    let hidden = Group { any: vec![word("fax")], negated: true };
    let joined = Term::Word { raw: "well-known".to_owned(), words: vec!["well".to_owned(), "known".to_owned()] };
    assert_eq!(query.groups, [one(phrase), one(prefix), hidden, one(joined)]);
}

#[test]
fn field_values_are_normalized() {
    let conditions: Vec<Condition> =
        parsed("type:ticket status:OPEN org:\"Acme Ltd\" mac:00-1A-2B-3C-4D-5E ip:10.0.* number:T-7 tag:VIP")
            .groups
            .into_iter()
            .filter_map(|group| match group.any.into_iter().next() {
                Some(Term::Field(condition)) => Some(condition),
                _ => None,
            })
            .collect();
    assert_eq!(
        conditions,
        [
            Condition::Kind(Kind::Ticket),
            Condition::State(State::Open),
            Condition::Organization("Acme Ltd".to_owned()),
            attribute(Attribute::Mac, "001a2b3c4d5e".to_owned(), false),
            attribute(Attribute::Ip, "10.0.".to_owned(), true),
            attribute(Attribute::Number, "7".to_owned(), false),
            attribute(Attribute::Tag, "vip".to_owned(), false),
        ]
    );
}

#[test]
fn a_phone_number_with_spaces_is_one_term() {
    let raws = |text: &str| -> Vec<String> {
        let terms = parsed(text).groups.into_iter().flat_map(|group| group.any);
        terms.map(|term| if let Term::Word { raw, .. } = term { raw } else { String::new() }).collect()
    };
    assert_eq!(raws("call +49 (30) 123-4567 now"), ["call", "+49 (30) 123-4567", "now"]);
    assert_eq!(raws("server 2019 17"), ["server", "2019", "17"]);
}

#[test]
fn an_address_field_takes_addresses_and_networks_only() {
    for text in ["ip:10.99.88.0/24", "ip:10.3", "ip:10.3.0.1", "ip:10.0.*", "ip:fe80:*", "ip:2001:db8::/32"] {
        assert!(matches!(parsed(text).groups[0].any[0], Term::Field(_)), "{text}");
    }
    for text in ["ip:10.300.0.0/24", "ip:10.0.0.0/40", "ip:printer", "ip:x*"] {
        assert_eq!(first_fault(text).code, "wrong_form", "{text}");
    }
}

#[test]
fn times_are_compared_by_day_or_by_instant() {
    let day = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
    let range = |text: &str| match parsed(text).groups.remove(0).any.remove(0) {
        Term::Field(Condition::Updated { from, until }) => (from, until),
        other => panic!("{other:?}"),
    };
    assert_eq!(range("updated:>2026-01-01"), (Some(day.plus_days(1)), None));
    assert_eq!(range("updated:>=2026-01-01"), (Some(day), None));
    assert_eq!(range("updated:<2026-01-01"), (None, Some(day)));
    assert_eq!(range("updated:2026-01-01"), (Some(day), Some(day.plus_days(1))));
    assert_eq!(first_fault("updated:yesterday").code, "wrong_form");
}

#[test]
fn faults_have_suggestions() {
    for (text, code, suggestion) in [
        ("", "nothing_to_search", None),
        ("*** ()", "nothing_to_search", None),
        ("\"open", "unbalanced_quote", None),
        ("statsu:open", "unknown_field", Some("status")),
        ("colour:red", "unknown_field", None),
        ("type:tickets", "unknown_value", Some("ticket")),
        ("status:opn", "unknown_value", Some("open")),
        ("status:", "required", None),
        ("OR printer", "wrong_form", None),
        ("printer OR", "wrong_form", None),
        ("a OR OR b", "wrong_form", None),
        ("a OR -b", "wrong_form", None),
        ("p*", "too_short", None),
        ("number:many", "wrong_form", None),
    ] {
        let fault = first_fault(text);
        assert_eq!((fault.code.as_str(), fault.suggestion.as_deref()), (code, suggestion), "{text}");
    }
    let many = vec!["a"; MOST_TERMS + 1].join(" ");
    assert_eq!(first_fault(&many).code, "too_many_terms");
    assert_eq!(Query::parse("statsu:open typ:x \"").unwrap_err().len(), 3, "all faults are reported");
}

#[test]
fn addresses_links_drives_and_labels_are_words() {
    for text in [
        "00:1a:2b:3c:4d:5e",
        "AC:CC:8E:3D:E7:27",
        "ac:cc",
        "fe80::1",
        "https://example.com/a?b=c",
        "C:\\Windows",
        "12:30",
        "Error: disk",
        "[::1]",
    ] {
        assert!(parsed(text).groups.iter().all(|group| matches!(group.any.as_slice(), [Term::Word { .. }])), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_gives_a_query_or_faults(text in "\\PC{0,200}") {
        if let Err(faults) = Query::parse(&text) {
            prop_assert!(!faults.is_empty());
        }
    }

    #[test]
    fn any_punctuation_gives_a_query_or_faults(text in "[-\"*:OR a-c\u{0}\u{202e}🔥東(]{0,200}") {
        if let Ok(query) = Query::parse(&text) {
            prop_assert!(query.groups.iter().map(|group| group.any.len()).sum::<usize>() <= MOST_TERMS);
            prop_assert!(query.groups.iter().all(|group| !group.any.is_empty()));
        }
    }
}
