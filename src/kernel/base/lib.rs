//! What everything else is written in: words, randomness, time, ids, rights, quotas, settings, telemetry, secrets, and shares of tenants.
//!
//! **Boundary:** nothing here knows the store, HTTP or a slice. Each module imports only those that stand before it in this list.

pub mod vocabulary;

pub mod zones;

pub mod fault;

pub mod entropy;

pub mod clock;

pub mod id;

pub mod cache;

pub mod clocks;

pub mod access;

pub mod authority;

pub mod quotas;

pub mod versions;

pub mod change;

pub mod config;

pub mod telemetry;

pub mod secrets;

pub mod programs;

#[cfg(feature = "openapi")]
pub mod openapi;
