//! The number of tickets per value of a field. Dashboards show it, and lists use it to find the most selective filter.
//! **Invariant:** a count changes in the same transaction as the ticket. A value without tickets has no row.

use serde::{Deserialize, Serialize};

use tenantd_base::id::TenantId;
use tenantd_store::{
    Direction, Flow, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record, portable::TenantKey,
};

use super::facets::{self, Facet, Field};
use crate::model::Ticket;

/// A value of a field in a tenant. The value is the rest of the key.
#[derive(Clone, Debug)]
pub(crate) struct CountKey {
    tenant: TenantId,
    field: u8,
    value: Vec<u8>,
}

impl Key for CountKey {
    const OF_TENANT: bool = true;

    fn write(&self, out: &mut Vec<u8>) {
        (self.tenant, self.field).write(out);
        out.extend_from_slice(&self.value);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let (tenant, field) = Key::read(input)?;
        Some(Self { tenant, field, value: std::mem::take(input).to_vec() })
    }
}

impl TenantKey for CountKey {
    type Rest = (u8, Vec<u8>);

    fn tenant(&self) -> TenantId {
        self.tenant
    }

    fn rest(self) -> Self::Rest {
        (self.field, self.value)
    }

    fn of(tenant: TenantId, (field, value): Self::Rest) -> Self {
        Self { tenant, field, value }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Count {
    tickets: u64,
}

impl Record for Count {
    const VERSION: u8 = 1;
}

pub(crate) static COUNTS: Table<CountKey, Count> = Table::new(catalog::TICKET_COUNTS, &[]);

/// Updates the counts for a changed ticket.
pub(super) fn moved(tx: &mut WriteTx, tenant: TenantId, before: Option<&Ticket>, after: Option<&Ticket>) -> Result<(), StoreError> {
    let counted = |ticket: Option<&Ticket>| {
        let facets = ticket.map(facets::of).unwrap_or_default();
        facets.into_iter().filter(|facet| facet.field.is_counted()).collect::<Vec<Facet>>()
    };
    let (before, after) = (counted(before), counted(after));
    for facet in before.iter().filter(|facet| !after.contains(facet)) {
        add(tx, tenant, facet, -1)?;
    }
    for facet in after.iter().filter(|facet| !before.contains(facet)) {
        add(tx, tenant, facet, 1)?;
    }
    Ok(())
}

fn add(tx: &mut WriteTx, tenant: TenantId, facet: &Facet, change: i64) -> Result<(), StoreError> {
    let key = CountKey { tenant, field: facet.field as u8, value: facet.value.clone() };
    let tickets = COUNTS.get(tx, &key)?.map_or(0, |count| count.tickets).saturating_add_signed(change);
    if tickets == 0 { COUNTS.remove(tx, &key).map(drop) } else { COUNTS.put(tx, &key, &Count { tickets }) }
}

/// The number of tickets with the value. `None` for a field without counters.
pub(crate) fn count(tx: &impl Read, tenant: TenantId, facet: &Facet) -> Result<Option<u64>, StoreError> {
    if !facet.field.is_counted() {
        return Ok(None);
    }
    counted(tx, tenant, facet).map(Some)
}

pub(crate) fn counted(tx: &impl Read, tenant: TenantId, facet: &Facet) -> Result<u64, StoreError> {
    let key = CountKey { tenant, field: facet.field as u8, value: facet.value.clone() };
    Ok(COUNTS.get(tx, &key)?.map_or(0, |count| count.tickets))
}

/// The values of a field with their counts, ordered by value.
pub(crate) fn values(tx: &impl Read, tenant: TenantId, field: Field) -> Result<Vec<(Vec<u8>, u64)>, StoreError> {
    let mut found = Vec::new();
    COUNTS.scan(tx, &KeyRange::prefix(&(tenant, field as u8).to_bytes()), Direction::Forward, |key, count| {
        found.push((key.value, count.tickets));
        Ok(Flow::Continue)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tenantd_store::codec::assert_golden;

    use super::*;

    #[test]
    fn the_stored_form_is_unchanged() {
        assert_golden("ticket_count", &Count { tickets: 300 });
    }
}
