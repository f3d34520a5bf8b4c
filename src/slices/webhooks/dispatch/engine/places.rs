//! Places that tenants share: for attempts in progress, and for stored deliveries that wait in memory.
//!
//! A tenant that already has places may take another only while the free places exceed its own plus one eighth of the total. That
//! eighth is reserved for tenants without places. A single tenant therefore gets at most half of the places, and several tenants
//! together leave some for newcomers. Turns alone would not be enough: an attempt lasts as long as its receiver stays silent, so a
//! tenant with many silent receivers would soon hold all places.

use std::collections::HashMap;

use tenantd_base::id::TenantId;

/// One in this many places is reserved for tenants without any.
const SPARE: usize = 8;

#[derive(Debug)]
pub(super) struct Places {
    total: usize,
    taken: usize,
    /// Only tenants that hold places.
    by_tenant: HashMap<TenantId, usize>,
}

impl Places {
    pub(super) fn new(total: usize) -> Self {
        Self { total, taken: 0, by_tenant: HashMap::new() }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    fn free(&self) -> usize {
        self.total.saturating_sub(self.taken)
    }

    pub(super) fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// Whether the tenant may take a place now.
    pub(super) fn has_one_for(&self, tenant: TenantId) -> bool {
        match self.by_tenant.get(&tenant) {
            None => self.free() > 0,
            Some(own) => self.free() > own + self.total / SPARE,
        }
    }

    /// Takes a place. The caller has already checked [`Self::has_one_for`].
    pub(super) fn take(&mut self, tenant: TenantId) {
        self.taken += 1;
        *self.by_tenant.entry(tenant).or_default() += 1;
    }

    pub(super) fn release(&mut self, tenant: TenantId, count: usize) {
        self.taken = self.taken.saturating_sub(count);
        if let Some(own) = self.by_tenant.get_mut(&tenant) {
            *own = own.saturating_sub(count);
            if *own == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u8) -> TenantId {
        TenantId::from_bytes([number; 16])
    }

    /// Takes as many places as the tenant can get, and returns their number.
    fn take_all(places: &mut Places, number: u8) -> usize {
        let before = places.taken();
        while places.has_one_for(tenant(number)) {
            places.take(tenant(number));
        }
        places.taken() - before
    }

    #[test]
    fn a_tenant_gets_at_most_half_of_the_places() {
        for total in 2..300_usize {
            let own = take_all(&mut Places::new(total), 1);
            assert!((1..=total.div_ceil(2)).contains(&own), "{own} of {total}");
        }
        assert_eq!(take_all(&mut Places::new(1), 1), 1, "a single place cannot be shared");
    }

    #[test]
    fn newcomers_find_places_until_all_are_taken() {
        let mut places = Places::new(64);
        let taken: Vec<usize> = (1..=15).map(|number| take_all(&mut places, number)).collect();
        assert_eq!(taken, [28, 14, 7, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert!(places.is_full());
        places.release(tenant(1), 1);
        let may: Vec<u8> = (1..=20).filter(|number| places.has_one_for(tenant(*number))).collect();
        assert_eq!(may, (15..=20).collect::<Vec<u8>>(), "a free place is for tenants without one");
    }

    #[test]
    fn a_tenant_without_places_is_removed() {
        let mut places = Places::new(8);
        let own = take_all(&mut places, 1);
        places.release(tenant(2), 0);
        places.release(tenant(1), own);
        assert!(places.taken() == 0 && places.by_tenant.is_empty());
    }
}
