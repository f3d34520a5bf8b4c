//! The audit of a tenant: its records, and the signed checkpoint with which they can be verified.

mod checkpoint;
mod filter;
mod list;
mod record;

pub(super) use checkpoint::checkpoint;
pub(super) use list::list;

const API: &str = "/api/admin/audit";
const PATH: &str = "/settings/audit";
