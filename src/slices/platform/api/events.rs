//! `/api/events`: a tenant's own events, pulled. For receivers behind a firewall, and for whoever wants to replay.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use poem_openapi::{Object, OpenApi, Tags, param::Path, types::Any};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use tenantd_base::{
    access::Grants,
    authority::Lacking,
    clock::{Clock, Timestamp},
    id::TenantId,
    vocabulary::vocabulary,
};
use tenantd_http::{
    input::Filter,
    need::{Allowed, EventsRead, SignedIn},
    openapi,
    problem::{Code, FieldError, Problem},
    reply::Answer,
    wire::word_type,
};
use tenantd_store::{
    ReadTx, Store, StoreError, catalog,
    events::{EventKind, EventPattern, FEED_BYTES, FeedPage, FeedQuery, Kinds, read_feed, read_feed_back, read_numbered},
};

#[derive(Tags)]
pub(super) enum Area {
    /// What happened, in order.
    Events,
}

#[derive(Debug, Object)]
struct ReadEvents {
    /// Goes on after this `seq`: `next_after` of the call before. Absent or 0: from the oldest event that is kept, or from the newest with
    /// `order=desc`.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    after: Option<u64>,
    /// Kinds such as `api_key.created`, `api_key.*` or `*`. All when absent.
    #[oai(validator(min_items = 1, max_items = 64))]
    types: Option<Vec<String>>,
    /// How many events to return. 50 when absent.
    #[oai(validator(minimum(value = "1"), maximum(value = "200")))]
    limit: Option<u32>,
    /// `asc`, the oldest first, when absent. With `desc`, `after` leads to older events.
    order: Option<EventOrder>,
    /// How long to wait for an event when there is none. Not with `order=desc`.
    #[oai(validator(minimum(value = "0"), maximum(value = "30")))]
    wait_seconds: Option<u32>,
}

vocabulary! {
    EventOrder:
    Asc "asc", Desc "desc",
}

word_type! {
    EventOrder, "EventOrder", "`asc`: the oldest first. `desc`: the newest first.";
}

/// How often one call looks at up to 5,000 events to fill its page.
const MAX_SCANS: usize = 10;

/// Who changed something.
#[derive(Object, Serialize)]
struct EventActor {
    /// `user`, `api_key`, `workflow`, `system` or `agent`.
    kind: String,
    id: String,
    name: String,
}

/// The record that an event is about.
#[derive(Object, Serialize)]
struct EventResource {
    kind: String,
    id: String,
    /// The record's version after the change.
    version: u64,
}

/// What led to an event, other than a request.
#[derive(Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct EventCause {
    /// The event that a run was started by.
    event_id: Option<tenantd_base::id::EventId>,
    /// The workflow run whose step did it, or that it is about.
    run_id: Option<tenantd_base::id::RunId>,
}

/// Something that happened.
#[derive(Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct Event {
    id: tenantd_base::id::EventId,
    /// The kind, such as `api_key.created`.
    #[oai(rename = "type")]
    kind: String,
    /// When it happened.
    timestamp: Timestamp,
    tenant_id: TenantId,
    /// The event's number among all events of your tenant, from 1 and without gaps. Numbers are missing where you cannot read the event,
    /// and from before an upgrade, when all tenants shared them.
    seq: u64,
    resource: EventResource,
    actor: EventActor,
    /// Absent where a request led to it.
    cause: Option<EventCause>,
    /// The record, and what changed where the kind has it. See the catalogue.
    data: Any<Value>,
}

/// An event as webhooks deliver it, without its `type` and its `data`.
#[derive(Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct EventEnvelope {
    /// The event's id, which is also the `webhook-id`. It is the same over all attempts.
    id: tenantd_base::id::EventId,
    /// When it happened.
    timestamp: Timestamp,
    /// The tenant that it happened in.
    tenant_id: TenantId,
    /// The event's number among all events of the tenant.
    seq: u64,
    resource: EventResource,
    actor: EventActor,
    /// Absent where a request led to it.
    cause: Option<EventCause>,
    /// Present, and true, if the complete event is larger than 256 KiB. Then texts in `data` are cut to 1,024 characters; if that is not enough,
    /// `data` has only the `id` of its record.
    data_truncated: Option<bool>,
    /// The path of the complete event on this server, if `data_truncated` is true.
    data_url: Option<String>,
}

/// A part of the feed.
#[derive(Object, Serialize)]
struct EventFeed {
    /// Events in the order that you asked for.
    data: Vec<Event>,
    /// Where the next call goes on: its `after`. Without `order=desc` it stays the same until your tenant has another event.
    next_after: u64,
    /// Whether there may be more events. A page with fewer events than `limit`, or none, and `more` true says that tenantd has looked at 50,000
    /// events, or has found 8 MiB. Go on with `next_after`.
    more: bool,
    /// Whether events of your tenant are past their retention and missing here: after `after`, or with `order=desc` behind the last page.
    truncated: bool,
}

