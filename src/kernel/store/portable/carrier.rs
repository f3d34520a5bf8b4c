//! Exports and imports a typed table. Most tables need only a name; some convert values that are valid only in one installation.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use tenantd_base::{
    clock::Timestamp,
    id::{Id, Kind, TenantId},
};

use super::{Arrival, Departure, Emit, Line, PortError, Portable};
use crate::{
    Direction, Flow, Key, KeyRange, ReadTx, StoreError, Table, WriteTx,
    catalog::{self, TableName},
    codec::Record,
};

/// A key that starts with the tenant.
pub trait TenantKey: Key {
    /// The key after the tenant, as a list in a line.
    type Rest: Serialize + DeserializeOwned;

    fn tenant(&self) -> TenantId;
    fn rest(self) -> Self::Rest;
    fn of(tenant: TenantId, rest: Self::Rest) -> Self;
}

impl TenantKey for TenantId {
    type Rest = [u8; 0];

    fn tenant(&self) -> TenantId {
        *self
    }

    fn rest(self) -> [u8; 0] {
        []
    }

    fn of(tenant: TenantId, _rest: [u8; 0]) -> Self {
        tenant
    }
}

/// A part of a key that a line can contain.
pub trait KeyPart: Key + Serialize + DeserializeOwned {}

impl KeyPart for u8 {}
impl KeyPart for u32 {}
impl KeyPart for u64 {}
impl KeyPart for [u8; 16] {}
impl KeyPart for String {}
impl KeyPart for Timestamp {}
impl<K: Kind> KeyPart for Id<K> {}
impl<K: KeyPart> KeyPart for Option<K> {}

macro_rules! tuple_keys {
    ($(($($part:ident $name:ident),*);)*) => {$(
        impl<$($part: KeyPart),*> TenantKey for (TenantId, $($part),*) {
            type Rest = ($($part,)*);

            fn tenant(&self) -> TenantId {
                self.0
            }

            fn rest(self) -> Self::Rest {
                let (_, $($name),*) = self;
                ($($name,)*)
            }

            fn of(tenant: TenantId, ($($name,)*): Self::Rest) -> Self {
                (tenant, $($name),*)
            }
        }
    )*};
}

tuple_keys! {
    (A a);
    (A a, B b);
    (A a, B b, C c);
}

