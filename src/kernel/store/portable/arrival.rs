//! What records need to know when they arrive, and what an import has to remember between its transactions.

use std::collections::BTreeMap;

use tenantd_base::{
    access::TenantKind,
    clock::Timestamp,
    entropy::{Entropy, Seed},
    id::TenantId,
    secrets::{SealError, Sealed, SealedPlace, Sealer, Secret},
};

use super::{Landing, PortError};

/// How many records of a kind are named when they arrive switched off.
const NAMED: usize = 100;

/// Whether somebody vouches for the file. **Invariant:** what arrives unverified cannot act: no credential of it works, and nothing of it
/// starts by itself, before somebody of this installation switches it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Signed by this installation, or by one whose key the operator has given.
    Verified,
    Unverified,
}

/// What arrived without its authority, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchedOff {
    pub count: u64,
    /// The names of the first.
    pub names: Vec<String>,
}

#[derive(Debug)]
pub struct Arrival {
    pub tenant: TenantId,
    /// As the first line of the file has it. The tenant's own record must agree.
    pub tenant_kind: TenantKind,
    pub now: Timestamp,
    /// What the tenant's own clock shows, once its own record has come.
    pub tenant_now: Timestamp,
    pub trust: Trust,
    /// Which numbers the events of the file have got.
    pub landing: Landing,
    /// The last number of the tenant's events when this transaction began.
    pub last_number: u64,
    pub home: Sealer,
    pub travel: Option<Sealer>,
    /// A short name for the tenant in place of the one that it had.
    pub slug: Option<String>,
    /// What somebody has to see to afterwards.
    pub notes: Vec<String>,
    /// Records whose secrets did not come along: others may hang on them.
    pub bare: Vec<[u8; 16]>,
    pub entropy: Entropy,
    pub switched_off: BTreeMap<&'static str, SwitchedOff>,
    /// How many there were so far, by words of the slices.
    counts: BTreeMap<&'static str, u64>,
    /// What a slice has to know of a record when another arrives, by the id of that other.
    remembered: BTreeMap<[u8; 16], String>,
    /// The kind and the key of the last line.
    last: Option<(&'static str, Vec<u8>)>,
}

impl Arrival {
    pub fn new(tenant: TenantId, tenant_kind: TenantKind, now: Timestamp, trust: Trust, landing: Landing, home: Sealer) -> Self {
        Self {
            tenant,
            tenant_kind,
            now,
            tenant_now: now,
            trust,
            landing,
            last_number: 0,
            home,
            travel: None,
            slug: None,
            notes: Vec::new(),
            bare: Vec::new(),
            entropy: Entropy::from_os(),
            switched_off: BTreeMap::new(),
            counts: BTreeMap::new(),
            remembered: BTreeMap::new(),
            last: None,
        }
    }

    /// One run of a transaction. Each run begins with what was before, and draws the same.
    pub fn begin(&self, seed: Seed, last_number: u64) -> Self {
        Self {
            tenant: self.tenant,
            tenant_kind: self.tenant_kind,
            now: self.now,
            tenant_now: self.tenant_now,
            trust: self.trust,
            landing: self.landing.clone(),
            last_number,
            home: self.home.clone(),
            travel: self.travel.clone(),
            slug: self.slug.clone(),
            notes: self.notes.clone(),
            bare: self.bare.clone(),
            entropy: seed.stream(),
            switched_off: self.switched_off.clone(),
            counts: self.counts.clone(),
            remembered: self.remembered.clone(),
            last: self.last.clone(),
        }
    }

    /// The number of an event of the file, or of what stands before all of them.
    pub fn place(&self, ordinal: u64) -> Result<u64, PortError> {
        self.landing
            .number(ordinal)
            .ok_or_else(|| PortError::Wrong(format!("it refers to event {ordinal}, which did not come before it")))
    }

    /// Takes note of the key of a line. Keys of a kind come in order, so a line that is there twice or was moved is found.
    pub(super) fn follow(&mut self, kind: &'static str, key: Vec<u8>) -> Result<(), PortError> {
        if self.last.as_ref().is_some_and(|(before, last)| *before == kind && *last >= key) {
            return Err(PortError::Wrong(format!("this {kind} is in the file twice, or behind one that it comes before")));
        }
        self.last = Some((kind, key));
        Ok(())
    }

    /// Counts one more; how many there are with it.
    pub fn count(&mut self, what: &'static str) -> u64 {
        let count = self.counts.entry(what).or_default();
        *count += 1;
        *count
    }

    pub fn counted(&self, what: &'static str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Counts one more, and refuses it beyond the limit of a tenant.
    pub fn count_within(&mut self, what: &'static str, most: u64) -> Result<(), PortError> {
        if self.count(what) > most {
            return Err(PortError::Wrong(format!("a tenant of this installation has at most {most} {what}")));
        }
        Ok(())
    }

    pub fn remember(&mut self, id: [u8; 16], what: String) {
        self.remembered.insert(id, what);
    }

    pub fn recall(&self, id: &[u8; 16]) -> Option<&str> {
        self.remembered.get(id).map(String::as_str)
    }

    pub fn is_verified(&self) -> bool {
        self.trust == Trust::Verified
    }

    /// Takes note that something arrives without its authority.
    pub fn switch_off(&mut self, what: &'static str, name: &str) {
        let switched = self.switched_off.entry(what).or_default();
        switched.count += 1;
        if switched.names.len() < NAMED {
            switched.names.push(name.to_owned());
        }
    }

    /// Opens a secret that came along, and seals it under the key of this installation. `None` when it did not come along.
    pub fn secret(&mut self, place: SealedPlace<'_>, sealed: &mut Sealed) -> Result<Option<Secret>, PortError> {
        if sealed.is_left_out() {
            return Ok(None);
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
        Ok(Some(secret))
    }

    /// Seals a secret that was made here in place of one that did not come along.
    pub fn seal(&mut self, place: SealedPlace<'_>, secret: &Secret) -> Result<Sealed, PortError> {
        Ok(self.home.seal(place, secret, &mut self.entropy)?)
    }

    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}
