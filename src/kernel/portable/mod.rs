//! Records on their way from one installation to another: what a slice says of its tables so that all of a tenant can leave, and
//! can arrive elsewhere as it was.
//!
//! A slice lists its tables as [`Portable`]s, each with the word that its lines have as their type. A record leaves in its stored
//! form, written as JSON, and arrives through the same form, so nothing of it is lost. What has a meaning only where it is (places in
//! the log, seals) is turned into what has one everywhere, and back. **Invariant:** a record that left, arrived and leaves again is the
//! same line. **Boundary:** nothing here knows of files or of requests.

mod carrier;
mod history;
mod places;
mod segments;

use serde_json::value::RawValue;

pub use carrier::{Carrier, TenantKey};
pub use history::History;
pub use places::{Landing, Places};
pub use segments::SegmentCarrier;

use super::{
    clock::Timestamp,
    entropy::{Entropy, Seed},
    id::TenantId,
    secrets::{SealError, Sealed, SealedPlace, Sealer, Secret},
    store::{ReadTx, StoreError, WriteTx, catalog::TableName},
};

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

/// A line about one record, as it arrives.
#[derive(Debug)]
pub struct Line<'a> {
    /// The parts of the record's key behind the tenant.
    pub key: &'a RawValue,
    pub record: &'a RawValue,
}

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

    /// Stores the record of a line. May run more than once before it commits.
    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError>;

    /// What of the record of a line is taken already by another of this installation, in words. Writes nothing.
    fn conflicts(&self, tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError>;
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
    /// How many of the tenant's events are at this place of the log or before it.
    pub fn place(&self, seq: u64) -> Result<u64, StoreError> {
        Ok(self.places.rank(self.tx, seq)?.ordinal)
    }

    /// The number of the very event that is at this place, if it is still kept.
    pub fn event(&self, seq: u64) -> Result<Option<u64>, StoreError> {
        let rank = self.places.rank(self.tx, seq)?;
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

/// What records need to know when they arrive.
#[derive(Debug)]
pub struct Arrival {
    pub tenant: TenantId,
    pub now: Timestamp,
    /// Where the events of the file have come to be in the log.
    pub landing: Landing,
    /// The last place of the log when this transaction began.
    pub head: u64,
    pub home: Sealer,
    pub travel: Option<Sealer>,
    /// A short name for the tenant in place of the one that it had.
    pub slug: Option<String>,
    /// What somebody has to see to afterwards.
    pub notes: Vec<String>,
    /// Records whose secrets did not come along: others may hang on them.
    pub bare: Vec<[u8; 16]>,
    pub entropy: Entropy,
}

impl Arrival {
    /// One run of a transaction. Each run begins with what was before, and draws the same.
    pub fn begin(&self, seed: Seed, head: u64) -> Self {
        Self {
            tenant: self.tenant,
            now: self.now,
            landing: self.landing.clone(),
            head,
            home: self.home.clone(),
            travel: self.travel.clone(),
            slug: self.slug.clone(),
            notes: self.notes.clone(),
            bare: self.bare.clone(),
            entropy: seed.stream(),
        }
    }

    /// The place in the log of an event of the file, or of what stands before all of them.
    pub fn place(&self, ordinal: u64) -> Result<u64, PortError> {
        self.landing
            .seq(ordinal)
            .ok_or_else(|| PortError::Wrong(format!("it refers to event {ordinal}, which did not come before it")))
    }

    /// Seals a secret that came along under the key of this installation; `false` when it did not come along.
    pub fn secret(&mut self, place: SealedPlace<'_>, sealed: &mut Sealed) -> Result<bool, PortError> {
        if sealed.is_left_out() {
            return Ok(false);
        }
        let travel = self.travel.as_ref().ok_or_else(|| {
            PortError::Wrong("its secret is sealed under a passphrase: name the file with it by --passphrase-file".to_owned())
        })?;
        // Releases that did not bind secrets to targets sealed them without one. Here they get the target that the record names.
        let secret = travel.open_unbound(place, sealed).map_err(|error| match error {
            SealError::OtherKey => PortError::Wrong("its secret was sealed under another passphrase".to_owned()),
            SealError::Damaged => PortError::Secret(error),
        })?;
        *sealed = self.seal(place, &secret)?;
        Ok(true)
    }

    /// Seals a secret that was made here in place of one that did not come along.
    pub fn seal(&mut self, place: SealedPlace<'_>, secret: &Secret) -> Result<Sealed, PortError> {
        Ok(self.home.seal(place, secret, &mut self.entropy)?)
    }

    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}
