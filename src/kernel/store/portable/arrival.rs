//! The context of an import: what records need when they arrive, and what an import remembers between its transactions.

use std::collections::BTreeMap;

use tenantd_base::{
    access::TenantKind,
    clock::Timestamp,
    entropy::{Entropy, Seed},
    id::TenantId,
    secrets::{SealError, Sealed, SealedPlace, Sealer, Secret},
};

use super::{EventNumbers, PortError};

/// How many records of a kind are listed by name when they arrive switched off.
const NAMED: usize = 100;

/// Whether the origin of the file is trusted. **Invariant:** an unverified record cannot act: its credentials do not work, and it
/// starts nothing by itself, until a user of this installation switches it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Signed by this installation, or by one whose key the operator has provided.
    Verified,
    Unverified,
}

/// The records of one kind that arrived switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchedOff {
    pub count: u64,
    /// The names of the first records.
    pub names: Vec<String>,
}

#[derive(Debug)]
pub struct Arrival {
    pub tenant: TenantId,
    /// The kind in the first line of the file. The tenant's own record must match it.
    pub tenant_kind: TenantKind,
    pub now: Timestamp,
    /// The time on the tenant's own clock, once the tenant's record has arrived.
    pub tenant_now: Timestamp,
    pub trust: Trust,
    /// The numbers that this installation has given to the events of the file.
    pub numbers: EventNumbers,
    /// The last number of the tenant's events when this transaction began.
    pub last_number: u64,
    pub home: Sealer,
    pub travel: Option<Sealer>,
    /// A slug for the tenant that replaces the one in the file.
    pub slug: Option<String>,
    /// What an operator has to do after the import.
    pub notes: Vec<String>,
    /// Records whose secrets are not in the file. Other records may depend on them.
    pub without_secret: Vec<[u8; 16]>,
    pub entropy: Entropy,
    pub switched_off: BTreeMap<&'static str, SwitchedOff>,
    /// How many records there were so far, by names that the slices choose.
    counts: BTreeMap<&'static str, u64>,
    /// What a slice must know about a record when another one arrives, by the id of that other record.
    remembered: BTreeMap<[u8; 16], String>,
    /// The kind and the key of the last line.
    last: Option<(&'static str, Vec<u8>)>,
}

impl Arrival {
    pub fn new(
        tenant: TenantId,
        tenant_kind: TenantKind,
        now: Timestamp,
        trust: Trust,
        numbers: EventNumbers,
        home: Sealer,
    ) -> Self {
        Self {
            tenant,
            tenant_kind,
            now,
            tenant_now: now,
            trust,
            numbers,
            last_number: 0,
            home,
            travel: None,
            slug: None,
            notes: Vec::new(),
            without_secret: Vec::new(),
            entropy: Entropy::from_os(),
            switched_off: BTreeMap::new(),
            counts: BTreeMap::new(),
            remembered: BTreeMap::new(),
            last: None,
        }
    }

    /// Starts one run of a transaction. Each run starts with the same state and the same random numbers.
    pub fn begin(&self, seed: Seed, last_number: u64) -> Self {
        Self {
            tenant: self.tenant,
            tenant_kind: self.tenant_kind,
            now: self.now,
            tenant_now: self.tenant_now,
            trust: self.trust,
            numbers: self.numbers.clone(),
            last_number,
            home: self.home.clone(),
            travel: self.travel.clone(),
            slug: self.slug.clone(),
            notes: self.notes.clone(),
            without_secret: self.without_secret.clone(),
            entropy: seed.stream(),
            switched_off: self.switched_off.clone(),
            counts: self.counts.clone(),
            remembered: self.remembered.clone(),
            last: self.last.clone(),
        }
    }

    /// The number here of an event of the file. Ordinal 0 gives a number before all of them.
    pub fn place(&self, ordinal: u64) -> Result<u64, PortError> {
        self.numbers
            .number(ordinal)
            .ok_or_else(|| PortError::Wrong(format!("it refers to event {ordinal}, which is not before it in the file")))
    }

    /// Checks and remembers the key of a line. The keys of a kind are in order, so duplicate and moved lines are found.
    pub(super) fn follow(&mut self, kind: &'static str, key: Vec<u8>) -> Result<(), PortError> {
        if self.last.as_ref().is_some_and(|(before, last)| *before == kind && *last >= key) {
            return Err(PortError::Wrong(format!("this {kind} is in the file twice or out of order")));
        }
        self.last = Some((kind, key));
        Ok(())
    }

    /// Counts one more and returns the new count.
    pub fn count(&mut self, what: &'static str) -> u64 {
        let count = self.counts.entry(what).or_default();
        *count += 1;
        *count
    }

    pub fn counted(&self, what: &'static str) -> u64 {
        self.counts.get(what).copied().unwrap_or_default()
    }

    /// Counts one more. Fails if that exceeds the limit of a tenant.
    pub fn count_within(&mut self, what: &'static str, most: u64) -> Result<(), PortError> {
        if self.count(what) > most {
            return Err(PortError::Wrong(format!("a tenant of this installation can have at most {most} {what}")));
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

    /// Notes that a record arrives switched off.
    pub fn switch_off(&mut self, what: &'static str, name: &str) {
        let switched = self.switched_off.entry(what).or_default();
        switched.count += 1;
        if switched.names.len() < NAMED {
            switched.names.push(name.to_owned());
        }
    }

    /// Opens a secret of the file and seals it with the key of this installation. `None` if the secret is not in the file.
    pub fn secret(&mut self, place: SealedPlace<'_>, sealed: &mut Sealed) -> Result<Option<Secret>, PortError> {
        if sealed.is_left_out() {
            return Ok(None);
        }
        let travel = self.travel.as_ref().ok_or_else(|| {
            PortError::Wrong("its secret is sealed with a passphrase: give its file with --passphrase-file".to_owned())
        })?;
        // Old releases sealed secrets without a target. Here they get the target that the record names.
        let secret = travel.open_unbound(place, sealed).map_err(|error| match error {
            SealError::OtherKey => PortError::Wrong("its secret was sealed under another passphrase".to_owned()),
            SealError::Damaged => PortError::Secret(error),
        })?;
        *sealed = self.seal(place, &secret)?;
        Ok(Some(secret))
    }

    /// Seals a new secret that replaces one that is not in the file.
    pub fn seal(&mut self, place: SealedPlace<'_>, secret: &Secret) -> Result<Sealed, PortError> {
        Ok(self.home.seal(place, secret, &mut self.entropy)?)
    }

    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}
