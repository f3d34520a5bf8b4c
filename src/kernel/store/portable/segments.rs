//! Exports and imports a segmented table. The segment is the first part of the key in a line.

use serde::Serialize;

use tenantd_base::id::TenantId;

use super::{
    Arrival, Departure, Emit, Line, PortError, Portable, TenantKey,
    carrier::{parse, render},
};
use crate::{Flow, Key, KeyRange, ReadTx, SegmentedTable, StoreError, WriteTx, catalog::TableName, codec::Record};

type Examine<K, V> = Box<dyn Fn(&mut Arrival, u64, &K, &V) -> Result<(), PortError> + Send + Sync>;

/// A segmented table whose records are valid in any installation. `K` is the key within a segment.
pub struct SegmentCarrier<K, V> {
    kind: &'static str,
    table: &'static SegmentedTable,
    examine: Examine<K, V>,
}

impl<K, V> std::fmt::Debug for SegmentCarrier<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentCarrier").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<K: TenantKey + 'static, V: Record> SegmentCarrier<K, V> {
    /// `examine` checks a record as its use case would. It must also check that the record belongs to its segment, because each
    /// segment is a separate table.
    pub fn plain(
        kind: &'static str,
        table: &'static SegmentedTable,
        examine: impl Fn(&mut Arrival, u64, &K, &V) -> Result<(), PortError> + Send + Sync + 'static,
    ) -> Box<dyn Portable>
    where
        K::Rest: Serialize,
        V: 'static,
    {
        Box::new(Self { kind, table, examine: Box::new(examine) })
    }

    fn read(&self, arrival: &mut Arrival, line: &Line<'_>) -> Result<(u64, K, V), PortError> {
        let (segment, key): (u64, K::Rest) = parse(line.key)?;
        let key = K::of(arrival.tenant, key);
        let bytes = key.to_bytes();
        arrival.follow(self.kind, [segment.to_bytes(), bytes.clone()].concat())?;
        let mut record: V = parse(line.record)?;
        record.take_key(&bytes).ok_or_else(|| PortError::wrong("its key cannot be read"))?;
        Ok((segment, key, record))
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

    fn examine(&self, _tx: &ReadTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<Vec<String>, PortError> {
        let (segment, key, record) = self.read(arrival, line)?;
        (self.examine)(arrival, segment, &key, &record)?;
        Ok(Vec::new())
    }

    fn arrive(&self, tx: &mut WriteTx, arrival: &mut Arrival, line: &Line<'_>) -> Result<(), PortError> {
        let (segment, key, record) = self.read(arrival, line)?;
        Ok(self.table.put(tx, segment, &key, &record)?)
    }
}
