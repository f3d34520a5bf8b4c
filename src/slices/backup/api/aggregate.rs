//! `/api/backup/customer-aggregate`.

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
    BackupSort, "BackupSort", "What rows are sorted by; a minus turns the order round.";
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

/// Which organizations a report is about.
#[derive(Clone, Debug, Object)]
pub(super) struct BackupFilters {
    #[oai(validator(min_items = 1, max_items = 200))]
    pub(super) organization_id: Option<Vec<OrganizationId>>,
    #[oai(validator(min_items = 1, max_items = 5))]
    pub(super) state: Option<Vec<State>>,
    /// Organizations with a score below this. One without a score is not among them.
    #[oai(validator(minimum(value = "1"), maximum(value = "101")))]
    pub(super) score_lt: Option<u8>,
    /// Organizations with less of their eligible devices protected than so many percent.
    #[oai(validator(minimum(value = "1"), maximum(value = "101")))]
    pub(super) coverage_lt: Option<u8>,
    /// Organizations with a device that stands so to its objective.
    #[oai(validator(min_items = 1, max_items = 3))]
    pub(super) rpo: Option<Vec<Rpo>>,
    /// `score` when absent: the worst first, organizations without any job before them, and those with nothing to back up last.
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
    /// Count jobs over this time only.
    window: Option<Window>,
    /// Add what each part of a score was made from.
    explain: Option<bool>,
    /// `evidence` is a signed statement, for auditors and insurers.
    view: Option<BackupView>,
    /// `csv` and `ndjson` stream the whole report, without pages.
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
    /// Report how well customers are backed up
    ///
    /// A row an organization, the worst first, and a `summary` over all that match. A score is made of five parts, each rounded down to
    /// whole points: coverage (25), recency (30), success of the last 7 days (15), verification (20) and resilience (10). Caps hold it
    /// down: no restore test within 90 days (79), a server whose newest restore point is twice as old as allowed (59), a server without a
    /// restore point of the last 30 days (49). `explain=true` shows what each part was made from. The report follows each job at once, and
    /// devices that come or change within moments.
    ///
    /// `view=evidence` answers with a statement on the organizations of the page and a signature over it: `jws` is a JSON Web Signature
    /// (RFC 7515, compact, `EdDSA`) whose payload is the statement, byte for byte. To verify it, take the key with its `kid` from
    /// `/documentation/keys/` of this installation, over a connection that you trust, and give both to any JOSE library; or check the Ed25519
    /// signature (the third part) over the first two parts with the dot between them. It takes no `explain`, `window` and `format`.
    ///
    /// `format=csv` and `format=ndjson`, or an `Accept` with only `text/csv` or `application/x-ndjson`, stream all rows, as they were at one
    /// moment. The last line of `ndjson` is `{"_end":true,"count":…}`. A stream takes no `limit`, `cursor` and `include_total`.
    #[oai(path = "/customer-aggregate", method = "get", operation_id = "report_backup_customers")]
    async fn report_backup_customers(
        &self,
        auth: Allowed<BackupRead>,
        _class: Marked<Report>,
        request: &Request,
        query: Filter<ReportBackup>,
    ) -> Result<ListOrStream<BackupAggregate>, Problem> {
        let asked = query.0;
        let format = match asked.format {
            Some(BackupFormat::Json) => None,
            Some(BackupFormat::Csv) => Some(RowFormat::Csv),
            Some(BackupFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        refuse_what_has_no_meaning(&asked, format.is_some())?;
        let (principal, now) = (auth.principal.clone(), auth.context.now);
        let shape = Shape { now, window: asked.window, explain: asked.explain.unwrap_or(false) };
        let wanted = asked.filters.query(principal.tenant_id, principal.reach.clone(), now);
        if let Some(format) = format {
            acts::export_started(&self.store, &auth, "backup_posture", format.media_type()).await?;
            return Ok(ListOrStream::Stream(export::start(&self.exports, self.store.clone(), wanted, shape, format)?));
        }
        let page = PageRequest::new(&auth.context, &asked.page)?;
        let signer = (asked.view == Some(BackupView::Evidence)).then(|| self.signer.clone());
        if signer.is_some() {
            acts::export_started(&self.store, &auth, "backup_evidence", "application/json").await?;
        }
        let read =
            self.store.scan_for(principal.tenant_id, move |tx| report(tx, &wanted, shape, &page, &principal, signer.as_deref()));
        let (report, page) = read.await?;
        Ok(ListOrStream::list(&report, &page))
    }
}

type Reported = (BackupAggregate, tenantd_http::page::Page);

fn report(
    tx: &ReadTx,
    query: &AggregateQuery,
    shape: Shape,
    request: &PageRequest,
    principal: &Principal,
    signer: Option<&Signer>,
) -> Result<Reported, BackupError> {
    let found = listing::find(tx, query)?;
    let total = request.include_total.then_some(found.len() as u64);
    let summary = listing::summarize(&found, query.now);
    let (found, last) = listing::page(found, query.descending, request.after.as_deref(), request.limit);
    let page = request.page(last, total);
    let shown = found.into_iter().map(|weighed| listing::show(tx, weighed)).collect::<Result<Vec<_>, _>>()?;
    let mut report = BackupAggregate { page: Some(page.clone()), ..BackupAggregate::default() };
    if let Some(signer) = signer {
        report.evidence = Some(evidence::make(shown, principal, query.now, signer)?);
    } else {
        report.summary = Some(BackupSummary::new(&summary, shape.window));
        report.data = Some(shown.into_iter().map(|shown| BackupRow::new(shown, shape)).collect());
    }
    Ok((report, page))
}

/// A stream has no pages, and a statement has one form.
fn refuse_what_has_no_meaning(asked: &ReportBackup, is_stream: bool) -> Result<(), Problem> {
    let (page, is_evidence) = (&asked.page, asked.view == Some(BackupView::Evidence));
    let given = [
        ("limit", page.limit.is_some(), is_stream),
        ("cursor", page.cursor.is_some(), is_stream),
        ("include_total", page.include_total.is_some(), is_stream),
        ("explain", asked.explain.is_some(), is_evidence),
        ("window", asked.window.is_some(), is_evidence),
        ("format", is_stream, is_evidence),
    ];
    let reason = if is_evidence { "evidence" } else { "a stream of the whole report" };
    let error = |name: &str| FieldError::parameter(name, "not_allowed", format!("{name} has no meaning for {reason}"));
    let refused = given.iter().filter(|(_, given, refused)| *given && *refused);
    let errors: Vec<FieldError> = refused.map(|(name, ..)| error(name)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}
