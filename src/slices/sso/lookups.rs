//! Look-ups in DNS that prove domains. They are bounded: a tenant has one at a time, and the installation a few.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenantd_base::id::TenantId;

const MOST_LOOKUPS: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Lookups(Arc<Mutex<HashSet<TenantId>>>);

/// A look-up that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    lookups: Lookups,
    tenant: TenantId,
}

impl Lookups {
    /// `None` while the tenant has one under way, or the installation as many as it may have.
    pub(super) fn begin(&self, tenant: TenantId) -> Option<UnderWay> {
        let is_free = {
            let mut running = self.lock();
            running.len() < MOST_LOOKUPS && running.insert(tenant)
        };
        is_free.then(|| UnderWay { lookups: self.clone(), tenant })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.lookups.lock().remove(&self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_one_at_a_time_and_the_installation_a_few() {
        let (lookups, tenant) = (Lookups::default(), |number: u8| TenantId::from_bytes([number; 16]));
        let first = lookups.begin(tenant(1));
        assert!(first.is_some() && lookups.begin(tenant(1)).is_none());
        let others: Vec<_> = (2..=8).map(|number| lookups.begin(tenant(number))).collect();
        assert!(others.iter().all(Option::is_some) && lookups.begin(tenant(9)).is_none());
        drop(first);
        assert!(lookups.begin(tenant(9)).is_some() && lookups.begin(tenant(1)).is_some());
    }
}
