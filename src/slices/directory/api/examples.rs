//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId, UserId},
};
use tenantd_http::bounded::Text;

use super::{
    super::model::AgentStatus,
    device::{Agent, Device, DeviceClass, Health, Lifecycle, OperatingSystem, OsFamily, Software},
    wire::{Organization, OrganizationReference, Role, UserKind, UserStatus, UserView},
};

/// 2026-01-31T09:30:00Z
const CREATED_AT: i64 = 1_769_851_800_000;

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x24, last]
}

fn text<const MAX: usize>(text: &str) -> Text<MAX> {
    Text::stored(text.to_owned())
}

fn reference() -> OrganizationReference {
    OrganizationReference { id: OrganizationId::from_bytes(id_bytes(1)), name: "Acme".to_owned() }
}

impl Example for Organization {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: reference().id,
            external_id: Some("crm-1042".to_owned()),
            name: reference().name,
            created_at,
            updated_at: created_at,
            version: 1,
        }
    }
}

impl Example for UserView {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: UserId::from_bytes(id_bytes(2)),
            external_id: None,
            email: Some("ada@example.com".to_owned()),
            name: "Ada Lovelace".to_owned(),
            kind: UserKind::Staff,
            role: Some(Role::Technician),
            organization: None,
            status: UserStatus::Active,
            created_at,
            updated_at: created_at,
            last_login_at: Some(created_at.plus_days(1)),
            sso: None,
            version: 1,
        }
    }
}

impl Example for Device {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: DeviceId::from_bytes(id_bytes(3)),
            external_id: Some("rmm-7".to_owned()),
            name: "ACME-PC-7".to_owned(),
            class: DeviceClass::Workstation,
            lifecycle: Lifecycle::Active,
            organization: reference(),
            site: Some("Basel".to_owned()),
            owner: None,
            tags: vec!["reception".to_owned()],
            custom_fields: [("rack".to_owned(), "B7".to_owned())].into(),
            agent: Agent { status: AgentStatus::Online, version: Some("5.1.0".to_owned()), last_seen_at: Some(created_at) },
            hardware: None,
            os: Some(OperatingSystem {
                family: OsFamily::Windows,
                name: Some(text("Windows 11 Pro")),
                version: Some(text("24H2")),
                build: None,
                reboot_required: Some(false),
                eol_at: None,
                last_boot_at: None,
            }),
            network: None,
            security: None,
            patch: None,
            software: vec![Software { name: text("Editor"), version: None, publisher: None }],
            warranty: None,
            backup: None,
            health: Health::Healthy,
            collected_at: created_at,
            created_at,
            updated_at: created_at,
            version: 1,
        }
    }
}
