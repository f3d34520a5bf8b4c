//! Events start runs, and runs that wait for an event go on with it.
//!
//! The reader follows the log and only asks indexes: an event that may concern a workflow of its tenant is put into that tenant's queue.
//! The workers take the queues of different tenants at the same time, each in its order. So conditions that take long delay the triggers of
//! their own tenant and of nobody else. **Invariant:** an event leaves its queue in the transaction of what it has led to.

mod matching;
mod reader;
mod worker;

pub(super) use reader::{CURSOR, EventReader};
pub(super) use worker::TriggerWorkers;
