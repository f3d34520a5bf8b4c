//! An OpenID provider that checks its client strictly and, if a test requests it, sends invalid responses. Its authorization
//! endpoint is a method: the test is the browser.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use rcgen::SigningKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub const CLIENT_ID: &str = "tenantd at acme";
pub const CLIENT_SECRET: &str = "client:secret/with+signs";

/// How the next ID token differs from a valid one.
#[derive(Clone, Debug, Default)]
pub struct Twist {
    /// Replaces valid claims; null removes one.
    pub claims: Value,
    pub signature: Signature,
    /// Whether only the user information has the address and the groups, not the token.
    pub email_elsewhere: bool,
}

impl Twist {
    pub fn claims(claims: Value) -> Self {
        Self { claims, ..Self::default() }
    }

    pub fn signature(signature: Signature) -> Self {
        Self { signature, ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signature {
    #[default]
    Honest,
    /// Signed with an unpublished key under the id of a published one.
    Forged,
    /// No signature, and the algorithm `none`.
    None,
    /// An HMAC with the published public key.
    HmacOfPublicKey,
    /// An HMAC with the client secret.
    HmacOfSecret,
}

/// The data behind an authorization code.
struct Grant {
    nonce: String,
    challenge: String,
    redirect_uri: String,
    claims: Value,
}

struct Books {
    key: rcgen::KeyPair,
    key_id: String,
    grants: HashMap<String, Grant>,
    issued: usize,
    twist: Twist,
    /// The issuer in the discovery document, if it differs from its own.
    claimed_issuer: Option<String>,
    /// Whether the discovery document announces the `iss` parameter.
    names_itself: bool,
    down: bool,
    /// The time for which tokens are issued, in seconds.
    now: i64,
    /// Requests by path.
    requests: HashMap<String, usize>,
}

pub struct Provider {
    address: SocketAddr,
    books: Arc<Mutex<Books>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Provider {
    pub async fn start(now: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let books = Arc::new(Mutex::new(Books {
            key: rcgen::KeyPair::generate().unwrap(),
            key_id: "key-1".to_owned(),
            grants: HashMap::new(),
            issued: 0,
            twist: Twist::default(),
            claimed_issuer: None,
            names_itself: false,
            down: false,
            now,
            requests: HashMap::new(),
        }));
        let shared = books.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, format!("http://{address}"), shared.clone()));
            }
        });
        Self { address, books, accepting }
    }

    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// Applies this change to all later tokens.
    pub fn twist(&self, twist: Twist) {
        self.books().twist = twist;
    }

    /// Names another issuer in the discovery document from now on.
    pub fn claim_issuer(&self, issuer: &str) {
        self.books().claimed_issuer = Some(issuer.to_owned());
    }

    /// Announces the `iss` parameter in the discovery document from now on.
    pub fn name_itself(&self) {
        self.books().names_itself = true;
    }

    pub fn set_down(&self, down: bool) {
        self.books().down = down;
    }

    pub fn set_now(&self, now: i64) {
        self.books().now = now;
    }

    /// Signs with a new key from now on, and publishes only that key.
    pub fn rotate_key(&self) {
        let mut books = self.books();
        books.key = rcgen::KeyPair::generate().unwrap();
        books.key_id = format!("{}-next", books.key_id);
    }

    /// A token that reports the end of a session. `claims` replaces valid claims; null removes one.
    pub fn logout_token(&self, claims: Value) -> String {
        let mut books = self.books();
        books.issued += 1;
        let mut token = json!({
            "iss": self.issuer(), "aud": CLIENT_ID, "iat": books.now, "exp": books.now + 120,
            "jti": format!("logout-{}", books.issued), "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        });
        let members = token.as_object_mut().unwrap();
        members.extend(claims.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        books.sign_typed(&token, "logout+jwt")
    }

    pub fn requests(&self, path: &str) -> usize {
        self.books().requests.get(path).copied().unwrap_or(0)
    }

    /// Signs in a person with these claims and returns the path and query of the callback.
    pub fn authorize(&self, redirect_url: &str, claims: Value) -> String {
        let url = reqwest::Url::parse(redirect_url).unwrap();
        assert!(redirect_url.starts_with(&format!("{}/authorize?", self.issuer())), "{redirect_url}");
        let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
        assert_eq!((asked["response_type"].as_str(), asked["client_id"].as_str()), ("code", CLIENT_ID));
        assert_eq!(asked["code_challenge_method"], "S256");
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"));
        assert!(asked["nonce"].len() >= 32 && asked["state"].len() >= 32 && asked["code_challenge"].len() == 43);
        let mut books = self.books();
        books.issued += 1;
        let code = format!("code-{}", books.issued);
        let grant = Grant {
            nonce: asked["nonce"].clone(),
            challenge: asked["code_challenge"].clone(),
            redirect_uri: asked["redirect_uri"].clone(),
            claims,
        };
        books.grants.insert(code.clone(), grant);
        let answer = [("code", code.as_str()), ("state", &asked["state"]), ("iss", &self.issuer()), ("session_state", "not ours")];
        let callback = reqwest::Url::parse_with_params(&asked["redirect_uri"], answer).unwrap();
        format!("{}?{}", callback.path(), callback.query().unwrap())
    }
}

async fn serve(mut stream: TcpStream, issuer: String, books: Arc<Mutex<Books>>) {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if !stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
            return;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let header = |name: &str| {
        let found = head.lines().filter_map(|line| line.split_once(": ")).find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let length: usize = header("content-length").parse().unwrap_or(0);
    while bytes.len() < head_end + length {
        if !stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
            return;
        }
    }
    let body = String::from_utf8(bytes[head_end..].to_vec()).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let (status, answer) = books.lock().unwrap().answer(&path, &issuer, &header("authorization"), &body);
    let answer = answer.to_string();
    let reply = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    );
    drop(stream.write_all(reply.as_bytes()).await);
}

impl Books {
    fn answer(&mut self, path: &str, issuer: &str, authorization: &str, body: &str) -> (u16, Value) {
        *self.requests.entry(path.to_owned()).or_default() += 1;
        if self.down {
            return (503, json!({"error": "down"}));
        }
        match path {
            "/.well-known/openid-configuration" => (
                200,
                json!({
                    "issuer": self.claimed_issuer.as_deref().unwrap_or(issuer),
                    "authorization_endpoint": format!("{issuer}/authorize"),
                    "token_endpoint": format!("{issuer}/token"),
                    "userinfo_endpoint": format!("{issuer}/userinfo"),
                    "jwks_uri": format!("{issuer}/keys"),
                    "end_session_endpoint": format!("{issuer}/end-session"),
                    "authorization_response_iss_parameter_supported": self.names_itself,
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
                }),
            ),
            "/keys" => (200, json!({"keys": [self.public_key()]})),
            "/token" => self.token(issuer, authorization, body),
            "/userinfo" => match authorization.strip_prefix("Bearer access-") {
                Some(claims) => (200, serde_json::from_slice(&BASE64URL_NOPAD.decode(claims.as_bytes()).unwrap()).unwrap()),
                None => (401, json!({"error": "invalid_token"})),
            },
            _ => (404, json!({})),
        }
    }

    fn public_key(&self) -> Value {
        let point = self.key.public_key_raw();
        let (x, y) = (BASE64URL_NOPAD.encode(&point[1..33]), BASE64URL_NOPAD.encode(&point[33..65]));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.key_id, "x": x, "y": y})
    }

    fn token(&mut self, issuer: &str, authorization: &str, body: &str) -> (u16, Value) {
        let form: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let expected = format!("Basic {}", BASE64.encode(format!("{}:{}", encode(CLIENT_ID), encode(CLIENT_SECRET)).as_bytes()));
        if authorization != expected {
            return (401, json!({"error": "invalid_client"}));
        }
        // The first request uses up a code, even if the request is invalid.
        let Some(grant) = form.get("code").and_then(|code| self.grants.remove(code)) else {
            return (400, json!({"error": "invalid_grant"}));
        };
        let verifier = form.get("code_verifier").cloned().unwrap_or_default();
        let challenge = BASE64URL_NOPAD.encode(&Sha256::digest(verifier.as_bytes()));
        let fits = form["grant_type"] == "authorization_code" && form["redirect_uri"] == grant.redirect_uri;
        if !fits || challenge != grant.challenge {
            return (400, json!({"error": "invalid_grant"}));
        }
        let mut claims = json!({
            "iss": issuer, "aud": CLIENT_ID, "nonce": grant.nonce, "iat": self.now, "exp": self.now + 300,
        });
        let claims = claims.as_object_mut().unwrap();
        claims.extend(grant.claims.as_object().unwrap().clone());
        let access = format!("access-{}", BASE64URL_NOPAD.encode(Value::Object(claims.clone()).to_string().as_bytes()));
        if self.twist.email_elsewhere {
            claims.retain(|name, _| !name.starts_with("email") && name != "groups");
        }
        claims.extend(self.twist.claims.as_object().cloned().unwrap_or_default());
        claims.retain(|_, value| !value.is_null());
        let id_token = self.sign(&Value::Object(claims.clone()));
        (200, json!({"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": id_token}))
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_typed(claims, "JWT")
    }

    fn sign_typed(&self, claims: &Value, kind: &str) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let algorithm = match self.twist.signature {
            Signature::Honest | Signature::Forged => "ES256",
            Signature::None => "none",
            Signature::HmacOfPublicKey | Signature::HmacOfSecret => "HS256",
        };
        let signed = format!("{}.{}", part(&json!({"alg": algorithm, "kid": self.key_id, "typ": kind})), part(claims));
        let hmac = |key: &[u8]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
            mac.update(signed.as_bytes());
            mac.finalize().into_bytes().to_vec()
        };
        let signature = match self.twist.signature {
            Signature::Honest => ecdsa(&self.key, &signed),
            Signature::Forged => ecdsa(&rcgen::KeyPair::generate().unwrap(), &signed),
            Signature::None => Vec::new(),
            Signature::HmacOfPublicKey => hmac(self.key.public_key_raw()),
            Signature::HmacOfSecret => hmac(CLIENT_SECRET.as_bytes()),
        };
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

/// A signature in the format of JWS: two numbers of 32 bytes. X.509 has a sequence of integers.
fn ecdsa(key: &rcgen::KeyPair, text: &str) -> Vec<u8> {
    let der = key.sign(text.as_bytes()).unwrap();
    let (mut rest, mut out) = (&der[2..], Vec::new());
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        let number = &number[number.len().saturating_sub(32)..];
        out.extend(std::iter::repeat_n(0, 32 - number.len()));
        out.extend_from_slice(number);
        rest = &rest[2 + length..];
    }
    out
}
