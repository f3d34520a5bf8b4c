//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{ApiKeyId, UserId},
};
use tenantd_http::author::Author;

use super::{
    super::model::KeyStatus,
    wire::{ApiKey, ApiKeyWithSecret, CreateApiKey, RotateApiKey, UpdateApiKey},
};

/// 2026-01-31T09:30:00Z
const CREATED_AT: i64 = 1_769_851_800_000;

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x23, last]
}

fn ada() -> Author {
    Author { kind: "user".to_owned(), id: UserId::from_bytes(id_bytes(2)).to_string(), name: "Ada Lovelace".to_owned() }
}

impl Example for ApiKey {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: ApiKeyId::from_bytes(id_bytes(1)),
            name: "Nightly export".to_owned(),
            description: None,
            prefix: "tck_live_9f3k".to_owned(),
            last_four: "b2C3".to_owned(),
            scopes: vec!["tickets:read".to_owned(), "events:read".to_owned()],
            organization_ids: None,
            allowed_ips: Some(vec!["203.0.113.0/24".to_owned()]),
            status: KeyStatus::Active,
            created_at,
            created_by: ada(),
            owner: ada(),
            paused: None,
            legacy_until: None,
            updated_at: created_at,
            expires_at: created_at.plus_days(30),
            last_used_at: Some(created_at.plus_days(1)),
            last_used_ip: Some("203.0.113.7".to_owned()),
            use_count: 42,
            rotated_at: None,
            previous_expires_at: None,
            revoked_at: None,
            version: 1,
        }
    }
}

impl Example for ApiKeyWithSecret {
    fn example() -> Self {
        let key = "tck_live_9f3kQ2mB7xT0aLd8VnWz4RyCs6GpHu1EjKi5oYbNfXvM3qA1b2C3".to_owned();
        Self { key, record: ApiKey::example() }
    }
}

impl Example for CreateApiKey {
    fn example() -> Self {
        Self {
            name: "Nightly export".to_owned(),
            description: None,
            scopes: vec!["tickets:read".to_owned(), "events:read".to_owned()],
            expires_days: Some(30),
            organization_ids: None,
            allowed_ips: Some(vec!["203.0.113.0/24".to_owned()]),
        }
    }
}

impl Example for UpdateApiKey {
    fn example() -> Self {
        Self {
            id: None,
            name: Some("Hourly export".to_owned()),
            description: Change::Keep,
            scopes: None,
            organization_ids: Change::Keep,
            allowed_ips: Change::Keep,
            enabled: Some(true),
            expires_days: Some(90),
        }
    }
}

impl Example for RotateApiKey {
    fn example() -> Self {
        Self { overlap_seconds: Some(3600) }
    }
}
