//! An API key: its plaintext format, its states and its rules.

mod personal;

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use tenantd_base::{
    access::{self, Generation, Grants, Reach, Role, Scope, TenantKind},
    authority::{Authority, Within},
    clock::Timestamp,
    config,
    entropy::Entropy,
    fault::Fault,
    id::{ApiKeyId, OrganizationId, TenantId, UserId},
    secrets::{Secret, digest},
    vocabulary::{nearest, vocabulary},
};
use tenantd_store::events::Actor;

pub use personal::{KeyBlock, MOST_PERSONAL_RECORDS, personal_fault};

pub(super) const LIVE_PREFIX: &str = "tck_live_";
pub(super) const EVALUATION_PREFIX: &str = "tck_eval_";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 256 bits in base 62.
const RANDOM_LENGTH: usize = 43;
/// A CRC-32 in base 62.
const CHECKSUM_LENGTH: usize = 6;

/// The secret: a prefix, 43 random characters, and a checksum of 6 characters. Secret scanners recognize the format, and the
/// checksum detects a typing error without a lookup.
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

    /// Returns the visible parts of the key: the prefix with the four characters after it, and the last four characters.
    pub fn hints(&self) -> (String, String) {
        let text = self.0.expose();
        let head = text.get(..LIVE_PREFIX.len() + 4).unwrap_or_default();
        let tail = text.get(text.len().saturating_sub(4)..).unwrap_or_default();
        (head.to_owned(), tail.to_owned())
    }
}

/// The stored parts of a plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSecret {
    pub digest: [u8; 32],
    /// The prefix and the four characters after it.
    pub prefix: String,
    pub last_four: String,
}

impl Plaintext {
    /// Returns the plaintext, for the response that shows it.
    pub fn into_secret(self) -> Secret {
        self.0
    }

    pub fn to_stored(&self) -> StoredSecret {
        let (prefix, last_four) = self.hints();
        StoredSecret { digest: self.digest(), prefix, last_four }
    }
}

/// Returns the digest of a presented key, or why it is not a valid key.
pub fn recognize(presented: &Secret) -> Result<[u8; 32], &'static str> {
    let text = presented.expose();
    let random = text.strip_prefix(LIVE_PREFIX).or_else(|| text.strip_prefix(EVALUATION_PREFIX));
    let Some(random) = random else { return Err("This is not an API key of tenantd. API keys start with tck_live_ or tck_eval_.") };
    if random.len() != RANDOM_LENGTH + CHECKSUM_LENGTH || !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err("The API key is incomplete or too long. Copy the whole key.");
    }
    let (body, found) = text.split_at(text.len() - CHECKSUM_LENGTH);
    if checksum(body) != found {
        return Err("The API key contains a typing error: its checksum does not match. Copy the key again.");
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

/// The limits that the operator configures.
#[derive(Clone, Copy, Debug)]
pub struct KeyRules {
    pub max_live: u64,
    /// How many live personal keys one person can have.
    pub max_personal: u64,
    pub max_days: u32,
    pub default_days: u32,
    pub expiring: Duration,
    pub retention: Duration,
    /// How long a key from an older release works without an owner who covers it.
    pub grace: Duration,
}

impl KeyRules {
    pub fn new(settings: &config::ApiKeys, upgrade: config::Upgrade) -> Self {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
        Self {
            max_live: settings.max_live,
            max_personal: settings.max_personal,
            max_days: settings.max_expires_days,
            default_days: settings.default_expires_days,
            expiring: days(settings.expiring_days),
            retention: days(settings.retention_days),
            grace: upgrade.grace(),
        }
    }

    /// Returns when a key with a lifetime of `days` expires. The default lifetime applies if `days` is `None`.
    pub fn end(&self, now: Timestamp, days: Option<u32>) -> Result<Timestamp, Fault> {
        let days = days.unwrap_or(self.default_days);
        if (1..=self.max_days).contains(&days) {
            Ok(now.plus_days(days))
        } else {
            Err(Fault::new("/expires_days", "out_of_range", format!("must be between 1 and {}", self.max_days)))
        }
    }
}

vocabulary! {
    /// The status of a key. An expiring key still works, but expires soon.
    KeyStatus:
    Active "active", Expiring "expiring", Expired "expired", Disabled "disabled", Revoked "revoked",
}

vocabulary! {
    /// Why a key is paused.
    #[serde(rename_all = "snake_case")]
    PauseReason as variants:
    Removed "owner_removed", Disabled "owner_disabled",
    /// The owner no longer has every right of the key.
    Demoted "owner_demoted",
    /// The owner is a key that was revoked.
    Revoked "owner_revoked",
    /// The owner of a key from an older release does not cover it, and the grace period is over.
    Legacy "legacy",
    /// Somebody could have got the secret in an account that has more rights now.
    AccessEnded "access_ended",
}

/// Whether the owner of a key is known to have covered it when they became its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    #[default]
    Checked,
    /// An older release stored the key, and this release has not checked it yet.
    Unchecked,
    /// An older release stored the key, and its owner did not cover it or no longer existed.
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
    /// The digest of the secret before the last rotation, and when that secret stops working.
    pub previous: Option<([u8; 32], Timestamp)>,
    /// As given, with wildcards not expanded.
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
    /// Set when the expiry was processed and announced. From then on the key is no longer live.
    pub expired_at: Option<Timestamp>,
    /// Whether the upcoming expiry was announced.
    pub expiry_announced: bool,
    /// When the key next changes without a request.
    pub due_at: Timestamp,
    pub version: u64,
    /// Empty: all of the tenant.
    pub organization_ids: Vec<OrganizationId>,
    /// The last actor that took over the key; see [`ApiKey::owner`].
    #[serde(default, rename = "owner")]
    pub taken_over_by: Option<Actor>,
    /// Set while the key is disabled because of its owner.
    #[serde(default)]
    pub paused: Option<Pause>,
    /// Determines which scopes the wildcards include. They do not include scopes that a later release adds.
    #[serde(default)]
    pub generation: Generation,
    #[serde(default)]
    pub origin: Origin,
    /// Digests of secrets that no longer work, the newest last. A caller that presents one gets the error that it was revoked.
    #[serde(default)]
    pub retired: Vec<[u8; 32]>,
    /// The person that a personal key acts for. They have created it, and nobody takes it over.
    #[serde(default)]
    pub person: Option<UserId>,
    /// The caller that the current secret was returned to. `None` if unknown: an earlier release or another installation rotated the key.
    #[serde(default)]
    pub secret_holder: Option<Actor>,
    /// The same for the secret before the last rotation.
    #[serde(default)]
    pub previous_holder: Option<Actor>,
}

