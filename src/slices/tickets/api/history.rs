//! `/api/psa/tickets/{id}/history`: the events about a ticket, as far as the log still has them.

use poem_openapi::{Object, OpenApi, param::Path, types::Any};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{
    super::{error::TicketError, model::TicketRef, repo},
    Area, record,
};
use crate::kernel::{
    events::{EventRecord, read_one},
    http::{
        input::Filter,
        need::{Allowed, TicketsRead},
        page::{Page, PageRequest, UncountedPageQuery},
        problem::Problem,
        reply::Answer,
    },
    store::{Key, Store},
};

/// What happened to a ticket.
#[derive(Object, Serialize)]
struct TicketHistory {
    /// Events as the feed has them, the oldest first.
    data: Vec<Any<Value>>,
    page: Page,
    /// Whether older events of the ticket are past their retention and missing here.
    truncated: bool,
}

/// The history with its events as they are stored.
#[derive(Serialize)]
struct StoredHistory<'a> {
    data: Vec<&'a RawValue>,
    page: Page,
    truncated: bool,
}

pub(in super::super) struct HistoryApi {
    pub(in super::super) store: Store,
}

#[OpenApi(prefix_path = "/api/psa/tickets", tag = "Area::Tickets")]
impl HistoryApi {
    /// Read the history of a ticket
    ///
    /// The events about it, the oldest first: who changed what, and when. The log keeps events for a time; `truncated` tells when older
    /// ones are gone.
    #[oai(path = "/:id/history", method = "get", operation_id = "read_ticket_history")]
    async fn read_ticket_history(
        &self,
        auth: Allowed<TicketsRead>,
        id: Path<TicketRef>,
        query: Filter<UncountedPageQuery>,
    ) -> Result<Answer<TicketHistory>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.into())?;
        let (tenant, limit, principal) = (auth.principal.tenant_id, request.limit, auth.principal);
        let after = request.after.as_deref().and_then(Key::from_bytes);
        let read = self.store.scan(move |tx| {
            let ticket = record::find(tx, &principal, id.0)?;
            let key = (tenant, ticket.number);
            let (places, last) = repo::history(tx, key, after, limit)?;
            let mut events: Vec<EventRecord> = Vec::with_capacity(places.len());
            for seq in places {
                events.extend(read_one(tx, seq)?.map(|event| event.record));
            }
            let (first, _) = repo::history(tx, key, None, 1)?;
            let truncated = match first.first() {
                Some(seq) => read_one(tx, *seq)?.is_none(),
                None => false,
            };
            Ok::<_, TicketError>((events, last, truncated))
        });
        let (events, last, truncated) = read.await?;
        let data: Result<Vec<&RawValue>, _> = events.iter().map(|event| serde_json::from_slice(&event.body)).collect();
        let page = request.page(last.map(|seq| seq.to_bytes()), None);
        Ok(Answer::stored(&StoredHistory { data: data.map_err(Problem::internal)?, page, truncated }))
    }
}
