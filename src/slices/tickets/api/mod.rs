//! The HTTP interface of tickets.

mod bodies;
mod bulk;
mod collection;
mod examples;
mod export;
mod filters;
pub(super) mod forms;
mod history;
mod notes;
mod portal;
mod record;
mod sla;
mod vocabulary;
mod wire;

pub(super) use collection::TicketsApi;
pub(super) use history::HistoryApi;
pub(super) use notes::NotesApi;
pub(super) use portal::PortalApi;
pub(super) use record::TicketApi;
pub(super) use sla::SlaApi;

use poem_openapi::Tags;

use tenantd_http::{
    bulk::{Members, joined},
    problem::{Code, Problem},
    shape::Shape,
};
use tenantd_store::events::Describe;

use super::{error::TicketError, model::reference, repo::Shapes};

#[derive(Tags)]
enum Area {
    /// Tickets, their comments, time entries and service levels.
    Tickets,
}

/// The limits of the API, for records that arrive with a whole tenant.
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
                    [] => format!("A ticket with status {} cannot change its status.", from.name()),
                    some => {
                        format!("A ticket with status {} can change to {}, but not to {}.", from.name(), some.join(", "), to.name())
                    }
                };
                Self::new(Code::InvalidTransition, detail).with("allowed_transitions", allowed)
            }
            TicketError::Duplicate(link) => {
                let detail = format!("{} is open and has the same dedup_key.", reference(link.number));
                Self::new(Code::AlreadyExists, detail).with("ticket_id", link.id.to_string())
            }
            TicketError::NotInPortal { status, act } => {
                let detail =
                    format!("The ticket is {}, so it cannot be {act}. Create another ticket if you need help.", status.name());
                Self::new(Code::InvalidTransition, detail)
            }
            TicketError::TooManyFromContact { most, retry_after_seconds } => {
                let detail = format!("You created {most} of these within an hour. Wait before you create the next one.");
                Self::new(Code::RateLimited, detail).retry_after(retry_after_seconds)
            }
            TicketError::Bulk { member, items } => {
                let members = if member == "tickets" { Members::Bodies(member) } else { Members::Names(member) };
                joined(members, items.into_iter().map(|(index, error)| (index, error.into())).collect())
            }
            TicketError::Stale(stale) => stale.into(),
            TicketError::Event(error) => Self::internal(error),
            TicketError::Store(error) => error.into(),
        }
    }
}
