//! Outbound HTTP behind the address policy: used by whatever sends to somebody else's server on behalf of a tenant. It knows
//! nothing of why a request is sent, and has no way around the policy.
//!
//! **Invariant:** the addresses that are dialled are those that were judged, of one look-up. Redirects are not followed, proxies
//! of the environment are not used, and everything that comes back is bounded in time and size.

mod binding;
mod client;
mod connection;
mod dial;
mod error;
mod hidden;
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
