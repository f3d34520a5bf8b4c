//! Compares the stored forms with golden bytes.

use std::collections::BTreeMap;

use tenantd_base::{
    clock::Timestamp,
    entropy::Entropy,
    id::{CloudProviderId, OperationId, OrganizationId, TenantId, VmId},
    secrets::{InstallationKey, Sealed, SealedPlace, Sealer, TargetDigest},
};
use tenantd_store::{codec::assert_golden, events::Actor};

use super::{
    super::model::{
        Capabilities, Check, CheckName, CloudVm, Credential, Operation, OperationError, OperationStatus, OperationWork, OrderSpec,
        Outcome, Provider, ProviderConfig, ProviderKind, Refreshing, SimulatedFailure, Size, Slot, SlotState, StoredCredential,
        SyncError, SyncGaps, SyncState, UnreadField, Verification, Vm, VmState, Warning,
    },
    providers::credential_place,
};

const TENANT: TenantId = TenantId::from_bytes([2; 16]);
const PROVIDER: CloudProviderId = CloudProviderId::from_bytes([1; 16]);

fn at() -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000)
}

fn sealed() -> Sealed {
    let mut entropy = Entropy::from_seed(1);
    let sealer = Sealer::new(&InstallationKey::generate(&mut entropy));
    // As version 1 was first written: credentials were not yet bound to their targets.
    let key = (TENANT, PROVIDER);
    let place = SealedPlace { target: None, ..credential_place(&key, TargetDigest([0; 32])) };
    sealer.seal(place, &Credential::None {}.sealable().unwrap(), &mut entropy).unwrap()
}

#[test]
fn the_stored_form_of_a_provider_and_its_syncs_is_stable() {
    let verification = Verification {
        at: at(),
        outcome: Outcome::ValidLimited,
        identity: Some("me".to_owned()),
        checks: vec![Check::passed(CheckName::Dns, 3), Check::failed(CheckName::Provision, 9, "code", "remedy")],
        capabilities: Capabilities { read: true, provision: false },
        warnings: vec![Warning::EmptyInventory],
        message: Some("no".to_owned()),
    };
    let config = ProviderConfig {
        endpoint: Some("https://example.com".to_owned()),
        regions: vec!["eu-west-1".to_owned()],
        ca_certificate_pem: None,
        tls_fingerprint: Some([7; 32]),
        auth_url: None,
        resource_group: Some("group".to_owned()),
        seed: Some(42),
        latency_ms: Some(10),
        fail: Some(SimulatedFailure::ReadOnly),
        vm_count: Some(12),
        quota: None,
    };
    let credential =
        StoredCredential { type_name: "none".to_owned(), hint: Some("hint".to_owned()), set_at: at(), sealed: sealed() };
    let provider = Provider {
        id: PROVIDER,
        tenant_id: TENANT,
        name: "Sim".to_owned(),
        kind: ProviderKind::Simulated,
        organization_id: Some(OrganizationId::from_bytes([3; 16])),
        enabled: true,
        config,
        credential,
        verification: Some(verification),
        interval_seconds: 300,
        created_at: at(),
        updated_at: at(),
        version: 3,
    };
    assert_golden("cloud_provider", &provider);
    let error = SyncError { code: "timeout".to_owned(), message: "late".to_owned(), outcome: Outcome::Timeout, at: at() };
    let gaps = SyncGaps { partial: 2, skipped: 1, reasons: vec!["an entry has no id".to_owned()] };
    let sync =
        SyncState { last_at: Some(at()), vm_count: 5, error: Some(error), failures: 2, due_at: Some(at()), gaps: Some(gaps) };
    assert_golden("cloud_sync", &sync);
}

#[test]
fn the_stored_form_of_a_vm_is_stable() {
    let facts = CloudVm {
        provider_vm_id: "i-1".to_owned(),
        name: "web".to_owned(),
        state: VmState::Running,
        provider_state: "running".to_owned(),
        state_note: Some("billed".to_owned()),
        region: "eu-west-1".to_owned(),
        zone: Some("eu-west-1a".to_owned()),
        size: Size { id: "t3.small".to_owned(), vcpus: Some(2), memory_bytes: Some(1 << 31) },
        image: Some("ami-1".to_owned()),
        private_ips: vec!["10.0.0.1".parse().unwrap()],
        public_ips: vec!["2001:db8::1".parse().unwrap()],
        tags: BTreeMap::from([("role".to_owned(), "web".to_owned())]),
        launched_at: Some(at()),
        unread: vec![UnreadField::new("image", "image: is no image")],
    };
    let vm = Vm {
        id: VmId::from_bytes([4; 16]),
        tenant_id: TENANT,
        provider_id: PROVIDER,
        facts,
        organization_id: None,
        operation_id: Some(OperationId::from_bytes([5; 16])),
        discovered_at: at(),
        last_seen_at: Some(at()),
        missed: 1,
        ended_at: None,
        updated_at: at(),
        version: 2,
    };
    assert_golden("vm", &vm);
}

#[test]
fn the_stored_form_of_operations_is_stable() {
    let error = OperationError { code: "quota_exceeded".to_owned(), message: "full".to_owned(), transient: false };
    let slot = |state: SlotState| Slot { vm_id: VmId::from_bytes([4; 16]), tries: 1, state };
    let spec = OrderSpec {
        name: "web".to_owned(),
        region: "eu-west-1".to_owned(),
        zone: None,
        size: "t3.small".to_owned(),
        image: "ami-1".to_owned(),
        network: Some("subnet-1".to_owned()),
        ssh_keys: vec!["ops".to_owned()],
        user_data: Some(sealed()),
        tags: BTreeMap::new(),
        count: 5,
    };
    let slots = vec![
        slot(SlotState::Waiting),
        slot(SlotState::Ordered),
        slot(SlotState::Created { provider_vm_id: "i-1".to_owned() }),
        slot(SlotState::Running { provider_vm_id: "i-2".to_owned() }),
        slot(SlotState::Failed { error: error.clone(), provider_vm_id: None, uncertain: true }),
    ];
    let provision = Operation {
        id: OperationId::from_bytes([5; 16]),
        tenant_id: TENANT,
        organization_id: None,
        status: OperationStatus::Running,
        work: OperationWork::Provision { provider_id: PROVIDER, spec: Box::new(spec), slots },
        actor: Actor::system("test"),
        created_at: at(),
        updated_at: at(),
        ended_at: None,
        due_at: Some(at()),
        patience_until: at(),
        version: 7,
    };
    let providers = vec![Refreshing { provider_id: PROVIDER, done: true, error: Some(error) }];
    let refresh = Operation { work: OperationWork::Refresh { providers }, ended_at: Some(at()), due_at: None, ..provision.clone() };
    assert_golden("operation_provision", &provision);
    assert_golden("operation_refresh", &refresh);
}
