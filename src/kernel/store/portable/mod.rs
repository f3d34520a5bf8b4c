//! Moves records between installations: each slice declares its tables, so that all data of a tenant can be exported and imported
//! elsewhere unchanged.
//!
//! A slice lists its tables as [`Portable`]s, each with the type name of its lines. A record is exported in its stored form as
//! JSON and imported through the same form, so nothing is lost. Values that are valid only in one installation (event numbers,
//! sealed secrets) are converted to portable ones and back. **Invariant:** a record that is exported, imported and exported again
//! gives the same line. **Invariant:** a line is untrusted input: it passes every check of the use case, and derived data
//! (counts) is computed again. **Boundary:** nothing here depends on files or requests.

mod arrival;
mod carrier;
mod form;
mod history;
mod places;
mod segments;

use serde_json::value::RawValue;

pub use arrival::{Arrival, SwitchedOff, Trust};
pub use carrier::{Carrier, TenantKey, refuse_orphans};
pub use form::check_form;
pub use history::History;
pub use places::{EventNumbers, Places};
pub use segments::SegmentCarrier;

use tenantd_base::{
    entropy::Entropy,
    id::TenantId,
    secrets::{SealError, Sealed, SealedPlace, Sealer},
};

use crate::{ReadTx, StoreError, WriteTx, catalog::TableName};

/// Why a record cannot be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The record is invalid. The text is for the person who has the file.
    #[error("{0}")]
    Wrong(String),
    #[error("a secret cannot be opened: {0}")]
    Secret(#[from] SealError),
    /// The receiver has stopped reading.
    #[error("the receiver has stopped reading")]
    Unwanted,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PortError {
    pub fn wrong(reason: impl std::fmt::Display) -> Self {
        Self::Wrong(reason.to_string())
    }
}

/// A line about one record.
#[derive(Debug)]
pub struct Line<'a> {
    /// The parts of the record's key after the tenant.
    pub key: &'a RawValue,
    pub record: &'a RawValue,
}

/// A check by rules defined elsewhere, such as the bounds of the API.
pub type Check<T> = Box<dyn Fn(&T) -> Result<(), String> + Send + Sync>;

/// Receives the exported lines, as key and record.
pub type Emit<'a> = &'a mut dyn FnMut(&RawValue, &RawValue) -> Result<(), PortError>;

/// A table of a tenant's records that can be exported and imported.
pub trait Portable: Send + Sync {
    /// The type of its lines. Never changes once released.
    fn kind(&self) -> &'static str;

    /// The table and its indexes.
    fn tables(&self) -> Vec<TableName>;

    /// Exports the tenant's records in key order.
    fn leave(&self, departure: &mut Departure<'_>, emit: Emit<'_>) -> Result<(), PortError>;

    /// Checks the record of a line as the use case would, without using the writer. Returns its conflicts with other records of
    /// this installation. Writes nothing.
    fn examine(&self, tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError>;

    /// Stores the record of a line that was examined. May run more than once before it commits.
    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError>;

    /// Checks what only all records together show. Runs after they are stored and before the tenant exists.
    fn verify(&self, _tx: &ReadTx, _arrival: &Arrival) -> Result<(), PortError> {
        Ok(())
    }
}

/// The context of an export.
#[derive(Debug)]
pub struct Departure<'a> {
    pub tx: &'a ReadTx,
    pub tenant: TenantId,
    pub places: &'a Places,
    /// The sealer of this installation's key.
    pub home: &'a Sealer,
    /// The sealer for the exported secrets. Without it, secrets are not exported.
    pub travel: Option<&'a Sealer>,
    pub entropy: Entropy,
}

impl Departure<'_> {
    /// Returns how many of the tenant's kept events have this number or a lower one.
    pub fn place(&self, number: u64) -> Result<u64, StoreError> {
        Ok(self.places.rank(self.tx, number)?.ordinal)
    }

    /// Returns the ordinal of the event with exactly this number, if it is still kept.
    pub fn event(&self, number: u64) -> Result<Option<u64>, StoreError> {
        let rank = self.places.rank(self.tx, number)?;
        Ok(rank.exact.then_some(rank.ordinal))
    }

    /// Seals a secret for the export, or leaves it out.
    pub fn secret(&mut self, place: SealedPlace<'_>, sealed: &mut Sealed) -> Result<(), PortError> {
        *sealed = match self.travel {
            Some(travel) => travel.seal(place, &self.home.open(place, sealed)?, &mut self.entropy)?,
            None => Sealed::left_out(),
        };
        Ok(())
    }
}
