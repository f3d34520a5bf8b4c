//! Exports and imports tickets and their sub-records. Positions in the log become event numbers of the tenant, and back.
//! History entries whose events no longer exist are not exported. The counts per value are computed again on import.

use serde_json::Value;

use tenantd_store::portable::{Arrival, Carrier, Check, PortError, Portable, refuse_orphans};

use super::{
    super::{
        model::{FieldValue, MAX_CUSTOM_FIELDS, MAX_TEXT_BYTES, Ticket, is_field_name},
        sla::SlaPolicy,
    },
    COMMENTS, COUNTS, HISTORY, NUMBERS, POLICIES, TICKETS, TIME_ENTRIES, counts, policies,
};

/// Larger than the limit of the API, because the comment on a repeated report quotes the whole report.
const MAX_COMMENT_BYTES: usize = MAX_TEXT_BYTES + 2048;
const MAX_SUMMARY: usize = 10_000;

/// The limits of the API, for records that do not come through it.
pub(crate) struct Shapes {
    pub(crate) policy: Check<SlaPolicy>,
    pub(crate) ticket: Check<Value>,
    pub(crate) time_entry: Check<Value>,
}

/// Sub-records come before their tickets, so that a due timer finds the complete ticket.
pub(crate) fn portable(shapes: Shapes) -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("sla_policy", &POLICIES, move |_, _, record| {
            let policy = policies::to_model(record);
            (shapes.policy)(&policy).map_err(PortError::Wrong)?;
            match policy.faults().first() {
                Some(fault) => Err(PortError::Wrong(fault.to_string().trim_start_matches('/').to_owned())),
                None => Ok(()),
            }
        })
        .boxed(),
        Carrier::plain("ticket_comment", &COMMENTS, |_, _, comment| {
            let length = comment.body.len();
            if length == 0 || length > MAX_COMMENT_BYTES { Err(PortError::wrong("body: it is empty or too long")) } else { Ok(()) }
        })
        .verified_by(|tx, arrival| {
            let tenant = arrival.tenant;
            let exists = |number: &u64| Ok(TICKETS.get(tx, &(tenant, *number))?.is_some());
            refuse_orphans(tx, tenant, ("ticket_comment", &COMMENTS), |key| key.1, exists)?;
            refuse_orphans(tx, tenant, ("ticket_time_entry", &TIME_ENTRIES), |key| key.1, exists)?;
            refuse_orphans(tx, tenant, ("ticket_history", &HISTORY), |key| key.1, exists)
        })
        .boxed(),
        Carrier::plain("ticket_time_entry", &TIME_ENTRIES, |_, _, _| Ok(())).within(shapes.time_entry).boxed(),
        Carrier::turning(
            "ticket_history",
            &HISTORY,
            |departure, (tenant, number, seq), entry| Ok(departure.event(seq)?.map(|event| ((tenant, number, event), entry))),
            |arrival, (tenant, number, event), entry| Ok(Some(((tenant, number, arrival.place(event)?), entry))),
        )
        .boxed(),
        // Counts are updated as tickets arrive.
        Carrier::derived("ticket_count", &COUNTS, |_, _, _| Ok(())).boxed(),
        Carrier::turning(
            "ticket",
            &TICKETS,
            |departure, key, mut ticket| {
                ticket.last_seq = departure.place(ticket.last_seq)?;
                Ok(Some((key, ticket)))
            },
            |arrival, key, mut ticket| {
                ticket.last_seq = arrival.place(ticket.last_seq)?;
                Ok(Some((key, ticket)))
            },
        )
        .within(shapes.ticket)
        .examined(|arrival, _, ticket| check_ticket(arrival, ticket))
        .kept_by(|tx, key, ticket| {
            counts::moved(tx, key.0, None, Some(ticket))?;
            Ok(TICKETS.put(tx, key, ticket)?)
        })
        .boxed(),
        Carrier::plain("ticket_number", &NUMBERS, |arrival, _, last| {
            let tickets = arrival.counted("tickets");
            if last.number == tickets {
                return Ok(());
            }
            Err(PortError::Wrong(format!("the last number is {}, but the file has {tickets} tickets", last.number)))
        })
        .boxed(),
    ]
}

/// Checks what the use cases guarantee for a ticket. Numbers have no gaps.
fn check_ticket(arrival: &mut Arrival, ticket: &Ticket) -> Result<(), PortError> {
    let due = arrival.count("tickets");
    if ticket.number != due {
        return Err(PortError::Wrong(format!("this ticket has the number {}; expected {due}", ticket.number)));
    }
    let fields = &ticket.custom_fields;
    if ticket.description.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
        return Err(PortError::wrong("description: must have at most 64 KiB"));
    }
    if ticket.resolution.as_ref().is_some_and(|resolution| resolution.summary.chars().count() > MAX_SUMMARY) {
        return Err(PortError::Wrong(format!("resolution: the summary must have at most {MAX_SUMMARY} characters")));
    }
    if fields.len() > MAX_CUSTOM_FIELDS || !fields.keys().all(|name| is_field_name(name)) {
        return Err(PortError::wrong("custom_fields: too many fields, or a name does not match [a-z0-9_]{1,64}"));
    }
    if fields.values().any(|value| matches!(value, FieldValue::Text(text) if text.len() > MAX_TEXT_BYTES)) {
        return Err(PortError::wrong("custom_fields: a text is too long"));
    }
    if !fields.values().all(FieldValue::is_exact) {
        return Err(PortError::wrong("custom_fields: a number is not between -(2^53 - 1) and 2^53 - 1"));
    }
    Ok(())
}
