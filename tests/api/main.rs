//! The API as its clients see it: a real server on a port of its own, a clock that the test moves, and the store checked after
//! every test. Actors (`app.admin()`, `app.key(…)`) stand for credentials; tests are named as sentences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod analytics;
mod api_keys;
mod api_keys_listing;
mod authorization;
mod cloud;
mod cloud_aws;
mod cloud_vms;
mod cloud_workflows;
mod conventions;
mod events;
mod golden;
mod harness;
mod idempotency;
mod ingest;
mod inventory;
mod inventory_export;
mod pages;
mod rate_limits;
mod reach;
mod search;
mod search_index;
mod search_input;
mod search_sight;
mod secrets;
mod sign_in;
mod tenants;
mod tickets;
mod tickets_bulk;
mod tickets_export;
mod tickets_listing;
mod tickets_notes;
mod tickets_sla;
mod tickets_states;
mod tls;
mod users;
mod webhooks;
mod webhooks_contract;
mod webhooks_flow;
mod webhooks_limits;
mod webhooks_targets;
mod webhooks_tls;
mod workflows;
mod workflows_runs;
mod workflows_triggers;
