//! What is said around the lines of an export, and how they look.

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

/// How a tenant is exported.
#[derive(Debug, Object)]
#[oai(example, skip_serializing_if_is_none)]
pub(super) struct ExportTenant {
    /// A key of 64 hexadecimal digits that secrets are sealed under. Without it they are left out.
    #[oai(validator(min_length = 64, max_length = 64))]
    pub(super) key: Option<String>,
    /// The salt that the key was made with from a passphrase: 32 hexadecimal digits. It is told in the first line.
    #[oai(validator(min_length = 32, max_length = 32))]
    pub(super) salt: Option<String>,
}

/// A line of an export. The first has `format` and tells of the whole; the last record is followed by a line of the type `end`. Lines of
/// the type `signature` have the installation's signature over all lines before them.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ExportLine {
    /// What the record is, such as `ticket`.
    #[oai(rename = "type")]
    kind: Option<String>,
    /// The parts of the record's key.
    key: Option<Vec<Any<Value>>>,
    /// The record.
    record: Option<Any<Value>>,
    /// The beginning of a SHA-256 over all lines of records up to this one.
    check: Option<String>,
    /// Ed25519 in hexadecimal.
    signature: Option<String>,
}

/// The order in the first line, or a line of an export.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ImportLine {
    /// On the first line: `check` or `import`.
    mode: Option<Mode>,
    /// On the first line: a slug for the tenant in place of the one that it had.
    slug: Option<String>,
    /// On the first line: the key that secrets are sealed under.
    key: Option<Any<Value>>,
    /// On the first line: public keys of other installations whose signatures count.
    trusted_keys: Option<Vec<String>>,
    /// On the first line: take the file whoever it is from, without anything that acts.
    accept_unverified: Option<bool>,
    /// On the first line: whether the file of another installation may bring an evaluation tenant, which may connect to this machine.
    allow_evaluation: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, Serialize, Deserialize)]
#[oai(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Nothing is written; everything that is in the way is told.
    Check,
    Import,
}

/// The first line of an import.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportOrder {
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

/// What arrived switched off, of one kind.
#[derive(Debug, Object, Serialize)]
pub(super) struct SwitchedOffKind {
    /// Such as `API keys`.
    what: String,
    #[oai(validator(minimum(value = "1")))]
    count: u64,
    /// The names of the first hundred.
    names: Vec<String>,
}

/// A record that is in the way.
#[derive(Debug, Object, Serialize)]
pub(super) struct ImportConflict {
    /// The line of the export.
    #[oai(validator(minimum(value = "0")))]
    line: u64,
    message: String,
}

/// What came of an import.
#[skip_serializing_none]
#[derive(Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ImportAnswer {
    /// Whether the tenant is there; of a check, whether nothing is in its way.
    done: bool,
    /// How the import was made.
    mode: Option<Mode>,
    tenant_id: Option<TenantId>,
    /// How many records there are of each type.
    counts: Option<BTreeMap<String, u64>>,
    /// Whether the signatures of the file were checked.
    verified: Option<bool>,
    /// The id of the key that has signed it.
    signed_by: Option<String>,
    /// What arrived without its authority, because nobody vouches for the file.
    switched_off: Option<Vec<SwitchedOffKind>>,
    /// What somebody has to see to: what came without its secrets is paused or disabled.
    notes: Option<Vec<String>>,
    /// Records of this installation that are in the way.
    conflicts: Option<Vec<ImportConflict>>,
    /// Conflicts beyond those listed.
    #[oai(validator(minimum(value = "0")))]
    more_conflicts: Option<u64>,
    /// Why the export was refused. Nothing of it is there.
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
