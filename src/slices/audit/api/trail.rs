//! `/api/admin/audit`: who did what, as pages and as exports, and the newest checkpoint.

use std::sync::Arc;

use poem::Request;
use poem_openapi::{Enum, Object, OpenApi};

use tenantd_base::{
    access::{Grants, Principal, Scope, TenantKind},
    clock::Timestamp,
    fault::Fault,
    secrets::PublicKey,
    vocabulary::{nearest, vocabulary},
};
use tenantd_http::{
    acts,
    context::header,
    export::RowFormat,
    input::Filter,
    need::{Allowed, AuditRead},
    outgoing::{ListOrStream, Streams},
    page::{PageQuery, PageRequest},
    problem::{Code, FieldError, Problem},
    reply::Answer,
    wire::word_type,
};
use tenantd_store::{
    Direction, Key, Store,
    events::{ConsumerTask, EventKind, Kinds},
};

use super::{
    super::{
        error::AuditError,
        listing::{self, AuditQuery},
        model::Filters,
        recorder::Recorder,
        repo,
    },
    Area, export,
    wire::{AuditCheckpoint, AuditList, AuditRecord},
};

vocabulary! {
    AuditSort:
    At "at", AtDescending "-at",
}

word_type! {
    AuditSort, "AuditSort";
}

