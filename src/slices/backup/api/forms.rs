//! Settings and reports from and as JSON, for those who compose use cases from values that come at run time. The forms are those of the
//! requests.

use poem_openapi::{Object, types::ParseFromJSON};
use serde_json::{Value, json};

use tenantd_base::{access::Reach, clock::Timestamp, fault::Fault, id::TenantId};
use tenantd_http::openapi;
use tenantd_store::Read;

use super::{
    super::{
        error::BackupError,
        listing,
        model::{OwnConfig, Scope},
        service::Replaced,
    },
    aggregate::BackupFilters,
    aggregate_wire::{BackupRow, BackupSummary, Shape},
    config_wire::{BackupConfig, BackupSettings},
};

/// Rows that the output of a step has at most: it is kept with the run.
const DEFAULT_ROWS: u32 = 10;

/// A scope and what it is to set.
#[derive(Debug, Object)]
#[oai(rename = "BackupConfigForm")]
struct ConfigForm {
    /// `tenant`, or the id of an organization or a device.
    scope: Scope,
    config: BackupSettings,
}

#[derive(Debug, Object)]
#[oai(rename = "BackupPostureForm")]
struct PostureForm {
    #[oai(flatten)]
    filters: BackupFilters,
    /// The most rows, 10 when absent. 0 for the summary alone.
    #[oai(validator(minimum(value = "0"), maximum(value = "50")))]
    limit: Option<u32>,
}

fn parse<T: ParseFromJSON>(form: &Value) -> Result<T, BackupError> {
    T::parse_from_json(Some(form.clone()))
        .map_err(|error| BackupError::Invalid(vec![Fault::new("", "not_valid", error.into_message())]))
}

pub(crate) fn config_schema() -> Value {
    openapi::input_schema::<ConfigForm>()
}

pub(crate) fn read_config(form: &Value) -> Result<(Scope, OwnConfig), BackupError> {
    let form: ConfigForm = parse(form)?;
    Ok((form.scope, form.config.into_model().map_err(BackupError::Invalid)?))
}

pub(crate) fn show_config(replaced: Replaced) -> Result<Value, BackupError> {
    Ok(serde_json::to_value(BackupConfig::from(replaced))?)
}

pub(crate) fn posture_schema() -> Value {
    openapi::input_schema::<PostureForm>()
}

/// The report on a snapshot, within the bounds of a step's output.
pub(crate) fn posture(tx: &impl Read, tenant: TenantId, now: Timestamp, form: &Value) -> Result<Value, BackupError> {
    let form: PostureForm = parse(form)?;
    let query = form.filters.query(tenant, Reach::Everything, now);
    let found = listing::find(tx, &query)?;
    let summary = BackupSummary::new(&listing::summarize(&found, now), None);
    let limit = usize::try_from(form.limit.unwrap_or(DEFAULT_ROWS)).unwrap_or_default();
    let shape = Shape { now, window: None, explain: false };
    let (count, mut rows) = (found.len(), Vec::new());
    for weighed in found.into_iter().take(limit) {
        rows.push(BackupRow::new(listing::show(tx, weighed)?, shape));
    }
    Ok(json!({"count": count, "data": rows, "summary": summary}))
}