/// The feed with its events as they are stored: their bytes are what every receiver gets.
#[derive(Serialize)]
struct StoredFeed<'a> {
    data: Vec<&'a RawValue>,
    next_after: u64,
    more: bool,
    truncated: bool,
}

/// A kind of event.
#[derive(Object, Serialize)]
struct CatalogEntry {
    /// The kind, such as `api_key.created`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    /// When it happens.
    summary: String,
    /// What you need beside `events:read` to see it.
    required_scopes: Vec<String>,
    /// The JSON Schema of `data`, with references into this API's document.
    schema: Any<Value>,
    /// An example of `data`.
    example: Any<Value>,
}

#[derive(Object, Serialize)]
struct EventCatalog {
    data: Vec<CatalogEntry>,
}

pub(crate) struct EventsApi {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) kinds: Arc<Kinds>,
    /// The published document, which is made after this API: the catalogue takes its examples from there.
    pub(crate) document: Arc<OnceLock<Arc<Value>>>,
}

#[OpenApi(prefix_path = "/api/events", tag = "Area::Events")]
impl EventsApi {
    /// Read events
    ///
    /// Returns the tenant's events in order, as far as you may read what they are about: an event of a ticket needs `tickets:read` too, and
    /// the catalogue says what each kind needs. With `wait_seconds` the call waits for the next event when there is none yet. With `order=desc`
    /// the newest event comes first.
    ///
    /// A page is full, or `more` is false. A call looks at no more than 50,000 events: if `types` leaves out more than that, the page has fewer
    /// events or none, and `more` is true. Go on with `next_after`, as after any other page.
    #[oai(path = "/", method = "get", operation_id = "read_events")]
    async fn read_events(&self, auth: Allowed<EventsRead>, query: Filter<ReadEvents>) -> Result<Answer<EventFeed>, Problem> {
        let ReadEvents { after, types, limit, order, wait_seconds } = query.0;
        let newest_first = order == Some(EventOrder::Desc);
        if newest_first && wait_seconds.is_some_and(|seconds| seconds > 0) {
            let message = "new events come before the newest: wait for them without order=desc";
            return Err(Problem::invalid(vec![FieldError::parameter("wait_seconds", "not_allowed", message)]));
        }
        let query = FeedQuery {
            tenant_id: auth.principal.tenant_id,
            after: after.unwrap_or(0),
            patterns: self.patterns(types.unwrap_or_default(), auth.principal.grants)?,
            readable: Some(self.kinds.readable(auth.principal.grants)),
            limit: limit.unwrap_or(50) as usize,
        };
        let deadline = self.clock.now() + Duration::from_secs(u64::from(wait_seconds.unwrap_or(0)));
        loop {
            let seen = self.store.version(catalog::EVENT_HEAD);
            let page = self.read_page(&query, newest_first).await?;
            if !page.events.is_empty() || page.more || self.clock.now() >= deadline {
                return render(&page);
            }
            tokio::select! {
                () = self.store.changed(catalog::EVENT_HEAD, seen) => {}
                () = self.clock.sleep_until(deadline) => {}
            }
        }
    }

    /// Read an event
    ///
    /// Returns one event by its `seq`, complete. Webhook deliveries are at most 256 KiB; the `data_url` of a larger event leads here.
    #[oai(path = "/:seq", method = "get", operation_id = "read_event")]
    async fn read_event(
        &self,
        auth: Allowed<EventsRead>,
        /// The event's number among all events of your tenant.
        #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
        seq: Path<u64>,
    ) -> Result<Answer<Event>, Problem> {
        let found = self.store.read(|tx| read_numbered(tx, auth.principal.tenant_id, seq.0))?;
        let readable = self.kinds.readable(auth.principal.grants);
        let event = found.filter(|event| readable.has(&event.record.kind)).ok_or_else(|| Problem::plain(Code::NotFound))?;
        let body: &RawValue = serde_json::from_slice(&event.record.body).map_err(Problem::internal)?;
        Ok(Answer::stored(&body))
    }

    /// List the kinds of events
    ///
    /// Every kind that the feed can hold, with the JSON Schema of its `data` and an example.
    #[oai(path = "/catalog", method = "get", operation_id = "list_event_kinds")]
    async fn list_event_kinds(&self, _auth: Allowed<SignedIn>) -> Result<Answer<EventCatalog>, Problem> {
        let entry = |kind: &EventKind| {
            let example = |schema| self.document.get().map(|document| openapi::example(document, schema)).unwrap_or_default();
            let mut shown = Map::from_iter([(kind.subject.to_owned(), example(kind.schema))]);
            shown.extend(self.kinds.members(kind).map(|member| (member.name.to_owned(), example(member.schema))));
            CatalogEntry {
                kind: kind.name.to_owned(),
                summary: kind.summary.to_owned(),
                required_scopes: kind.reads.iter().map(|scope| scope.name().to_owned()).collect(),
                schema: Any(data_schema(&self.kinds, kind, "/api/openapi.json")),
                example: Any(Value::Object(shown)),
            }
        };
        Ok(Answer::new(&EventCatalog { data: self.kinds.iter().map(entry).collect() }))
    }
}

