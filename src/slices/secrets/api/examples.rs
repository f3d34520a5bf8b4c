//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{change::Change, clock::Timestamp, id::SecretId};
use tenantd_http::author::Author;

use super::wire::{CreateSecret, NamedSecret, RotateSecret, UpdateSecret};

/// 2026-01-31T09:30:00Z
const AT: i64 = 1_769_851_800_000;
const ID: [u8; 16] = [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x24, 0x01];

impl Example for NamedSecret {
    fn example() -> Self {
        let at = Timestamp::from_millis(AT);
        Self {
            id: SecretId::from_bytes(ID),
            name: "github".to_owned(),
            description: Some("Opens issues of the runbooks.".to_owned()),
            hosts: vec!["api.github.com".to_owned()],
            workflow_ids: None,
            last_used_at: Some(at),
            rotated_at: None,
            created_at: at,
            created_by: Author { kind: "user".to_owned(), id: "usr_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned(), name: "Ada".to_owned() },
            updated_at: at,
            version: 1,
        }
    }
}

impl Example for CreateSecret {
    fn example() -> Self {
        Self {
            name: "github".to_owned(),
            value: "ghp_16C7e42F292c6912E7710c838347Ae178B4a".to_owned(),
            hosts: vec!["api.github.com".to_owned()],
            workflow_ids: None,
            description: Some("Opens issues of the runbooks.".to_owned()),
        }
    }
}

impl Example for UpdateSecret {
    fn example() -> Self {
        Self {
            id: None,
            value: None,
            hosts: None,
            workflow_ids: Change::Keep,
            description: Change::Set("Opens and closes issues of the runbooks.".to_owned()),
        }
    }
}

impl Example for RotateSecret {
    fn example() -> Self {
        Self { value: "ghp_9sK2m4Qx7Tz1Lw8Rv3Np6Yb5Hd0Gc4Jf2A1e".to_owned() }
    }
}