impl AuditSort {
    fn direction(self) -> Direction {
        match self {
            Self::At => Direction::Forward,
            Self::AtDescending => Direction::Backward,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
enum AuditFormat {
    Json,
    Csv,
    Ndjson,
}

#[derive(Debug, Object)]
struct ListAuditRecords {
    /// The ids of users and API keys that did it; `system` for the service itself, `local_operator` for the admin socket.
    #[oai(validator(min_items = 1, max_items = 50))]
    actor_id: Option<Vec<String>>,
    /// Kinds of events such as `api_key.created`, `api_key.*` or `*`.
    #[oai(validator(min_items = 1, max_items = 64))]
    action: Option<Vec<String>>,
    /// What it was done with, such as `api_key` or `user`.
    #[oai(validator(min_items = 1, max_items = 50))]
    resource_kind: Option<Vec<String>>,
    /// The ids of the records that it was done with.
    #[oai(validator(min_items = 1, max_items = 50))]
    resource_id: Option<Vec<String>>,
    /// What was done at this time or later.
    since: Option<Timestamp>,
    /// What was done before this time.
    until: Option<Timestamp>,
    /// The order; a `-` has the newest first, as pages do when it is absent. Exports have the oldest first then.
    sort: Option<AuditSort>,
    /// `csv` and `ndjson` stream all records that match. `json` when absent.
    format: Option<AuditFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct AuditApi {
    pub(crate) store: Store,
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) recorder: ConsumerTask<Recorder>,
    pub(crate) public_key: PublicKey,
    pub(crate) exports: Streams,
}

#[OpenApi(prefix_path = "/api/admin/audit", tag = "Area::Audit")]
impl AuditApi {
    /// List who did what
    ///
    /// Administrative changes, signing in and failing to, creation of secrets, exports, and what the operator did in this tenant: everything
    /// that the service has answered before this request. Daily work has histories of its own: tickets, devices, contacts, workflow runs
    /// and what became of VMs are not in it. A filter takes several values, separated by commas, of which one must match. A page can have
    /// fewer records than `limit`, even none, while there are more: the list is over when `next_cursor` is absent. Records are kept for
    /// 400 days, unless the operator set another time, also when their events are gone from the feed.
    ///
    /// The records show keys, users and webhook endpoints. So you need all of `api_keys:read`, `events:read`, `users:read` and
    /// `webhooks:read`. Administrators have them, and so does a key with `*:read`. A key that is restricted to organizations cannot read the
    /// audit. Records about anything else also need the scope that reads it: without `providers:read` you get none about cloud providers.
    /// An export that lacks records cannot be checked.
    ///
    /// `format=csv` and `format=ndjson`, or an `Accept` with only `text/csv` or `application/x-ndjson`, stream all records. Lines have the
    /// record as it was written and its `hash`. Without filters, and with the oldest first, they can be checked with `tenantd audit verify`:
    /// the first line says what the chain begins with, and signed checkpoints stand between the records and at the end. A stream takes no
    /// `limit`, `cursor` and `include_total`.
    #[oai(path = "/", method = "get", operation_id = "list_audit_records")]
    async fn list_audit_records(
        &self,
        auth: Allowed<AuditRead>,
        request: &Request,
        query: Filter<ListAuditRecords>,
    ) -> Result<ListOrStream<AuditList>, Problem> {
        let asked = query.0;
        let format = match asked.format {
            Some(AuditFormat::Json) => None,
            Some(AuditFormat::Csv) => Some(RowFormat::Csv),
            Some(AuditFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        let sort = asked.sort.unwrap_or(if format.is_some() { AuditSort::At } else { AuditSort::AtDescending });
        let filters = Filters { hidden: self.hidden(&auth.principal), ..self.filters(&asked)? };
        let wanted = AuditQuery { tenant_id: auth.principal.tenant_id, filters, direction: sort.direction() };
        if let Some(format) = format {
            refuse_paging(&asked.page)?;
            acts::export_started(&self.store, &auth, "audit", format.media_type()).await?;
            self.recorder.catch_up().await?;
            let stream = export::start(&self.exports, self.store.clone(), wanted, self.public_key, format)?;
            return Ok(ListOrStream::Stream(stream));
        }
        let request = PageRequest::new(&auth.context, &asked.page)?;
        self.recorder.catch_up().await?;
        let after = request.after.as_deref().map(|position| u64::from_bytes(position).ok_or_else(mismatch)).transpose()?;
        let (limit, include_total) = (request.limit, request.include_total);
        let read = self.store.scan_for(auth.principal.tenant_id, move |tx| {
            let page = listing::list(tx, &wanted, after, limit)?;
            let total = if include_total { Some(listing::total(tx, &wanted)?) } else { None };
            let data = page.found.into_iter().map(AuditRecord::try_from).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, AuditError>((data, page.last, total))
        });
        let (data, last, total) = read.await?;
        let page = request.page(last.map(|seq| seq.to_bytes()), total);
        Ok(ListOrStream::list(&AuditList { data, page: page.clone() }, &page))
    }

    /// Read the newest checkpoint of the audit
    ///
    /// A signature over everything that is in the tenant's audit. Kept elsewhere, it proves later that nothing of it was changed or removed:
    /// `tenantd audit verify --checkpoint` compares. Not found while nothing was done yet.
    #[oai(path = "/checkpoint", method = "get", operation_id = "read_audit_checkpoint")]
    async fn read_audit_checkpoint(&self, auth: Allowed<AuditRead>) -> Result<Answer<AuditCheckpoint>, Problem> {
        self.recorder.catch_up().await?;
        let head = self.store.read(|tx| repo::head(tx, auth.principal.tenant_id))?;
        let head = head.ok_or_else(|| Problem::plain(Code::NotFound))?;
        Ok(Answer::new(&AuditCheckpoint::new(&head.end.checkpoint, &self.public_key)))
    }
}

impl AuditApi {
    /// The actions on records that the reader may not read elsewhere. What no scope reads, such as a secret, the four scopes show. Events of
    /// the installation are in the platform tenant alone.
    fn hidden(&self, reader: &Principal) -> Vec<&'static str> {
        let elsewhere = if reader.tenant_kind == TenantKind::Platform { Grants::NONE } else { Grants::of(&[Scope::PlatformRead]) };
        let held = reader.grants.union(elsewhere);
        self.kinds.iter().filter(|kind| !held.covers(kind.reads.reads())).map(|kind| kind.name).collect()
    }

    fn filters(&self, asked: &ListAuditRecords) -> Result<Filters, AuditError> {
        let unknown = |parameter: &str, given: &str, suggestion| {
            Fault::parameter(parameter, "unknown_value", format!("{given} is not known here")).with_suggestion(suggestion)
        };
        let (mut faults, mut actions) = (Vec::new(), Vec::new());
        for given in asked.action.iter().flatten() {
            match self.kinds.parse(given) {
                Ok(pattern) => actions.push(pattern),
                Err(error) => {
                    let suggestion = nearest(given, self.kinds.iter().map(|kind| kind.name)).or(error.suggestion);
                    faults.push(unknown("action", given, suggestion));
                }
            }
        }
        let resource_kinds = asked.resource_kind.clone().unwrap_or_default();
        let subjects = || self.kinds.iter().map(|kind: &EventKind| kind.subject);
        for given in &resource_kinds {
            if !subjects().any(|subject| subject == given) {
                faults.push(unknown("resource_kind", given, nearest(given, subjects())));
            }
        }
        if !faults.is_empty() {
            return Err(AuditError::Invalid(faults));
        }
        Ok(Filters {
            actor_ids: asked.actor_id.clone().unwrap_or_default(),
            actions,
            resource_kinds,
            resource_ids: asked.resource_id.clone().unwrap_or_default(),
            since: asked.since,
            until: asked.until,
            hidden: Vec::new(),
        })
    }
}

fn mismatch() -> Problem {
    Problem::plain(Code::CursorMismatch)
}

/// A stream has no pages.
fn refuse_paging(page: &PageQuery) -> Result<(), Problem> {
    let given =
        [("limit", page.limit.is_some()), ("cursor", page.cursor.is_some()), ("include_total", page.include_total.is_some())];
    let error =
        |name: &str| FieldError::parameter(name, "not_allowed", format!("{name} has no meaning for a stream of all records"));
    let errors: Vec<FieldError> = given.iter().filter(|(_, given)| *given).map(|(name, _)| error(name)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}
