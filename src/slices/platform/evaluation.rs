//! The inputs of an evaluation tenant: the options for its sample data and the credentials of its visitor.
//!
//! **Boundary:** the code that generates the data is injected as a [`SampleGenerator`]; this module does not know what tenants
//! contain. The plaintext credentials are returned once and not stored. Their digests are stored, so that the same credentials work
//! after a reset.

use std::{future::Future, pin::Pin, time::Duration};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    secrets::{PasswordHash, Secret},
};

use super::{error::TenantError, model::Tenant};

pub const MOST_ORGANIZATIONS: u32 = 96;
pub const MOST_DEVICES_EACH: u32 = 200;
pub const MOST_TICKETS: u32 = 10_000;

/// Data from long ago would expire before anyone looks at it.
const OLDEST_END: Duration = Duration::from_hours(24 * 30);

/// The options for sample data. The same options and slug generate the same records with the same IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSpec {
    pub seed: u64,
    pub organizations: u32,
    /// Over all organizations.
    pub devices: u32,
    pub tickets: u32,
    pub ends_at: Timestamp,
    /// Whether some workflows start at the end. These runs happen after `ends_at`, so their results differ each time.
    pub runs: bool,
}

impl SampleSpec {
    /// Checks that the size is within bounds, that tickets have an organization, and that the end is recent.
    pub fn check(&self, now: Timestamp) -> Result<(), TenantError> {
        let most_devices = self.organizations * MOST_DEVICES_EACH;
        if self.organizations > MOST_ORGANIZATIONS {
            return Err(TenantError::InvalidSample("organizations", format!("must be at most {MOST_ORGANIZATIONS}")));
        }
        if self.devices > most_devices {
            return Err(TenantError::InvalidSample(
                "devices",
                format!("must be at most {most_devices}, which is {MOST_DEVICES_EACH} per organization"),
            ));
        }
        if self.tickets > MOST_TICKETS || (self.tickets > 0 && self.organizations == 0) {
            return Err(TenantError::InvalidSample(
                "tickets",
                format!("must be at most {MOST_TICKETS}, and 0 without organizations"),
            ));
        }
        if self.ends_at > now || now.since(self.ends_at) > OLDEST_END {
            return Err(TenantError::InvalidSample("at", "must not be in the future or more than 30 days ago".to_owned()));
        }
        Ok(())
    }
}

/// The plaintext credentials of the visitor. They are returned once.
#[derive(Clone, Debug)]
pub struct VisitorCredentials {
    pub email: String,
    pub password: Secret,
    pub api_key: Secret,
}

/// The stored form of the credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCredentials {
    pub email: String,
    pub password: PasswordHash,
    pub key_digest: [u8; 32],
    pub key_prefix: String,
    pub key_last_four: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    pub story: SampleSpec,
    pub admission: StoredCredentials,
}

pub type GeneratorFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TenantError>> + Send + 'a>>;

/// Generates the data of evaluation tenants. The implementation knows all slices.
pub trait SampleGenerator: Send + Sync + std::fmt::Debug {
    /// Generates the credentials of the visitor. The email address is derived from the slug and must not be in use.
    fn admit(&self, slug: String, now: Timestamp) -> GeneratorFuture<'_, (VisitorCredentials, StoredCredentials)>;

    /// Fills an empty tenant. After an interruption, tenantd empties the tenant and calls this again.
    fn generate<'a>(&'a self, tenant: &'a Tenant, evaluation: &'a Evaluation) -> GeneratorFuture<'a, ()>;
}
