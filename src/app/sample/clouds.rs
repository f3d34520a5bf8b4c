//! Clouds of the story: one that the tenant shares among its customers, and one that is a customer's own. Both are simulated; their VMs
//! come with the first sync, once the server listens.

use super::{
    super::App,
    people::{Cast, Player},
};
use crate::{
    kernel::{clock::Timestamp, events::Intent, id::TenantId},
    slices::cloud::CloudError,
};

/// VMs of the shared cloud, and of the customer's.
const SHARED: u32 = 36;
const OWN: u32 = 12;

pub(super) async fn connect(app: &App, tenant: TenantId, seed: u64, cast: &Cast, now: Timestamp) -> Result<(), CloudError> {
    let intent = || Intent::new(tenant, now, cast.actor(Player::Staff(1)));
    app.slices.clouds.connect_simulated(intent(), "Shared cloud (simulated)", None, seed, SHARED).await?;
    let Some(customer) = cast.customers.first() else { return Ok(()) };
    let name = "Customer's own cloud (simulated)";
    app.slices.clouds.connect_simulated(intent(), name, Some(customer.id), seed.wrapping_add(1), OWN).await
}
