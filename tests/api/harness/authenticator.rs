//! What people hold as second factors: an app that shows codes.

use data_encoding::BASE32_NOPAD;
use ring::hmac;
use serde_json::{Value, json};

use tenantd_base::clock::Timestamp;

use super::{Actor, PASSWORD, Reply, TestApp};

/// An app that shows codes, with the key that it was given.
#[derive(Clone)]
pub struct CodeApp {
    key: Vec<u8>,
}

impl CodeApp {
    /// The app after it has read the QR code of an answer.
    pub fn read(begun: &Value) -> Self {
        let uri = begun["uri"].as_str().unwrap();
        let key = uri.split_once("secret=").unwrap().1.split('&').next().unwrap();
        assert_eq!(key, begun["secret"], "the address has the key");
        Self { key: BASE32_NOPAD.decode(key.as_bytes()).unwrap() }
    }

    /// The code that the app shows at a time.
    pub fn code(&self, at: Timestamp) -> String {
        let step = u64::try_from(at.as_millis() / 30_000).unwrap();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.key), &step.to_be_bytes());
        let place = usize::from(tag.as_ref()[19] & 0xf);
        let number = u32::from_be_bytes(tag.as_ref()[place..place + 4].try_into().unwrap()) & 0x7fff_ffff;
        format!("{:06}", number % 1_000_000)
    }

    /// A code that is wrong now, and near it.
    pub fn wrong_code(&self, at: Timestamp) -> String {
        let near: Vec<String> = (-2..=2).map(|step| self.code(Timestamp::from_millis(at.as_millis() + step * 30_000))).collect();
        (0..10).map(|number| format!("{number:06}")).find(|code| !near.contains(code)).unwrap()
    }
}

pub const FACTORS: &str = "/api/auth/factors";

/// Adds an authenticator app to the person of a session. Its first code is used up.
pub async fn add_app(app: &TestApp, person: &Actor, name: &str) -> (CodeApp, Value) {
    let begun = person.post(&format!("{FACTORS}/totp")).send().await;
    let codes = CodeApp::read(begun.ok(200));
    let body = json!({"enrolment": begun.body["enrolment"], "name": name, "code": codes.code(app.now())});
    let factor = person.post(FACTORS).json(body).send().await.ok(201).clone();
    (codes, factor)
}

/// The first step of a sign-in of somebody with a second factor. Returns the challenge.
pub async fn challenge(app: &TestApp, email: &str) -> Value {
    let reply = app.anonymous().post("/api/auth/login").json(json!({"email": email, "password": PASSWORD})).send().await;
    assert_eq!(reply.problem(401), "second_factor_required");
    assert_eq!((reply.header("set-cookie"), reply.header("cache-control")), ("", "no-store"));
    reply.body
}

/// The second step.
pub async fn send_code(app: &TestApp, challenge: &Value, code: &str) -> Reply {
    let body = json!({"challenge": challenge["challenge"], "code": code});
    app.anonymous().post("/api/auth/second-factor").json(body).send().await
}

/// The session that an answer has started.
pub fn session_of(app: &TestApp, reply: &Reply) -> Actor {
    reply.ok(200);
    app.anonymous().with("cookie", reply.header("set-cookie").split(';').next().unwrap())
}
