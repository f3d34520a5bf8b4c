//! An API key: its plaintext form, its states, its rules.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{self, Generation, Grants, Reach, TenantKind},
    authority::{Authority, Within},
    clock::Timestamp,
    config,
    entropy::Entropy,
    fault::Fault,
    id::{ApiKeyId, OrganizationId, TenantId},
    secrets::{Secret, digest},
    vocabulary::{nearest, vocabulary},
};
use tenantd_store::events::Actor;

pub(super) const LIVE_PREFIX: &str = "tck_live_";
pub(super) const EVALUATION_PREFIX: &str = "tck_eval_";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 256 bits in base 62.
const RANDOM_LENGTH: usize = 43;
/// A CRC-32 in base 62.
const CHECKSUM_LENGTH: usize = 6;

/// The secret itself: prefix, 43 random characters, 6 characters of a checksum. Scanners know it by its form, and a
/// typing error is told from a wrong key without a look-up.
#[derive(Clone, Debug)]
pub struct Plaintext(Secret);

impl Plaintext {
    pub fn generate(kind: TenantKind, entropy: &mut Entropy) -> Self {
        let prefix = if kind == TenantKind::Evaluation { EVALUATION_PREFIX } else { LIVE_PREFIX };
        let mut text = prefix.to_owned();
        for _ in 0..RANDOM_LENGTH {
            let digit = usize::try_from(entropy.below(62)).unwrap_or(0);
            text.push(char::from(BASE62.get(digit).copied().unwrap_or(b'0')));
        }
        let checksum = checksum(&text);
        text.push_str(&checksum);
        Self(Secret::new(text))
    }

    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    pub fn digest(&self) -> [u8; 32] {
        digest(self.0.expose().as_bytes())
    }

    /// What is kept of it to recognise it by: the prefix with four characters, and the last four.
    pub fn hints(&self) -> (String, String) {
        let text = self.0.expose();
        let head = text.get(..LIVE_PREFIX.len() + 4).unwrap_or_default();
        let tail = text.get(text.len().saturating_sub(4)..).unwrap_or_default();
        (head.to_owned(), tail.to_owned())
    }
}

/// What is kept of a plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSecret {
    pub digest: [u8; 32],
    /// The prefix with four characters, and the last four.
    pub prefix: String,
    pub last_four: String,
}

impl Plaintext {
    /// The plaintext alone, for the answer that hands it out.
    pub fn into_secret(self) -> Secret {
        self.0
    }

    pub fn kept(&self) -> KeptSecret {
        let (prefix, last_four) = self.hints();
        KeptSecret { digest: self.digest(), prefix, last_four }
    }
}

/// The digest of a presented key, or why it cannot be one.
pub fn recognize(presented: &Secret) -> Result<[u8; 32], &'static str> {
    let text = presented.expose();
    let random = text.strip_prefix(LIVE_PREFIX).or_else(|| text.strip_prefix(EVALUATION_PREFIX));
    let Some(random) = random else { return Err("This is no API key of this service: they start with tck_live_ or tck_eval_.") };
    if random.len() != RANDOM_LENGTH + CHECKSUM_LENGTH || !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err("The API key is incomplete or has a character too many.");
    }
    let (body, found) = text.split_at(text.len() - CHECKSUM_LENGTH);
    if checksum(body) != found {
        return Err("The API key has a typing error: its checksum does not match.");
    }
    Ok(digest(text.as_bytes()))
}

