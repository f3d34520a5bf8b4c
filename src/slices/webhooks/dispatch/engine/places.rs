//! Places that tenants share: for attempts under way, and for stored deliveries that wait in memory.
//!
//! A tenant that has some takes another only while more are free than it has and an eighth of all; the eighth is for tenants that have
//! none. So a tenant has half of the places at most, and several together leave some for those who come after them. Turns alone would
//! not do: an attempt lasts for as long as its receiver stays silent, and a tenant with many such receivers would soon have all places.

use std::collections::HashMap;

use tenantd_base::id::TenantId;

/// One place in so many is for tenants that have none.
const SPARE: usize = 8;

#[derive(Debug)]
pub(super) struct Places {
    total: usize,
    taken: usize,
    /// Of the tenants that have some.
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

    /// Takes a place. The caller has asked whether the tenant may.
    pub(super) fn take(&mut self, tenant: TenantId) {
        self.taken += 1;
        *self.by_tenant.entry(tenant).or_default() += 1;
    }

    pub(super) fn give_back(&mut self, tenant: TenantId, count: usize) {
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

    /// Takes all that the tenant gets. How many.
    fn take_all(places: &mut Places, number: u8) -> usize {
        let before = places.taken();
        while places.has_one_for(tenant(number)) {
            places.take(tenant(number));
        }
        places.taken() - before
    }

    #[test]
    fn a_tenant_has_half_at_most_whatever_the_total() {
        for total in 2..300_usize {
            let own = take_all(&mut Places::new(total), 1);
            assert!((1..=total.div_ceil(2)).contains(&own), "{own} of {total}");
        }
        assert_eq!(take_all(&mut Places::new(1), 1), 1, "a single place cannot be shared");
    }

    #[test]
    fn who_comes_next_finds_a_place_until_each_of_the_last_has_one() {
        let mut places = Places::new(64);
        let taken: Vec<usize> = (1..=15).map(|number| take_all(&mut places, number)).collect();
        assert_eq!(taken, [28, 14, 7, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert!(places.is_full());
        places.give_back(tenant(1), 1);
        let may: Vec<u8> = (1..=20).filter(|number| places.has_one_for(tenant(*number))).collect();
        assert_eq!(may, (15..=20).collect::<Vec<u8>>(), "a place that becomes free is for those who have none");
    }

    #[test]
    fn what_is_given_back_is_forgotten() {
        let mut places = Places::new(8);
        let own = take_all(&mut places, 1);
        places.give_back(tenant(2), 0);
        places.give_back(tenant(1), own);
        assert!(places.taken() == 0 && places.by_tenant.is_empty());
    }
}
