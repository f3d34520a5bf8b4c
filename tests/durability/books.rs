//! The expected state of API keys according to the responses of clients, and its comparison with a server.
//!
//! **Invariant:** a key is in doubt from the moment a request about it is sent until its complete response arrives.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures_util::{StreamExt, stream};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::process::Server;

pub const KEYS: &str = "/api/admin/api-keys";
const PARALLEL: usize = 16;

/// A complete response.
pub struct Answer {
    pub status: StatusCode,
    pub replayed: bool,
    pub body: Value,
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }
}

/// A client of a server with one credential.
#[derive(Clone)]
pub struct Caller {
    pub client: Client,
    pub url: Arc<str>,
    pub credential: Arc<str>,
}

impl Caller {
    pub fn new(client: &Client, server: &Server) -> Self {
        Self { client: client.clone(), url: server.url.as_str().into(), credential: server.api_key.as_str().into() }
    }

    /// Sends a request. An error means that no complete response arrived.
    pub async fn send(&self, method: Method, path: &str, idempotency: &str, body: Option<&Value>) -> reqwest::Result<Answer> {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.credential);
        if !idempotency.is_empty() {
            request = request.header("idempotency-key", idempotency);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let (status, replayed) = (response.status(), response.headers().contains_key("idempotency-replayed"));
        let bytes = response.bytes().await?;
        Ok(Answer { status, replayed, body: serde_json::from_slice(&bytes).unwrap_or_default() })
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.send(Method::GET, path, "", None).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    async fn keys(&self) -> BTreeMap<String, Vec<Value>> {
        let mut by_name: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{KEYS}?limit=200{cursor}")).await;
            for key in page["data"].as_array().unwrap() {
                by_name.entry(key["name"].as_str().unwrap().to_owned()).or_default().push(key.clone());
            }
            match page["page"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return by_name,
            }
        }
    }
}

/// An operation on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Create,
    Rotate,
    Revoke,
}

/// The expected state of a key.
#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    /// The operations on the key in the order of the feed. Their number is the key's version.
    pub history: Vec<&'static str>,
    id: String,
    plaintext: String,
    /// The plaintext before the last rotation.
    former: Option<String>,
    /// A request without a response.
    pub doubt: Option<Act>,
    /// Whether the server reported that this request was not carried out.
    refused: bool,
    /// Checked in detail in the next comparison.
    touched: bool,
}

impl Key {
    pub fn new(name: String) -> Self {
        let (history, id, plaintext) = (Vec::new(), String::new(), String::new());
        Self { name, history, id, plaintext, former: None, doubt: None, refused: false, touched: true }
    }

    pub fn is_live(&self) -> bool {
        !self.history.is_empty() && !self.is_revoked()
    }

    fn is_revoked(&self) -> bool {
        self.history.last() == Some(&"api_key.revoked")
    }

    /// Sends the operation, or repeats the one in doubt, and records the outcome.
    pub async fn ask(&mut self, caller: &Caller, act: Act) -> reqwest::Result<Answer> {
        (self.doubt, self.refused, self.touched) = (Some(act), false, true);
        let idempotency = format!("{}-{}", self.name, self.history.len());
        let path = format!("{KEYS}/{}", self.id);
        let answer = match act {
            Act::Create => {
                let body = json!({"name": self.name, "scopes": ["*"], "expires_days": 30});
                caller.send(Method::POST, KEYS, &idempotency, Some(&body)).await?
            }
            Act::Rotate => {
                caller.send(Method::POST, &format!("{path}/rotate"), &idempotency, Some(&json!({"overlap_seconds": 0}))).await?
            }
            Act::Revoke => caller.send(Method::DELETE, &path, "", None).await?,
        };
        if answer.status.is_success() {
            self.acknowledged(act, &answer.body);
        }
        self.refused = answer.code() == "unavailable";
        Ok(answer)
    }

    fn acknowledged(&mut self, act: Act, body: &Value) {
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        self.doubt = None;
        self.history.push(match act {
            Act::Create => "api_key.created",
            Act::Rotate => "api_key.rotated",
            Act::Revoke => "api_key.revoked",
        });
        match act {
            Act::Create => (self.id, self.plaintext) = (text("id"), text("key")),
            Act::Rotate => self.former = Some(std::mem::replace(&mut self.plaintext, text("key"))),
            Act::Revoke => {}
        }
        assert!(self.is_shown_by(body), "{self:?} was answered with {body}");
    }

    fn is_shown_by(&self, shown: &Value) -> bool {
        let status = if self.is_revoked() { "revoked" } else { "active" };
        shown["id"] == self.id && shown["name"] == self.name && shown["version"] == self.history.len() && shown["status"] == status
    }

