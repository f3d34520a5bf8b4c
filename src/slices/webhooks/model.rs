//! A webhook endpoint: its subscription, its connection settings, its states and the rules for its fields.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::Grants,
    clock::Timestamp,
    entropy::Entropy,
    fault::Fault,
    id::{TenantId, WebhookId},
    secrets::{Sealed, Secret},
    vocabulary::vocabulary,
};
use tenantd_egress::SecretTarget;
use tenantd_store::events::Actor;

use super::schedule::RetrySchedule;

pub const MAX_HEADERS: usize = 16;
const MAX_HEADER_VALUE: usize = 4096;
const SECRET_PREFIX: &str = "whsec_";
/// How many characters of a secret its hint shows after the prefix.
const HINT_LENGTH: usize = 3;

/// Headers that belong to the connection, the delivery protocol or the body. Custom headers cannot replace them.
const RESERVED_HEADERS: [&str; 15] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
    "content-type",
    "content-encoding",
    "user-agent",
];

vocabulary! {
    DisabledReason as variants:
    /// The receiver answered 410.
    Gone "gone",
    /// No delivery succeeded for days.
    Failures "failures",
    /// The receiver's answer asked for it.
    Receiver "receiver",
    /// A user or key with the scope disabled it.
    Operator "operator",
    /// Applies to a single delivery: the endpoint's owner may not read the event.
    NotReadable "not_readable",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndpointStatus {
    Active,
    /// Events wait.
    Paused,
    /// Events are recorded as skipped.
    Disabled(DisabledReason),
}

vocabulary! {
    Ordering as variants:
    None "none",
    /// An event is sent after every earlier event of the same resource is settled.
    PerResource "per_resource",
}

/// Conditions on an event besides its kind. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventFilter {
    pub organization_ids: Vec<String>,
    pub priorities: Vec<String>,
    pub exclude_actor_ids: Vec<String>,
}

impl EventFilter {
    pub fn is_empty(&self) -> bool {
        self.organization_ids.is_empty() && self.priorities.is_empty() && self.exclude_actor_ids.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    #[serde(skip)]
    pub id: WebhookId,
    #[serde(skip)]
    pub tenant_id: TenantId,
    pub name: String,
    pub url: String,
    pub description: Option<String>,
    /// Kinds and patterns as the caller gave them. A kind that is added later matches an existing pattern.
    pub events: Vec<String>,
    pub filter: EventFilter,
    /// The names of the custom headers; their values are sealed.
    pub header_names: Vec<String>,
    pub headers: Option<Sealed>,
    pub status: EndpointStatus,
    pub ordering: Ordering,
    pub timeout_seconds: u32,
    pub rate_limit_per_second: Option<u32>,
    pub retry: RetrySchedule,
    pub ca_certificate_pem: Option<String>,
    pub secret: Sealed,
    pub secret_hint: String,
    /// The secret before the last rotation. It also signs until this time.
    pub previous: Option<(Sealed, Timestamp)>,
    pub secret_rotated_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The endpoint receives events after this one.
    pub after_seq: u64,
    pub version: u64,
    /// The user or key that the endpoint acts for: it receives the events that the owner may read. `None` for an endpoint of a
    /// release without owners.
    pub owner: Option<Actor>,
    /// When this release first saw the endpoint without an owner. It receives all events until the grace period ends, and then
    /// none.
    #[serde(default)]
    pub legacy_since: Option<Timestamp>,
    /// The scopes that the owner had when the owner last chose where events go, by name. The endpoint receives nothing that needs others,
    /// even if the owner has them now. `None` for an endpoint of a release that did not store them.
    #[serde(default)]
    pub owner_scopes: Option<Vec<String>>,
}

/// The target that the values of custom headers are bound to.
pub fn header_target(url: &str, ca_certificate_pem: Option<&str>) -> SecretTarget {
    SecretTarget::default().url("url", Some(url)).authorities("ca_certificate_pem", ca_certificate_pem)
}

impl Endpoint {
    /// Makes somebody with these scopes the owner.
    pub fn set_owner(&mut self, owner: Actor, held: Grants) {
        self.owner = Some(owner);
        self.set_owner_scopes(held);
    }

    pub fn set_owner_scopes(&mut self, held: Grants) {
        self.owner_scopes = Some(held.iter().map(|scope| scope.name().to_owned()).collect());
    }

    /// The scopes that bound what the endpoint receives, in addition to the current rights of its owner.
    pub fn bounds(&self) -> Grants {
        Grants::from_patterns(self.owner_scopes.iter().flatten().map(String::as_str))
    }

