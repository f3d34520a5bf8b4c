//! A ticket with its conversation and its history, as the API answers them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::Sla;
use crate::desk::records::{Named, PageInfo};

#[derive(Debug, Deserialize)]
pub(super) struct Ticket {
    pub(super) id: String,
    #[serde(rename = "ref")]
    pub(super) reference: String,
    pub(super) subject: String,
    pub(super) description: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) status_category: String,
    pub(super) priority: String,
    pub(super) source: String,
    pub(super) queue: Option<String>,
    pub(super) category: Option<String>,
    pub(super) organization: Named,
    pub(super) contact: Option<Contact>,
    pub(super) assignee: Option<Named>,
    pub(super) devices: Vec<Named>,
    pub(super) tags: Vec<String>,
    pub(super) custom_fields: BTreeMap<String, Value>,
    pub(super) external_refs: Vec<ExternalRef>,
    pub(super) occurrences: u64,
    pub(super) parent: Option<TicketLink>,
    pub(super) merged_into: Option<TicketLink>,
    pub(super) sla: Sla,
    pub(super) resolution: Option<Resolution>,
    pub(super) time_spent_minutes: u64,
    pub(super) due_at: Option<String>,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) created_by: Author,
    pub(super) version: u64,
    pub(super) allowed_transitions: Vec<String>,
}

/// A person at the customer.
#[derive(Debug, Deserialize)]
pub(super) struct Contact {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) email: Option<String>,
}

/// Another ticket that a ticket names.
#[derive(Debug, Deserialize)]
pub(super) struct TicketLink {
    #[serde(rename = "ref")]
    pub(super) reference: String,
}

impl TicketLink {
    pub(super) fn show(&self) -> Markup {
        ticket_link(&self.reference)
    }
}

pub(super) fn ticket_link(reference: &str) -> Markup {
    html! { a href={ "/tickets/" (reference) } { (reference) } }
}

#[derive(Debug, Deserialize)]
pub(super) struct ExternalRef {
    pub(super) system: String,
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Resolution {
    pub(super) code: String,
    pub(super) summary: String,
    pub(super) resolved_by: Author,
    pub(super) resolved_at: String,
}

/// Who wrote or changed something.
#[derive(Debug, Deserialize)]
pub(super) struct Author {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) name: String,
}

impl Author {
    /// What the author is if it is no person.
    pub(super) fn role(&self) -> &'static str {
        match self.kind.as_str() {
            "api_key" => "API key",
            "workflow" => "workflow",
            "system" => "system",
            "agent" => "agent",
            _ => "",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub(super) id: String,
    pub(super) body: String,
    pub(super) visibility: String,
    pub(super) contact: Option<Contact>,
    pub(super) created_at: String,
    pub(super) created_by: Author,
}

#[derive(Debug, Deserialize)]
pub(super) struct TimeEntry {
    pub(super) minutes: u64,
    pub(super) billable: bool,
    pub(super) work_type: String,
    pub(super) note: Option<String>,
    pub(super) created_at: String,
    pub(super) created_by: Author,
}

/// A page of the history of a ticket.
#[derive(Debug, Deserialize)]
pub(super) struct History {
    pub(super) data: Vec<Event>,
    pub(super) page: PageInfo,
    /// Older events have passed their retention time.
    #[serde(default)]
    pub(super) truncated: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) timestamp: String,
    pub(super) actor: Author,
    #[serde(default)]
    pub(super) data: EventData,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct EventData {
    pub(super) ticket: Option<Snapshot>,
    #[serde(default)]
    pub(super) changes: BTreeMap<String, Change>,
}

/// The records that a ticket named after an event. Changes have only their ids.
#[derive(Debug, Deserialize)]
pub(super) struct Snapshot {
    pub(super) organization: Option<Named>,
    pub(super) contact: Option<Named>,
    pub(super) assignee: Option<Named>,
    #[serde(default)]
    pub(super) devices: Vec<Named>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(default)]
    pub(super) from: Value,
    #[serde(default)]
    pub(super) to: Value,
}

/// The names of records by their ids.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Learns the names of the records that a ticket had after an event.
    pub(super) fn learn(&mut self, snapshot: &Snapshot) {
        let people = [&snapshot.organization, &snapshot.contact, &snapshot.assignee].into_iter().flatten();
        for named in people.chain(&snapshot.devices) {
            self.0.insert(named.id.clone(), named.name.clone());
        }
    }

    /// The name of a record; its id if the name is not known.
    pub(super) fn of<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or(id, String::as_str)
    }
}
