//! Keeps `ASVS.md` honest: one row a requirement of levels 1 and 2, each with a verdict, and every test that a row names is there.

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
fn each_security_requirement_has_a_verdict_and_the_tests_it_names_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("tests/security/ASVS.md")).unwrap();
    let sources: Vec<String> =
        ["src", "tests"].iter().flat_map(|folder| super::rust_files(folder)).map(|source| source.text).collect();
    let rows = rows(&text);
    let numbers: BTreeSet<&str> = rows.iter().map(|row| row.number).collect();
    assert_eq!((rows.len(), numbers.len()), (REQUIREMENTS, REQUIREMENTS));
    for row in rows {
        assert!(VERDICTS.contains(&row.verdict), "{}: {}", row.number, row.verdict);
        assert!(!row.how.is_empty(), "{} does not say how or why", row.number);
        for test in row.tests {
            let declared = format!("fn {test}(");
            let found =
                if test.contains('/') { root.join(test).exists() } else { sources.iter().any(|source| source.contains(&declared)) };
            assert!(found, "{} names {test}, which is nowhere", row.number);
        }
    }
}
