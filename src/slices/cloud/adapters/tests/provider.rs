//! A provider that follows a script: requests that it expects, to the last header, and its answers to them. What it does not expect
//! fails the test, and so does what never came.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::receiver::{Receiver, read_request};

/// Says what is wrong with the pairs of a form.
type Judge = fn(&[(String, String)]) -> Result<(), String>;

enum Body {
    Empty,
    Json(Value),
    /// In any order.
    Form(Vec<(String, String)>),
    Judged(Judge),
}

/// A request that is expected, and what is answered.
pub(super) struct Step {
    method: &'static str,
    /// Path and query, as they are on the wire.
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

    pub(super) fn judged_form(mut self, judge: Judge) -> Self {
        self.body = Body::Judged(judge);
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

    /// As a provider answers that is to be left alone for a minute: nothing is repeated, and no test waits.
    pub(super) fn refusal(self, status: u16, body: Value) -> Self {
        self.answer(status, body).answer_header("retry-after", "60")
    }

    fn judge(&self, request: &Request) -> Result<(), String> {
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
            Body::Judged(judge) => judge(&form(&request.body)),
        }
    }
}

fn form(body: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(body.as_bytes()).into_owned().collect()
}

struct Request {
    method: String,
    target: String,
    /// Sorted, without those of the connection.
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
struct Desk {
    /// Those that are still to come.
    steps: Mutex<Vec<Step>>,
    complaints: Mutex<Vec<String>>,
}

impl Desk {
    /// The first step that the request is. Requests that are sent at the same time come in any order.
    fn take(&self, request: &Request) -> Step {
        let mut steps = self.steps.lock().unwrap();
        if let Some(place) = steps.iter().position(|step| step.judge(request).is_ok()) {
            return steps.remove(place);
        }
        let nearest = steps.iter().find(|step| step.target == request.target).or(steps.first());
        let complaint = nearest.map_or_else(
            || format!("nothing was expected, got {} {}", request.method, request.target),
            |step| step.judge(request).unwrap_err(),
        );
        self.complaints.lock().unwrap().push(complaint.clone());
        Step::get("").answer(418, json!({"complaint": complaint}))
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
    desk: Arc<Desk>,
}

impl Provider {
    /// `steps` gets the address, which some answers have in them.
    pub(super) async fn start(steps: impl FnOnce(&str) -> Vec<Step>) -> Self {
        let desk = Arc::new(Desk::default());
        let shared = desk.clone();
        let receiver = Receiver::start(move |stream, _| {
            let desk = shared.clone();
            async move { desk.serve(stream).await }
        })
        .await;
        let provider = Self { receiver, desk };
        *provider.desk.steps.lock().unwrap() = steps(&provider.url());
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
        assert_eq!(*self.desk.complaints.lock().unwrap(), Vec::<String>::new());
        let missing: Vec<String> =
            self.desk.steps.lock().unwrap().iter().map(|step| format!("{} {}", step.method, step.target)).collect();
        assert!(missing.is_empty(), "never came: {missing:?}");
    }
}
