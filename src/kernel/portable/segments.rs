//! A segmented table as something that can be carried. The segment is the first part of the key in a line.

use serde::Serialize;

use super::{
    Arrival, Departure, Emit, Line, PortError, Portable, TenantKey,
    carrier::{parse, render},
};
use crate::kernel::{
    id::TenantId,
    store::{Flow, Key, KeyRange, ReadTx, SegmentedTable, StoreError, WriteTx, catalog::TableName, codec::Record},
};

/// A segmented table whose records mean the same everywhere. `K` is the key within a segment.
pub struct SegmentCarrier<K, V> {
    kind: &'static str,
    table: &'static SegmentedTable,
    types: std::marker::PhantomData<fn() -> (K, V)>,
}

impl<K, V> std::fmt::Debug for SegmentCarrier<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentCarrier").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<K: TenantKey + 'static, V: Record> SegmentCarrier<K, V> {
    pub fn plain(kind: &'static str, table: &'static SegmentedTable) -> Box<dyn Portable> {
        Box::new(Self { kind, table, types: std::marker::PhantomData })
    }

    fn scan(
        &self,
        tx: &ReadTx,
        tenant: TenantId,
        mut visit: impl FnMut(u64, K, V) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let mut segments = self.table.segments(tx)?;
        segments.sort_unstable();
        let mut flow = Flow::Continue;
        for segment in segments {
            self.table.scan(tx, segment, &KeyRange::prefix(&tenant.to_bytes()), |key: K, record: V| {
                flow = visit(segment, key, record)?;
                Ok(flow)
            })?;
            if flow == Flow::Stop {
                break;
            }
        }
        Ok(())
    }
}

impl<K: TenantKey + 'static, V: Record> Portable for SegmentCarrier<K, V>
where
    K::Rest: Serialize,
{
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn tables(&self) -> Vec<TableName> {
        vec![self.table.name()]
    }

    fn leave(&self, departure: &mut Departure<'_>, emit: Emit<'_>) -> Result<(), PortError> {
        let mut failed = None;
        let mut one = |segment: u64, key: K, record: V| emit(&render(&(segment, key.rest()))?, &render(&record)?);
        self.scan(departure.tx, departure.tenant, |segment, key, record| {
            failed = one(segment, key, record).err();
            Ok(if failed.is_some() { Flow::Stop } else { Flow::Continue })
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let (segment, key): (u64, K::Rest) = parse(line.key)?;
        Ok(self.table.put(tx, segment, &K::of(arrival.tenant, key), &parse::<V>(line.record)?)?)
    }

    fn conflicts(&self, tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError> {
        let (segment, key): (u64, K::Rest) = parse(line.key)?;
        parse::<V>(line.record)?;
        let taken = self.table.get::<V>(tx, segment, &K::of(arrival.tenant, key))?.is_some();
        Ok(taken.then(|| format!("this {} is in this installation already", self.kind)).into_iter().collect())
    }
}
