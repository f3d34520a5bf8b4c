//! The examples in the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    bodies::{CreateComment, CreateTicket, CreateTimeEntry, UpdateTicket},
    sla::{ReplaceSlaPolicy, SlaPolicy},
    wire::Ticket,
};

examples! {
    Ticket => "ticket.json",
    CreateTicket => "create_ticket.json",
    UpdateTicket => "update_ticket.json",
    CreateComment => "create_comment.json",
    CreateTimeEntry => "create_time_entry.json",
    SlaPolicy => "sla_policy.json",
    ReplaceSlaPolicy => "replace_sla_policy.json",
}
