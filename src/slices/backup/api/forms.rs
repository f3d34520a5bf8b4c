//! Settings and reports from and as JSON values, for callers that build use cases at run time. The formats are those of the
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

/// The default number of rows in the output of a step. The output is stored with the run.
const DEFAULT_ROWS: u32 = 10;

/// A scope and its new settings.
#[derive(Debug, Object)]
#[oai(rename = "BackupConfigForm")]
struct ConfigForm {
    /// The scope: `tenant`, or the ID of an organization or a device.
    scope: Scope,
    /// The new settings of the scope.
    config: BackupSettings,
}

#[derive(Debug, Object)]
#[oai(rename = "BackupPostureForm")]
struct PostureForm {
    #[oai(flatten)]
    filters: BackupFilters,
    /// The maximum number of rows. Defaults to 10. 0 returns only the summary.
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

/// Builds the report from a snapshot, within the limits of a step's output.
pub(crate) fn posture(tx: &impl Read, tenant: TenantId, now: Timestamp, form: &Value) -> Result<Value, BackupError> {
    let form: PostureForm = parse(form)?;
    let query = form.filters.query(tenant, Reach::Everything, now);
    let found = listing::find(tx, &query)?;
    let summary = BackupSummary::new(&listing::summarize(&found, now), None);
    let limit = usize::try_from(form.limit.unwrap_or(DEFAULT_ROWS)).unwrap_or_default();
    let shape = Shape { now, window: None, explain: false };
    let (count, mut rows) = (found.len(), Vec::new());
    for assessment in found.into_iter().take(limit) {
        rows.push(BackupRow::new(listing::show(tx, assessment)?, shape));
    }
    Ok(json!({"count": count, "data": rows, "summary": summary}))
}
