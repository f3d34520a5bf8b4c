//! The capabilities that customers read about, a folder each. A slice does not import a slice, but for the exceptions that
//! `tests/architecture.rs` lists with their reasons.

pub mod analytics;
pub mod api_keys;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod cloud;
pub mod directory;
pub mod inventory;
pub mod platform;
pub mod quotas;
pub mod search;
pub mod secrets;
pub mod sso;
pub mod tickets;
pub mod transfer;
pub mod upkeep;
pub mod webhooks;
pub mod workflows;