/// How many retired secrets a key keeps; the oldest are dropped first.
pub const MAX_RETIRED: usize = 100;

impl ApiKey {
    /// Returns the actor responsible for the key: its creator, or the last one to take it over. The owner of a live key is a
    /// person, a live key, or the system.
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

    /// Replaces the secret. The old secret works until `overlap_end`, or stops immediately if that is `None`.
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

    /// Whether the key counts against the tenant's limit and reserves its name.
    pub fn is_live(&self) -> bool {
        self.revoked_at.is_none() && self.expired_at.is_none()
    }

    pub fn grants(&self) -> Grants {
        let listed = Grants::from_patterns_of(self.generation, self.scopes.iter().map(String::as_str));
        self.reach().limit(self.permitted(listed))
    }

    pub fn reach(&self) -> Reach {
        Reach::new(self.organization_ids.clone())
    }

    /// Returns the authority of the key while it is enabled, in a tenant of this kind.
    pub fn authority(&self, tenant_kind: TenantKind) -> Authority {
        self.over(self.permitted(self.listed(tenant_kind)))
    }

    /// Returns what a caller must cover to create, change or own the key. A key that provisions people decides who administers the
    /// tenant, so it counts as an administrator.
    pub fn weight(&self, tenant_kind: TenantKind) -> Authority {
        let grants = self.permitted(self.listed(tenant_kind));
        let decides = grants.allows(Scope::ProvisioningWrite);
        self.over(if decides { grants.union(Role::Admin.grants()) } else { grants })
    }

    fn over(&self, grants: Grants) -> Authority {
        let networks = || Within::Only(self.allowed_ips.iter().copied().collect());
        Authority::new(self.tenant_id, grants)
            .with_organizations((&self.reach()).into())
            .with_networks(if self.allowed_ips.is_empty() { Within::All } else { networks() })
            .with_until(Some(self.expires_at))
    }

    pub fn allows_address(&self, client: Option<IpAddr>) -> bool {
        self.allowed_ips.is_empty() || client.is_some_and(|client| self.allowed_ips.iter().any(|network| network.contains(&client)))
    }

    /// Returns when the key will be paused unless someone who covers it takes it over.
    pub fn legacy_until(&self, rules: &KeyRules) -> Option<Timestamp> {
        match self.origin {
            Origin::Legacy { since } if self.is_live() && self.paused.is_none() => Some(since + rules.grace),
            _ => None,
        }
    }

    /// Returns when the key next changes without a request: its grace period ends, its expiry is announced, it expires, or it is
    /// removed.
    pub fn next_due(&self, rules: &KeyRules) -> Timestamp {
        let due = match self.revoked_at.or(self.expired_at) {
            Some(ended) => ended + rules.retention,
            None if self.expiry_announced => self.expires_at,
            None => self.expires_at - rules.expiring,
        };
        self.legacy_until(rules).map_or(due, |end| due.min(end))
    }
}

