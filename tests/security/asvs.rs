//! Checks `ASVS.md`: it has one row per requirement of levels 1 and 2, each with a verdict, and every test that a row names exists.

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
