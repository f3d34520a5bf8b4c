//! `/api/events`: lets clients poll a tenant's events. For receivers behind a firewall and for clients that replay events.

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
    /// The events of your tenant, in order.
    Events,
}

#[derive(Debug, Object)]
struct ReadEvents {
    /// Returns events after this `seq`. Pass the `next_after` of the previous response. When absent or 0, the feed starts at the
    /// oldest available event, or at the newest one with `order=desc`.
    #[oai(validator(minimum(value = "0"), maximum(value = "9007199254740991")))]
    after: Option<u64>,
    /// Returns only these kinds, such as `api_key.created`, `api_key.*` or `*`. When absent, all kinds.
    #[oai(validator(min_items = 1, max_items = 64))]
    types: Option<Vec<String>>,
    /// The maximum number of events to return. Defaults to 50.
    #[oai(validator(minimum(value = "1"), maximum(value = "200")))]
    limit: Option<u32>,
    /// The order of the events. Defaults to `asc`, oldest first. With `desc`, `after` continues with older events.
    order: Option<EventOrder>,
    /// The number of seconds to wait if there is no event yet. Not allowed with `order=desc`.
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

/// The number of scans per request. Each scan reads up to 5,000 events.
const MAX_SCANS: usize = 10;

/// The user, API key or component that caused the event.
#[derive(Object, Serialize)]
struct EventActor {
    /// The kind of actor: `user`, `api_key`, `workflow`, `system` or `agent`.
    kind: String,
    /// The ID of the actor.
    id: String,
    /// The name of the actor at the time of the event.
    name: String,
}

/// The record that an event is about.
#[derive(Object, Serialize)]
struct EventResource {
    /// The kind of record, such as `ticket`.
    kind: String,
    /// The ID of the record.
    id: String,
    /// The version of the record after the change.
    version: u64,
}

/// The cause of an event that was not caused directly by a request.
#[derive(Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct EventCause {
    /// The event that started the run.
    event_id: Option<tenantd_base::id::EventId>,
    /// The workflow run that caused the event or that the event is about.
    run_id: Option<tenantd_base::id::RunId>,
}

/// A change or occurrence in your tenant.
#[derive(Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct Event {
    /// The ID of the event.
    id: tenantd_base::id::EventId,
    /// The kind of event, such as `api_key.created`.
    #[oai(rename = "type")]
    kind: String,
    /// The time of the event.
    timestamp: Timestamp,
    /// The tenant to which the event belongs.
    tenant_id: TenantId,
    /// The position of the event in your tenant's feed. Numbers start at 1 and have no gaps. You do not see the numbers of events
    /// that you cannot read. Events from before the upgrade to numbers per tenant can have gaps.
    seq: u64,
    /// The record that the event is about.
    resource: EventResource,
    /// The actor that caused the event.
    actor: EventActor,
    /// The cause of the event. Absent if a request caused it directly.
    cause: Option<EventCause>,
    /// The record and, for some kinds, the changed fields. The event catalog has the schema for each kind.
    data: Any<Value>,
}

/// An event as webhooks deliver it, without its `type` and `data`.
#[derive(Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
struct EventEnvelope {
    /// The ID of the event. Also the value of the `webhook-id` header. All delivery attempts use the same ID.
    id: tenantd_base::id::EventId,
    /// The time of the event.
    timestamp: Timestamp,
    /// The tenant to which the event belongs.
    tenant_id: TenantId,
    /// The position of the event in your tenant's feed.
    seq: u64,
    /// The record that the event is about.
    resource: EventResource,
    /// The actor that caused the event.
    actor: EventActor,
    /// The cause of the event. Absent if a request caused it directly.
    cause: Option<EventCause>,
    /// `true` if the complete event is larger than 256 KiB, absent otherwise. tenantd then cuts texts in `data` to 1,024
    /// characters. If that is not enough, `data` contains only the `id` of the record.
    data_truncated: Option<bool>,
    /// The path of the complete event on this server. Present only if `data_truncated` is true.
    data_url: Option<String>,
}

/// A page of the event feed.
#[derive(Object, Serialize)]
struct EventFeed {
    /// The events, in the requested order.
    data: Vec<Event>,
    /// The value of `after` for the next request. Without `order=desc` it stays the same until your tenant has a new event.
    next_after: u64,
    /// Whether there may be more events. If a page has fewer events than `limit` and `more` is true, the request has reached a
    /// limit: it reads at most 50,000 events and returns at most 8 MiB. Continue with `next_after`.
    more: bool,
    /// Whether retention has removed events that belong here: after `after`, or beyond the last page with `order=desc`.
    truncated: bool,
}

/// The feed with the stored events. All receivers get the same bytes.
#[derive(Serialize)]
struct StoredFeed<'a> {
    data: Vec<&'a RawValue>,
    next_after: u64,
    more: bool,
    truncated: bool,
}

/// A kind of event and its schema.
#[derive(Object, Serialize)]
struct CatalogEntry {
    /// The kind of event, such as `api_key.created`.
    #[oai(rename = "type")]
    #[serde(rename = "type")]
    kind: String,
    /// When tenantd emits the event.
    summary: String,
    /// The scopes that you need in addition to `events:read`.
    required_scopes: Vec<String>,
    /// The JSON Schema of `data`, with references into this API's OpenAPI document.
    schema: Any<Value>,
    /// An example of `data`.
    example: Any<Value>,
}

