//! `/api/backup/customer-aggregate`: the backup report over all customers.

use std::sync::Arc;

use poem::Request;
use poem_openapi::{Enum, Object, OpenApi};

use tenantd_base::{
    access::{Principal, Reach},
    clock::Timestamp,
    id::{OrganizationId, TenantId},
    secrets::Signer,
    vocabulary::vocabulary,
};
use tenantd_http::{
    acts,
    context::header,
    export::RowFormat,
    input::Filter,
    mark::{Marked, Report},
    need::{Allowed, BackupRead},
    outgoing::{ListOrStream, Streams},
    page::{PageQuery, PageRequest},
    problem::{FieldError, Problem},
    wire::word_type,
};
use tenantd_store::{ReadTx, Store};

use super::{
    super::{
        error::BackupError,
        listing::{self, AggregateQuery, SortBy},
        model::{Rpo, State, Window},
    },
    Area,
    aggregate_wire::{BackupAggregate, BackupRow, BackupSummary, Shape},
    evidence, export,
};

vocabulary! {
    BackupSort:
    Score "score", ScoreDown "-score", Coverage "coverage", CoverageDown "-coverage", Name "name", NameDown "-name",
    LastSuccess "last_success_at", LastSuccessDown "-last_success_at",
}

word_type! {
    BackupSort, "BackupSort", "The sort field. A leading minus reverses the order.";
}

