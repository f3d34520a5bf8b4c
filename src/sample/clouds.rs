//! Generates two simulated clouds: one that the customers of the tenant share, and one of a single customer.

use tenantd_base::clock::Timestamp;
use tenantd_cloud::CloudError;

use super::{
    SampleContext,
    people::{Author, Participants},
};

/// The number of VMs in the shared cloud, and in the cloud of the customer.
const SHARED: u32 = 36;
const OWN: u32 = 12;

pub(super) async fn connect(
    context: &SampleContext,
    seed: u64,
    participants: &Participants,
    now: Timestamp,
) -> Result<(), CloudError> {
    let intent = |number: u64| context.intent("cloud", number, now, participants.actor(Author::Staff(1)));
    let clouds = &context.parts.clouds;
    clouds.connect_simulated(intent(0), "Shared cloud (simulated)", None, seed, SHARED).await?;
    let Some(customer) = participants.customers.first() else { return Ok(()) };
    let name = "Customer's own cloud (simulated)";
    clouds.connect_simulated(intent(1), name, Some(customer.id), seed.wrapping_add(1), OWN).await
}
