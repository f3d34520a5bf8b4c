//! Wire types for the vocabulary and scope names of backups: the model's own types with their schemas.

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
    Workload, "BackupWorkload", "The kind of device to back up. Hypervisors count as servers. Devices of other classes are not backed up.";
    TargetKind, "BackupTargetKind", "The kind of storage for restore points.";
    KeySource, "BackupKeySource", "Who holds the encryption keys.";
    Alarm, "BackupAlarm", "The condition for which tenantd opens a ticket.";
    Rpo, "BackupRpoState", "The age of the newest restore point, compared to the objective: `ok`, `at_risk` from three quarters of the objective, `breached` from the full objective.";
    Trouble, "BackupIssueCode", "The most severe issue of a device.";
    State, "BackupHealth", "The state: `healthy` from a score of 80, `warning` from 60, otherwise `critical`. `unprotected` if no device has a restore point from the last 30 days. `unknown` if there was never a job or no device is eligible.";
    Cap, "BackupScoreCap", "The reason for a cap: `restore_test_too_old` (no restore test within 90 days: at most 79), `server_rpo_breached_twice` (a server's newest restore point is older than twice its objective: at most 59), `unprotected_server` (a server without a restore point from the last 30 days: at most 49).";
    Window, "BackupWindowLength", "The time span of job counts, in hours and days of UTC.";
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "tenant" {
            return Ok(Self::Tenant);
        }
        let organization = text.parse().map(Self::Organization).ok();
        let device = || text.parse().map(Self::Device).ok();
        organization.or_else(device).ok_or_else(|| "expected `tenant`, the ID of an organization or the ID of a device".to_owned())
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
