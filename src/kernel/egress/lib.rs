//! Outgoing HTTP with an address policy, for all requests to external servers on behalf of a tenant. This crate does not know why a
//! request is sent, and it cannot bypass the policy.
//!
//! **Invariant:** exactly the addresses that passed the policy are dialed, from a single lookup. Redirects are not followed,
//! proxies of the environment are not used, and every answer is limited in time and size.

mod binding;
mod client;
mod connection;
mod dial;
mod error;
mod hidden;
mod listed;
mod machine;
mod policy;
mod pool;
mod resolve;
mod target;
mod tls;

pub use binding::SecretTarget;
pub use client::{Egress, EgressUpkeep, Exchange, Request, Timings};
pub use connection::{MAX_BODY_BYTES, MAX_HEAD_BYTES, Response};
pub use error::{Blocked, EgressError};
pub use policy::{Audience, Class, Policy, Reason, Refusal, classify};
pub use target::{MAX_URL_BYTES, TargetUrl, UrlProblem, without_query};
pub use tls::{MAX_CA_BYTES, check_ca_pem};

#[cfg(test)]
pub(crate) mod tests;
