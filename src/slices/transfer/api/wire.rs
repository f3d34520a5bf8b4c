//! The options and answers of exports and imports, and the lines of an export.

use std::collections::BTreeMap;

use poem_openapi::{Enum, Object, types::Any};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use tenantd_base::id::TenantId;
use tenantd_http::{examples, problem::Problem};
use tenantd_store::portable::SwitchedOff;

use super::super::import::Report;

examples! {
    ExportTenant => "export_tenant.json",
}

/// The options of an export.
#[derive(Debug, Object)]
#[oai(example, skip_serializing_if_is_none)]
pub(super) struct ExportTenant {
    /// A key of 64 hexadecimal digits that seals the secrets. When absent, the export omits the secrets.
    #[oai(validator(min_length = 64, max_length = 64))]
    pub(super) key: Option<String>,
    /// The salt with which the key was derived from a passphrase: 32 hexadecimal digits. The first line of the export contains it.
    #[oai(validator(min_length = 32, max_length = 32))]
    pub(super) salt: Option<String>,
}

/// A line of an export. The first line has `format` and describes the export. The last record is followed by a line of the
/// type `end`. Lines of the type `signature` contain the signature of the installation over all lines before them.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ExportLine {
    /// The type of the record, such as `ticket`.
    #[oai(rename = "type")]
    kind: Option<String>,
    /// The parts of the record's key.
    key: Option<Vec<Any<Value>>>,
    /// The record itself.
    record: Option<Any<Value>>,
    /// The beginning of a SHA-256 over all record lines up to this one.
    check: Option<String>,
    /// An Ed25519 signature in hexadecimal.
    signature: Option<String>,
}

/// The import options on the first line, or a line of an export.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ImportLine {
    /// On the first line: `check` or `import`.
    mode: Option<Mode>,
    /// On the first line: a new slug for the tenant. When absent, the tenant keeps its slug.
    slug: Option<String>,
    /// On the first line: the key that opens the sealed secrets.
    key: Option<Any<Value>>,
    /// On the first line: public keys of other installations whose signatures are accepted.
    trusted_keys: Option<Vec<String>>,
    /// On the first line: whether to accept a file without a valid signature. Everything in it that could act is switched off.
    accept_unverified: Option<bool>,
    /// On the first line: whether to allow an evaluation tenant of another installation, which may connect to this machine.
    allow_evaluation: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Writes nothing, and reports everything that prevents the import.
    Check,
    Import,
}

/// The options on the first line of an import.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportRequest {
    pub(super) mode: Mode,
    pub(super) slug: Option<String>,
    pub(super) key: Option<String>,
    #[serde(default)]
    pub(super) trusted_keys: Vec<String>,
    #[serde(default)]
    pub(super) accept_unverified: bool,
    #[serde(default)]
    pub(super) allow_evaluation: bool,
}

/// The records of one kind that were switched off.
#[derive(Debug, Object, Serialize)]
pub(super) struct SwitchedOffKind {
    /// The kind of the records, such as `API keys`.
    what: String,
    #[oai(validator(minimum(value = "1")))]
    count: u64,
    /// The names of the first 100 records.
    names: Vec<String>,
}

/// A record that prevents the import.
#[derive(Debug, Object, Serialize)]
pub(super) struct ImportConflict {
    /// The number of the line in the export.
    #[oai(validator(minimum(value = "0")))]
    line: u64,
    message: String,
}

/// The result of an import.
#[skip_serializing_none]
#[derive(Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ImportAnswer {
    /// Whether the tenant was imported. For a check: whether nothing prevents the import.
    done: bool,
    /// The mode of the import.
    mode: Option<Mode>,
    tenant_id: Option<TenantId>,
    /// The number of records by type.
    counts: Option<BTreeMap<String, u64>>,
    /// Whether the signatures of the file were verified.
    verified: Option<bool>,
    /// The id of the key that signed the file.
    signed_by: Option<String>,
    /// What was switched off because the file is unverified.
    switched_off: Option<Vec<SwitchedOffKind>>,
    /// What you have to fix: records that were imported without their secrets are paused or disabled.
    notes: Option<Vec<String>>,
    /// Records that prevent the import.
    conflicts: Option<Vec<ImportConflict>>,
    /// The number of conflicts that are not listed.
    #[oai(validator(minimum(value = "0")))]
    more_conflicts: Option<u64>,
    /// Why the import failed. Nothing was imported.
    error: Option<String>,
}

impl ImportAnswer {
    pub(super) fn of(mode: Mode, report: Report) -> Self {
        let conflict = |(line, message): (u64, String)| ImportConflict { line, message };
        let switched =
            |(what, off): (&str, SwitchedOff)| SwitchedOffKind { what: what.to_owned(), count: off.count, names: off.names };
        Self {
            done: report.conflicts.is_empty(),
            mode: Some(mode),
            tenant_id: Some(report.header.tenant.id),
            counts: Some(report.counts),
            verified: Some(report.signed_by.is_some()),
            signed_by: report.signed_by.map(|key| key.key_id()),
            switched_off: Some(report.switched_off.into_iter().map(switched).collect()),
            notes: Some(report.notes),
            conflicts: Some(report.conflicts.into_iter().map(conflict).collect()),
            more_conflicts: Some(report.more_conflicts),
            error: None,
        }
    }

    pub(super) fn refused(problem: &Problem) -> Self {
        Self { error: Some(problem.detail.clone()), ..Self::default() }
    }
}
