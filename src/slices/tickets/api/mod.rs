//! Tickets on the wire.

mod bodies;
mod bulk;
mod collection;
mod examples;
mod export;
mod filters;
pub(super) mod forms;
mod history;
mod notes;
mod record;
mod sla;
mod vocabulary;
mod wire;

pub(super) use collection::TicketsApi;
pub(super) use history::HistoryApi;
pub(super) use notes::NotesApi;
pub(super) use record::TicketApi;
pub(super) use sla::SlaApi;

use std::collections::BTreeSet;

use poem_openapi::Tags;

use tenantd_http::{
    problem::{Code, FieldError, Place, Problem},
    shape::Shape,
};
use tenantd_store::events::Describe;

use super::{error::TicketError, model::reference, repo::Shapes};

#[derive(Tags)]
enum Area {
    /// Tickets, their comments and times, and what is promised for them.
    Tickets,
}

/// The bounds of what is sent here, for records that come with a whole tenant.
pub(super) fn shapes() -> Result<Shapes, String> {
    let policy = Shape::fields::<sla::ReplaceSlaPolicy>(&["time_zone", "hours", "holidays", "targets"])?;
    let ticket = ["subject", "description", "queue", "category", "device_ids", "tags", "external_refs", "dedup_key"];
    let ticket = Shape::fields::<bodies::CreateTicket>(&ticket)?;
    let time_entry = Shape::fields::<bodies::CreateTimeEntry>(&["minutes", "work_type", "note"])?;
    Ok(Shapes {
        policy: Box::new(move |given| {
            let shown = given.describe(()).and_then(|shown| serde_json::from_str(shown.get()));
            policy.check(&shown.map_err(|error| error.to_string())?)
        }),
        ticket: Box::new(move |record| ticket.check(record)),
        time_entry: Box::new(move |record| time_entry.check(record)),
    })
}

impl From<TicketError> for Problem {
    fn from(error: TicketError) -> Self {
        match error {
            TicketError::NotFound => Self::plain(Code::NotFound),
            TicketError::OtherTarget => Self::plain(Code::IdMismatch),
            TicketError::Invalid(faults) => faults.into(),
            TicketError::InvalidTransition { from, to } => {
                let allowed: Vec<&str> = from.transitions().into_iter().map(super::model::Status::name).collect();
                let detail = match allowed.as_slice() {
                    [] => format!("A ticket that is {} stays so.", from.name()),
                    some => format!("A ticket that is {} can become {}, but not {}.", from.name(), some.join(", "), to.name()),
                };
                Self::new(Code::InvalidTransition, detail).with("allowed_transitions", allowed)
            }
            TicketError::Duplicate(link) => {
                let detail = format!("{} is not finished and has this dedup_key.", reference(link.number));
                Self::new(Code::AlreadyExists, detail).with("ticket_id", link.id.to_string())
            }
            TicketError::Bulk { member, items } => bulk_problem(member, items),
            TicketError::Stale(stale) => stale.into(),
            TicketError::Event(error) => Self::internal(error),
            TicketError::Store(error) => error.into(),
        }
    }
}

/// All that is wrong with all items; what the store failed with comes before. If all failed in the same way, so does the request.
fn bulk_problem(member: &str, items: Vec<(usize, TicketError)>) -> Problem {
    let mut errors = Vec::new();
    let mut codes = BTreeSet::new();
    // The states that all of the tickets can go to.
    let mut allowed = None::<Vec<&str>>;
    for (index, error) in items {
        let mut transitions = Vec::new();
        if let TicketError::InvalidTransition { from, .. } = &error {
            transitions = from.transitions().into_iter().map(super::model::Status::name).collect();
            allowed = Some(match allowed {
                Some(before) => before.into_iter().filter(|state| transitions.contains(state)).collect(),
                None => transitions.clone(),
            });
        }
        let problem = Problem::from(error);
        if problem.code.status().is_server_error() {
            return problem;
        }
        codes.insert(problem.code);
        let at = format!("/{member}/{index}");
        if problem.errors.is_empty() {
            let error = FieldError::pointer(at.clone(), problem.code.name(), problem.detail.clone());
            errors.push(error.with_allowed(transitions.into_iter().map(str::to_owned).collect()));
        }
        for error in &problem.errors {
            let mut error = error.clone();
            // A patch is one for all: a pointer into it is told with the ticket that it failed for. Without a pointer it is the name
            // of the ticket that is wrong.
            match &mut error.place {
                Place::Pointer(pointer) if member == "tickets" || pointer.is_empty() => *pointer = format!("{at}{pointer}"),
                place => {
                    error.message = format!("{} ({at})", error.message);
                    if let Place::Pointer(pointer) = place {
                        *pointer = format!("/patch{pointer}");
                    }
                }
            }
            errors.push(error);
        }
    }
    let mut problem = Problem::invalid(errors);
    if let (Some(code), 1) = (codes.first(), codes.len()) {
        problem.code = *code;
    }
    match allowed.filter(|_| problem.code == Code::InvalidTransition) {
        Some(allowed) => problem.with("allowed_transitions", allowed),
        None => problem,
    }
}