type Leave<K, V, F> = Box<dyn Fn(&mut Departure<'_>, K, V) -> Result<Option<(K, F)>, PortError> + Send + Sync>;
type Arrive<K, V, F> = Box<dyn Fn(&mut Arrival, K, F) -> Result<Option<(K, V)>, PortError> + Send + Sync>;
type Examine<K, V> = Box<dyn Fn(&mut Arrival, &K, &V) -> Result<(), PortError> + Send + Sync>;
type Bounds = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync>;
type Keep<K, V> = Box<dyn Fn(&mut WriteTx, &K, &V) -> Result<(), PortError> + Send + Sync>;
type Verify = Box<dyn Fn(&ReadTx, &Arrival) -> Result<(), PortError> + Send + Sync>;

/// A table with its indexes. `F` is the form of its records in a line.
pub struct Carrier<K: 'static, V: 'static, F = V> {
    kind: &'static str,
    table: &'static Table<K, V>,
    leave: Leave<K, V, F>,
    arrive: Arrive<K, V, F>,
    examine: Option<Examine<K, V>>,
    bounds: Option<Bounds>,
    most: Option<u64>,
    keep: Option<Keep<K, V>>,
    derived: bool,
    verify: Option<Verify>,
}

impl<K, V, F> std::fmt::Debug for Carrier<K, V, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<K: TenantKey, V: Record> Carrier<K, V> {
    /// A table whose records are valid in any installation. `examine` checks a record as its use case would; see
    /// [`Self::examined`].
    pub fn plain(
        kind: &'static str,
        table: &'static Table<K, V>,
        examine: impl Fn(&mut Arrival, &K, &V) -> Result<(), PortError> + Send + Sync + 'static,
    ) -> Self {
        let carrier =
            Self::turning(kind, table, |_, key, record| Ok(Some((key, record))), |_, key, record| Ok(Some((key, record))));
        carrier.examined(examine)
    }

    /// A table whose rows follow from other records. Its lines are exported like any other. On import, `keep` derives the row
    /// from stored records and ignores the content of the line.
    pub fn derived(
        kind: &'static str,
        table: &'static Table<K, V>,
        keep: impl Fn(&mut WriteTx, &K, &V) -> Result<(), PortError> + Send + Sync + 'static,
    ) -> Self {
        Self { derived: true, ..Self::plain(kind, table, |_, _, _| Ok(())).kept_by(keep) }
    }
}

impl<K: TenantKey, V: Record, F: Serialize + DeserializeOwned + 'static> Carrier<K, V, F> {
    /// A table whose records are converted for the export and converted back on import. A record for which `leave` or `arrive`
    /// returns `None` is left out.
    pub fn turning(
        kind: &'static str,
        table: &'static Table<K, V>,
        leave: impl Fn(&mut Departure<'_>, K, V) -> Result<Option<(K, F)>, PortError> + Send + Sync + 'static,
        arrive: impl Fn(&mut Arrival, K, F) -> Result<Option<(K, V)>, PortError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            table,
            leave: Box::new(leave),
            arrive: Box::new(arrive),
            examine: None,
            bounds: None,
            most: None,
            keep: None,
            derived: false,
            verify: None,
        }
    }

    /// Adds checks that may be slow, because they do not run on the writer. They see the record as it would be stored.
    #[must_use]
    pub fn examined(mut self, examine: impl Fn(&mut Arrival, &K, &V) -> Result<(), PortError> + Send + Sync + 'static) -> Self {
        self.examine = Some(Box::new(examine));
        self
    }

    /// Adds bounds for the fields, checked on the record in the line.
    #[must_use]
    pub fn within(mut self, bounds: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.bounds = Some(Box::new(bounds));
        self
    }

    /// Limits how many of these records a tenant has.
    #[must_use]
    pub fn at_most(mut self, most: u64) -> Self {
        self.most = Some(most);
        self
    }

    /// Sets how a record is stored together with what follows from it. `keep` also checks references to the records before it.
    #[must_use]
    pub fn kept_by(mut self, keep: impl Fn(&mut WriteTx, &K, &V) -> Result<(), PortError> + Send + Sync + 'static) -> Self {
        self.keep = Some(Box::new(keep));
        self
    }

    /// See [`Portable::verify`].
    #[must_use]
    pub fn verified_by(mut self, verify: impl Fn(&ReadTx, &Arrival) -> Result<(), PortError> + Send + Sync + 'static) -> Self {
        self.verify = Some(Box::new(verify));
        self
    }

    pub fn boxed(self) -> Box<dyn Portable>
    where
        K: 'static,
    {
        Box::new(self)
    }

    fn read(&self, arrival: &mut Arrival, line: &Line<'_>) -> Result<Option<(K, V)>, PortError> {
        let key: K::Rest = parse(line.key)?;
        let mut read = (self.arrive)(arrival, K::of(arrival.tenant, key), parse(line.record)?)?;
        if let Some((key, record)) = &mut read {
            let key = key.to_bytes();
            record.take_key(&key).ok_or_else(|| PortError::wrong("its key cannot be read"))?;
            arrival.follow(self.kind, key)?;
        }
        Ok(read)
    }
}

impl<K, V, F> Carrier<K, V, F> {
    fn taken(&self, index: TableName) -> String {
        format!("the {} of this {} is taken by another record", claim(index), self.kind)
    }
}

