//! What must be decided once: durability, errors, paging, limits, identity.
//!
//! Each module imports only those that stand before it in this list; `tests/architecture.rs` keeps the order.

pub mod vocabulary;

pub mod entropy;

pub mod clock;

pub mod id;

pub mod clocks;

pub mod access;

pub mod authority;

pub mod quotas;

pub mod config;

pub mod telemetry;

pub mod secrets;

pub mod programs;

pub mod store;
pub mod tasks;

pub mod events;

pub mod holders;

pub mod portable;

pub mod egress;
pub mod http;
