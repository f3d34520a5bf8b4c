//! `/api/admin/audit`: audit records as pages and as exports, and the newest checkpoint.

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
    /// Returns only records of these actors: ids of users and API keys, `system` for tenantd itself, `local_operator` for the admin
    /// socket.
    #[oai(validator(min_items = 1, max_items = 50))]
    actor_id: Option<Vec<String>>,
    /// Returns only records of these event kinds, such as `api_key.created`, `api_key.*` or `*`.
    #[oai(validator(min_items = 1, max_items = 64))]
    action: Option<Vec<String>>,
    /// Returns only records about these kinds of resources, such as `api_key` or `user`.
    #[oai(validator(min_items = 1, max_items = 50))]
    resource_kind: Option<Vec<String>>,
    /// Returns only records about the resources with these ids.
    #[oai(validator(min_items = 1, max_items = 50))]
    resource_id: Option<Vec<String>>,
    /// Returns only records from this time or later.
    since: Option<Timestamp>,
    /// Returns only records from before this time.
    until: Option<Timestamp>,
    /// The sort order: `at` for the oldest first, `-at` for the newest first. Defaults to `-at` for pages and to `at` for exports.
    sort: Option<AuditSort>,
    /// The format of the response. `csv` and `ndjson` stream all matching records. Defaults to the `Accept` header, then to `json`.
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
    /// List audit records
    ///
    /// Returns administrative changes, successful and failed sign-ins, creations of secrets, exports, and the operator's actions in
    /// this tenant. The list includes every action that was answered before this request. It does not include daily work, which has
    /// its own history: tickets, devices, contacts, workflow runs and state changes of VMs. It does not include preferences and
    /// saved views of users either. A filter accepts several values, separated by commas, and matches any of them. A page can have
    /// fewer records than `limit`, or none, although more follow: the list ends when `next_cursor` is absent. Records are kept for
    /// 400 days by default, even after their events have left the feed.
    ///
    /// The records show keys, users and webhook endpoints, so you need all of `api_keys:read`, `events:read`, `users:read` and
    /// `webhooks:read`. Administrators and keys with `*:read` have them. A key restricted to organizations cannot read the audit.
    /// Records about other resources also require the scope that reads the resource: without `providers:read`, the list contains no
    /// records about cloud providers. An export with missing records cannot be verified.
    ///
    /// `format=csv` and `format=ndjson`, or an `Accept` header with only `text/csv` or `application/x-ndjson`, stream all records.
    /// Each NDJSON line contains the record as it was written and its `hash`. `tenantd audit verify` can verify an NDJSON export
    /// without filters, oldest first: its first line contains the start of the chain, and signed checkpoints follow between the
    /// records and at the end. A stream does not accept `limit`, `cursor` and `include_total`.
    #[oai(path = "/", method = "get", operation_id = "list_audit_records")]
    async fn list_audit_records(
        &self,
        auth: Allowed<AuditRead>,
        request: &Request,
        query: Filter<ListAuditRecords>,
    ) -> Result<ListOrStream<AuditList>, Problem> {
        let params = query.0;
        let format = match params.format {
            Some(AuditFormat::Json) => None,
            Some(AuditFormat::Csv) => Some(RowFormat::Csv),
            Some(AuditFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        let sort = params.sort.unwrap_or(if format.is_some() { AuditSort::At } else { AuditSort::AtDescending });
        let filters = Filters { hidden: self.hidden(&auth.principal), ..self.filters(&params)? };
        let audit_query = AuditQuery { tenant_id: auth.principal.tenant_id, filters, direction: sort.direction() };
        if let Some(format) = format {
            refuse_paging(&params.page)?;
            acts::export_started(&self.store, &auth, "audit", format.media_type()).await?;
            self.recorder.catch_up().await?;
            let stream = export::start(&self.exports, self.store.clone(), audit_query, self.public_key, format)?;
            return Ok(ListOrStream::Stream(stream));
        }
        let request = PageRequest::new(&auth.context, &params.page)?;
        self.recorder.catch_up().await?;
        let after = request.after.as_deref().map(|position| u64::from_bytes(position).ok_or_else(mismatch)).transpose()?;
        let (limit, include_total) = (request.limit, request.include_total);
        let read = self.store.scan_for(auth.principal.tenant_id, move |tx| {
            let page = listing::list(tx, &audit_query, after, limit)?;
            let total = if include_total { Some(listing::total(tx, &audit_query)?) } else { None };
            let data = page.found.into_iter().map(AuditRecord::try_from).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, AuditError>((data, page.last, total))
        });
        let (data, last, total) = read.await?;
        let page = request.page(last.map(|seq| seq.to_bytes()), total);
        Ok(ListOrStream::list(&AuditList { data, page: page.clone() }, &page))
    }

    /// Read the newest audit checkpoint
    ///
    /// Returns a signature over all records of the tenant's audit. Store it elsewhere to prove later that no record was changed or
    /// removed: `tenantd audit verify --checkpoint` compares it with the audit. Returns 404 while the audit is empty.
    #[oai(path = "/checkpoint", method = "get", operation_id = "read_audit_checkpoint")]
    async fn read_audit_checkpoint(&self, auth: Allowed<AuditRead>) -> Result<Answer<AuditCheckpoint>, Problem> {
        self.recorder.catch_up().await?;
        let head = self.store.read(|tx| repo::head(tx, auth.principal.tenant_id))?;
        let head = head.ok_or_else(|| Problem::plain(Code::NotFound))?;
        Ok(Answer::new(&AuditCheckpoint::new(&head.end.checkpoint, &self.public_key)))
    }
}

impl AuditApi {
    /// Returns the actions on resources that the reader cannot read elsewhere. Resources that no scope reads, such as secrets, are
    /// visible with the four required scopes. Events of the installation exist only in the platform tenant.
    fn hidden(&self, reader: &Principal) -> Vec<&'static str> {
        let elsewhere = if reader.tenant_kind == TenantKind::Platform { Grants::NONE } else { Grants::of(&[Scope::PlatformRead]) };
        let held = reader.grants.union(elsewhere);
        self.kinds.iter().filter(|kind| !held.covers(kind.reads.reads())).map(|kind| kind.name).collect()
    }

    fn filters(&self, params: &ListAuditRecords) -> Result<Filters, AuditError> {
        let unknown = |parameter: &str, given: &str, suggestion| {
            Fault::parameter(parameter, "unknown_value", format!("{given} is not a known value")).with_suggestion(suggestion)
        };
        let (mut faults, mut actions) = (Vec::new(), Vec::new());
        for given in params.action.iter().flatten() {
            match self.kinds.parse(given) {
                Ok(pattern) => actions.push(pattern),
                Err(error) => {
                    let suggestion = nearest(given, self.kinds.iter().map(|kind| kind.name)).or(error.suggestion);
                    faults.push(unknown("action", given, suggestion));
                }
            }
        }
        let resource_kinds = params.resource_kind.clone().unwrap_or_default();
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
            actor_ids: params.actor_id.clone().unwrap_or_default(),
            actions,
            resource_kinds,
            resource_ids: params.resource_id.clone().unwrap_or_default(),
            since: params.since,
            until: params.until,
            hidden: Vec::new(),
        })
    }
}

fn mismatch() -> Problem {
    Problem::plain(Code::CursorMismatch)
}

/// Refuses paging parameters, because a stream has no pages.
fn refuse_paging(page: &PageQuery) -> Result<(), Problem> {
    let given =
        [("limit", page.limit.is_some()), ("cursor", page.cursor.is_some()), ("include_total", page.include_total.is_some())];
    let error = |name: &str| {
        FieldError::parameter(
            name,
            "not_allowed",
            format!("{name} cannot be used with csv or ndjson, which stream all records; remove it"),
        )
    };
    let errors: Vec<FieldError> = given.iter().filter(|(_, given)| *given).map(|(name, _)| error(name)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}