fn checksum(body: &str) -> String {
    let mut value = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for slot in digits.iter_mut().rev() {
        *slot = BASE62.get((value % 62) as usize).copied().unwrap_or(b'0');
        value /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// What the operator allows.
#[derive(Clone, Copy, Debug)]
pub struct KeyRules {
    pub max_live: u64,
    pub max_days: u32,
    pub default_days: u32,
    pub expiring: Duration,
    pub retention: Duration,
    /// How long a key of an older release works without an owner who covers it.
    pub grace: Duration,
}

impl KeyRules {
    pub fn new(settings: &config::ApiKeys, upgrade: config::Upgrade) -> Self {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
        Self {
            max_live: settings.max_live,
            max_days: settings.max_expires_days,
            default_days: settings.default_expires_days,
            expiring: days(settings.expiring_days),
            retention: days(settings.retention_days),
            grace: upgrade.grace(),
        }
    }

    /// When a key that lives for `days` from now ends.
    pub fn end(&self, now: Timestamp, days: Option<u32>) -> Result<Timestamp, Fault> {
        let days = days.unwrap_or(self.default_days);
        if (1..=self.max_days).contains(&days) {
            Ok(now.plus_days(days))
        } else {
            Err(Fault::new("/expires_days", "out_of_range", format!("must be 1 to {}", self.max_days)))
        }
    }
}

vocabulary! {
    /// A key that is expiring ends soon.
    KeyStatus:
    Active "active", Expiring "expiring", Expired "expired", Disabled "disabled", Revoked "revoked",
}

vocabulary! {
    /// What has become of the owner of a key that was stopped because of it.
    #[serde(rename_all = "snake_case")]
    PauseReason as variants:
    Removed "owner_removed", Disabled "owner_disabled",
    /// The owner no longer has every right of the key.
    Demoted "owner_demoted",
    /// The owner is a key, which was revoked.
    Revoked "owner_revoked",
    /// An older release left the key without an owner who covers it, and the grace is over.
    Legacy "legacy",
}

/// Whether it is known that the owner of a key covered it when they became its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    #[default]
    Checked,
    /// An older release stored the key, and this one has not looked at it yet.
    Unchecked,
    /// An older release stored the key, and its owner did not cover it then or was gone.
    Legacy { since: Timestamp },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub reason: PauseReason,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    #[serde(skip)]
    pub id: ApiKeyId,
    #[serde(skip)]
    pub tenant_id: TenantId,
    pub name: String,
    pub description: Option<String>,
    pub prefix: String,
    pub last_four: String,
    pub digest: [u8; 32],
    /// The digest of the secret before the last rotation, which works until this time.
    pub previous: Option<([u8; 32], Timestamp)>,
    /// As they were given, wildcards unexpanded.
    pub scopes: Vec<String>,
    /// Empty: any address.
    pub allowed_ips: Vec<IpNet>,
    pub enabled: bool,
    pub created_at: Timestamp,
    pub created_by: Actor,
    pub updated_at: Timestamp,
    pub expires_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub last_used_ip: Option<IpAddr>,
    pub use_count: u64,
    pub rotated_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// Set when the end was noticed and told of; from then on the key is no longer live.
    pub expired_at: Option<Timestamp>,
    /// Whether the coming end was told of.
    pub expiry_announced: bool,
    /// When the key next changes by time alone.
    pub due_at: Timestamp,
    pub version: u64,
    /// Empty: all of the tenant.
    pub organization_ids: Vec<OrganizationId>,
    /// The last one to take it over; see [`ApiKey::owner`].
    #[serde(default, rename = "owner")]
    pub taken_over_by: Option<Actor>,
    /// Set while the key is disabled because of its owner.
    #[serde(default)]
    pub paused: Option<Pause>,
    /// What the wildcards stand for: scopes of a later release do not join them.
    #[serde(default)]
    pub generation: Generation,
    #[serde(default)]
    pub origin: Origin,
    /// Digests of secrets that no longer work, the newest last: who presents one learns that it was revoked.
    #[serde(default)]
    pub retired: Vec<[u8; 32]>,
}

/// The newest retired secrets that a key knows.
pub const MAX_RETIRED: usize = 100;

impl ApiKey {
    /// The person or key that answers for the key: its creator, or the last one to take it over. The owner of a live key is a person, a
    /// live key, or the system.
    pub fn owner(&self) -> &Actor {
        self.taken_over_by.as_ref().unwrap_or(&self.created_by)
    }

    pub fn set_owner(&mut self, owner: Actor) {
        self.taken_over_by = Some(owner).filter(|owner| *owner != self.created_by);
    }

    pub fn status(&self, now: Timestamp, rules: &KeyRules) -> KeyStatus {
        if self.revoked_at.is_some() {
            KeyStatus::Revoked
        } else if now >= self.expires_at {
            KeyStatus::Expired
        } else if !self.enabled {
            KeyStatus::Disabled
        } else if now + rules.expiring >= self.expires_at {
            KeyStatus::Expiring
        } else {
            KeyStatus::Active
        }
    }

    /// Gives the key another secret. The one before it works until `overlap_end`, if there is one.
    pub fn replace_secret(&mut self, digest: [u8; 32], overlap_end: Option<Timestamp>) {
        self.retire_previous();
        let replaced = std::mem::replace(&mut self.digest, digest);
        match overlap_end {
            Some(end) => self.previous = Some((replaced, end)),
            None => self.retire(replaced),
        }
    }

    /// Ends the overlap of the last rotation.
    pub fn retire_previous(&mut self) {
        if let Some((digest, _)) = self.previous.take() {
            self.retire(digest);
        }
    }

    fn retire(&mut self, digest: [u8; 32]) {
        self.retired.push(digest);
        let surplus = self.retired.len().saturating_sub(MAX_RETIRED);
        self.retired.drain(..surplus);
    }

    /// Counts against the tenant's limit and holds its name.
    pub fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.expired_at.is_none()
    }

    pub fn grants(&self) -> Grants {
        self.reach().limit(Grants::from_patterns_of(self.generation, self.scopes.iter().map(String::as_str)))
    }

    pub fn reach(&self) -> Reach {
        Reach::new(self.organization_ids.clone())
    }

    /// What the key may do while it is enabled, in a tenant of this kind.
    pub fn authority(&self, tenant_kind: TenantKind) -> Authority {
        let networks = || Within::Only(self.allowed_ips.iter().copied().collect());
        Authority::new(self.tenant_id, granted(&self.scopes, self.generation, tenant_kind))
            .with_organizations((&self.reach()).into())
            .with_networks(if self.allowed_ips.is_empty() { Within::All } else { networks() })
            .with_until(Some(self.expires_at))
    }

    pub fn allows_address(&self, client: Option<IpAddr>) -> bool {
        self.allowed_ips.is_empty() || client.is_some_and(|client| self.allowed_ips.iter().any(|network| network.contains(&client)))
    }

    /// When the key is paused unless somebody who covers it takes it over.
    pub fn legacy_until(&self, rules: &KeyRules) -> Option<Timestamp> {
        match self.origin {
            Origin::Legacy { since } if self.is_live() && self.paused.is_none() => Some(since + rules.grace),
            _ => None,
        }
    }

    /// When the key next changes by time alone: its grace is over, its end comes near, it ends, or it is forgotten.
    pub fn next_due(&self, rules: &KeyRules) -> Timestamp {
        let due = match self.revoked_at.or(self.expired_at) {
            Some(ended) => ended + rules.retention,
            None if self.expiry_announced => self.expires_at,
            None => self.expires_at - rules.expiring,
        };
        self.legacy_until(rules).map_or(due, |end| due.min(end))
    }
}

