//! The examples of the published document.

use poem_openapi::types::{Any, Example};
use serde_json::json;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{RunId, TenantId, WorkflowId},
};
use tenantd_store::events::{Actor, ActorKind};

use super::{
    super::{
        model::{Origin, Run, RunStatus, RunTrigger, Workflow as Model},
        starters,
    },
    bodies::{TriggerWorkflow, UpdateWorkflow, WorkflowPatch},
    run_wire::WorkflowRun,
    wire::Workflow,
};

/// 2026-01-31T09:30:00Z
const AT: i64 = 1_769_851_800_000;

fn at() -> Timestamp {
    Timestamp::from_millis(AT)
}

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x24, last]
}

fn somebody() -> Actor {
    Actor { kind: ActorKind::User, id: "usr_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned(), name: "Ada Lovelace".to_owned() }
}

impl Example for Workflow {
    fn example() -> Self {
        let model = Model {
            tenant_id: TenantId::from_bytes(id_bytes(1)),
            id: WorkflowId::from_bytes(id_bytes(2)),
            key: "escalate-sla-breach".to_owned(),
            name: "Escalate a missed service level".to_owned(),
            enabled: true,
            archived_at: None,
            version: 1,
            events: Vec::new(),
            armed_seq: 0,
            scheduled_until: at(),
            next_fire_at: None,
            created_at: at(),
            created_by: somebody(),
            updated_at: at(),
            origin: Origin::Checked,
        };
        Self::new(&model, starters::find("escalate-sla-breach").unwrap_or(&json!({})), None)
    }
}

impl Example for WorkflowRun {
    fn example() -> Self {
        let run = Run {
            tenant_id: TenantId::from_bytes(id_bytes(1)),
            id: RunId::from_bytes(id_bytes(3)),
            workflow_id: WorkflowId::from_bytes(id_bytes(2)),
            workflow_key: "offboard-user".to_owned(),
            workflow_name: "Offboard a person".to_owned(),
            workflow_version: 1,
            status: RunStatus::Queued,
            waiting_on: None,
            trigger: RunTrigger::Manual,
            retry_of: None,
            subject_id: None,
            depth: 0,
            concurrency_key: None,
            started_by: somebody(),
            created_at: at(),
            started_at: None,
            ended_at: None,
            updated_at: at(),
            timeout_at: at().plus_days(14),
            output: None,
            error: None,
            failing: false,
            tokens: Vec::new(),
            next_token: 1,
            begun: 0,
            due_at: None,
            version: 1,
        };
        let inputs = json!({"name": "Grace Hopper", "organization_id": "org_01k9z7w3v5e8g9m2n4p6r8t0x1"});
        Self::new(&run, Some(inputs))
    }
}

impl Example for TriggerWorkflow {
    fn example() -> Self {
        Self {
            action: None,
            workflow_id: None,
            workflow_key: Some("offboard-user".to_owned()),
            inputs: Some(Any(json!({"name": "Grace Hopper", "organization_id": "org_01k9z7w3v5e8g9m2n4p6r8t0x1"}))),
            subject_id: None,
            dry_run: None,
            event: None,
            definition: None,
            starter: None,
        }
    }
}

impl Example for UpdateWorkflow {
    fn example() -> Self {
        let patch = WorkflowPatch { enabled: Change::Set(Any(json!(false))), ..WorkflowPatch::default() };
        Self { id: None, run_id: None, action: None, comment: None, step: None, patch }
    }
}
