//! Reports with JSON input and output, for workflow steps, whose values are known only at run time. The filters are those of the
//! API.

use poem_openapi::{Object, types::ParseFromJSON};
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use tenantd_base::fault::Fault;
use tenantd_directory::devices::{DeviceFilters, Labels, QueryContext};
use tenantd_http::openapi;
use tenantd_store::Read;

use super::{
    super::{
        error::InventoryError,
        listing::{self, RowKind},
        tally::{self, Field},
    },
    filters::Section,
    report::groups,
    wire::{InventoryGroups, InventoryRow, InventoryTotals, rows},
};

/// The limits of a report for a workflow, because it is stored with the run.
const DEFAULT_ROWS: u32 = 20;
const MAX_GROUPS: usize = 100;
/// The maximum size of all rows. A device with many packages may not fit.
const MAX_BYTES: usize = 98_304;

/// The input of the workflow step `inventory.report`.
#[derive(Debug, Object)]
#[oai(rename = "InventoryReportForm")]
struct ReportForm {
    #[oai(flatten)]
    filters: DeviceFilters,
    /// The parts of a device that rows contain. Defaults to `summary`.
    #[oai(validator(min_items = 1, max_items = 9, unique_items))]
    sections: Option<Vec<Section>>,
    /// Counts the devices by this field instead of listing them.
    group_by: Option<Field>,
    /// Adds `totals` over all matching devices. Defaults to `false`.
    summary: Option<bool>,
    /// The maximum number of rows. Defaults to 20; `0` returns only the count.
    #[oai(validator(minimum(value = "0"), maximum(value = "100")))]
    limit: Option<u32>,
}

#[skip_serializing_none]
#[derive(Debug, Serialize)]
struct SmallReport {
    /// The number of all matching devices.
    count: u64,
    data: Vec<InventoryRow>,
    /// Whether more devices match than there are rows.
    truncated: bool,
    groups: Option<InventoryGroups>,
    totals: Option<InventoryTotals>,
}

pub(crate) fn schema() -> Value {
    openapi::input_schema::<ReportForm>()
}

fn invalid(parameter: &str, code: &str, message: impl Into<String>) -> InventoryError {
    InventoryError::Invalid(vec![Fault::parameter(parameter, code, message)])
}

/// Creates the report from one snapshot, within the limits of a step's output.
pub(crate) fn run(tx: &impl Read, context: QueryContext, form: &Value) -> Result<Value, InventoryError> {
    let form = ReportForm::parse_from_json(Some(form.clone())).map_err(|error| invalid("", "not_valid", error.into_message()))?;
    if form.group_by.is_some() && (form.sections.is_some() || form.limit.is_some()) {
        return Err(invalid("group_by", "not_allowed", "group_by cannot be combined with sections or limit; remove them"));
    }
    let query = form.filters.query(context).map_err(InventoryError::Invalid)?;
    let labels = &mut Labels::new(query.tenant_id);
    let count = tally::rows(tx, &query, labels, RowKind::Device)?;
    let mut report = SmallReport { count, data: Vec::new(), truncated: false, groups: None, totals: None };
    if let Some(by) = form.group_by {
        report.groups = Some(groups(tx, &query, labels, by, MAX_GROUPS)?);
    } else {
        let sections = form.sections.unwrap_or_else(|| Section::DEFAULT.to_vec());
        let limit = usize::try_from(form.limit.unwrap_or(DEFAULT_ROWS)).unwrap_or_default();
        let (mut after, mut bytes) = (None::<Vec<u8>>, 0);
        loop {
            let mut page = listing::list(tx, &query, labels, RowKind::Device, after.as_deref(), limit - report.data.len())?;
            let last = page.last.take();
            for row in rows(tx, labels, page, &sections)? {
                bytes += serde_json::to_vec(&row)?.len();
                if bytes <= MAX_BYTES {
                    report.data.push(row);
                }
            }
            if last.is_none() || report.data.len() >= limit || bytes > MAX_BYTES {
                break;
            }
            after = last;
        }
        report.truncated = (report.data.len() as u64) < count;
    }
    report.totals = if form.summary.unwrap_or(false) { Some(tally::totals(tx, &query, labels)?.into()) } else { None };
    Ok(serde_json::to_value(report)?)
}
