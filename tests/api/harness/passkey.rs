//! An authenticator with one passkey, and the browser that it works with. Every member can be changed to break one check.

use data_encoding::BASE64URL_NOPAD;
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};

use super::{Actor, Reply, TestApp, authenticator::challenge};

/// Browsers offer no passkeys for an IP address, so the requests name the host.
pub const HOST: &str = "localhost";
pub const PASSKEYS: &str = "/api/auth/factors/passkeys";
pub const OPTIONS: &str = "/api/auth/passkey/options";
pub const SIGN_IN: &str = "/api/auth/passkey";

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const HAS_KEY: u8 = 1 << 6;

/// The same actor at the host name.
pub fn named(actor: &Actor) -> Actor {
    actor.clone().with("host", HOST)
}

fn base64(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

#[derive(Clone, Debug)]
pub struct Passkey {
    /// Its private key.
    pub pkcs8: Vec<u8>,
    pub id: Vec<u8>,
    /// The account that it was made for.
    pub handle: String,
    pub host: String,
    pub origin: String,
    pub cross_origin: bool,
    pub is_present: bool,
    pub is_verified: bool,
    /// The last counter. Zero: it does not count.
    pub count: u32,
    /// The algorithm that its public key names, as a byte of CBOR: ES256.
    pub algorithm: u8,
    /// What the browser says that it did, instead of what it was asked for.
    pub kind: Option<&'static str>,
}

impl Passkey {
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap().as_ref().to_vec();
        let id = sha256(&pkcs8);
        Self {
            pkcs8,
            id,
            handle: String::new(),
            host: HOST.to_owned(),
            origin: format!("http://{HOST}"),
            cross_origin: false,
            is_present: true,
            is_verified: true,
            count: 0,
            algorithm: 0x26,
            kind: None,
        }
    }

    fn key(&self) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &self.pkcs8, &SystemRandom::new()).unwrap()
    }

    fn client_data(&self, kind: &str, options: &Value) -> String {
        let kind = self.kind.unwrap_or(kind);
        json!({"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": self.cross_origin})
            .to_string()
    }

    fn authenticator_data(&self, more: u8) -> Vec<u8> {
        let flags = if self.is_present { PRESENT } else { 0 } | if self.is_verified { VERIFIED } else { 0 } | more;
        [sha256(self.host.as_bytes()), vec![flags], self.count.to_be_bytes().to_vec()].concat()
    }

    /// What the browser returns for a new passkey. `begun` is the answer of the API.
    pub fn make(&mut self, begun: &Value, name: &str) -> Value {
        let options = &begun["options"];
        assert_eq!((&options["rp"]["id"], &options["attestation"]), (&json!(HOST), &json!("none")));
        options["user"]["id"].as_str().unwrap().clone_into(&mut self.handle);
        let public = self.key().public_key().as_ref().to_vec();
        let cose = [
            b"\xa5\x01\x02\x03".as_slice(),
            &[self.algorithm],
            b"\x20\x01\x21\x58\x20",
            &public[1..33],
            b"\x22\x58\x20",
            &public[33..],
        ]
        .concat();
        let length = u16::try_from(self.id.len()).unwrap().to_be_bytes();
        let data = [self.authenticator_data(HAS_KEY), vec![0; 16], length.to_vec(), self.id.clone(), cose].concat();
        let size = u16::try_from(data.len()).unwrap().to_be_bytes();
        let object = [b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59".as_slice(), &size, &data].concat();
        json!({
            "enrolment": begun["enrolment"],
            "name": name,
            "client_data": base64(self.client_data("webauthn.create", options).as_bytes()),
            "attestation_object": base64(&object),
        })
    }

    /// What the browser returns when the passkey is used. `asked` is the answer of the API.
    pub fn answer(&mut self, asked: &Value) -> Value {
        if self.count > 0 {
            self.count += 1;
        }
        let client_data = self.client_data("webauthn.get", &asked["options"]);
        let data = self.authenticator_data(0);
        let message = [data.clone(), sha256(client_data.as_bytes())].concat();
        let signature = self.key().sign(&SystemRandom::new(), &message).unwrap();
        json!({
            "ticket": asked["ticket"],
            "id": base64(&self.id),
            "client_data": base64(client_data.as_bytes()),
            "authenticator_data": base64(&data),
            "signature": base64(signature.as_ref()),
            "user_handle": self.handle,
        })
    }
}

/// Adds a passkey to the person of a session.
pub async fn add_passkey(person: &Actor, name: &str) -> (Passkey, Value) {
    let (person, mut passkey) = (named(person), Passkey::new());
    let begun = person.post(&format!("{PASSKEYS}/options")).send().await;
    assert_eq!(begun.header("cache-control"), "no-store");
    let body = passkey.make(begun.ok(200), name);
    let factor = person.post(PASSKEYS).json(body).send().await.ok(201).clone();
    (passkey, factor)
}

/// The options for a sign-in with any passkey.
pub async fn asked(app: &TestApp) -> Value {
    named(&app.anonymous()).post(OPTIONS).send().await.ok(200).clone()
}

/// Signs in with a passkey alone.
pub async fn sign_in(app: &TestApp, passkey: &mut Passkey) -> Reply {
    let answer = passkey.answer(&asked(app).await);
    named(&app.anonymous()).post(SIGN_IN).json(answer).send().await
}

/// The second step of a sign-in, after the right password.
pub async fn second_step(app: &TestApp, email: &str, passkey: &mut Passkey) -> Reply {
    let step = challenge(app, email).await;
    let options = named(&app.anonymous()).post(OPTIONS).json(json!({"challenge": step["challenge"]})).send().await.ok(200).clone();
    let body = json!({"challenge": step["challenge"], "passkey": passkey.answer(&options)});
    named(&app.anonymous()).post("/api/auth/second-factor").json(body).send().await
}

/// What a passkey returns in a session, to confirm it or as its second factor.
pub async fn proof(person: &Actor, passkey: &mut Passkey) -> Value {
    passkey.answer(named(person).post(&format!("{PASSKEYS}/proof")).send().await.ok(200))
}

/// Why sign-ins were refused, oldest first, each with its method.
pub async fn refusals(reader: &Actor) -> Vec<String> {
    let feed = reader.get("/api/events?types=auth.login_failed&limit=200").send().await.ok(200)["data"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let shown =
        |event: &Value| format!("{} {}", text(&event["data"]["sign_in"]["reason"]), text(&event["data"]["sign_in"]["method"]));
    feed.as_array().unwrap().iter().map(shown).collect()
}