/// A key that is to be created.
#[derive(Clone, Debug)]
pub struct NewApiKey {
    pub name: String,
    pub description: Option<String>,
    pub scopes: Vec<String>,
    /// Empty: all of the tenant.
    pub organization_ids: Vec<OrganizationId>,
    /// Addresses and networks, as they were written.
    pub allowed_ips: Vec<String>,
    pub expires_days: Option<u32>,
}

/// What scopes mean in a tenant: those of the platform work in the platform tenant only.
pub fn within_tenant(grants: Grants, tenant_kind: TenantKind) -> Grants {
    if tenant_kind == TenantKind::Platform { grants } else { grants.without(Grants::from_patterns(["platform:*"])) }
}

/// What scopes ask for. A wildcard over all areas means all that there are in the tenant. A platform scope by name stays, so that nobody
/// outside of the platform tenant covers it.
fn granted(scopes: &[String], generation: Generation, tenant_kind: TenantKind) -> Grants {
    let wanted = |pattern: &String| {
        let grants = Grants::from_patterns_of(generation, [pattern.as_str()]);
        if pattern.starts_with('*') { within_tenant(grants, tenant_kind) } else { grants }
    };
    scopes.iter().map(wanted).fold(Grants::NONE, Grants::union)
}

/// All scopes of a key must exist.
pub fn scope_faults(scopes: &[String]) -> Vec<Fault> {
    let fault = |scope: &String| {
        let known = access::known_patterns();
        let names = || known.iter().map(String::as_str);
        let fault = Fault::new("/scopes", "unknown_scope", format!("the scope {scope} does not exist"));
        fault.with_allowed(names()).with_suggestion(nearest(scope, names()))
    };
    scopes.iter().filter(|scope| access::expand(scope).is_none()).map(fault).collect()
}

