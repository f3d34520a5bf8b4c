//! Clouds of the story: one that the tenant shares among its customers, and one that is a customer's own. Both are simulated.

use tenantd_base::clock::Timestamp;
use tenantd_cloud::CloudError;

use super::{
    Stage,
    people::{Cast, Player},
};

/// VMs of the shared cloud, and of the customer's.
const SHARED: u32 = 36;
const OWN: u32 = 12;

pub(super) async fn connect(stage: &Stage, seed: u64, cast: &Cast, now: Timestamp) -> Result<(), CloudError> {
    let intent = |number: u64| stage.intent("cloud", number, now, cast.actor(Player::Staff(1)));
    let clouds = &stage.parts.clouds;
    clouds.connect_simulated(intent(0), "Shared cloud (simulated)", None, seed, SHARED).await?;
    let Some(customer) = cast.customers.first() else { return Ok(()) };
    let name = "Customer's own cloud (simulated)";
    clouds.connect_simulated(intent(1), name, Some(customer.id), seed.wrapping_add(1), OWN).await
}
