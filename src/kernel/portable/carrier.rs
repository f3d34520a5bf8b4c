//! A table as something that can be carried: most need no more than their name, some turn what has a meaning only here.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

use super::{Arrival, Departure, Emit, Line, PortError, Portable};
use crate::kernel::{
    clock::Timestamp,
    id::{Id, Kind, TenantId},
    store::{
        Direction, Flow, Key, KeyRange, ReadTx, StoreError, Table, WriteTx,
        catalog::{self, TableName},
        codec::Record,
    },
};

/// A key that starts with the tenant.
pub trait TenantKey: Key {
    /// What is behind the tenant, as it is written in a line: a list.
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

/// A part of a key that can be written in a line.
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
type Arrive<K, V, F> = Box<dyn Fn(&mut Arrival, K, F) -> Result<(K, V), PortError> + Send + Sync>;

/// A table with its indexes. `F` is the form that its records have in a line.
pub struct Carrier<K: 'static, V: 'static, F = V> {
    kind: &'static str,
    table: &'static Table<K, V>,
    leave: Leave<K, V, F>,
    arrive: Arrive<K, V, F>,
}

impl<K, V, F> std::fmt::Debug for Carrier<K, V, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<K: TenantKey, V: Record> Carrier<K, V> {
    /// A table whose records mean the same everywhere.
    pub fn plain(kind: &'static str, table: &'static Table<K, V>) -> Box<dyn Portable> {
        Self::turning(kind, table, |_, key, record| Ok(Some((key, record))), |_, key, record| Ok((key, record)))
    }
}

impl<K: TenantKey, V: Record, F: Serialize + DeserializeOwned + 'static> Carrier<K, V, F> {
    /// A table whose records are turned into another form to leave, or stay here where that is none, and are turned back.
    pub fn turning(
        kind: &'static str,
        table: &'static Table<K, V>,
        leave: impl Fn(&mut Departure<'_>, K, V) -> Result<Option<(K, F)>, PortError> + Send + Sync + 'static,
        arrive: impl Fn(&mut Arrival, K, F) -> Result<(K, V), PortError> + Send + Sync + 'static,
    ) -> Box<dyn Portable> {
        Box::new(Self { kind, table, leave: Box::new(leave), arrive: Box::new(arrive) })
    }

    fn read(&self, arrival: &mut Arrival, line: &Line<'_>) -> Result<(K, V), PortError> {
        let key: K::Rest = parse(line.key)?;
        (self.arrive)(arrival, K::of(arrival.tenant, key), parse(line.record)?)
    }
}

/// A part of a line as a value.
pub(super) fn parse<T: DeserializeOwned>(part: &RawValue) -> Result<T, PortError> {
    serde_json::from_str(part.get()).map_err(|error| PortError::Wrong(error.to_string()))
}

/// A value as a part of a line.
pub(super) fn render(value: &impl Serialize) -> Result<Box<RawValue>, PortError> {
    to_raw_value(value).map_err(|error| PortError::Store(StoreError::engine(error)))
}

/// What a unique index keeps to one record, in words.
fn claim(index: TableName) -> &'static str {
    match index {
        catalog::TENANTS_BY_SLUG => "slug",
        catalog::USERS_BY_LOGIN => "address to sign in with",
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

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let (key, record) = self.read(arrival, line)?;
        let claimed = self.table.claimed(tx, &key, &record)?;
        if let Some(index) = claimed.first() {
            return Err(PortError::Wrong(format!("its {} is taken by another record of this installation", claim(*index))));
        }
        Ok(self.table.put(tx, &key, &record)?)
    }

    fn conflicts(&self, tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError> {
        let (key, record) = self.read(arrival, line)?;
        let mut conflicts = Vec::new();
        if self.table.get(tx, &key)?.is_some() {
            conflicts.push(format!("this {} is in this installation already", self.kind));
        } else {
            let claimed = self.table.claimed(tx, &key, &record)?;
            let told = |index: &TableName| format!("the {} of this {} is taken by another record", claim(*index), self.kind);
            conflicts.extend(claimed.iter().map(told));
        }
        Ok(conflicts)
    }
}
