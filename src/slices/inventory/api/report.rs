//! `/api/rmm/reports/asset-inventory`.

use poem::Request;
use poem_openapi::OpenApi;

use tenantd_directory::{
    Directory,
    devices::{DeviceQuery, Labels, QueryContext},
};
use tenantd_http::{
    acts,
    context::header,
    export::RowFormat,
    input::Filter,
    mark::{Marked, Report},
    need::{Allowed, InventoryRead},
    outgoing::{ListOrStream, Streams},
    page::PageRequest,
    problem::{FieldError, Problem},
};
use tenantd_store::{Read, Store, StoreError};

use super::{
    super::{
        error::InventoryError,
        listing::{self, RowKind},
        tally::{self, Field},
    },
    Area,
    export::{self, ExportContent},
    filters::{InventoryFormat, ReportAssetInventory, Section},
    wire::{InventoryGroups, InventoryReport, rows},
};

/// How many values of a field a report lists.
pub(super) const MAX_GROUPS: usize = 1_000;

pub(crate) struct InventoryApi {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) exports: Streams,
}

#[OpenApi(prefix_path = "/api/rmm/reports", tag = "Area::Inventory")]
impl InventoryApi {
    /// Report the asset inventory
    ///
    /// Returns all devices that match every filter, in order of creation. A filter accepts several values, separated by commas, and
    /// matches any of them. A page can have fewer rows than `limit`, or none, although more follow: the report ends when
    /// `next_cursor` is absent.
    ///
    /// `group_by` counts the devices by a field instead. It does not accept `sections`, `rows`, `limit`, `cursor` and
    /// `include_total`. `summary=true` adds `totals` over all matching devices: counts by class, lifecycle, agent, health, updates
    /// and warranty, and the number of devices that need a restart, should be backed up, are or are not protected, run an
    /// unsupported operating system, or have an unencrypted volume. The backup counts match the backup report.
    ///
    /// `format=csv` and `format=ndjson`, or an `Accept` header with only `text/csv` or `application/x-ndjson`, stream the whole
    /// report from one snapshot. CSV has dotted columns, section by section. Lists are joined by `; `, and a `'` precedes text that
    /// a spreadsheet would interpret as a formula. The last line of `ndjson` is `{"_end":true,"count":…}`, so that you can detect
    /// an incomplete stream. A stream does not accept `limit`, `cursor`, `include_total` and `summary`.
    #[oai(path = "/asset-inventory", method = "get", operation_id = "report_asset_inventory")]
    async fn report_asset_inventory(
        &self,
        auth: Allowed<InventoryRead>,
        _class: Marked<Report>,
        request: &Request,
        query: Filter<ReportAssetInventory>,
    ) -> Result<ListOrStream<InventoryReport>, Problem> {
        let params = query.0;
        let format = match params.format {
            Some(InventoryFormat::Json) => None,
            Some(InventoryFormat::Csv) => Some(RowFormat::Csv),
            Some(InventoryFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        refuse_unsupported_parameters(&params, format.is_some())?;
        let (tenant_id, reach) = (auth.principal.tenant_id, auth.principal.reach.clone());
        let context = QueryContext { tenant_id, reach, now: auth.context.now, directory: self.directory };
        let device_query = params.filters.query(context).map_err(InventoryError::Invalid)?;
        let kind = params.rows.unwrap_or(RowKind::Device);
        let sections = params.sections.unwrap_or_else(|| Section::DEFAULT.to_vec());
        if let Some(format) = format {
            let rows = params.group_by.map_or(ExportContent::Rows { kind, sections }, ExportContent::Groups);
            acts::export_started(&self.store, &auth, "asset_inventory", format.media_type()).await?;
            return Ok(ListOrStream::Stream(export::start(&self.exports, self.store.clone(), device_query, rows, format)?));
        }
        let page = PageRequest::new(&auth.context, &params.page)?;
        let (group_by, summary) = (params.group_by, params.summary.unwrap_or(false));
        let read = self.store.scan_for(tenant_id, move |tx| {
            let labels = &mut Labels::new(device_query.tenant_id);
            let mut report = match group_by {
                Some(by) => {
                    InventoryReport { groups: Some(groups(tx, &device_query, labels, by, MAX_GROUPS)?), ..Default::default() }
                }
                None => list(tx, &device_query, labels, kind, &sections, &page)?,
            };
            report.totals = if summary { Some(tally::totals(tx, &device_query, labels)?.into()) } else { None };
            let page = report.page.clone().unwrap_or_else(|| page.page(None, None));
            Ok::<_, StoreError>((report, page))
        });
        let (report, page) = read.await?;
        Ok(ListOrStream::list(&report, &page))
    }
}

fn list(
    tx: &impl Read,
    query: &DeviceQuery,
    labels: &mut Labels,
    kind: RowKind,
    sections: &[Section],
    request: &PageRequest,
) -> Result<InventoryReport, StoreError> {
    let mut page = listing::list(tx, query, labels, kind, request.after.as_deref(), request.limit)?;
    let total = if request.include_total { Some(tally::rows(tx, query, labels, kind)?) } else { None };
    let last = page.last.take();
    let data = rows(tx, labels, page, sections)?;
    Ok(InventoryReport { data: Some(data), page: Some(request.page(last, total)), ..Default::default() })
}

pub(super) fn groups(
    tx: &impl Read,
    query: &DeviceQuery,
    labels: &mut Labels,
    by: Field,
    limit: usize,
) -> Result<InventoryGroups, StoreError> {
    Ok(InventoryGroups::new(by, tally::group(tx, query, labels, by, limit)?))
}

/// Refuses parameters that do not apply: counts have no pages and no sections, and a stream has only rows.
fn refuse_unsupported_parameters(params: &ReportAssetInventory, is_stream: bool) -> Result<(), Problem> {
    let (page, is_grouped) = (&params.page, params.group_by.is_some());
    let given = [
        ("limit", page.limit.is_some(), is_grouped || is_stream),
        ("cursor", page.cursor.is_some(), is_grouped || is_stream),
        ("include_total", page.include_total.is_some(), is_grouped || is_stream),
        ("sections", params.sections.is_some(), is_grouped),
        ("rows", params.rows.is_some(), is_grouped),
        ("summary", params.summary.is_some(), is_stream),
    ];
    let reason = if is_grouped { "group_by" } else { "csv or ndjson, which stream the whole report" };
    let error = |name: &str| FieldError::parameter(name, "not_allowed", format!("{name} cannot be used with {reason}; remove it"));
    let refused = given.iter().filter(|(_, given, refused)| *given && *refused);
    let errors: Vec<FieldError> = refused.map(|(name, ..)| error(name)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}
