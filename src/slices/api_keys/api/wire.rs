//! API keys as clients see and send them.

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
    KeyStatus, "ApiKeyStatus", "`active`; `expiring` from two weeks before the end; `expired`; `disabled` by an administrator; `revoked` for good.";
}

word_type! {
    stored: PauseReason, "ApiKeyPauseReason", "Why a key was paused: its owner was removed, disabled or lost rights that the key has; the key that made it was revoked; or an older\nrelease left it without an owner who covers it.";
}

/// A key that is disabled because of its owner. Somebody who covers it can take it over, or enable it.
#[derive(Debug, Object, Serialize)]
pub(super) struct ApiKeyPause {
    pub(super) reason: Word<PauseReason>,
    pub(super) at: Timestamp,
}

/// An API key, without its plaintext.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ApiKey {
    pub(super) id: ApiKeyId,
    /// A label for people, unique among the tenant's live keys.
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// The beginning of the plaintext, to recognise it by.
    pub(super) prefix: String,
    /// The end of the plaintext.
    pub(super) last_four: String,
    /// What the key allows. `*` stands for all scopes.
    pub(super) scopes: Vec<String>,
    /// The organizations whose records it reads and writes; absent: all of the tenant.
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
    /// Addresses and networks that it works from; absent: any.
    pub(super) allowed_ips: Option<Vec<String>>,
    pub(super) status: KeyStatus,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Author,
    /// The person or key that answers for the key: its creator, or the last one to take it over. When the key that created it ends, the
    /// owner of that key takes its place.
    pub(super) owner: Author,
    /// Present while the key is disabled because of its owner.
    pub(super) paused: Option<ApiKeyPause>,
    /// When the key is paused unless somebody takes it over. Present if an older release created it and its owner does not cover it.
    pub(super) legacy_until: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
    /// When the key stops working. Absent if it never does.
    pub(super) expires_at: Timestamp,
    /// When it was last used, to the minute.
    pub(super) last_used_at: Option<Timestamp>,
    /// The address of the last request with the key.
    pub(super) last_used_ip: Option<String>,
    /// How often it was used, to the minute. Uses do not count as changes of the record.
    pub(super) use_count: u64,
    /// When the secret was last replaced.
    pub(super) rotated_at: Option<Timestamp>,
    /// Until when the secret before the rotation works.
    pub(super) previous_expires_at: Option<Timestamp>,
    /// When the key was revoked.
    pub(super) revoked_at: Option<Timestamp>,
    /// Counts the changes of this record.
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

/// An API key with its plaintext, shown this once.
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct ApiKeyWithSecret {
    /// The plaintext. It cannot be had again: keep it safe.
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

/// A key to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateApiKey {
    /// A label for people, unique among the tenant's live keys.
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: String,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Option<String>,
    /// What the key is to allow: scopes, or wildcards such as `tickets:*`, `*:read` and `*`.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) scopes: Vec<String>,
    /// Days until the key ends. 90 when absent; the operator sets the most, 365 at first.
    #[oai(validator(minimum(value = "1"), maximum(value = "36500")))]
    pub(super) expires_days: Option<u32>,
    /// Restricts the key to records of these organizations: what belongs to another, or to none, is not there for it. Only scopes
    /// over such records make sense then: `tickets`, `inventory`, `search`, `providers`, `vms`, `backup` and `ingest`.
    #[oai(validator(min_items = 1, max_items = 100, unique_items))]
    pub(super) organization_ids: Option<Vec<OrganizationId>>,
    /// Addresses and networks that it works from, such as `203.0.113.0/24`. Any when absent.
    #[oai(validator(min_items = 1, max_items = 64))]
    pub(super) allowed_ips: Option<Vec<String>>,
}

/// The bounds of a key's fields, for one that comes with a whole tenant.
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

/// A change of a key. What is absent stays as it is; `null` clears.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateApiKey {
    /// The key, unless the path or the query names it.
    pub(super) id: Option<ApiKeyId>,
    #[oai(validator(min_length = 1, max_length = 100))]
    pub(super) name: Option<String>,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Change<String>,
    /// What the key may do.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    pub(super) scopes: Option<Vec<String>>,
    /// `null` gives the key the whole tenant.
    #[oai(validator(min_items = 1, max_items = 100, unique_items))]
    pub(super) organization_ids: Change<Vec<OrganizationId>>,
    /// The networks that the key may be used from.
    #[oai(validator(min_items = 1, max_items = 64))]
    pub(super) allowed_ips: Change<Vec<String>>,
    /// A disabled key is refused until it is enabled again. Enabling a paused key makes you its owner.
    pub(super) enabled: Option<bool>,
    /// Days from now until the key ends. Gives a key that has expired a new life.
    #[oai(validator(minimum(value = "1"), maximum(value = "36500")))]
    pub(super) expires_days: Option<u32>,
}

impl From<UpdateApiKey> for KeyChange {
    fn from(body: UpdateApiKey) -> Self {
        let UpdateApiKey { id: _, name, description, scopes, organization_ids, allowed_ips, enabled, expires_days } = body;
        Self { name, description, scopes, organization_ids, allowed_ips, enabled, expires_days }
    }
}

/// How a key is rotated.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RotateApiKey {
    /// How long the old secret works on. A day when absent.
    #[oai(validator(minimum(value = "0"), maximum(value = "2592000")))]
    pub(super) overlap_seconds: Option<u32>,
}
