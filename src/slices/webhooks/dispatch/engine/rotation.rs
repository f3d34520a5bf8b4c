//! The order of turns: tenants take turns, and within a tenant its endpoints take turns. A tenant with a thousand endpoints gets no
//! more turns than a tenant with one.

use std::collections::{HashMap, VecDeque};

use tenantd_base::id::{TenantId, WebhookId};

use super::super::super::repo::EndpointKey;

#[derive(Debug, Default)]
pub(super) struct Rotation {
    tenants: VecDeque<TenantId>,
    endpoints: HashMap<TenantId, VecDeque<WebhookId>>,
}

impl Rotation {
    /// Adds the endpoint. The caller ensures that it is in the rotation only once.
    pub(super) fn push(&mut self, (tenant, endpoint): EndpointKey) {
        let line = self.endpoints.entry(tenant).or_default();
        if line.is_empty() {
            self.tenants.push_back(tenant);
        }
        line.push_back(endpoint);
    }

    /// Removes and returns the next endpoint whose tenant may proceed. The other tenants keep their position.
    pub(super) fn pop(&mut self, may_go_on: impl Fn(TenantId) -> bool) -> Option<EndpointKey> {
        let place = self.tenants.iter().position(|tenant| may_go_on(*tenant))?;
        let tenant = self.tenants.remove(place)?;
        let line = self.endpoints.get_mut(&tenant)?;
        let endpoint = line.pop_front()?;
        if line.is_empty() {
            self.endpoints.remove(&tenant);
        } else {
            self.tenants.push_back(tenant);
        }
        Some((tenant, endpoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_take_turns_regardless_of_endpoint_count() {
        let key = |tenant: u8, endpoint: u8| (TenantId::from_bytes([tenant; 16]), WebhookId::from_bytes([endpoint; 16]));
        let mut rotation = Rotation::default();
        for endpoint in 1..=3 {
            rotation.push(key(1, endpoint));
        }
        rotation.push(key(2, 9));
        assert_eq!(rotation.pop(|tenant| tenant == key(2, 9).0), Some(key(2, 9)));
        rotation.push(key(2, 9));
        let order: Vec<EndpointKey> = std::iter::from_fn(|| rotation.pop(|_| true)).collect();
        assert_eq!(order, [key(1, 1), key(2, 9), key(1, 2), key(1, 3)]);
        assert!(rotation.pop(|_| true).is_none() && rotation.tenants.is_empty() && rotation.endpoints.is_empty());
    }
}
