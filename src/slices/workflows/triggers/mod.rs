//! Events start runs, and continue runs that wait for them.
//!
//! The reader follows the log and only looks at indexes: it puts an event that may concern a workflow of its tenant into that
//! tenant's queue. The workers process the queues of different tenants concurrently, each in order. Slow conditions therefore delay
//! only the triggers of their own tenant. **Invariant:** an event leaves its queue in the transaction that stores what it caused.

mod matching;
mod reader;
mod worker;

pub(super) use reader::{CURSOR, EventReader};
pub(super) use worker::TriggerWorkers;