/// A key for some organizations cannot have what is over the whole tenant. A wildcard over all areas means all that there are for it.
pub fn reach_fault(scopes: &[String], organization_ids: &[OrganizationId]) -> Option<Fault> {
    let named = scopes.iter().filter(|pattern| !pattern.starts_with('*')).filter_map(|pattern| access::expand(pattern));
    let wanted = named.fold(Grants::NONE, Grants::union);
    let beyond: Vec<&str> = wanted.without(Grants::BY_ORGANIZATION).iter().map(access::Scope::name).collect();
    if organization_ids.is_empty() || beyond.is_empty() {
        return None;
    }
    let message = format!("a key with organization_ids cannot have what is over the whole tenant: {}", beyond.join(", "));
    Some(Fault::new("/scopes", "over_tenant", message))
}

/// An address stands for the network of itself.
fn parse_network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from).ok();
    Some(text.parse::<IpNet>().ok().or_else(address)?.trunc())
}

/// The networks that a key is to work from.
pub fn read_networks(texts: &[String], faults: &mut Vec<Fault>) -> Vec<IpNet> {
    let mut networks = Vec::new();
    for text in texts {
        let message = || format!("{text} is no IP address or network such as 203.0.113.0/24");
        match parse_network(text) {
            Some(network) => networks.push(network),
            None => faults.push(Fault::new("/allowed_ips", "wrong_form", message())),
        }
    }
    networks
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Also where letters of several bytes stand across the places at which a key is cut into its parts.
        #[test]
        fn any_text_is_a_key_or_told_why_not(text in "\\PC{0,80}|tck_(live|eval)_\\PC{0,60}|tck_(live|eval)_[0-9A-Za-z]{49}") {
            if let Err(reason) = recognize(&Secret::new(text.clone())) {
                prop_assert!(!reason.is_empty() && !reason.contains(&text) || text.len() < 4);
            }
        }
    }

    #[test]
    fn a_plaintext_has_its_form_and_a_typing_error_is_told() {
        let mut entropy = Entropy::from_seed(1);
        let plaintext = Plaintext::generate(TenantKind::Standard, &mut entropy);
        let text = plaintext.expose().to_owned();
        assert_eq!(text.len(), "tck_live_".len() + 43 + 6);
        assert_eq!(recognize(&Secret::new(text.clone())), Ok(plaintext.digest()));
        assert!(Plaintext::generate(TenantKind::Evaluation, &mut entropy).expose().starts_with("tck_eval_"));
        let mut swapped: Vec<char> = text.chars().collect();
        swapped.swap(12, 13);
        let swapped: String = swapped.into_iter().collect();
        if swapped != text {
            assert!(recognize(&Secret::new(swapped)).unwrap_err().contains("typing error"));
        }
        assert!(recognize(&Secret::new(&text[..text.len() - 1])).unwrap_err().contains("incomplete"));
        assert!(recognize(&Secret::new("Bearer x")).unwrap_err().contains("no API key"));
        let (prefix, last_four) = plaintext.hints();
        assert_eq!((prefix.len(), last_four.len()), (13, 4));
    }

    #[test]
    fn a_wildcard_means_what_there_is_in_the_tenant() {
        let scopes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let admin = access::Role::Admin.grants();
        assert_eq!(granted(&scopes(&["*"]), Generation::CURRENT, TenantKind::Standard), admin);
        assert!(!admin.covers(granted(&scopes(&["*"]), Generation::CURRENT, TenantKind::Platform)));
        assert!(!admin.covers(granted(&scopes(&["platform:read"]), Generation::CURRENT, TenantKind::Standard)));
        assert!(access::Role::Operator.grants().covers(granted(&scopes(&["*"]), Generation::CURRENT, TenantKind::Platform)));
        assert_eq!(scope_faults(&scopes(&["tickets:read", "*:read"])), []);
        let unknown = scope_faults(&scopes(&["ticket:read", "*"]));
        assert_eq!((unknown.len(), unknown[0].suggestion.as_deref()), (1, Some("tickets:read")));
    }

    #[test]
    fn networks_are_read_in_both_forms() {
        assert_eq!(parse_network("192.0.2.7").unwrap().to_string(), "192.0.2.7/32");
        assert_eq!(parse_network("192.0.2.7/24").unwrap().to_string(), "192.0.2.0/24");
        assert!(parse_network("192.0.2.0/33").is_none() && parse_network("here").is_none());
    }
}
