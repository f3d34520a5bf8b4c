//! A scripted provider: the expected requests, exact to the last header, and their responses. The test fails if a request is
//! unexpected or missing.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::receiver::{Receiver, read_request};

/// Checks the pairs of a form and returns an error that describes the problem.
type FormCheck = fn(&[(String, String)]) -> Result<(), String>;

enum Body {
    Empty,
    Json(Value),
    /// The pairs may be in any order.
    Form(Vec<(String, String)>),
    Checked(FormCheck),
}

/// An expected request and its response.
pub(super) struct Step {
    method: &'static str,
    /// The path and the query as sent.
    target: String,
    headers: Vec<(String, String)>,
    body: Body,
    status: u16,
    answer_headers: Vec<(String, String)>,
    answer: Vec<u8>,
}

impl Step {
    fn new(method: &'static str, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            headers: Vec::new(),
            body: Body::Empty,
            status: 200,
            answer_headers: Vec::new(),
            answer: Vec::new(),
        }
    }

    pub(super) fn get(target: impl Into<String>) -> Self {
        Self::new("GET", target)
    }

    pub(super) fn post(target: impl Into<String>) -> Self {
        Self::new("POST", target)
    }

    pub(super) fn put(target: impl Into<String>) -> Self {
        Self::new("PUT", target)
    }

    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    pub(super) fn json(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self.header("content-type", "application/json")
    }

    pub(super) fn form(mut self, pairs: &[(&str, &str)]) -> Self {
        self.body = Body::Form(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        self.header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
    }

    pub(super) fn checked_form(mut self, check: FormCheck) -> Self {
        self.body = Body::Checked(check);
        self.header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
    }

    pub(super) fn answer(mut self, status: u16, body: Value) -> Self {
        self.status = status;
        self.answer = body.to_string().into_bytes();
        self.answer_header("content-type", "application/json")
    }

    pub(super) fn answer_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.answer_headers.push((name.to_owned(), value.into()));
        self
    }

    /// A response that asks for a retry after a minute. The client then does not retry, so no test waits.
    pub(super) fn refusal(self, status: u16, body: Value) -> Self {
        self.answer(status, body).answer_header("retry-after", "60")
    }

    fn check(&self, request: &Request) -> Result<(), String> {
        let mut expected: Vec<(String, String)> = self.headers.clone();
        expected.sort();
        let differ = |what: &str, expected: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
            Err(format!("{what}: expected {expected:?}, got {got:?}"))
        };
        if (self.method, self.target.as_str()) != (request.method.as_str(), request.target.as_str()) {
            return differ("request", &(self.method, &self.target), &(&request.method, &request.target));
        }
        if expected != request.headers {
            return differ("headers", &expected, &request.headers);
        }
        match &self.body {
            Body::Empty if request.body.is_empty() => Ok(()),
            Body::Empty => differ("body", &"nothing", &request.body),
            Body::Json(expected) => match serde_json::from_str::<Value>(&request.body) {
                Ok(got) if got == *expected => Ok(()),
                _ => differ("body", &expected.to_string(), &request.body),
            },
            Body::Form(expected) => {
                let (mut expected, mut got) = (expected.clone(), form(&request.body));
                expected.sort();
                got.sort();
                if expected == got { Ok(()) } else { differ("form", &expected, &got) }
            }
            Body::Checked(check) => check(&form(&request.body)),
        }
    }
}

fn form(body: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(body.as_bytes()).into_owned().collect()
}

struct Request {
    method: String,
    target: String,
    /// The headers, sorted, without `host` and `content-length`.
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
        let (method, target) = (first.next().unwrap(), first.next().unwrap());
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let mut headers: Vec<_> = headers.filter(|(name, _)| name != "host" && name != "content-length").collect();
        headers.sort();
        Self { method, target, headers, body: body.to_owned() }
    }
}

#[derive(Default)]
struct Script {
    /// The steps that have not happened yet.
    steps: Mutex<Vec<Step>>,
    problems: Mutex<Vec<String>>,
}

impl Script {
    /// Removes the first step that matches the request. Concurrent requests arrive in any order.
    fn take(&self, request: &Request) -> Step {
        let mut steps = self.steps.lock().unwrap();
        if let Some(place) = steps.iter().position(|step| step.check(request).is_ok()) {
            return steps.remove(place);
        }
        let nearest = steps.iter().find(|step| step.target == request.target).or(steps.first());
        let problem = nearest.map_or_else(
            || format!("no request was expected, got {} {}", request.method, request.target),
            |step| step.check(request).unwrap_err(),
        );
        self.problems.lock().unwrap().push(problem.clone());
        Step::get("").answer(418, json!({"problem": problem}))
    }

    async fn serve(&self, mut stream: TcpStream) {
        while let Some(text) = read_request(&mut stream).await {
            let step = self.take(&Request::read(&text));
            let headers: String = step.answer_headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let reason = StatusCode::from_u16(step.status).unwrap();
            let head = format!("HTTP/1.1 {reason}\r\n{headers}content-length: {}\r\n\r\n", step.answer.len());
            if stream.write_all(&[head.as_bytes(), &step.answer].concat()).await.is_err() {
                return;
            }
        }
    }
}

pub(super) struct Provider {
    receiver: Receiver,
    script: Arc<Script>,
}

impl Provider {
    /// Starts the provider. `steps` receives the URL, because some responses contain it.
    pub(super) async fn start(steps: impl FnOnce(&str) -> Vec<Step>) -> Self {
        let script = Arc::new(Script::default());
        let shared = script.clone();
        let receiver = Receiver::start(move |stream, _| {
            let script = shared.clone();
            async move { script.serve(stream).await }
        })
        .await;
        let provider = Self { receiver, script };
        *provider.script.steps.lock().unwrap() = steps(&provider.url());
        provider
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.receiver.address)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        assert_eq!(*self.script.problems.lock().unwrap(), Vec::<String>::new());
        let missing: Vec<String> =
            self.script.steps.lock().unwrap().iter().map(|step| format!("{} {}", step.method, step.target)).collect();
        assert!(missing.is_empty(), "missing requests: {missing:?}");
    }
}
