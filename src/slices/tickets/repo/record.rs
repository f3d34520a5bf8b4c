//! The stored form of a ticket.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, OrganizationId, TicketId, UserId},
};
use tenantd_store::{codec::Record, events::Actor};

use super::{
    super::{
        model::{CustomFields, ExternalRef, Level, Priority, Resolution, Source, Status, Ticket, TicketLink, TicketType},
        sla::Sla,
    },
    TicketKey,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TicketRecord {
    pub(super) id: TicketId,
    pub(super) subject: String,
    description: Option<String>,
    pub(super) kind: TicketType,
    pub(super) status: Status,
    pub(super) priority: Priority,
    impact: Option<Level>,
    urgency: Option<Level>,
    pub(super) source: Source,
    queue: Option<String>,
    category: Option<String>,
    pub(super) organization_id: OrganizationId,
    pub(super) contact_id: Option<UserId>,
    pub(super) assignee_id: Option<UserId>,
    pub(super) device_ids: Vec<DeviceId>,
    pub(super) tags: Vec<String>,
    custom_fields: CustomFields,
    pub(super) external_refs: Vec<ExternalRef>,
    pub(super) dedup_key: Option<String>,
    occurrences: u64,
    parent: Option<TicketLink>,
    merged_into: Option<TicketLink>,
    pub(super) sla: Sla,
    resolution: Option<Resolution>,
    comment_count: u64,
    reopen_count: u64,
    time_spent_minutes: u64,
    pub(super) due_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    status_changed_at: Timestamp,
    first_responded_at: Option<Timestamp>,
    resolved_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    created_by: Actor,
    version: u64,
    pub(super) last_seq: u64,
    /// When time alone next changes the ticket.
    pub(super) timer_at: Option<Timestamp>,
}

impl Record for TicketRecord {
    const VERSION: u8 = 1;
}

impl TicketRecord {
    /// What people have written that no bound of a field alone holds.
    pub(super) fn texts(&self) -> (Option<&str>, Option<&str>, &CustomFields) {
        let summary = self.resolution.as_ref().map(|resolution| resolution.summary.as_str());
        (self.description.as_deref(), summary, &self.custom_fields)
    }
}

pub(super) fn to_model((tenant_id, number): TicketKey, record: TicketRecord) -> Ticket {
    Ticket {
        tenant_id,
        number,
        id: record.id,
        subject: record.subject,
        description: record.description,
        kind: record.kind,
        status: record.status,
        priority: record.priority,
        impact: record.impact,
        urgency: record.urgency,
        source: record.source,
        queue: record.queue,
        category: record.category,
        organization_id: record.organization_id,
        contact_id: record.contact_id,
        assignee_id: record.assignee_id,
        device_ids: record.device_ids,
        tags: record.tags,
        custom_fields: record.custom_fields,
        external_refs: record.external_refs,
        dedup_key: record.dedup_key,
        occurrences: record.occurrences,
        parent: record.parent,
        merged_into: record.merged_into,
        sla: record.sla,
        resolution: record.resolution,
        comment_count: record.comment_count,
        reopen_count: record.reopen_count,
        time_spent_minutes: record.time_spent_minutes,
        due_at: record.due_at,
        created_at: record.created_at,
        updated_at: record.updated_at,
        status_changed_at: record.status_changed_at,
        first_responded_at: record.first_responded_at,
        resolved_at: record.resolved_at,
        closed_at: record.closed_at,
        created_by: record.created_by,
        version: record.version,
        last_seq: record.last_seq,
    }
}

pub(super) fn to_record(ticket: &Ticket, timer_at: Option<Timestamp>) -> TicketRecord {
    let ticket = ticket.clone();
    TicketRecord {
        id: ticket.id,
        subject: ticket.subject,
        description: ticket.description,
        kind: ticket.kind,
        status: ticket.status,
        priority: ticket.priority,
        impact: ticket.impact,
        urgency: ticket.urgency,
        source: ticket.source,
        queue: ticket.queue,
        category: ticket.category,
        organization_id: ticket.organization_id,
        contact_id: ticket.contact_id,
        assignee_id: ticket.assignee_id,
        device_ids: ticket.device_ids,
        tags: ticket.tags,
        custom_fields: ticket.custom_fields,
        external_refs: ticket.external_refs,
        dedup_key: ticket.dedup_key,
        occurrences: ticket.occurrences,
        parent: ticket.parent,
        merged_into: ticket.merged_into,
        sla: ticket.sla,
        resolution: ticket.resolution,
        comment_count: ticket.comment_count,
        reopen_count: ticket.reopen_count,
        time_spent_minutes: ticket.time_spent_minutes,
        due_at: ticket.due_at,
        created_at: ticket.created_at,
        updated_at: ticket.updated_at,
        status_changed_at: ticket.status_changed_at,
        first_responded_at: ticket.first_responded_at,
        resolved_at: ticket.resolved_at,
        closed_at: ticket.closed_at,
        created_by: ticket.created_by,
        version: ticket.version,
        last_seq: ticket.last_seq,
        timer_at,
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::id::TenantId;
    use tenantd_store::{codec::assert_golden, events::ActorKind};

    use super::*;
    use crate::{
        model::{FieldValue, ResolutionCode},
        sla::SlaPolicy,
    };

    #[test]
    fn the_stored_form_is_the_one_that_was_written_down() {
        let at = Timestamp::from_millis(1_767_225_600_000);
        let actor = Actor { kind: ActorKind::User, id: "usr_x".to_owned(), name: "Ada".to_owned() };
        let link = TicketLink { id: TicketId::from_bytes([9; 16]), number: 7 };
        let ticket = Ticket {
            tenant_id: TenantId::from_bytes([2; 16]),
            number: 1042,
            id: TicketId::from_bytes([1; 16]),
            subject: "Printer".to_owned(),
            description: Some("It jams.".to_owned()),
            kind: TicketType::Alert,
            status: Status::Resolved,
            priority: Priority::High,
            impact: Some(Level::High),
            urgency: Some(Level::Medium),
            source: Source::Email,
            queue: Some("field".to_owned()),
            category: Some("hardware".to_owned()),
            organization_id: OrganizationId::from_bytes([3; 16]),
            contact_id: Some(UserId::from_bytes([4; 16])),
            assignee_id: Some(UserId::from_bytes([5; 16])),
            device_ids: vec![DeviceId::from_bytes([6; 16])],
            tags: vec!["vip".to_owned()],
            custom_fields: [
                ("a".to_owned(), FieldValue::Text("x".to_owned())),
                ("b".to_owned(), FieldValue::Integer(-5)),
                ("c".to_owned(), FieldValue::Number(1.5)),
                ("d".to_owned(), FieldValue::Flag(true)),
            ]
            .into(),
            external_refs: vec![ExternalRef { system: "jira".to_owned(), id: "OPS-1".to_owned(), url: None }],
            dedup_key: Some("disk".to_owned()),
            occurrences: 3,
            parent: Some(link),
            merged_into: Some(link),
            sla: Sla::start(&SlaPolicy::standard("UTC"), Priority::High, at),
            resolution: Some(Resolution {
                code: ResolutionCode::Vendor,
                summary: "New drum.".to_owned(),
                resolved_by: actor.clone(),
                resolved_at: at,
            }),
            comment_count: 2,
            reopen_count: 1,
            time_spent_minutes: 30,
            due_at: Some(at.plus_days(1)),
            created_at: at,
            updated_at: at.plus_days(2),
            status_changed_at: at,
            first_responded_at: Some(at),
            resolved_at: Some(at),
            closed_at: None,
            created_by: actor,
            version: 9,
            last_seq: 300,
        };
        let record = to_record(&ticket, Some(at.plus_days(5)));
        assert_golden("ticket", &record);
        assert_eq!(to_model((ticket.tenant_id, ticket.number), record), ticket);
    }
}
