//! The examples of the published document.

use poem_openapi::types::Example;

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TicketId, UserId},
};
use tenantd_directory::{OrganizationReference, PersonReference};
use tenantd_http::author::Author;

use super::{
    super::{
        model::{Level, Priority, SlaState, Source, Status, TicketRef, TicketType, Visibility},
        sla as model,
    },
    bodies::{CreateComment, CreateTicket, CreateTimeEntry, ResolveTicket, TicketPatch, UpdateTicket},
    sla::{ReplaceSlaPolicy, SlaPolicy},
    vocabulary::Fields,
    wire::{SlaClock, Ticket, TicketContact, TicketCounters, TicketSla},
};

/// 2026-01-30T09:30:00Z, a Friday.
const CREATED_AT: i64 = 1_769_765_400_000;

fn id_bytes(last: u8) -> [u8; 16] {
    [0x01, 0x9c, 0x13, 0x6f, 0x2e, 0xc0, 0x7a, 0x11, 0x8b, 0x42, 0x9d, 0x05, 0x6e, 0xf1, 0x23, last]
}

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_millis(CREATED_AT + minutes * 60_000)
}

impl Example for Ticket {
    fn example() -> Self {
        let ada = UserId::from_bytes(id_bytes(4));
        let fields = [("rack".to_owned(), "B4".into()), ("units".to_owned(), 2.into())];
        Self {
            id: TicketId::from_bytes(id_bytes(1)),
            number: 1042,
            reference: "T-1042".to_owned(),
            subject: "Printer on the second floor jams".to_owned(),
            description: Some("Every few pages since this morning.".to_owned()),
            kind: TicketType::Incident,
            status: Status::InProgress,
            status_category: Status::InProgress.category(),
            priority: Priority::High,
            impact: Some(Level::High),
            urgency: Some(Level::Medium),
            source: Source::Email,
            queue: Some("service desk".to_owned()),
            category: None,
            organization: OrganizationReference { id: OrganizationId::from_bytes(id_bytes(2)), name: "Acme".to_owned() },
            contact: Some(TicketContact {
                id: UserId::from_bytes(id_bytes(3)),
                name: "Grace Hopper".to_owned(),
                email: Some("grace@acme.example".to_owned()),
            }),
            assignee: Some(PersonReference { id: ada, name: "Ada Lovelace".to_owned() }),
            devices: Vec::new(),
            tags: vec!["printer".to_owned()],
            custom_fields: Fields(fields.into()),
            external_refs: Vec::new(),
            dedup_key: None,
            occurrences: 1,
            parent: None,
            merged_into: None,
            sla: TicketSla {
                state: SlaState::OnTrack,
                first_response: SlaClock { target_minutes: 60, due_at: None, met_at: Some(at(12)), breached: false },
                resolution: SlaClock { target_minutes: 480, due_at: Some(at(4320 + 30)), met_at: None, breached: false },
                paused_minutes: 0,
            },
            resolution: None,
            counts: TicketCounters { comments: 1, reopens: 0 },
            time_spent_minutes: 15,
            due_at: None,
            created_at: at(0),
            updated_at: at(12),
            status_changed_at: at(12),
            first_responded_at: Some(at(12)),
            resolved_at: None,
            closed_at: None,
            created_by: Author { kind: "user".to_owned(), id: ada.to_string(), name: "Ada Lovelace".to_owned() },
            version: 3,
            allowed_transitions: Status::InProgress.transitions(),
            deduplicated: None,
        }
    }
}

impl Example for CreateTicket {
    fn example() -> Self {
        Self {
            subject: "Printer on the second floor jams".to_owned(),
            description: Some("Every few pages since this morning.".to_owned()),
            kind: None,
            priority: None,
            impact: Some(Level::High),
            urgency: Some(Level::Medium),
            source: Some(Source::Email),
            queue: None,
            category: None,
            organization_id: Some(OrganizationId::from_bytes(id_bytes(2))),
            contact_id: None,
            contact_email: None,
            assignee_id: None,
            device_id: None,
            device_ids: None,
            tags: None,
            custom_fields: None,
            external_refs: None,
            dedup_key: None,
            on_duplicate: None,
            parent: None,
            due_at: None,
        }
    }
}

impl Example for UpdateTicket {
    fn example() -> Self {
        let resolution = ResolveTicket { code: None, summary: Some("Cleaned the rollers.".to_owned()) };
        let patch = TicketPatch { status: Some(Status::Resolved), resolution: Some(resolution), ..TicketPatch::default() };
        Self { id: Some(TicketRef::Number(1042)), patch }
    }
}

impl Example for CreateComment {
    fn example() -> Self {
        Self { body: "We will be there at ten.".to_owned(), visibility: Some(Visibility::Public), contact_id: None }
    }
}

impl Example for CreateTimeEntry {
    fn example() -> Self {
        Self { minutes: 15, billable: true, work_type: "remote".to_owned(), note: None, started_at: Some(at(0)) }
    }
}

impl Example for SlaPolicy {
    fn example() -> Self {
        let policy = model::SlaPolicy { version: 1, updated_at: Some(at(0)), ..model::SlaPolicy::standard("Europe/Berlin") };
        policy.into()
    }
}

impl Example for ReplaceSlaPolicy {
    fn example() -> Self {
        SlaPolicy::example().terms
    }
}
