//! Runs the commands of a guide against a demo server: requests as curl would send them, and commands of tenantd.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    process::Output,
};

use reqwest::{Client, Method, Url, redirect};
use serde_json::Value;

use super::script::{Piece, Word, statements};

/// An answer of the server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

pub struct Session<'a> {
    pub client: Client,
    pub variables: BTreeMap<String, String>,
    /// Cookie jars by their file names: cookies by name.
    jars: HashMap<String, BTreeMap<String, String>>,
    pub directory: &'a Path,
    pub data: &'a Path,
}

impl<'a> Session<'a> {
    pub fn new(variables: BTreeMap<String, String>, directory: &'a Path, data: &'a Path) -> Self {
        let client = Client::builder().redirect(redirect::Policy::none()).build().unwrap();
        Self { client, variables, jars: HashMap::new(), directory, data }
    }

    /// Runs a block. Every request but the last must succeed. Returns the answer to the last one.
    pub async fn run(&mut self, block: &str) -> Option<Answer> {
        let mut last: Option<Answer> = None;
        for words in statements(block) {
            if let Some((name, value)) = assignment(&words) {
                let value = self.value(&name, &value).await;
                self.variables.insert(name, value);
                continue;
            }
            let words: Vec<String> = words.iter().map(|word| self.expand(word)).collect();
            match words[0].as_str() {
                "curl" => {
                    if let Some(answer) = &last {
                        assert!((200..400).contains(&answer.status), "{} {}", answer.status, answer.body);
                    }
                    last = Some(self.curl(&words[1..]).await);
                }
                "tenantd" => {
                    let output = self.tenantd(&words[1..]);
                    let text = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{words:?}: {text}");
                }
                other => panic!("{other} is not a command of guides"),
            }
        }
        last
    }

    fn tenantd(&self, arguments: &[String]) -> Output {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        crate::tenantd(&arguments).current_dir(self.directory).env("TENANTD_DATA_DIR", self.data).output().unwrap()
    }

    fn expand(&self, word: &Word) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(name) => self.variables.get(name).unwrap_or_else(|| panic!("${name} is not set")).clone(),
            Piece::Command(_) => panic!("$(…) belongs in an assignment"),
        };
        word.iter().map(piece).collect()
    }

    /// The value of an assignment: a text, or a member of an answer.
    async fn value(&mut self, name: &str, value: &Word) -> String {
        let [Piece::Command(command)] = value.as_slice() else { return self.expand(value) };
        let (command, filter) = command.rsplit_once('|').unwrap_or_else(|| panic!("{name} has no jq"));
        let path = filter.trim().strip_prefix("jq -r .").unwrap_or_else(|| panic!("{name}: {filter}"));
        let statements = statements(command);
        let [words] = statements.as_slice() else { panic!("{name}: more than one command") };
        let words: Vec<String> = words.iter().map(|word| self.expand(word)).collect();
        assert_eq!(words[0], "curl", "{name}");
        let answer = self.curl(&words[1..]).await;
        assert!((200..300).contains(&answer.status), "{name}: {} {}", answer.status, answer.body);
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let pointer = format!("/{}", path.replace('[', ".").replace(']', "").replace('.', "/"));
        match body.pointer(&pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => panic!("{name}: .{path} is not in {}", answer.body),
        }
    }

    /// Sends a request as curl does with these arguments.
    async fn curl(&mut self, arguments: &[String]) -> Answer {
        let mut arguments = arguments.iter();
        let (mut method, mut url, mut save, mut store) = (None, None, None, None);
        let (mut headers, mut data, mut as_query) = (Vec::new(), Vec::new(), false);
        while let Some(argument) = arguments.next() {
            let mut next = || arguments.next().unwrap_or_else(|| panic!("{argument} has no value")).clone();
            match argument.as_str() {
                "-sS" | "-i" => {}
                "-G" => as_query = true,
                "-X" => method = Some(next()),
                "-H" => headers.push(next()),
                "-d" | "--data-binary" | "--data-urlencode" => data.push(next()),
                "-o" => save = Some(next()),
                "-c" => store = Some(next()),
                "-b" => headers.push(format!("Cookie: {}", self.cookies(&next()))),
                flag if flag.starts_with('-') => panic!("{flag} is not a flag of guides"),
                _ => assert!(url.replace(argument.clone()).is_none(), "two URLs"),
            }
        }
        let mut url: Url = url.expect("a URL").parse().unwrap();
        if as_query {
            for pair in std::mem::take(&mut data) {
                let (name, value) = pair.split_once('=').unwrap();
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        assert!(data.len() <= 1, "two bodies");
        let body = data.pop();
        let usual = if body.is_some() { "POST" } else { "GET" };
        let method = Method::from_bytes(method.as_deref().unwrap_or(usual).as_bytes()).unwrap();
        let mut request = self.client.request(method, url);
        for header in headers {
            let (name, value) = header.split_once(':').unwrap();
            request = request.header(name, value.trim());
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        if let Some(jar) = store {
            let cookies = self.jars.entry(jar).or_default();
            for value in response.headers().get_all("set-cookie") {
                let pair = value.to_str().unwrap().split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let answer = Answer { status: response.status().as_u16(), body: response.text().await.unwrap() };
        if let Some(file) = save {
            assert!(!file.contains('/'), "a guide writes into its own directory");
            std::fs::write(self.directory.join(file), &answer.body).unwrap();
        }
        answer
    }

    fn cookies(&self, jar: &str) -> String {
        let cookies = self.jars.get(jar).unwrap_or_else(|| panic!("no cookie jar {jar}"));
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }
}

/// The name and the value of `NAME=value`.
fn assignment(words: &[Word]) -> Option<(String, Word)> {
    let [word] = words else { return None };
    let mut name = String::new();
    let mut pieces = word.iter();
    for piece in pieces.by_ref() {
        match piece {
            Piece::Text(text) if text == "=" && !name.is_empty() => return Some((name, pieces.cloned().collect())),
            Piece::Text(text) if text.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_') => name.push_str(text),
            _ => return None,
        }
    }
    None
}
