//! Checks `ASVS.md`: it has one row per requirement of levels 1 and 2, each with a verdict, and every test that a row names exists. Checks
//! the guide `security` where a row relies on its completeness.

use std::{collections::BTreeSet, fs, path::Path};

/// Requirements of levels 1 and 2 in ASVS 5.0.0.
const REQUIREMENTS: usize = 253;
const VERDICTS: [&str; 4] = ["met", "partly", "not met", "n/a"];

struct Row<'a> {
    number: &'a str,
    verdict: &'a str,
    how: &'a str,
    tests: Vec<&'a str>,
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn rows(text: &str) -> Vec<Row<'_>> {
    let is_row = |line: &&str| line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    text.lines()
        .filter(is_row)
        .map(|line| match cells(line).as_slice() {
            [number, _level, _requirement, verdict, how, tests] => {
                Row { number, verdict, how, tests: tests.split('`').skip(1).step_by(2).collect() }
            }
            other => panic!("{} cells: {line}", other.len()),
        })
        .collect()
}

#[test]
fn every_requirement_has_a_verdict_and_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("tests/security/ASVS.md")).unwrap();
    let sources: Vec<String> =
        ["src", "tests"].iter().flat_map(|folder| super::rust_files(folder)).map(|source| source.text).collect();
    let rows = rows(&text);
    let numbers: BTreeSet<&str> = rows.iter().map(|row| row.number).collect();
    assert_eq!((rows.len(), numbers.len()), (REQUIREMENTS, REQUIREMENTS));
    let count = |verdict: &str| rows.iter().filter(|row| row.verdict == verdict).count();
    let [met, partly, not_met, not_applicable] = VERDICTS.map(count);
    let summary = format!(
        "Of {REQUIREMENTS} requirements {met} are met, {partly} partly, {not_met} not, and {not_applicable} do not apply to what tenantd is."
    );
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&summary), "the header does not say: {summary}");
    for row in rows {
        assert!(VERDICTS.contains(&row.verdict), "{}: {}", row.number, row.verdict);
        assert!(!row.how.is_empty(), "{} does not say how or why", row.number);
        for test in row.tests {
            let declared = format!("fn {test}(");
            let found =
                if test.contains('/') { root.join(test).exists() } else { sources.iter().any(|source| source.contains(&declared)) };
            assert!(found, "{} names {test}, which does not exist", row.number);
        }
    }
}

/// `cached_responses_have_no_secret_and_one_audience` checks the cached responses. A slice with another cache must be added to that test.
#[test]
fn only_key_and_ticket_responses_are_cached() {
    let sources = super::rust_files("src");
    let keeps = |text: &str| text.contains("AnswerCache<") && !text.contains("pub struct AnswerCache<");
    let keepers: BTreeSet<String> = sources.into_iter().filter(|source| keeps(&source.text)).map(|source| source.path).collect();
    let expected = ["api_keys", "tickets"]
        .iter()
        .flat_map(|slice| ["collection", "record"].map(|file| format!("slices/{slice}/api/{file}.rs")));
    assert_eq!(keepers, expected.collect());
}

/// The areas of events whose kinds are no security events. A new area is either added here, or its kinds are in the table of the guide.
const DAILY_WORK: [&str; 15] = [
    "backup",
    "cloud",
    "device",
    "disk",
    "drill",
    "organization",
    "preferences",
    "quota",
    "sla",
    "snapshot",
    "store",
    "ticket",
    "view",
    "vm",
    "workflow",
];

#[test]
fn the_guide_lists_every_security_event() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("src/console/guides/security.md")).unwrap();
    let section = guide.split("## Watch security events").nth(1).unwrap();
    let table = section.lines().skip_while(|line| !line.starts_with("| events |")).take_while(|line| line.starts_with('|'));
    let named: Vec<&str> = table.flat_map(|line| cells(line)[0].split('`').skip(1).step_by(2).collect::<Vec<_>>()).collect();
    let listed: BTreeSet<&str> = named.iter().copied().collect();
    assert_eq!(named.len(), listed.len(), "a kind is listed twice");
    // Another test compares this file with the kinds that the server registers.
    let registered = fs::read_to_string(root.join("tests/golden/events.txt")).unwrap();
    let kinds = registered.lines().filter_map(|line| line.split(' ').next()).filter(|kind| !kind.is_empty());
    let expected: BTreeSet<&str> = kinds.filter(|kind| !DAILY_WORK.contains(&kind.split('.').next().unwrap())).collect();
    assert!(expected.len() > 40);
    let missing: Vec<&&str> = expected.difference(&listed).collect();
    let unknown: Vec<&&str> = listed.difference(&expected).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}, unknown: {unknown:?}");
}

#[test]
fn updates_have_times_and_accepted_advisories_have_reasons() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("src/console/guides/security.md")).unwrap();
    let section = guide.split("## Update vulnerable components").nth(1).unwrap();
    for severity in ["| critical", "| high", "| medium", "| low", "| component without maintenance"] {
        let row = section.lines().find(|line| line.starts_with(severity)).unwrap_or_else(|| panic!("no row for {severity}"));
        assert!(row.contains("days") || row.contains("months"), "{row}");
    }
    let deny = fs::read_to_string(root.join("deny.toml")).unwrap();
    let ignored = deny.split("ignore = [").nth(1).unwrap().split(']').next().unwrap();
    let mut reason = false;
    for line in ignored.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(line.starts_with('#') || reason, "{line} has no reason in deny.toml");
        reason = line.starts_with('#');
    }
    let run = fs::read_to_string(root.join(".ci/run")).unwrap();
    assert!(run.contains("check --disable-fetch advisories"), "CI looks up advisories");
}