    pub fn header_target(&self) -> SecretTarget {
        header_target(&self.url, self.ca_certificate_pem.as_deref())
    }
}

/// An endpoint to create.
#[derive(Clone, Debug)]
pub struct NewEndpoint {
    pub name: String,
    pub url: String,
    pub description: Option<String>,
    pub events: Vec<String>,
    pub filter: EventFilter,
    pub headers: CustomHeaders,
    pub ordering: Ordering,
    pub timeout_seconds: u32,
    pub rate_limit_per_second: Option<u32>,
    pub retry: RetrySchedule,
    pub ca_certificate_pem: Option<String>,
    /// Fields with an invalid form or a refused target. The service reports them together with its own findings.
    pub faults: Vec<Fault>,
}

/// Headers that every delivery carries, keyed by lower-case name. The values are the customer's secrets.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomHeaders(BTreeMap<String, String>);

impl std::fmt::Debug for CustomHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl CustomHeaders {
    /// Checks names and values, and reports every problem.
    pub fn parse(given: impl IntoIterator<Item = (String, String)>) -> Result<Self, Vec<Fault>> {
        let refuse = |name: &str, problem: &str| Fault::new("/headers", "not_allowed", format!("{name} {problem}"));
        let (mut headers, mut faults) = (BTreeMap::new(), Vec::new());
        for (name, value) in given {
            let lower = name.to_ascii_lowercase();
            let problem = header_problem(&lower, &value)
                .or_else(|| headers.contains_key(&lower).then_some("appears more than once in different spellings"));
            match problem {
                Some(problem) => faults.push(refuse(&name, problem)),
                None => drop(headers.insert(lower, value)),
            }
        }
        if headers.len() > MAX_HEADERS {
            faults.push(refuse("headers", "must not be more than 16"));
        }
        if faults.is_empty() { Ok(Self(headers)) } else { Err(faults) }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Serializes the headers into one text for sealing.
    pub fn to_secret(&self) -> Result<Secret, serde_json::Error> {
        serde_json::to_string(&self.0).map(Secret::new)
    }

    pub fn from_secret(secret: &Secret) -> Result<Self, serde_json::Error> {
        serde_json::from_str(secret.expose()).map(Self)
    }
}

fn header_problem(name: &str, value: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_token) {
        return Some("is not a valid header name");
    }
    if RESERVED_HEADERS.contains(&name) || name.starts_with("webhook-") {
        return Some("is reserved: tenantd sets it itself");
    }
    if value.len() > MAX_HEADER_VALUE {
        return Some("has a value longer than 4096 bytes");
    }
    let printable = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    (!printable).then_some("has a value with characters other than visible ASCII and spaces")
}

/// A new signing secret: 32 random bytes in the Standard Webhooks format.
pub fn generate_secret(entropy: &mut Entropy) -> Secret {
    Secret::new(format!("{SECRET_PREFIX}{}", BASE64.encode(&entropy.bytes::<32>())))
}

/// The bytes of the signing key.
pub fn secret_bytes(secret: &Secret) -> Option<Vec<u8>> {
    BASE64.decode(secret.expose().strip_prefix(SECRET_PREFIX)?.as_bytes()).ok()
}

/// The beginning of a secret, by which people recognize it.
pub fn secret_hint(secret: &Secret) -> String {
    let shown: String = secret.expose().chars().take(SECRET_PREFIX.len() + HINT_LENGTH).collect();
    format!("{shown}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_the_standard_form_and_a_short_hint() {
        let secret = generate_secret(&mut Entropy::from_seed(1));
        assert_eq!(secret_bytes(&secret).map(|bytes| bytes.len()), Some(32));
        assert_eq!(secret.expose().len(), "whsec_".len() + 44);
        assert_eq!(secret_hint(&secret).chars().count(), "whsec_".len() + 4);
        assert_eq!(secret_bytes(&Secret::new("AAAA")), None);
    }

    #[test]
    fn reserved_headers_are_refused() {
        let parse = |name: &str, value: &str| CustomHeaders::parse([(name.to_owned(), value.to_owned())]);
        assert_eq!(parse("X-Token", "a b").unwrap().names(), ["x-token"]);
        for (name, value) in [
            ("Host", "a"),
            ("Webhook-Id", "a"),
            ("Connection", "close"),
            ("Transfer-Encoding", "chunked"),
            ("x y", "a"),
            ("", "a"),
            ("x", "a\r\nb: c"),
            ("x", "é"),
        ] {
            assert!(parse(name, value).is_err(), "{name}: {value}");
        }
        let twice = [("X-A", "1"), ("x-a", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(CustomHeaders::parse(twice).is_err());
        let many = (0..17).map(|number| (format!("x-{number}"), "v".to_owned()));
        assert!(CustomHeaders::parse(many).is_err());
        assert!(!format!("{:?}", parse("x", "hunter2").unwrap()).contains("hunter2"));
    }
}
