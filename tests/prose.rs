//! What people read first is in plain words: README, guides, changelog, settings, and the published documents. The check knows the words that
//! made sentences hard to read, and counts the words of a sentence.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use serde_json::Value;

/// Words to avoid, and what to write instead.
const AVOIDED: [(&str, &str); 24] = [
    ("anew", "again, re-create, rebuild"),
    ("whoever", "anyone who, the caller"),
    ("whosever", "the owner of"),
    ("errand", "job, task"),
    ("errands", "jobs, tasks"),
    ("is told", "an active verb: tenantd reports"),
    ("are told", "an active verb: tenantd reports"),
    ("was told", "an active verb: tenantd reported"),
    ("be told", "an active verb: tenantd reports"),
    ("told of", "reported"),
    ("tells of", "reports"),
    ("tell of", "report"),
    ("no such thing", "not found"),
    ("is not there", "missing, not found"),
    ("are not there", "missing, not found"),
    ("is other", "is different"),
    ("are other", "are different"),
    ("may be other", "may be stale"),
    ("let go of", "remove, delete, drop"),
    ("what is set", "the configuration, the settings"),
    ("its time has come", "it is due"),
    ("at one time", "at the same time"),
    ("for good", "permanently"),
    ("beforehand", "before"),
];

/// The most words of a sentence.
const MAX_WORDS: usize = 45;

/// What is wrong with the words of a text.
fn problems(text: &str) -> Vec<String> {
    let words: Vec<String> = words(text);
    let folded = format!(" {} ", words.join(" "));
    let mut found: Vec<String> = AVOIDED
        .iter()
        .filter(|(avoided, _)| folded.contains(&format!(" {avoided} ")))
        .map(|(avoided, instead)| format!("\"{avoided}\" (write: {instead})"))
        .collect();
    for sentence in text.split_inclusive(['.', '!', '?', ':', ';']) {
        let count = sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count();
        if count > MAX_WORDS {
            found.push(format!("a sentence of {count} words: {}", sentence.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    found
}

/// The words of a text in small letters, without code and marks.
fn words(text: &str) -> Vec<String> {
    let without_code: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" code ");
    let word = |word: &str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    without_code.split_whitespace().map(word).filter(|word| !word.is_empty()).collect()
}

/// The paragraphs of a Markdown or TOML file, without fences. Table rows and list entries are paragraphs of their own.
fn paragraphs(source: &str) -> Vec<String> {
    let (mut found, mut current, mut in_fence) = (Vec::new(), String::new(), false);
    for line in source.lines() {
        let text = line.trim_start_matches(['#', ' ']);
        let fence = text.starts_with("```");
        in_fence ^= fence;
        let begins = text.is_empty()
            || ["|", "- ", "* ", "1. "].iter().any(|mark| text.starts_with(mark))
            || line.starts_with('#') != current.is_empty();
        if (begins || fence || in_fence) && !current.is_empty() {
            found.push(std::mem::take(&mut current));
        }
        if !fence && !in_fence {
            current.push_str(&text.replace('|', " . "));
            current.push(' ');
        }
    }
    found.push(current);
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn report(checked: &str, texts: impl IntoIterator<Item = String>) -> Vec<String> {
    texts.into_iter().flat_map(|text| problems(&text)).map(|problem| format!("{checked}: {problem}")).collect()
}

#[test]
fn the_files_that_people_read_are_in_plain_words() {
    let mut files: Vec<String> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "config/tenantd.toml",
        "src/ARCHITECTURE.md",
        "src/kernel/store/DESIGN.md",
    ]
    .map(str::to_owned)
    .into();
    let guides = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/guides")).unwrap();
    files.extend(guides.map(|entry| format!("src/console/guides/{}", entry.unwrap().file_name().into_string().unwrap())));
    let found: Vec<String> = files.iter().flat_map(|file| report(file, paragraphs(&read(file)))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_readme_has_at_most_200_lines() {
    assert!(read("README.md").lines().count() <= 200);
}

#[test]
fn the_published_documents_are_in_plain_words() {
    fn texts(node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if ["description", "summary"].contains(&name.as_str()) => found.push(text.clone()),
                        // Examples hold the data of customers.
                        _ if ["example", "examples"].contains(&name.as_str()) => {}
                        member => texts(member, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for name in ["openapi.json", "internal_openapi.json"] {
        let document: Value = serde_json::from_str(&read(&format!("tests/golden/{name}"))).unwrap();
        let mut all = Vec::new();
        texts(&document, &mut all);
        assert!(all.len() > 100, "{name} has texts");
        found.extend(report(name, all));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_check_finds_what_it_looks_for() {
    assert_eq!(problems("Whoever asks is told, and `whoever` is code.").len(), 2);
    assert_eq!(problems("The server reports it.").len(), 0);
    assert_eq!(problems(&"word ".repeat(46)).len(), 1);
    assert_eq!(paragraphs("# A\n\ntext\nmore\n\n```sh\nwhoever\n```\n- entry\n").len(), 4);
}
