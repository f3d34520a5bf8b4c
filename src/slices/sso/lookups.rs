//! Limits on concurrent DNS lookups and provider tests: one per tenant, a few per installation.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenantd_base::id::TenantId;

const MAX_LOOKUPS: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Lookups(Arc<Mutex<HashSet<TenantId>>>);

/// A running lookup, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct LookupGuard {
    lookups: Lookups,
    tenant: TenantId,
}

impl Lookups {
    /// Starts a lookup. `None` if the tenant already has one, or if the installation has reached its limit.
    pub(super) fn begin(&self, tenant: TenantId) -> Option<LookupGuard> {
        let is_free = {
            let mut running = self.lock();
            running.len() < MAX_LOOKUPS && running.insert(tenant)
        };
        is_free.then(|| LookupGuard { lookups: self.clone(), tenant })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LookupGuard {
    fn drop(&mut self) {
        self.lookups.lock().remove(&self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_limited_per_tenant_and_installation() {
        let (lookups, tenant) = (Lookups::default(), |number: u8| TenantId::from_bytes([number; 16]));
        let first = lookups.begin(tenant(1));
        assert!(first.is_some() && lookups.begin(tenant(1)).is_none());
        let others: Vec<_> = (2..=8).map(|number| lookups.begin(tenant(number))).collect();
        assert!(others.iter().all(Option::is_some) && lookups.begin(tenant(9)).is_none());
        drop(first);
        assert!(lookups.begin(tenant(9)).is_some() && lookups.begin(tenant(1)).is_some());
    }
}
