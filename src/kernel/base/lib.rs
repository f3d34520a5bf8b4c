//! The foundation of all other crates: words, randomness, time, ids, rights, quotas, configuration, telemetry, secrets, and fair
//! shares of tenants.
//!
//! **Boundary:** nothing here knows the store, HTTP or a slice. Each module imports only modules that come before it in this list.

pub mod vocabulary;

pub mod zones;

pub mod letters;

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

pub mod return_path;

pub mod config;

pub mod telemetry;

pub mod secrets;

pub mod programs;

#[cfg(feature = "openapi")]
pub mod openapi;