impl EventsApi {
    /// A page of the feed. One look at the store is bounded, and the next one goes on where it ended.
    async fn read_page(&self, query: &FeedQuery, newest_first: bool) -> Result<FeedPage, StoreError> {
        let tenant = query.tenant_id;
        let look = |query: FeedQuery| {
            let read = move |tx: &ReadTx| if newest_first { read_feed_back(tx, &query) } else { read_feed(tx, &query) };
            self.store.scan_for(tenant, read)
        };
        let mut page = look(query.clone()).await?;
        for _ in 1..MAX_SCANS {
            let bytes: usize = page.events.iter().map(|event| event.record.body.len()).sum();
            if !page.more || page.events.len() >= query.limit || bytes >= FEED_BYTES {
                break;
            }
            let next = look(FeedQuery { after: page.next_after, limit: query.limit - page.events.len(), ..query.clone() }).await?;
            page.events.extend(next.events);
            (page.next_after, page.more, page.truncated) = (next.next_after, next.more, page.truncated || next.truncated);
        }
        Ok(page)
    }

    fn patterns(&self, types: Vec<String>, held: Grants) -> Result<Vec<EventPattern>, Problem> {
        let mut errors = Vec::new();
        let mut patterns = Vec::new();
        for text in types {
            match self.kinds.parse(&text) {
                Ok(pattern) => patterns.push(pattern),
                Err(unknown) => {
                    let error = FieldError::parameter("types", "unknown_event", unknown.to_string());
                    errors.push(error.with_suggestion(unknown.suggestion));
                }
            }
        }
        if !errors.is_empty() {
            return Err(Problem::invalid(errors));
        }
        match patterns.iter().find_map(|pattern| self.kinds.lacking(pattern, held)) {
            Some(lacking) => Err(Lacking::scopes(lacking).into()),
            None => Ok(patterns),
        }
    }
}

/// The schema of `data` of a kind, with references into the document at `address`.
pub(crate) fn data_schema(kinds: &Kinds, kind: &EventKind, address: &str) -> Value {
    let reference = |schema: &str| json!({"$ref": format!("{address}#/components/schemas/{schema}")});
    let mut properties = Map::new();
    properties.insert(kind.subject.to_owned(), reference(kind.schema));
    if kind.has_changes {
        let (from, to) = (json!({"description": "The value before."}), json!({"description": "The value after."}));
        let change = json!({"type": "object", "properties": {"from": from, "to": to}});
        let description = "The fields that were changed, by their names.";
        properties
            .insert("changes".to_owned(), json!({"type": "object", "description": description, "additionalProperties": change}));
    }
    properties.extend(kinds.members(kind).map(|member| (member.name.to_owned(), reference(member.schema))));
    let required: Vec<&str> = [kind.subject].into_iter().chain(kinds.members(kind).map(|member| member.name)).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// The name of the schema of what a delivered event has beside its data.
pub(crate) const ENVELOPE: &str = "EventEnvelope";

/// The schema of an event, whose `data` is that of one of the kinds, and of what deliveries have around theirs.
pub(crate) fn event_schemas(kinds: &Kinds) -> Map<String, Value> {
    let mut forms: Vec<Value> = Vec::new();
    for form in kinds.iter().map(|kind| data_schema(kinds, kind, "")) {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    let mut schemas = openapi::schemas::<Event>();
    let mut envelope = openapi::schemas::<EventEnvelope>();
    if let Some(event) = envelope.remove(ENVELOPE) {
        schemas.insert(ENVELOPE.to_owned(), event);
    }
    let data = schemas.get_mut("Event").and_then(|event| event.get_mut("properties")?.get_mut("data")?.as_object_mut());
    if let Some(data) = data {
        data.insert("anyOf".to_owned(), Value::Array(forms));
    }
    schemas
}

fn render(page: &FeedPage) -> Result<Answer<EventFeed>, Problem> {
    let data: Result<Vec<&RawValue>, _> = page.events.iter().map(|event| serde_json::from_slice(&event.record.body)).collect();
    let data = data.map_err(Problem::internal)?;
    let feed = StoredFeed { data, next_after: page.next_after, more: page.more, truncated: page.truncated };
    Ok(Answer::stored(&feed))
}
