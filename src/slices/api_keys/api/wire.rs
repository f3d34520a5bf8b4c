//! Wire types of API keys.

use std::net::IpAddr;

use ipnet::IpNet;
use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{ApiKeyId, OrganizationId},
};
use tenantd_http::{
    author::Author,
    shape::Shape,
    wire::{Word, word_type},
};
use tenantd_store::events::{Describe, Described};

use super::super::{
    model::{self, KeyRules, KeyStatus, NewApiKey, PauseReason, Plaintext},
    service::KeyChange,
};

word_type! {
    KeyStatus, "ApiKeyStatus", "`active`: the key works. `expiring`: it works, but expires soon (within two weeks by default). `expired`: it has expired. `disabled`: an administrator disabled it, or it is paused. `revoked`: it was revoked and never works again.";
}

word_type! {
    stored: PauseReason, "ApiKeyPauseReason", "Why a key is paused. `owner_removed`, `owner_disabled`: its owner was removed or disabled. `owner_demoted`: its owner lost rights that the key has. `owner_revoked`: the key that owns it was revoked. `legacy`: an older release created it and its owner does not cover it. `access_ended`: somebody who had opened an account could have got its secret there, and lacks rights that the account has now. The key works again only with a new secret.";
}

/// Why and when a key was paused. A caller whose credential covers the key can take it over or enable it.
#[derive(Debug, Object, Serialize)]
pub(super) struct ApiKeyPause {
    /// Why the key was paused.
    pub(super) reason: Word<PauseReason>,
    /// When the key was paused.
    pub(super) at: Timestamp,
}

/// An API key, without its plaintext.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ApiKey {
    /// The id of the key.
    pub(super) id: ApiKeyId,
    /// A label for people, unique among the tenant's live keys.
    pub(super) name: String,
    /// What the key is for. Absent if none was given.
    pub(super) description: Option<String>,
    /// The first characters of the plaintext, to recognize the key.
    pub(super) prefix: String,
    /// The last four characters of the plaintext.
    pub(super) last_four: String,
    /// The scopes of the key. May contain wildcards; `*` stands for all scopes.
    pub(super) scopes: Vec<String>,
    /// The organizations whose records the key can read and write. Absent: the whole tenant.
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
    /// The networks that the key works from. Absent: any.
    pub(super) allowed_ips: Option<Vec<String>>,
    /// Whether the key works now.
    pub(super) status: KeyStatus,
    /// When the key was created.
    pub(super) created_at: Timestamp,
    /// Who created the key.
    pub(super) created_by: Author,
    /// The person or key responsible for the key: its creator, or the last one to take it over. If the owner is a key that expires
    /// or is revoked, the owner of that key becomes the owner.
    pub(super) owner: Author,
    /// Whether the key is personal: it acts for its owner, with no more than the rights that they have at that moment. It is revoked
    /// when they are removed.
    pub(super) personal: bool,
    /// Why the key is paused. Present only while it is paused.
    pub(super) paused: Option<ApiKeyPause>,
    /// When the key will be paused unless someone takes it over. Present if an older release created it and its owner does not
    /// cover it.
    pub(super) legacy_until: Option<Timestamp>,
    /// When the key was last changed.
    pub(super) updated_at: Timestamp,
    /// When the key stops working.
    pub(super) expires_at: Timestamp,
    /// When the key was last used. Updated about once a minute; absent if it was never used.
    pub(super) last_used_at: Option<Timestamp>,
    /// The IP address of the last request with the key. Absent if unknown.
    pub(super) last_used_ip: Option<String>,
    /// How often the key was used. Updated about once a minute; uses do not change `version` or `updated_at`.
    pub(super) use_count: u64,
    /// When the secret was last rotated. Absent if never.
    pub(super) rotated_at: Option<Timestamp>,
    /// When the secret before the last rotation stops working. Absent once it has.
    pub(super) previous_expires_at: Option<Timestamp>,
    /// When the key was revoked. Absent if it was not.
    pub(super) revoked_at: Option<Timestamp>,
    /// The version of the record. Each change increases it by 1.
    pub(super) version: u64,
}

impl ApiKey {
    pub(super) fn new(key: model::ApiKey, now: Timestamp, rules: &KeyRules) -> Self {
        let status = key.status(now, rules);
        let legacy_until = key.legacy_until(rules);
        let owner = key.owner().clone().into();
        let networks = || key.allowed_ips.iter().map(IpNet::to_string).collect();
        Self {
            id: key.id,
            organization_ids: (!key.organization_ids.is_empty()).then_some(key.organization_ids),
            allowed_ips: (!key.allowed_ips.is_empty()).then(networks),
            name: key.name,
            description: key.description,
            prefix: key.prefix,
            last_four: key.last_four,
            scopes: key.scopes,
            status,
            created_at: key.created_at,
            created_by: key.created_by.into(),
            owner,
            personal: key.person.is_some(),
            paused: key.paused.map(|pause| ApiKeyPause { reason: pause.reason.into(), at: pause.at }),
            legacy_until,
            updated_at: key.updated_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            last_used_ip: key.last_used_ip.as_ref().map(IpAddr::to_string),
            use_count: key.use_count,
            rotated_at: key.rotated_at,
            previous_expires_at: key.previous.map(|(_, end)| end).filter(|end| now < *end),
            revoked_at: key.revoked_at,
            version: key.version,
        }
    }
}

impl Describe<(Timestamp, &KeyRules)> for model::ApiKey {
    fn describe(&self, (now, rules): (Timestamp, &KeyRules)) -> Described {
        to_raw_value(&ApiKey::new(self.clone(), now, rules))
    }
}

