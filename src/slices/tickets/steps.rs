//! The workflow steps `ticket.create`, `ticket.update` and `ticket.comment`. They run in the transaction that stores the
//! result of the step.

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    clock::Timestamp,
    fault::listed,
};
use tenantd_store::{
    Read, ReadTx, WriteTx,
    events::Act,
    steps::{Effect, LocalError, LocalStep, Planned, Planning, StepDone, StepError, StepType},
};

use super::{
    Tickets,
    api::forms,
    error::TicketError,
    model::{Source, Ticket},
    service::{self, NewTicket},
};

impl From<TicketError> for LocalError {
    fn from(error: TicketError) -> Self {
        let step = |code: &str, message: String| Self::Step(StepError::new(code, message));
        match error {
            TicketError::Store(error) => Self::Store(error),
            TicketError::NotFound => step("ticket_not_found", "ticket not found".to_owned()),
            TicketError::Invalid(faults) => step("invalid_input", listed(&faults)),
            TicketError::InvalidTransition { .. } => step("invalid_transition", error.to_string()),
            TicketError::Duplicate(_) => step("already_exists", error.to_string()),
            // Another change came first. A retry sees it.
            TicketError::Stale(_) => Self::Step(StepError::retryable("version_conflict", error.to_string())),
            TicketError::OtherTarget
            | TicketError::NotInPortal { .. }
            | TicketError::TooManyFromContact { .. }
            | TicketError::Bulk { .. }
            | TicketError::Event(_) => step("ticket_failed", error.to_string()),
        }
    }
}

fn done(tx: &impl Read, ticket: Ticket, now: Timestamp) -> Result<StepDone, LocalError> {
    let effects = vec![Effect { kind: "ticket", id: ticket.id.to_string() }];
    Ok(StepDone { output: forms::show(tx, ticket, now)?, effects })
}

fn planned(tx: &impl Read, ticket: Ticket, now: Timestamp, verb: &str) -> Result<Planned, LocalError> {
    let summary = format!("would {verb} {} ({})", ticket.reference(), ticket.subject);
    Ok(Planned { output: Some(forms::show(tx, ticket, now)?), summary })
}

/// Parses a new ticket. Its source is `workflow`, unless the definition sets another one.
fn new_ticket(with: &Value) -> Result<NewTicket, LocalError> {
    let mut new = forms::read_new(with)?;
    if with.get("source").is_none() {
        new.ticket.source = Source::Workflow;
    }
    Ok(new)
}

#[derive(Debug)]
pub(super) struct CreateTicket(pub(super) Tickets);

impl StepType for CreateTicket {
    fn name(&self) -> &'static str {
        "ticket.create"
    }

    fn summary(&self) -> &'static str {
        "Creates a ticket. The input has the fields of the API request that creates a ticket. The output is the new ticket."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::TicketsRead, Scope::TicketsWrite])
    }

    fn schema(&self) -> Value {
        forms::create_schema()
    }

    fn example(&self) -> Value {
        json!({"subject": "Offboard {{ inputs.name }}", "organization_id": "{{ inputs.organization_id }}", "type": "service_request"})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let mut act = planning.intent.begin();
        let plan = self.0.service.plan_create(tx, &mut act, &new_ticket(with)?)?;
        planned(tx, plan.after, act.now, "create")
    }
}

impl LocalStep for CreateTicket {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError> {
        let ticket = self.0.create(tx, act, &new_ticket(with)?)?;
        done(tx, ticket, act.now)
    }
}

#[derive(Debug)]
pub(super) struct UpdateTicket(pub(super) Tickets);

impl StepType for UpdateTicket {
    fn name(&self) -> &'static str {
        "ticket.update"
    }

    fn summary(&self) -> &'static str {
        "Changes a ticket with a merge patch. The output is the changed ticket."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::TicketsRead, Scope::TicketsWrite])
    }

    fn schema(&self) -> Value {
        forms::change_schema()
    }

    fn example(&self) -> Value {
        json!({"id": "{{ event.data.ticket.id }}", "priority": "high", "queue": "escalations"})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let (ticket, change) = forms::read_change(with)?;
        let act = planning.intent.begin();
        let plan = self.0.service.plan_change(tx, &act, service::target(tx, &act, ticket, None)?, &change)?;
        planned(tx, plan.after, act.now, "change")
    }
}

impl LocalStep for UpdateTicket {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError> {
        let (ticket, change) = forms::read_change(with)?;
        let ticket = self.0.change(tx, act, ticket, &change)?;
        done(tx, ticket, act.now)
    }
}

#[derive(Debug)]
pub(super) struct CommentOnTicket(pub(super) Tickets);

impl StepType for CommentOnTicket {
    fn name(&self) -> &'static str {
        "ticket.comment"
    }

    fn summary(&self) -> &'static str {
        "Adds a comment to a ticket. The output is the changed ticket."
    }

    fn scopes(&self) -> Grants {
        Grants::of(&[Scope::TicketsRead, Scope::TicketsWrite])
    }

    fn schema(&self) -> Value {
        forms::comment_schema()
    }

    fn example(&self) -> Value {
        json!({"id": "{{ event.data.ticket.id }}", "body": "The service level target was missed. {{ run.workflow_name }} has escalated the ticket."})
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError> {
        let (ticket, comment) = forms::read_comment(with)?;
        let mut act = planning.intent.begin();
        let before = service::target(tx, &act, ticket, None)?;
        let plan = self.0.service.plan_comment(tx, &mut act, before, &comment)?;
        planned(tx, plan.after, act.now, "comment on")
    }
}

impl LocalStep for CommentOnTicket {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError> {
        let (ticket, comment) = forms::read_comment(with)?;
        let ticket = self.0.comment(tx, act, ticket, &comment)?;
        done(tx, ticket, act.now)
    }
}
