//! The guides tell the truth: every request and every command in them runs against a demo server, and the answers are compared.

mod script;
mod session;

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use self::{
    script::{Block, blocks},
    session::{Answer, Session},
};
use crate::Server;

/// Says where an answer differs from what the guide shows. The guide may leave out members of objects and the end of lists, and `…` stands for
/// any text.
fn difference(shown: &Value, answer: &Value, place: &str) -> Option<String> {
    match (shown, answer) {
        (Value::Object(shown), Value::Object(answer)) => shown.iter().find_map(|(name, shown)| match answer.get(name) {
            Some(answer) => difference(shown, answer, &format!("{place}/{name}")),
            None => Some(format!("{place}/{name} is missing")),
        }),
        (Value::Array(shown), Value::Array(answer)) => {
            let missing = (answer.len() < shown.len()).then(|| format!("{place} has only {} entries", answer.len()));
            let mut pairs = shown.iter().zip(answer).enumerate();
            missing.or_else(|| pairs.find_map(|(index, (shown, answer))| difference(shown, answer, &format!("{place}/{index}"))))
        }
        (Value::String(shown), Value::String(answer)) if fits(shown, answer) => None,
        (shown, answer) if shown == answer => None,
        (shown, answer) => Some(format!("{place} is {answer}, the guide shows {shown}")),
    }
}

/// Whether a text has the parts of the shown text between its `…`.
fn fits(shown: &str, answer: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| answer.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

/// Compares the answer to the last request of a block with what the guide shows.
fn compare(answer: &Answer, shown: Option<&Value>) -> Result<(), String> {
    let error = shown.and_then(|shown| shown.get("status")).and_then(Value::as_u64).filter(|status| *status >= 400);
    let as_expected = error.map_or((200..400).contains(&answer.status), |status| u64::from(answer.status) == status);
    if !as_expected {
        return Err(format!("status {}: {}", answer.status, answer.body));
    }
    let Some(shown) = shown else { return Ok(()) };
    let body: Value = serde_json::from_str(&answer.body).map_err(|error| format!("{error}: {}", answer.body))?;
    difference(shown, &body, "").map_or(Ok(()), |difference| Err(format!("{difference}\n{}", answer.body)))
}

#[allow(clippy::print_stderr, reason = "names the block that a failure is in")]
async fn run(name: &str, guide: &str, session: &mut Session<'_>) -> usize {
    let blocks = blocks(guide);
    let mut requests = 0;
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        let shown = blocks.get(index + 1).filter(|next: &&Block| next.language == "json" && next.follows);
        let shown: Option<Value> = shown.map(|next| serde_json::from_str(&next.text).unwrap());
        let at = format!("{name}.md:{}", block.line);
        eprintln!("{at}");
        match session.run(&block.text).await {
            Some(answer) => {
                requests += 1;
                compare(&answer, shown.as_ref()).unwrap_or_else(|problem| panic!("{at}: {problem}"));
            }
            None => assert!(shown.is_none(), "{at} shows an answer to nothing"),
        }
    }
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "json") {
        let is_answer = block.follows && index > 0 && blocks[index - 1].language == "sh";
        assert!(is_answer, "{name}.md:{} is not the answer to a block", block.line);
    }
    requests
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_of_every_guide_get_the_answers_that_it_shows() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let guides = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/guides");
    let mut files: Vec<_> = std::fs::read_dir(guides).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let data = tempfile::tempdir().unwrap();
    let server = Server::with_sample(data.path(), &["--tickets", "200"]);
    let info = |name: &str| server.info[name].as_str().unwrap().to_owned();
    let variables: BTreeMap<String, String> = [("URL", "url"), ("KEY", "api_key"), ("EMAIL", "email"), ("PASSWORD", "password")]
        .map(|(name, field)| (name.to_owned(), info(field)))
        .into();
    let mut requests = 0;
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut session = Session::new(variables.clone(), directory.path(), data.path());
        requests += run(name, &std::fs::read_to_string(&file).unwrap(), &mut session).await;
    }
    assert!(requests > 80, "only {requests} blocks with requests");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_shown_answer_may_be_shorter_and_never_different() {
    let answer = serde_json::json!({"id": "tkt_1", "tags": ["a", "b"], "count": 2});
    let check = |shown: Value| difference(&shown, &answer, "");
    assert_eq!(check(serde_json::json!({"id": "tkt_…", "tags": ["a"]})), None);
    assert!(check(serde_json::json!({"count": 3})).is_some());
    assert!(check(serde_json::json!({"tags": ["b"]})).is_some());
    assert!(check(serde_json::json!({"tags": ["a", "b", "c"]})).is_some());
    assert!(check(serde_json::json!({"name": "x"})).is_some());
    assert!(fits("a…c…e", "abcde") && !fits("a…c…f", "abcde") && !fits("a", "ab") && fits("…", ""));
}
