//! What an evaluation tenant is made from: the figures of an invented story, and what its visitor gets in with.
//!
//! **Boundary:** who tells the story is handed in as a [`Storyteller`]: nothing here knows what tenants hold. Plaintexts of what a
//! visitor gets in with are told once and not kept; their digests are, so that a reset lets the same visitor in again.

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

/// What was told long ago is over before anybody looks at it.
const OLDEST_END: Duration = Duration::from_hours(24 * 30);

/// An invented story: the same figures, slug and end tell the same story, with the same ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Story {
    pub seed: u64,
    pub organizations: u32,
    /// Over all organizations.
    pub devices: u32,
    pub tickets: u32,
    pub ends_at: Timestamp,
    /// Whether some workflows are started at its end. What they do takes place after the story, and is not the same twice.
    pub runs: bool,
}

impl Story {
    /// Whether it can be told now: it is of a bounded size, and nothing happens where there is nobody.
    pub fn check(&self, now: Timestamp) -> Result<(), TenantError> {
        let most_devices = self.organizations * MOST_DEVICES_EACH;
        if self.organizations > MOST_ORGANIZATIONS {
            return Err(TenantError::BadStory("organizations", format!("at most {MOST_ORGANIZATIONS}")));
        }
        if self.devices > most_devices {
            return Err(TenantError::BadStory(
                "devices",
                format!("at most {MOST_DEVICES_EACH} an organization, {most_devices} here"),
            ));
        }
        if self.tickets > MOST_TICKETS || (self.tickets > 0 && self.organizations == 0) {
            return Err(TenantError::BadStory("tickets", format!("at most {MOST_TICKETS}, and none without an organization")));
        }
        if self.ends_at > now || now.since(self.ends_at) > OLDEST_END {
            return Err(TenantError::BadStory("at", "a story ends now, or at most 30 days ago".to_owned()));
        }
        Ok(())
    }
}

/// What a visitor gets in with, as it is told once.
#[derive(Clone, Debug)]
pub struct Access {
    pub email: String,
    pub password: Secret,
    pub api_key: Secret,
}

/// What is kept of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    pub email: String,
    pub password: PasswordHash,
    pub key_digest: [u8; 32],
    pub key_prefix: String,
    pub key_last_four: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    pub story: Story,
    pub admission: Admission,
}

pub type Telling<'a, T> = Pin<Box<dyn Future<Output = Result<T, TenantError>> + Send + 'a>>;

/// Whoever knows all that a tenant can hold.
pub trait Storyteller: Send + Sync + std::fmt::Debug {
    /// Makes what a visitor gets in with. The address comes of the slug, and must be free.
    fn admit(&self, slug: String, now: Timestamp) -> Telling<'_, (Access, Admission)>;

    /// Fills a tenant that is empty. It may be cut off at any point, and then begins anew with an empty one.
    fn tell<'a>(&'a self, tenant: &'a Tenant, evaluation: &'a Evaluation) -> Telling<'a, ()>;
}
