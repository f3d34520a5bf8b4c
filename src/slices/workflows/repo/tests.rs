//! Golden files of the stored forms.

use serde_json::json;

use tenantd_base::{
    clock::Timestamp,
    id::{EventId, RunId, TenantId, UserId, WorkflowId},
};
use tenantd_store::{
    codec::assert_golden,
    events::{Actor, ActorKind},
};

use super::{
    super::model::{
        Decision, Json, Origin, Run, RunError, RunStatus, RunTrigger, StepResult, StepStatus, Token, TokenState, Wait, WaitingOn,
        Workflow,
    },
    Counts,
    runs::RunInputs,
    workflows::VersionRecord,
};

fn at() -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000)
}

fn a_user() -> Actor {
    Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() }
}

fn token(id: u32, state: TokenState) -> Token {
    Token { id, parent: id.checked_sub(1), block: 2, at: 1, scope: "each[3]/".to_owned(), item: Some(3), state }
}

fn run() -> Run {
    let wait = |wait: Wait| TokenState::Waiting { wait, until: Some(at()) };
    let event = Wait::Event { kind: "ticket.created".to_owned(), resource_id: Some("tkt_x".to_owned()), after_seq: 70_000 };
    let states = [
        TokenState::Ready,
        TokenState::Calling,
        TokenState::Joining { running: 2, next: 3, total: 9, failed: 0 },
        wait(Wait::Time),
        wait(Wait::Retry),
        wait(event),
        wait(Wait::Approval),
        wait(Wait::Run { id: RunId::from_bytes([9; 16]) }),
    ];
    Run {
        tenant_id: TenantId::from_bytes([2; 16]),
        id: RunId::from_bytes([1; 16]),
        workflow_id: WorkflowId::from_bytes([3; 16]),
        workflow_key: "offboard-user".to_owned(),
        workflow_name: "Offboard".to_owned(),
        workflow_version: 7,
        status: RunStatus::Waiting,
        waiting_on: Some(WaitingOn::Approval),
        trigger: RunTrigger::Event { id: EventId::from_bytes([4; 16]), kind: "ticket.created".to_owned() },
        retry_of: Some(RunId::from_bytes([5; 16])),
        subject_id: Some("tkt_x".to_owned()),
        depth: 2,
        concurrency_key: Some("x".to_owned()),
        started_by: a_user(),
        created_at: at(),
        started_at: Some(at()),
        ended_at: None,
        updated_at: at(),
        timeout_at: at().plus_days(1),
        output: Some(Json(json!({"a": 1}))),
        error: Some(RunError { code: "rejected".to_owned(), message: "no".to_owned(), step: Some("agree".to_owned()) }),
        failing: true,
        tokens: states.into_iter().zip(0..).map(|(state, id)| token(id, state)).collect(),
        next_token: 9,
        begun: 4,
        due_at: Some(at()),
        version: 12,
    }
}

#[test]
fn stored_forms_match_their_golden_files() {
    let workflow = Workflow {
        tenant_id: TenantId::from_bytes([2; 16]),
        id: WorkflowId::from_bytes([3; 16]),
        key: "offboard-user".to_owned(),
        name: "Offboard".to_owned(),
        enabled: true,
        archived_at: Some(at()),
        version: 7,
        events: vec!["ticket.created".to_owned()],
        armed_seq: 70_000,
        scheduled_until: at(),
        next_fire_at: Some(at()),
        created_at: at(),
        created_by: a_user(),
        updated_at: at(),
        origin: Origin::Legacy { since: at(), version: 6 },
    };
    assert_golden("workflow", &workflow);
    let version = VersionRecord {
        definition: Json(json!({"key": "x"})),
        changed_at: at(),
        changed_by: a_user(),
        earlier_authors: vec![a_user()],
    };
    assert_golden("workflow_version", &version);
    assert_golden("workflow_run", &run());
    assert_golden("workflow_run_inputs", &RunInputs { inputs: Json(json!({"a": 1})), event: Some(Json(json!({"b": 2}))) });
    let step = StepResult {
        ordinal: 3,
        step_id: "agree".to_owned(),
        type_name: "approval".to_owned(),
        status: StepStatus::Failed,
        attempts: 2,
        started_at: at(),
        ended_at: Some(at()),
        input: Some(Json(json!({}))),
        output: Some(Json(json!([1]))),
        error: Some(RunError { code: "rejected".to_owned(), message: "no".to_owned(), step: None }),
        effects: vec![("ticket".to_owned(), "tkt_x".to_owned())],
        decisions: vec![Decision { by: a_user(), at: at(), approved: true, comment: Some("ok".to_owned()) }],
        next_attempt_at: Some(at()),
        approvers: vec![UserId::from_bytes([6; 16])],
    };
    assert_golden("workflow_step", &step);
    assert_golden("workflow_counts", &Counts { workflows: 3, active_runs: 100_000 });
    assert_golden("workflow_trigger", &super::queue::QueuedEvent);
}
