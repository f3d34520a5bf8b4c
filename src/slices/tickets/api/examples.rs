//! The examples in the published OpenAPI document, one file per schema.

use tenantd_http::examples;

use super::{
    bodies::{CreateComment, CreateTicket, CreateTimeEntry, UpdateTicket},
    portal::{CreatePortalComment, CreatePortalTicket, PortalComment, PortalTicket},
    sla::{ReplaceSlaPolicy, SlaPolicy},
    wire::Ticket,
};

examples! {
    Ticket => "ticket.json",
    CreateTicket => "create_ticket.json",
    UpdateTicket => "update_ticket.json",
    CreateComment => "create_comment.json",
    CreateTimeEntry => "create_time_entry.json",
    PortalTicket => "portal_ticket.json",
    CreatePortalTicket => "create_portal_ticket.json",
    PortalComment => "portal_comment.json",
    CreatePortalComment => "create_portal_comment.json",
    SlaPolicy => "sla_policy.json",
    ReplaceSlaPolicy => "replace_sla_policy.json",
}
