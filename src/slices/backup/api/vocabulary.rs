//! The words of backups and the names of scopes as JSON and as parameters: the model's own types, with their schemas.

use std::str::FromStr;

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseFromParameter, ParseResult, ToJSON},
};
use serde_json::Value;

use tenantd_base::id::{DeviceId, OrganizationId};
use tenantd_http::wire::{document_type, word_type};

use super::super::model::{Alarm, Cap, KeySource, Rpo, Scope, State, TargetKind, Trouble, Window, Workload};

word_type! {
    Workload, "BackupWorkload", "What is backed up. Hypervisors count as servers; devices of other classes are not backed up.";
    TargetKind, "BackupTargetKind", "Where restore points are written to.";
    KeySource, "BackupKeySource", "Who holds the keys.";
    Alarm, "BackupAlarm", "What a ticket is opened for.";
    Rpo, "BackupRpoState", "How the age of the newest restore point stands to the objective: `at_risk` from three quarters of it on, `breached` from all of it on.";
    Trouble, "BackupIssueCode", "The worst that is wrong with a device.";
    State, "BackupHealth", "`healthy` from a score of 80, `warning` from 60, else `critical`; `unprotected` when no device has a restore point of the last 30 days; `unknown` when there was never a job, or there is nothing to back up.";
    Cap, "BackupScoreCap", "`restore_test_too_old` (no restore test within 90 days: at most 79), `server_rpo_breached_twice` (a server's newest restore point is older than twice its objective: at most 59), `unprotected_server` (a server without a restore point of the last 30 days: at most 49).";
    Window, "BackupWindowLength", "How long a time jobs are counted over, by hours and days of UTC.";
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "tenant" {
            return Ok(Self::Tenant);
        }
        let organization = text.parse().map(Self::Organization).ok();
        let device = || text.parse().map(Self::Device).ok();
        organization.or_else(device).ok_or_else(|| "expected tenant, an organization's id or a device's id".to_owned())
    }
}

fn scope_pattern() -> String {
    let inner = |pattern: String| pattern.trim_start_matches('^').trim_end_matches('$').to_owned();
    format!("^(tenant|{}|{})$", inner(OrganizationId::pattern()), inner(DeviceId::pattern()))
}

document_type!(
    [] Scope,
    "backup_scope",
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        pattern: Some(scope_pattern()),
        example: Some("tenant".into()),
        ..MetaSchema::new("string")
    })),
    |_registry| ()
);

impl ParseFromParameter for Scope {
    fn parse_from_parameter(text: &str) -> ParseResult<Self> {
        text.parse().map_err(ParseError::custom)
    }
}

impl ParseFromJSON for Scope {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        match value {
            Some(Value::String(text)) => Self::parse_from_parameter(&text),
            other => Err(ParseError::expected_type(other.unwrap_or_default())),
        }
    }
}

impl ToJSON for Scope {
    fn to_json(&self) -> Option<Value> {
        Some(self.to_string().into())
    }
}
