//! Records on their way from one installation to another: what a slice says of its tables so that all of a tenant can leave, and
//! can arrive elsewhere as it was.
//!
//! A slice lists its tables as [`Portable`]s, each with the word that its lines have as their type. A record leaves in its stored
//! form, written as JSON, and arrives through the same form, so nothing of it is lost. What has a meaning only where it is (numbers of
//! events, seals) is turned into what has one everywhere, and back. **Invariant:** a record that left, arrived and leaves again is the
//! same line. **Invariant:** a line is input: it passes every check that the use case runs, and what follows from other records (counts)
//! is computed again. **Boundary:** nothing here knows of files or of requests.

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
pub use places::{Landing, Places};
pub use segments::SegmentCarrier;

use tenantd_base::{
    entropy::Entropy,
    id::TenantId,
    secrets::{SealError, Sealed, SealedPlace, Sealer},
};

use crate::{ReadTx, StoreError, WriteTx, catalog::TableName};

/// Why a record does not leave or arrive.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Something is wrong with the record, in words for whoever has the file.
    #[error("{0}")]
    Wrong(String),
    #[error("a secret cannot be opened: {0}")]
    Secret(#[from] SealError),
    /// Nobody takes the lines any more.
    #[error("nobody takes the lines")]
    Unwanted,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PortError {
    pub fn wrong(reason: impl std::fmt::Display) -> Self {
        Self::Wrong(reason.to_string())
    }
}

/// A line about one record, as it arrives.
#[derive(Debug)]
pub struct Line<'a> {
    /// The parts of the record's key behind the tenant.
    pub key: &'a RawValue,
    pub record: &'a RawValue,
}

/// A check of something by rules that stand elsewhere, such as the bounds of the API.
pub type Check<T> = Box<dyn Fn(&T) -> Result<(), String> + Send + Sync>;

/// Where lines go.
pub type Emit<'a> = &'a mut dyn FnMut(&RawValue, &RawValue) -> Result<(), PortError>;

/// A table of a tenant's records that can be carried.
pub trait Portable: Send + Sync {
    /// The type of its lines: never changed once released.
    fn kind(&self) -> &'static str;

    /// The table, and the indexes that follow from it.
    fn tables(&self) -> Vec<TableName>;

    /// Hands out the tenant's records in the order of their keys.
    fn leave(&self, departure: &mut Departure<'_>, emit: Emit<'_>) -> Result<(), PortError>;

    /// Checks the record of a line as the use case would, away from the writer, and says what of it another record of this installation
    /// has already. Writes nothing.
    fn examine(&self, tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError>;

    /// Stores the record of a line that was examined. May run more than once before it commits.
    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError>;

    /// Checks what only all records together show, once they are stored and before the tenant exists.
    fn verify(&self, _tx: &ReadTx, _arrival: &Arrival) -> Result<(), PortError> {
        Ok(())
    }
}

/// What records need to know when they leave.
#[derive(Debug)]
pub struct Departure<'a> {
    pub tx: &'a ReadTx,
    pub tenant: TenantId,
    pub places: &'a Places,
    /// What secrets are sealed under here.
    pub home: &'a Sealer,
    /// What they are sealed under for the way; without it they stay here.
    pub travel: Option<&'a Sealer>,
    pub entropy: Entropy,
}

impl Departure<'_> {
    /// How many of the tenant's kept events have this number or a lower one.
    pub fn place(&self, number: u64) -> Result<u64, StoreError> {
        Ok(self.places.rank(self.tx, number)?.ordinal)
    }

    /// The ordinal of the very event that has this number, if it is still kept.
    pub fn event(&self, number: u64) -> Result<Option<u64>, StoreError> {
        let rank = self.places.rank(self.tx, number)?;
        Ok(rank.exact.then_some(rank.ordinal))
    }

    /// Seals a secret for the way, or leaves it out.
    pub fn secret(&mut self, place: SealedPlace<'_>, sealed: &mut Sealed) -> Result<(), PortError> {
        *sealed = match self.travel {
            Some(travel) => travel.seal(place, &self.home.open(place, sealed)?, &mut self.entropy)?,
            None => Sealed::left_out(),
        };
        Ok(())
    }
}
