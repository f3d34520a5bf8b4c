//! The types of records that can be searched. Each has a file that turns a record into a document. To add a type, add a file
//! here and a line in [`SOURCES`].
//!
//! **Boundary:** records are read through the public functions of their slices. Nothing here knows the index.

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

/// The last record that a scan has read: its tenant, and its key as a number.
pub type After = (TenantId, u128);

/// A batch of documents from a source, and where to continue if there are more.
pub type Scanned = (Vec<Document>, Option<After>);

pub trait Source: Send + Sync {
    fn kind(&self) -> Kind;

    /// The subject that events use for this type of record.
    fn subject(&self) -> &'static str;

    /// Parses a record id from an event.
    fn read_id(&self, text: &str) -> Option<RecordId>;

    /// `None` if the record does not exist or must not be found.
    fn load(&self, tx: &ReadTx, tenant: TenantId, id: RecordId) -> Result<Option<Document>, StoreError>;

    /// Reads the documents of all tenants, in key order.
    fn scan(&self, tx: &ReadTx, after: Option<After>, limit: usize) -> Result<Scanned, StoreError>;

    /// Other records whose documents change when this one changes.
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

/// The type and record that an id refers to, without checking whether the record exists or which tenant owns it.
pub fn named_by(id: &str) -> Option<(Kind, RecordId)> {
    SOURCES.iter().find_map(|source| Some((source.kind(), source.read_id(id)?)))
}

/// Turns a batch of records into a scan result. `key` returns the key of a record, where the next scan continues.
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

/// Joins the parts that are present into one line.
fn joined<'a>(parts: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}
