//! Tickets and what hangs on them, as they leave for another installation and arrive there. Places in the log become numbers of the
//! tenant's events, and back; entries of a history whose events are gone lead nowhere and stay behind.

use super::{COMMENTS, COUNTS, HISTORY, NUMBERS, POLICIES, TICKETS, TIME_ENTRIES};
use crate::kernel::portable::{Carrier, Portable};

/// Tickets come behind what hangs on them: a timer that is due finds all of its ticket.
pub(in super::super) fn portable() -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("sla_policy", &POLICIES),
        Carrier::plain("ticket_comment", &COMMENTS),
        Carrier::plain("ticket_time_entry", &TIME_ENTRIES),
        Carrier::turning(
            "ticket_history",
            &HISTORY,
            |departure, (tenant, number, seq), entry| Ok(departure.event(seq)?.map(|event| ((tenant, number, event), entry))),
            |arrival, (tenant, number, event), entry| Ok(((tenant, number, arrival.place(event)?), entry)),
        ),
        Carrier::plain("ticket_count", &COUNTS),
        Carrier::turning(
            "ticket",
            &TICKETS,
            |departure, key, mut ticket| {
                ticket.last_seq = departure.place(ticket.last_seq)?;
                Ok(Some((key, ticket)))
            },
            |arrival, key, mut ticket| {
                ticket.last_seq = arrival.place(ticket.last_seq)?;
                Ok((key, ticket))
            },
        ),
        Carrier::plain("ticket_number", &NUMBERS),
    ]
}