/// Refuses rows whose parent is not stored. Rows are sorted by parent, so each parent is looked up once.
pub fn refuse_orphans<K: TenantKey, V: Record, P: PartialEq>(
    tx: &ReadTx,
    tenant: TenantId,
    (kind, table): (&str, &'static Table<K, V>),
    parent_of: impl Fn(&K) -> P,
    exists: impl Fn(&P) -> Result<bool, StoreError>,
) -> Result<(), PortError> {
    let (mut last, mut orphan) = (None, None);
    table.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |key, _| {
        let parent = parent_of(&key);
        if last.as_ref() == Some(&parent) || exists(&parent)? {
            last = Some(parent);
            return Ok(Flow::Continue);
        }
        orphan = Some(key);
        Ok(Flow::Stop)
    })?;
    match orphan {
        Some(key) => {
            let key = render(&key.rest())?;
            Err(PortError::Wrong(format!("the {kind} {key} belongs to a record that is not in the file")))
        }
        None => Ok(()),
    }
}

/// Parses part of a line.
pub(super) fn parse<T: DeserializeOwned>(part: &RawValue) -> Result<T, PortError> {
    serde_json::from_str(part.get()).map_err(|error| PortError::Wrong(error.to_string()))
}

/// Renders a value as part of a line.
pub(super) fn render(value: &impl Serialize) -> Result<Box<RawValue>, PortError> {
    to_raw_value(value).map_err(|error| PortError::Store(StoreError::engine(error)))
}

/// The value that a unique index reserves for one record, for error messages.
fn claim(index: TableName) -> &'static str {
    match index {
        catalog::TENANTS_BY_SLUG => "slug",
        catalog::USERS_BY_EMAIL => "address",
        catalog::API_KEYS_BY_HASH => "API key",
        catalog::IDENTITY_PROVIDERS_BY_DOMAIN => "domain",
        other => other.name(),
    }
}

impl<K: TenantKey + 'static, V: Record, F: Serialize + DeserializeOwned + 'static> Portable for Carrier<K, V, F> {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn tables(&self) -> Vec<TableName> {
        let mut tables = self.table.index_names();
        tables.push(self.table.name());
        tables
    }

    fn leave(&self, departure: &mut Departure<'_>, emit: Emit<'_>) -> Result<(), PortError> {
        let range = KeyRange::prefix(&departure.tenant.to_bytes());
        let (tx, mut failed) = (departure.tx, None);
        let mut one = |key: K, record: V| {
            let Some((key, form)) = (self.leave)(departure, key, record)? else { return Ok(()) };
            emit(&render(&key.rest())?, &render(&form)?)
        };
        self.table.scan(tx, &range, Direction::Forward, |key, record| {
            failed = one(key, record).err();
            Ok(if failed.is_some() { Flow::Stop } else { Flow::Continue })
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn examine(&self, tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError> {
        if let Some(bounds) = &self.bounds {
            bounds(&parse(line.record)?).map_err(PortError::Wrong)?;
        }
        if let Some(most) = self.most {
            arrival.count_within(self.kind, most)?;
        }
        let Some((key, record)) = self.read(arrival, line)? else { return Ok(Vec::new()) };
        if let Some(examine) = &self.examine {
            examine(arrival, &key, &record)?;
        }
        // Its key is free: it starts with the tenant, which has no data yet.
        if self.derived {
            return Ok(Vec::new());
        }
        let claimed = self.table.claimed(tx, &key, &record)?;
        Ok(claimed.into_iter().map(|index| self.taken(index)).collect())
    }

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let Some((key, record)) = self.read(arrival, line)? else { return Ok(()) };
        // Other records may have been stored since the line was examined, even in the same transaction.
        if !self.derived
            && let Some(index) = self.table.claimed(tx, &key, &record)?.into_iter().next()
        {
            return Err(PortError::Wrong(self.taken(index)));
        }
        match &self.keep {
            Some(keep) => keep(tx, &key, &record),
            None => Ok(self.table.put(tx, &key, &record)?),
        }
    }

    fn verify(&self, tx: &ReadTx, arrival: &Arrival) -> Result<(), PortError> {
        self.verify.as_ref().map_or(Ok(()), |verify| verify(tx, arrival))
    }
}
