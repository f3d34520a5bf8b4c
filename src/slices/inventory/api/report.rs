//! `/api/rmm/reports/asset-inventory`.

use poem::Request;
use poem_openapi::OpenApi;

use tenantd_directory::{
    Directory,
    devices::{Asker, DeviceQuery, Labels},
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
    export::{self, Wanted},
    filters::{InventoryFormat, ReportAssetInventory, Section},
    wire::{InventoryGroups, InventoryReport, rows},
};

/// How many values of a field are told one by one.
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
    /// All devices that match every filter, in the order of their creation. A filter takes several values, separated by commas, of
    /// which one must match. A page can have fewer rows than `limit`, even none, while there are more: the report is over when
    /// `next_cursor` is absent.
    ///
    /// `group_by` counts the devices by a field instead; it takes no `sections`, `rows`, `limit`, `cursor` and `include_total`.
    /// `summary=true` adds `totals` over all devices that match: by class, lifecycle, agent, health, updates and warranty, and how many
    /// need a restart, are to be backed up and are or are not, run a system past its support, or have a volume without encryption.
    /// Whether a device is backed up is what the backup report says of it.
    ///
    /// `format=csv` and `format=ndjson`, or an `Accept` with only `text/csv` or `application/x-ndjson`, stream the whole report, as it
    /// was at one moment. A table has dotted columns, section by section; lists are joined by `; `, and a `'` stands before a text that
    /// a spreadsheet would take for a formula. The last line of `ndjson` is `{"_end":true,"count":…}`, so that a stream that was cut
    /// off can be told. A stream takes no `limit`, `cursor`, `include_total` and `summary`.
    #[oai(path = "/asset-inventory", method = "get", operation_id = "report_asset_inventory")]
    async fn report_asset_inventory(
        &self,
        auth: Allowed<InventoryRead>,
        _class: Marked<Report>,
        request: &Request,
        query: Filter<ReportAssetInventory>,
    ) -> Result<ListOrStream<InventoryReport>, Problem> {
        let asked = query.0;
        let format = match asked.format {
            Some(InventoryFormat::Json) => None,
            Some(InventoryFormat::Csv) => Some(RowFormat::Csv),
            Some(InventoryFormat::Ndjson) => Some(RowFormat::Ndjson),
            None => RowFormat::accepted(header(request.headers(), "accept").unwrap_or_default()),
        };
        refuse_what_has_no_meaning(&asked, format.is_some())?;
        let (tenant_id, reach) = (auth.principal.tenant_id, auth.principal.reach.clone());
        let asker = Asker { tenant_id, reach, now: auth.context.now, directory: self.directory };
        let wanted = asked.filters.query(asker).map_err(InventoryError::Invalid)?;
        let kind = asked.rows.unwrap_or(RowKind::Device);
        let sections = asked.sections.unwrap_or_else(|| Section::DEFAULT.to_vec());
        if let Some(format) = format {
            let rows = asked.group_by.map_or(Wanted::Rows { kind, sections }, Wanted::Groups);
            acts::export_started(&self.store, &auth, "asset_inventory", format.media_type()).await?;
            return Ok(ListOrStream::Stream(export::start(&self.exports, self.store.clone(), wanted, rows, format)?));
        }
        let page = PageRequest::new(&auth.context, &asked.page)?;
        let (group_by, summary) = (asked.group_by, asked.summary.unwrap_or(false));
        let read = self.store.scan_for(tenant_id, move |tx| {
            let labels = &mut Labels::new(wanted.tenant_id);
            let mut report = match group_by {
                Some(by) => InventoryReport { groups: Some(groups(tx, &wanted, labels, by, MAX_GROUPS)?), ..Default::default() },
                None => list(tx, &wanted, labels, kind, &sections, &page)?,
            };
            report.totals = if summary { Some(tally::totals(tx, &wanted, labels)?.into()) } else { None };
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

/// Counts have neither pages nor sections, and a stream has no pages and nothing beside its rows.
fn refuse_what_has_no_meaning(asked: &ReportAssetInventory, is_stream: bool) -> Result<(), Problem> {
    let (page, is_grouped) = (&asked.page, asked.group_by.is_some());
    let given = [
        ("limit", page.limit.is_some(), is_grouped || is_stream),
        ("cursor", page.cursor.is_some(), is_grouped || is_stream),
        ("include_total", page.include_total.is_some(), is_grouped || is_stream),
        ("sections", asked.sections.is_some(), is_grouped),
        ("rows", asked.rows.is_some(), is_grouped),
        ("summary", asked.summary.is_some(), is_stream),
    ];
    let reason = if is_grouped { "counts by a field" } else { "a stream of the whole report" };
    let error = |name: &str| FieldError::parameter(name, "not_allowed", format!("{name} has no meaning for {reason}"));
    let refused = given.iter().filter(|(_, given, refused)| *given && *refused);
    let errors: Vec<FieldError> = refused.map(|(name, ..)| error(name)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
}