/// An API key with its plaintext.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ApiKeyWithSecret {
    /// The plaintext. It is not shown again: store it safely.
    pub(super) key: String,
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) record: ApiKey,
}

impl ApiKeyWithSecret {
    pub(super) fn new(key: model::ApiKey, plaintext: &Plaintext, now: Timestamp, rules: &KeyRules) -> Self {
        Self { key: plaintext.expose().to_owned(), record: ApiKey::new(key, now, rules) }
    }
}

/// The request to create a key.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateApiKey {
    /// A label for people, unique among the tenant's live keys.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    /// What the key is for.
    #[oai(validator(max_length = 1000))]
    pub(super) description: Option<String>,
    /// The scopes of the key, or wildcards such as `tickets:*`, `*:read` and `*`.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) scopes: Vec<String>,
    /// Days until the key expires. The operator sets the default (initially 90) and the maximum (initially 365).
    #[oai(validator(minimum(value = "1"), maximum(value = "36500")))]
    pub(super) expires_days: Option<u32>,
    /// Restricts the key to records of these organizations. The key cannot see records of other organizations or of none. Such a
    /// key can have only scopes over these records: `tickets`, `inventory`, `search`, `providers`, `vms`, `backup` and `ingest`.
    #[oai(validator(min_items = 1, max_items = 100, unique_items))]
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
    /// The IP addresses and networks that the key works from, such as `203.0.113.0/24`. Absent: any.
    #[oai(validator(min_items = 1, max_items = 64))]
    pub(super) allowed_ips: Option<Vec<String>>,
}

/// Returns the limits of a key's fields, to check the keys of an imported tenant.
pub(crate) fn key_fields() -> Result<Shape, String> {
    Shape::fields::<CreateApiKey>(&["name", "description", "scopes", "organization_ids", "allowed_ips"])
}

impl From<CreateApiKey> for NewApiKey {
    fn from(body: CreateApiKey) -> Self {
        let CreateApiKey { name, description, scopes, expires_days, organization_ids, allowed_ips } = body;
        let (organization_ids, allowed_ips) = (organization_ids.unwrap_or_default(), allowed_ips.unwrap_or_default());
        Self { name, description, scopes, organization_ids, allowed_ips, expires_days }
    }
}

/// The request to create a personal key.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateOwnKey {
    /// A label, unique among your live personal keys.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// What the key is for.
    #[oai(validator(max_length = 1000))]
    description: Option<String>,
    /// The scopes of the key, or wildcards such as `tickets:*`, `*:read` and `*`. You must have all of them.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    scopes: Vec<String>,
    /// Days until the key expires. The operator sets the default (initially 90) and the maximum (initially 365).
    #[oai(validator(minimum(value = "1"), maximum(value = "36500")))]
    expires_days: Option<u32>,
    /// The IP addresses and networks that the key works from, such as `203.0.113.0/24`. Absent: any.
    #[oai(validator(min_items = 1, max_items = 64))]
    allowed_ips: Option<Vec<String>>,
}

impl From<CreateOwnKey> for NewApiKey {
    fn from(body: CreateOwnKey) -> Self {
        let CreateOwnKey { name, description, scopes, expires_days, allowed_ips } = body;
        let (organization_ids, allowed_ips) = (Vec::new(), allowed_ips.unwrap_or_default());
        Self { name, description, scopes, organization_ids, allowed_ips, expires_days }
    }
}

/// The request to change a key. Fields that you omit keep their values; `null` clears a field.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateApiKey {
    /// The id of the key. Required unless the path or the query contains it.
    pub(super) id: Option<ApiKeyId>,
    /// A label for people, unique among the tenant's live keys.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    /// What the key is for.
    #[oai(validator(max_length = 1000))]
    pub(super) description: Change<String>,
    /// The scopes of the key, or wildcards. Replaces all previous scopes.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) scopes: Option<Vec<String>>,
    /// The organizations whose records the key can read and write. `null` removes the restriction.
    #[oai(validator(min_items = 1, max_items = 100, unique_items))]
    pub(super) organization_ids: Change<Vec<OrganizationId>>,
    /// The IP addresses and networks that the key works from. `null` removes the restriction.
    #[oai(validator(min_items = 1, max_items = 64))]
    pub(super) allowed_ips: Change<Vec<String>>,
    /// Whether the key works. A disabled key is refused until it is enabled again. Enabling a paused key makes you its owner.
    pub(super) enabled: Option<bool>,
    /// Days from now until the key expires. Makes an expired key work again.
    #[oai(validator(minimum(value = "1"), maximum(value = "36500")))]
    pub(super) expires_days: Option<u32>,
}

impl UpdateApiKey {
    /// Whether the request disables the key and changes nothing else.
    pub(super) fn only_disables(&self) -> bool {
        let Self { id: _, name, description, scopes, organization_ids, allowed_ips, enabled, expires_days } = self;
        let keeps = *description == Change::Keep && *organization_ids == Change::Keep && *allowed_ips == Change::Keep;
        *enabled == Some(false) && keeps && name.is_none() && scopes.is_none() && expires_days.is_none()
    }
}

impl From<UpdateApiKey> for KeyChange {
    fn from(body: UpdateApiKey) -> Self {
        let UpdateApiKey { id: _, name, description, scopes, organization_ids, allowed_ips, enabled, expires_days } = body;
        Self { name, description, scopes, organization_ids, allowed_ips, enabled, expires_days }
    }
}

/// Options of a rotation.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RotateApiKey {
    /// How many seconds the old secret keeps working. Defaults to 86,400 (one day); `0` stops it immediately.
    #[oai(validator(minimum(value = "0"), maximum(value = "2592000")))]
    pub(super) overlap_seconds: Option<u32>,
}