/// All kinds of events.
#[derive(Object, Serialize)]
struct EventCatalog {
    /// The kinds of events.
    data: Vec<CatalogEntry>,
}

pub(crate) struct EventsApi {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) kinds: Arc<Kinds>,
    /// The published OpenAPI document. It is built after this API; the catalog takes its examples from it.
    pub(crate) document: Arc<OnceLock<Arc<Value>>>,
    /// The catalog, which is the same for everyone. Its examples take long to build.
    pub(crate) catalog: OnceLock<Box<RawValue>>,
}

#[OpenApi(prefix_path = "/api/events", tag = "Area::Events")]
impl EventsApi {
    /// Read events
    ///
    /// Returns your tenant's events in order. The feed contains only events about records that you may read: a ticket event, for
    /// example, also requires `tickets:read`. The event catalog lists the scopes for each kind. With `wait_seconds`, the request
    /// waits for the next event if there is none yet. With `order=desc`, the newest event comes first.
    ///
    /// If a page has fewer events than `limit`, check `more`. A request reads at most 50,000 events, so a narrow `types` filter can
    /// return a short or empty page with `more` set to true. Continue with `next_after` in that case.
    #[oai(path = "/", method = "get", operation_id = "read_events")]
    async fn read_events(&self, auth: Allowed<EventsRead>, query: Filter<ReadEvents>) -> Result<Answer<EventFeed>, Problem> {
        let ReadEvents { after, types, limit, order, wait_seconds } = query.0;
        let newest_first = order == Some(EventOrder::Desc);
        if newest_first && wait_seconds.is_some_and(|seconds| seconds > 0) {
            let message = "must not be used with order=desc: new events do not appear after older ones";
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
            let seen_version = self.store.version(catalog::EVENT_HEAD);
            let page = self.read_page(&query, newest_first).await?;
            if !page.events.is_empty() || page.more || self.clock.now() >= deadline {
                return render(&page);
            }
            tokio::select! {
                () = self.store.changed(catalog::EVENT_HEAD, seen_version) => {}
                () = self.clock.sleep_until(deadline) => {}
            }
        }
    }

    /// Read an event
    ///
    /// Returns one complete event by its `seq`. Webhook deliveries contain at most 256 KiB; the `data_url` of a larger event refers
    /// to this operation.
    #[oai(path = "/:seq", method = "get", operation_id = "read_event")]
    async fn read_event(
        &self,
        auth: Allowed<EventsRead>,
        /// The `seq` of the event.
        #[oai(validator(minimum(value = "1"), maximum(value = "9007199254740991")))]
        seq: Path<u64>,
    ) -> Result<Answer<Event>, Problem> {
        let found = self.store.read(|tx| read_numbered(tx, auth.principal.tenant_id, seq.0))?;
        let readable = self.kinds.readable(auth.principal.grants);
        let event = found.filter(|event| readable.has(&event.record.kind)).ok_or_else(|| Problem::plain(Code::NotFound))?;
        let body: &RawValue = serde_json::from_slice(&event.record.body).map_err(Problem::internal)?;
        Ok(Answer::stored(&body))
    }

    /// List event kinds
    ///
    /// Returns all kinds of events with their required scopes, the JSON Schema of their `data`, and an example.
    #[oai(path = "/catalog", method = "get", operation_id = "list_event_kinds")]
    async fn list_event_kinds(&self, _auth: Allowed<SignedIn>) -> Result<Answer<EventCatalog>, Problem> {
        if let Some(catalog) = self.catalog.get() {
            return Ok(Answer::stored(catalog));
        }
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
        let catalog = EventCatalog { data: self.kinds.iter().map(entry).collect() };
        let catalog = serde_json::value::to_raw_value(&catalog).map_err(Problem::internal)?;
        if self.document.get().is_none() {
            return Ok(Answer::stored(&catalog));
        }
        Ok(Answer::stored(self.catalog.get_or_init(|| catalog)))
    }
}

impl EventsApi {
    /// Reads a page of the feed. Each scan is bounded; the next scan continues where the previous one ended.
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

/// The JSON Schema of `data` for a kind, with references into the document at `address`.
pub(crate) fn data_schema(kinds: &Kinds, kind: &EventKind, address: &str) -> Value {
    let reference = |schema: &str| json!({"$ref": format!("{address}#/components/schemas/{schema}")});
    let mut properties = Map::new();
    properties.insert(kind.subject.to_owned(), reference(kind.schema));
    if kind.has_changes {
        let (from, to) = (json!({"description": "The value before."}), json!({"description": "The value after."}));
        let change = json!({"type": "object", "properties": {"from": from, "to": to}});
        let description = "The changed fields, keyed by name.";
        properties
            .insert("changes".to_owned(), json!({"type": "object", "description": description, "additionalProperties": change}));
    }
    properties.extend(kinds.members(kind).map(|member| (member.name.to_owned(), reference(member.schema))));
    let required: Vec<&str> = [kind.subject].into_iter().chain(kinds.members(kind).map(|member| member.name)).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// The schema name of the envelope: everything in a delivered event except its type and data.
pub(crate) const ENVELOPE: &str = "EventEnvelope";

/// The schemas of an event, whose `data` matches one of the kinds, and of the envelope of a delivery.
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
