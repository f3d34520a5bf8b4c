//! `/api/psa/tickets/{id}/history`: the events about a ticket that are still in the log.

use poem_openapi::{Object, OpenApi, param::Path, types::Any};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use tenantd_base::{
    access::{Principal, Reach},
    id::OrganizationId,
};
use tenantd_directory::{self as directory, PersonKind};
use tenantd_http::{
    input::Filter,
    need::{Allowed, TicketsRead},
    page::{Page, PageRequest, UncountedPageQuery},
    problem::Problem,
    reply::Answer,
};
use tenantd_store::{
    Direction, Key, Read, Store,
    events::{EventRecord, read_numbered},
};

use super::{
    super::{error::TicketError, labels::is_seen, model::TicketRef, repo},
    Area, record,
    vocabulary::NoteOrder,
};

#[derive(Debug, Object)]
struct ReadHistory {
    /// The order of the events. Defaults to `asc`, the oldest first.
    order: Option<NoteOrder>,
    #[oai(flatten)]
    page: UncountedPageQuery,
}

/// The history of a ticket.
#[derive(Object, Serialize)]
struct TicketHistory {
    /// The events in the form of the event feed, in the order of the request.
    data: Vec<Any<Value>>,
    page: Page,
    /// Whether older events of the ticket have passed their retention time and are missing here.
    truncated: bool,
}

/// The history with its events in stored form.
#[derive(Serialize)]
struct StoredHistory<'a> {
    data: Vec<&'a RawValue>,
    page: Page,
    truncated: bool,
}

pub(crate) struct HistoryApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/psa/tickets", tag = "Area::Tickets")]
impl HistoryApi {
    /// Read the history of a ticket
    ///
    /// Returns the events about a ticket, the oldest first unless you set `order`: who changed what, and when. The log keeps events for a limited
    /// time; `truncated` shows whether older events are missing. An API key that is restricted to organizations does not see
    /// events from the time when the ticket belonged to another organization, or the event that moved it.
    #[oai(path = "/:id/history", method = "get", operation_id = "read_ticket_history")]
    async fn read_ticket_history(
        &self,
        auth: Allowed<TicketsRead>,
        id: Path<TicketRef>,
        query: Filter<ReadHistory>,
    ) -> Result<Answer<TicketHistory>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page.into())?;
        let direction = query.0.order.unwrap_or(NoteOrder::Asc).direction();
        let (tenant, limit, principal) = (auth.principal.tenant_id, request.limit, auth.principal);
        let after = request.after.as_deref().and_then(Key::from_bytes);
        let read = self.store.scan_for(tenant, move |tx| {
            let ticket = record::find(tx, &principal, id.0)?;
            let key = (tenant, ticket.number);
            let (numbers, mut last) = repo::history(tx, key, after, limit, direction)?;
            let mut events: Vec<Vec<u8>> = Vec::with_capacity(numbers.len());
            let (mut bytes, mut seen) = (0, None);
            for number in numbers {
                if bytes >= repo::PAGE_BYTES {
                    last = seen;
                    break;
                }
                seen = Some(number);
                let Some(EventRecord { body, .. }) = read_numbered(tx, tenant, number)?.map(|event| event.record) else { continue };
                bytes += body.len();
                events.extend(visible(tx, &principal, body)?);
            }
            let (first, _) = repo::history(tx, key, None, 1, Direction::Forward)?;
            let truncated = match first.first() {
                Some(number) => read_numbered(tx, tenant, *number)?.is_none(),
                None => false,
            };
            Ok::<_, TicketError>((events, last, truncated))
        });
        let (events, last, truncated) = read.await?;
        let data: Result<Vec<&RawValue>, _> = events.iter().map(|body| serde_json::from_slice(body)).collect();
        let page = request.page(last.map(|number| number.to_bytes()), None);
        Ok(Answer::stored(&StoredHistory { data: data.map_err(Problem::internal)?, page, truncated }))
    }
}

/// The event in the form that the caller may see: as stored, or without the names of contacts and devices of organizations
/// out of reach, and without references to tickets of these. `None` if the ticket belonged to such an organization before or after the event.
fn visible(tx: &impl Read, principal: &Principal, body: Vec<u8>) -> Result<Option<Vec<u8>>, TicketError> {
    let (tenant, reach) = (principal.tenant_id, &principal.reach);
    if *reach == Reach::Everything {
        return Ok(Some(body));
    }
    let mut event: Value = serde_json::from_slice(&body)?;
    let places = ["/data/ticket/organization/id", "/data/changes/organization_id/from", "/data/changes/organization_id/to"];
    let named = places.iter().filter_map(|place| event.pointer(place));
    if !named.map(|id| id.as_str().and_then(|id| id.parse().ok())).all(|id: Option<OrganizationId>| reach.covers(id)) {
        return Ok(None);
    }
    let id = |shown: &Value| shown.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    for device in event.pointer_mut("/data/ticket/devices").and_then(Value::as_array_mut).into_iter().flatten() {
        let found = id(device).parse().ok().map(|id| directory::device(tx, tenant, id)).transpose()?.flatten();
        if !found.is_some_and(|found| reach.covers(Some(found.organization_id))) {
            *device = json!({"id": id(device), "name": id(device)});
        }
    }
    for place in ["/data/ticket/contact", "/data/comment/contact"] {
        let Some(contact) = event.pointer_mut(place) else { continue };
        let found = id(contact).parse().ok().map(|id| directory::person(tx, tenant, id)).transpose()?.flatten();
        if !found.is_some_and(|found| found.kind == PersonKind::Staff || reach.covers(found.organization_id)) {
            *contact = json!({"id": id(contact), "name": id(contact)});
        }
    }
    for name in ["parent", "merged_into"] {
        hide_ticket(tx, principal, &mut event, name)?;
    }
    Ok(Some(serde_json::to_vec(&event)?))
}

/// Removes a reference to a ticket that the caller may not see, and changes of the reference from or to one.
fn hide_ticket(tx: &impl Read, principal: &Principal, event: &mut Value, name: &str) -> Result<(), TicketError> {
    let named = |place: &str, event: &Value| -> Result<bool, TicketError> {
        let Some(Ok(TicketRef::Number(number))) = event.pointer(place).and_then(Value::as_str).map(str::parse::<TicketRef>) else {
            return Ok(true);
        };
        Ok(is_seen(tx, principal.tenant_id, &principal.reach, number)?)
    };
    let (from, to) = (format!("/data/changes/{name}/from"), format!("/data/changes/{name}/to"));
    let shown = named(&format!("/data/ticket/{name}/ref"), event)?;
    let changed = named(&from, event)? && named(&to, event)?;
    for (place, is_shown) in [("/data/ticket", shown), ("/data/changes", changed)] {
        if let Some(members) = event.pointer_mut(place).and_then(Value::as_object_mut).filter(|_| !is_shown) {
            members.remove(name);
        }
    }
    Ok(())
}
