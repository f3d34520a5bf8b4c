//! What is searched: a file for each type of record that says how one becomes a document. A new type is a file here and a line in
//! [`SOURCES`].
//!
//! **Boundary:** records are read through the faces of their slices; nothing here knows the index.

mod devices;
mod organizations;
mod providers;
mod tickets;
mod users;
mod vms;
mod workflows;

use tenantd_base::id::TenantId;
use tenantd_store::{ReadTx, StoreError};

use super::model::{Document, Kind, RecordId};

/// The record behind which a scan goes on: its tenant, and its own key as a number.
pub type After = (TenantId, u128);

/// A part of all documents of a source, and where to go on when there are more.
pub type Scanned = (Vec<Document>, Option<After>);

pub trait Source: Send + Sync {
    fn kind(&self) -> Kind;

    /// What events call such a record.
    fn subject(&self) -> &'static str;

    /// Reads the id that an event names its record by.
    fn read_id(&self, text: &str) -> Option<RecordId>;

    /// `None`: there is no such record, or nothing of it is to be found.
    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError>;

    /// The documents of all tenants, in the order of their keys.
    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError>;

    /// Other records whose documents change with this one.
    fn dependents(&self, _tx: &ReadTx, _tenant: TenantId, _id: RecordId) -> Result<Vec<(Kind, RecordId)>, StoreError> {
        Ok(Vec::new())
    }
}

pub static SOURCES: &[&dyn Source] = &[
    &organizations::Organizations,
    &users::Users,
    &devices::Devices,
    &tickets::Tickets,
    &providers::Providers,
    &vms::Vms,
    &workflows::Workflows,
];

pub fn of_kind(kind: Kind) -> Option<&'static dyn Source> {
    SOURCES.iter().copied().find(|source| source.kind() == kind)
}

pub fn of_subject(subject: &str) -> Option<&'static dyn Source> {
    SOURCES.iter().copied().find(|source| source.subject() == subject)
}

/// The record that an id names, whoever's it is and whether or not there is one.
pub fn named_by(id: &str) -> Option<(Kind, RecordId)> {
    SOURCES.iter().find_map(|source| Some((source.kind(), source.read_id(id)?)))
}

/// Makes a scan of records: `key` is what the scan goes on behind.
fn scanned<T>(
    records: Vec<T>,
    limit: usize,
    key: impl Fn(&T) -> After,
    mut document: impl FnMut(T) -> Result<Option<Document>, StoreError>,
) -> Result<Scanned, StoreError> {
    let after = records.last().filter(|_| records.len() == limit).map(key);
    let mut documents = Vec::with_capacity(records.len());
    for record in records {
        documents.extend(document(record)?);
    }
    Ok((documents, after))
}

/// The parts of a line that are there, one behind the other.
fn joined<'a>(parts: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}