impl BackupSort {
    fn parts(self) -> (SortBy, bool) {
        match self {
            Self::Score => (SortBy::Score, false),
            Self::ScoreDown => (SortBy::Score, true),
            Self::Coverage => (SortBy::Coverage, false),
            Self::CoverageDown => (SortBy::Coverage, true),
            Self::Name => (SortBy::Name, false),
            Self::NameDown => (SortBy::Name, true),
            Self::LastSuccess => (SortBy::LastSuccess, false),
            Self::LastSuccessDown => (SortBy::LastSuccess, true),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum BackupFormat {
    Json,
    Csv,
    Ndjson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum BackupView {
    Rows,
    Evidence,
}

/// Selects the organizations in a report.
#[derive(Clone, Debug, Object)]
pub(super) struct BackupFilters {
    /// Returns only these organizations.
    #[oai(validator(min_items = 1, max_items = 200))]
    pub(super) organization_id: Option<Vec<OrganizationId>>,
    /// Returns only organizations in these states.
    #[oai(validator(min_items = 1, max_items = 5))]
    pub(super) state: Option<Vec<State>>,
    /// Returns only organizations whose score is below this value. Organizations without a score do not match.
    #[oai(validator(minimum(value = "1"), maximum(value = "101")))]
    pub(super) score_lt: Option<u8>,
    /// Returns only organizations that protect less than this percentage of their eligible devices.
    #[oai(validator(minimum(value = "1"), maximum(value = "101")))]
    pub(super) coverage_lt: Option<u8>,
    /// Returns only organizations that have a device in one of these RPO states.
    #[oai(validator(min_items = 1, max_items = 3))]
    pub(super) rpo: Option<Vec<Rpo>>,
    /// The sort order. Defaults to `score`: organizations without any job first, then the lowest score, and organizations without
    /// eligible devices last.
    pub(super) sort: Option<BackupSort>,
}

impl BackupFilters {
    pub(super) fn query(self, tenant_id: TenantId, reach: Reach, now: Timestamp) -> AggregateQuery {
        let (sort, descending) = self.sort.unwrap_or(BackupSort::Score).parts();
        AggregateQuery {
            tenant_id,
            reach,
            now,
            organizations: self.organization_id.unwrap_or_default(),
            states: self.state.unwrap_or_default(),
            score_lt: self.score_lt,
            coverage_lt: self.coverage_lt,
            rpo: self.rpo.unwrap_or_default(),
            sort,
            descending,
        }
    }
}

#[derive(Debug, Object)]
struct ReportBackup {
    #[oai(flatten)]
    filters: BackupFilters,
    /// Returns job counts for this window only. When absent, for all windows.
    window: Option<Window>,
    /// Whether to add the inputs of each part of the score. Defaults to false.
    explain: Option<bool>,
    /// The view of the report: `rows` by default, or `evidence` for a signed statement for auditors and insurers.
    view: Option<BackupView>,
    /// The format of the report: `json` by default. `csv` and `ndjson` stream the whole report without pages.
    format: Option<BackupFormat>,
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct AggregateApi {
    pub(crate) store: Store,
    pub(crate) exports: Streams,
    pub(crate) signer: Arc<Signer>,
}

#[OpenApi(prefix_path = "/api/backup", tag = "Area::Backup")]
impl AggregateApi {
    /// Report the backup status of customers
    ///
    /// Returns one row per organization, the worst first, and a `summary` over all matching organizations. The score is the sum of
    /// five parts, each rounded down to whole points: coverage (25), recency (30), success of the last 7 days (15), verification
    /// (20) and resilience (10). Caps limit the score: no restore test within 90 days (79), a server whose newest restore point is
    /// more than twice as old as allowed (59), a server without a restore point in the last 30 days (49). `explain=true` adds the
    /// inputs of each part. The report includes each job at once, and device changes within seconds.
    ///
    /// `view=evidence` returns a signed statement about the organizations on the page. `jws` is a JSON Web Signature (RFC 7515,
    /// compact, `EdDSA`) whose payload is the statement, byte for byte. To verify it, get the key with its `kid` from
    /// `/documentation/keys/` of this installation over a connection that you trust, and pass both to any JOSE library. Or verify
    /// the Ed25519 signature (the third part) over the first two parts including the dot between them. This view does not allow
    /// `explain`, `window` and `format`.
    ///
    /// `format=csv` and `format=ndjson`, or an `Accept` header with only `text/csv` or `application/x-ndjson`, stream all rows from
    /// one snapshot. The last line of `ndjson` is `{"_end":true,"count":…}`. A stream does not allow `limit`, `cursor` and
    /// `include_total`.
    #[oai(path = "/customer-aggregate", method = "get", operation_id = "report_backup_customers")]
    async fn report_backup_customers(
        &self,
        auth: Allowed<BackupRead>,
        _class: Marked<Report>,
        request: &Request,
        query: Filter<ReportBackup>,
    ) -> Result<ListOrStream<BackupAggregate>, Problem> {
        let parameters = query.0;
        let format = match parameters.format {
            Some(BackupFormat::Json) => None,
            Some(BackupFormat::Csv) => Some(RowFormat::Csv),
            Some(BackupFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        refuse_unsupported_parameters(&parameters, format.is_some())?;
        let (principal, now) = (auth.principal.clone(), auth.context.now);
        let shape = Shape { now, window: parameters.window, explain: parameters.explain.unwrap_or(false) };
        let aggregate_query = parameters.filters.query(principal.tenant_id, principal.reach.clone(), now);
        if let Some(format) = format {
            acts::export_started(&self.store, &auth, "backup_posture", format.media_type()).await?;
            return Ok(ListOrStream::Stream(export::start(&self.exports, self.store.clone(), aggregate_query, shape, format)?));
        }
        let page = PageRequest::new(&auth.context, &parameters.page)?;
        let signer = (parameters.view == Some(BackupView::Evidence)).then(|| self.signer.clone());
        if signer.is_some() {
            acts::export_started(&self.store, &auth, "backup_evidence", "application/json").await?;
        }
        let read = self
            .store
            .scan_for(principal.tenant_id, move |tx| report(tx, &aggregate_query, shape, &page, &principal, signer.as_deref()));
        let (report, page) = read.await?;
        Ok(ListOrStream::list(&report, &page))
    }
}

type ReportPage = (BackupAggregate, tenantd_http::page::Page);

fn report(
    tx: &ReadTx,
    query: &AggregateQuery,
    shape: Shape,
    request: &PageRequest,
    principal: &Principal,
    signer: Option<&Signer>,
) -> Result<ReportPage, BackupError> {
    let found = listing::find(tx, query)?;
    let total = request.include_total.then_some(found.len() as u64);
    let summary = listing::summarize(&found, query.now);
    let (found, last) = listing::page(found, query.descending, request.after.as_deref(), request.limit);
    let page = request.page(last, total);
    let shown = found.into_iter().map(|assessment| listing::show(tx, assessment)).collect::<Result<Vec<_>, _>>()?;
    let mut report = BackupAggregate { page: Some(page.clone()), ..BackupAggregate::default() };
    if let Some(signer) = signer {
        report.evidence = Some(evidence::make(shown, principal, query.now, signer)?);
    } else {
        report.summary = Some(BackupSummary::new(&summary, shape.window));
        report.data = Some(shown.into_iter().map(|shown| BackupRow::new(shown, shape)).collect());
    }
    Ok((report, page))
}

/// Rejects page parameters for a stream, and parameters that the evidence view does not support.
fn refuse_unsupported_parameters(parameters: &ReportBackup, is_stream: bool) -> Result<(), Problem> {
    let (page, is_evidence) = (&parameters.page, parameters.view == Some(BackupView::Evidence));
    let given = [
        ("limit", page.limit.is_some(), is_stream),
        ("cursor", page.cursor.is_some(), is_stream),
        ("include_total", page.include_total.is_some(), is_stream),
        ("explain", parameters.explain.is_some(), is_evidence),
        ("window", parameters.window.is_some(), is_evidence),
        ("format", is_stream, is_evidence),
    ];
    let reason = if is_evidence { "view=evidence" } else { "format=csv or format=ndjson" };
    let error = |name: &str| FieldError::parameter(name, "not_allowed", format!("{name} cannot be combined with {reason}"));
    let refused = given.iter().filter(|(_, given, refused)| *given && *refused);
    let errors: Vec<FieldError> = refused.map(|(name, ..)| error(name)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}
