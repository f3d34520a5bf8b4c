//! Tickets: the queue, one ticket with its conversation, and a new ticket.

mod actions;
mod cards;
mod changes;
mod edit;
mod forms;
mod new;
mod one;
mod people;
mod queue;
mod record;
mod sla;
mod timeline;
mod transitions;

use maud::Markup;
use serde::Deserialize;

use super::records::Named;
use crate::components::{Tone, badge, words};

pub(super) use actions::{add_time, change_devices, change_status, edit_details, reply};
pub(super) use forms::{lines, renamed, wrong};
pub(super) use new::{create, new};
pub(super) use one::ticket;
pub(super) use queue::{COUNTED, PRIORITIES, change_several, delete_view, queue, save_view};
pub(super) use sla::{Sla, service_level};

/// The types of a ticket.
const KINDS: [&str; 7] = ["incident", "service_request", "problem", "change", "task", "alert", "question"];

/// A ticket in a list.
#[derive(Debug, Deserialize)]
pub(super) struct TicketRow {
    pub(super) id: String,
    #[serde(rename = "ref")]
    pub(super) reference: String,
    pub(super) subject: String,
    pub(super) status: String,
    pub(super) priority: String,
    pub(super) organization: Named,
    pub(super) assignee: Option<Named>,
    pub(super) sla: Sla,
    pub(super) created_at: String,
    pub(super) updated_at: String,
}

pub(super) fn status_badge(status: &str) -> Markup {
    let tone = match status {
        "new" | "open" | "in_progress" => Tone::Accent,
        "resolved" => Tone::Good,
        _ => Tone::Neutral,
    };
    badge(tone, &words(status))
}

pub(super) fn priority_badge(priority: &str) -> Markup {
    let tone = match priority {
        "critical" => Tone::Bad,
        "high" => Tone::Warn,
        _ => Tone::Neutral,
    };
    badge(tone, priority)
}