    /// Repeats the request in doubt. The response must agree with the state that was `found`.
    async fn settle(&mut self, caller: &Caller, found: &[Value]) {
        let Some(act) = self.doubt else { return };
        let before = self.history.len();
        let took_effect = match found {
            [] => false,
            [one] => one["version"] == before + 1,
            several => panic!("{} is there {} times", self.name, several.len()),
        };
        assert!(act == Act::Create || !found.is_empty(), "the acknowledged key {} is lost", self.name);
        assert!(took_effect || found.is_empty() || found[0]["version"] == before, "{self:?} is there as {}", found[0]);
        assert!(!took_effect || !self.refused, "{act:?} of {} was carried out although it was refused", self.name);
        let answer = self.ask(caller, act).await.unwrap();
        assert!(answer.status.is_success(), "{act:?} of {}, asked again: {}", self.name, answer.body);
        // A revocation has no idempotency key: repeating it has the same result.
        assert!(answer.replayed == took_effect || act == Act::Revoke, "{act:?} of {} took effect: {took_effect}", self.name);
        assert!(!took_effect || found[0]["id"] == self.id, "{} has become another key", self.name);
    }

    async fn prove_plaintext(&self, caller: &Caller) {
        let session = async |plaintext: &str| {
            let caller = Caller { credential: plaintext.into(), ..caller.clone() };
            caller.send(Method::GET, "/api/auth/session", "", None).await.unwrap()
        };
        let answer = session(&self.plaintext).await;
        if self.is_revoked() {
            assert_eq!((answer.status, answer.code()), (StatusCode::UNAUTHORIZED, "key_revoked"), "{}", self.name);
        } else {
            assert_eq!((answer.status, &answer.body["id"]), (StatusCode::OK, &json!(self.id)), "{}: {}", self.name, answer.body);
        }
        if let Some(former) = &self.former {
            assert_eq!(session(former).await.status, StatusCode::UNAUTHORIZED, "a secret that {} gave up works", self.name);
        }
    }
}

/// The compared fields of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    seq: u64,
    kind: String,
    resource: String,
    version: u64,
}

/// Everything that the clients of all lives of a server know.
#[derive(Default)]
pub struct Books {
    pub keys: Vec<Key>,
    feed: Vec<Event>,
    /// The number of replayed responses.
    pub replayed: u64,
    pub in_doubt: u64,
}

impl Books {
    /// Compares the expected state with a server: settles requests in doubt first, then everything must equal the acknowledged
    /// state.
    pub async fn prove(&mut self, caller: &Caller) {
        let found = caller.keys().await;
        for key in self.keys.iter_mut().filter(|key| key.doubt.is_some()) {
            self.in_doubt += 1;
            key.settle(caller, found.get(&key.name).map_or(&[], Vec::as_slice)).await;
            self.replayed += u64::from(found.get(&key.name).is_some_and(|found| found[0]["version"] == key.history.len()));
        }
        let found = caller.keys().await;
        for key in &self.keys {
            let shown = found.get(&key.name).map_or(&[][..], Vec::as_slice);
            assert!(matches!(shown, [one] if key.is_shown_by(one)), "{key:?} is there as {shown:?}");
        }
        assert_eq!(found.len(), self.keys.len() + 1, "there are keys that nobody asked for beside the demonstration's own");
        stream::iter(self.keys.iter().filter(|key| key.touched))
            .for_each_concurrent(PARALLEL, |key| key.prove_plaintext(caller))
            .await;
        self.keys.iter_mut().for_each(|key| key.touched = false);
        self.prove_feed(caller, &found).await;
    }

    /// The same with every key and the whole feed.
    pub async fn prove_all(&mut self, caller: &Caller) {
        self.keys.iter_mut().for_each(|key| key.touched = true);
        self.prove(caller).await;
        let again = read_feed(caller, 0).await;
        assert!(again == self.feed, "the feed tells its beginning differently now");
    }

    async fn prove_feed(&mut self, caller: &Caller, found: &BTreeMap<String, Vec<Value>>) {
        self.feed.extend(read_feed(caller, self.feed.last().map_or(0, |event| event.seq)).await);
        let gaps: Vec<_> = self.feed.windows(2).filter(|pair| pair[1].seq != pair[0].seq + 1).collect();
        assert!(gaps.is_empty(), "the feed has gaps: {gaps:?}");
        let mut reported: HashMap<&str, Vec<(&str, u64)>> = HashMap::new();
        for event in self.feed.iter().filter(|event| event.kind.starts_with("api_key.")) {
            reported.entry(&event.resource).or_default().push((&event.kind, event.version));
        }
        for key in &self.keys {
            let expected: Vec<(&str, u64)> = key.history.iter().copied().zip(1..).collect();
            assert_eq!(reported.remove(key.id.as_str()).unwrap_or_default(), expected, "the feed about {}", key.name);
        }
        let others: Vec<&str> = reported.into_keys().collect();
        let known = |id: &str| found.values().flatten().any(|key| key["id"] == id);
        assert!(others.len() == 1 && known(others[0]), "events about keys that do not exist: {others:?}");
    }
}

async fn read_feed(caller: &Caller, mut after: u64) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let page = caller.get(&format!("/api/events?limit=200&after={after}")).await;
        assert_eq!(page["truncated"], false, "events are missing after {after}");
        events.extend(page["data"].as_array().unwrap().iter().map(|event| Event {
            seq: event["seq"].as_u64().unwrap(),
            kind: event["type"].as_str().unwrap().to_owned(),
            resource: event["resource"]["id"].as_str().unwrap().to_owned(),
            version: event["resource"]["version"].as_u64().unwrap(),
        }));
        after = page["next_after"].as_u64().unwrap();
        if page["more"] == false {
            return events;
        }
    }
}
