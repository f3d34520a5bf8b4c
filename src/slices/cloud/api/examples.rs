//! The examples of the published document.

use std::collections::BTreeMap;

use poem_openapi::types::Example;

use tenantd_base::{
    clock::Timestamp,
    id::{CloudProviderId, OperationId, VmId},
};

use super::{
    super::model::{Phase, ProviderStatus},
    vm_wire::{Operation, OperationKind, OperationStatus, ProviderReference, ProvisionVms, Vm, VmSize, VmState},
    wire::{
        Capabilities, CheckName, CheckStatus, CloudKind, CloudProvider, CredentialSummary, ProviderConfig, ProviderSync,
        ProviderVerification, SyncStateName, VerificationCheck, VerificationOutcome,
    },
};

/// 2026-01-31T09:30:00Z
const CREATED_AT: i64 = 1_769_851_800_000;

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x23, last]
}

impl Example for ProviderVerification {
    fn example() -> Self {
        let check =
            |name: CheckName, ms: u32| VerificationCheck { name, status: CheckStatus::Passed, ms, code: None, remedy: None };
        Self {
            outcome: VerificationOutcome::Valid,
            transient: false,
            identity: Some("arn:aws:iam::123456789012:user/tenantd".to_owned()),
            message: None,
            checks: vec![
                check(CheckName::Dns, 4),
                check(CheckName::Tcp, 11),
                check(CheckName::Tls, 24),
                check(CheckName::Authenticate, 88),
                check(CheckName::ListVms, 140),
                check(CheckName::Provision, 95),
            ],
            capabilities: Capabilities { read: true, provision: true },
            warnings: Vec::new(),
            verified_at: Timestamp::from_millis(CREATED_AT),
        }
    }
}

impl Example for CloudProvider {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: CloudProviderId::from_bytes(id_bytes(1)),
            name: "Production (Ireland)".to_owned(),
            kind: CloudKind::Aws,
            organization: None,
            enabled: true,
            config: ProviderConfig { regions: Some(vec!["eu-west-1".to_owned()]), ..ProviderConfig::default() },
            credential: CredentialSummary {
                type_name: "access_key".to_owned(),
                hint: Some("AKIA…MPLE".to_owned()),
                set_at: created_at,
            },
            status: ProviderStatus::Verified,
            verification: Some(ProviderVerification::example()),
            sync: ProviderSync {
                state: SyncStateName::Ok,
                last_at: Some(created_at),
                vm_count: 42,
                error: None,
                interval_seconds: 300,
                next_at: Some(created_at + std::time::Duration::from_mins(5)),
            },
            created_at,
            updated_at: created_at,
            version: 1,
        }
    }
}

impl Example for Vm {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: VmId::from_bytes(id_bytes(2)),
            provider: ProviderReference {
                id: CloudProviderId::from_bytes(id_bytes(1)),
                name: "Production (Ireland)".to_owned(),
                kind: CloudKind::Aws,
            },
            provider_vm_id: Some("i-0abcd1234ef567890".to_owned()),
            name: "web-01".to_owned(),
            state: VmState::Running,
            provider_state: "running".to_owned(),
            state_note: None,
            organization: None,
            region: "eu-west-1".to_owned(),
            zone: Some("eu-west-1a".to_owned()),
            size: Some(VmSize { id: "t3.small".to_owned(), vcpus: Some(2), memory_bytes: Some(2 << 30) }),
            image: Some("ami-0123456789abcdef0".to_owned()),
            private_ips: vec!["10.0.0.4".to_owned()],
            public_ips: vec!["203.0.113.7".to_owned()],
            tags: BTreeMap::from([("role".to_owned(), "web".to_owned())]),
            launched_at: Some(created_at),
            discovered_at: created_at,
            last_synced_at: created_at,
            stale: false,
            operation_id: None,
            ended_at: None,
            updated_at: created_at,
            version: 1,
        }
    }
}

impl Example for Operation {
    fn example() -> Self {
        let created_at = Timestamp::from_millis(CREATED_AT);
        Self {
            id: OperationId::from_bytes(id_bytes(3)),
            kind: OperationKind::VmProvision,
            status: OperationStatus::Running,
            phase: Phase::Starting,
            progress: 50,
            error: None,
            leftovers: None,
            vm_ids: Some(vec![VmId::from_bytes(id_bytes(2))]),
            provider_ids: vec![CloudProviderId::from_bytes(id_bytes(1))],
            created_at,
            updated_at: created_at,
            ended_at: None,
        }
    }
}

impl Example for ProvisionVms {
    fn example() -> Self {
        Self {
            provider_id: CloudProviderId::from_bytes(id_bytes(1)),
            name: "web-01".to_owned(),
            region: "eu-west-1".to_owned(),
            zone: None,
            size: "t3.small".to_owned(),
            image: "ami-0123456789abcdef0".to_owned(),
            count: Some(1),
            network: None,
            ssh_keys: None,
            user_data: None,
            tags: Some(BTreeMap::from([("role".to_owned(), "web".to_owned())])),
            organization_id: None,
        }
    }
}