/// A key to create.
#[derive(Clone, Debug)]
pub struct NewApiKey {
    pub name: String,
    pub description: Option<String>,
    pub scopes: Vec<String>,
    /// Empty: all of the tenant.
    pub organization_ids: Vec<OrganizationId>,
    /// Addresses and networks, as given.
    pub allowed_ips: Vec<String>,
    pub expires_days: Option<u32>,
}

/// Removes the platform scopes, unless the tenant is the platform tenant.
pub fn within_tenant(grants: Grants, tenant_kind: TenantKind) -> Grants {
    if tenant_kind == TenantKind::Platform { grants } else { grants.without(Grants::from_patterns(["platform:*"])) }
}

/// Expands the scopes of a key. A wildcard over all areas includes only scopes that exist in the tenant. A platform scope that is
/// named explicitly stays, so that no caller outside of the platform tenant covers it.
fn granted(scopes: &[String], generation: Generation, tenant_kind: TenantKind) -> Grants {
    let expanded = |pattern: &String| {
        let grants = Grants::from_patterns_of(generation, [pattern.as_str()]);
        if pattern.starts_with('*') { within_tenant(grants, tenant_kind) } else { grants }
    };
    scopes.iter().map(expanded).fold(Grants::NONE, Grants::union)
}

/// Returns a fault for each scope that does not exist.
pub fn scope_faults(scopes: &[String]) -> Vec<Fault> {
    let fault = |scope: &String| {
        let known = access::known_patterns();
        let names = || known.iter().map(String::as_str);
        let fault = Fault::new("/scopes", "unknown_scope", format!("the scope {scope} does not exist"));
        fault.with_allowed(names()).with_suggestion(nearest(scope, names()))
    };
    scopes.iter().filter(|scope| access::expand(scope).is_none()).map(fault).collect()
}

/// Returns a fault if a key restricted to organizations names scopes over the whole tenant. A wildcard over all areas includes only
/// the scopes that such a key can have.
pub fn reach_fault(scopes: &[String], organization_ids: &[OrganizationId]) -> Option<Fault> {
    let named = scopes.iter().filter(|pattern| !pattern.starts_with('*')).filter_map(|pattern| access::expand(pattern));
    let requested = named.fold(Grants::NONE, Grants::union);
    let beyond: Vec<&str> = requested.without(Grants::BY_ORGANIZATION).iter().map(access::Scope::name).collect();
    if organization_ids.is_empty() || beyond.is_empty() {
        return None;
    }
    let message = format!("a key with organization_ids cannot have scopes over the whole tenant; remove {}", beyond.join(", "));
    Some(Fault::new("/scopes", "over_tenant", message))
}

/// Parses a network. A single address is a network of one address.
fn parse_network(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().map(IpNet::from).ok();
    Some(text.parse::<IpNet>().ok().or_else(address)?.trunc())
}

/// Parses the networks of a key, and collects a fault for each invalid one.
pub fn read_networks(texts: &[String], faults: &mut Vec<Fault>) -> Vec<IpNet> {
    let mut networks = Vec::new();
    for text in texts {
        let message = || format!("{text} is not an IP address or network such as 203.0.113.0/24");
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
        /// Includes multi-byte letters across the positions where a key is split.
        #[test]
        fn any_text_is_a_key_or_is_refused_with_a_reason(text in "\\PC{0,80}|tck_(live|eval)_\\PC{0,60}|tck_(live|eval)_[0-9A-Za-z]{49}") {
            if let Err(reason) = recognize(&Secret::new(text.clone())) {
                prop_assert!(!reason.is_empty() && !reason.contains(&text) || text.len() < 4);
            }
        }
    }

    #[test]
    fn a_plaintext_has_its_format_and_typing_errors_are_detected() {
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
        assert!(recognize(&Secret::new("Bearer x")).unwrap_err().contains("not an API key"));
        let (prefix, last_four) = plaintext.hints();
        assert_eq!((prefix.len(), last_four.len()), (13, 4));
    }

    #[test]
    fn a_wildcard_includes_only_scopes_of_the_tenant() {
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
    fn networks_and_addresses_are_parsed() {
        assert_eq!(parse_network("192.0.2.7").unwrap().to_string(), "192.0.2.7/32");
        assert_eq!(parse_network("192.0.2.7/24").unwrap().to_string(), "192.0.2.0/24");
        assert!(parse_network("192.0.2.0/33").is_none() && parse_network("here").is_none());
    }
}
