//! A tenant and its rules.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{access::TenantKind, clock::Timestamp, id::TenantId, letters::fold, vocabulary::vocabulary};
use tenantd_store::events::Actor;

use super::error::TenantError;

/// The slug of the operator's own tenant.
pub const PLATFORM_SLUG: &str = "platform";
const MAX_SLUG: usize = 63;

vocabulary! {
    TenantStatus as variants:
    Active "active",
    /// tenantd refuses all requests of the tenant. No data is lost.
    Suspended "suspended",
    /// tenantd removes what the tenant has, before it fills the tenant with sample data. The tenant is not usable yet.
    Preparing "preparing",
    /// tenantd removes the tenant with all of its data.
    Deleting "deleting",
    /// tenantd fills the tenant with sample data. People can sign in and read what is there.
    Filling "filling",
}

impl TenantStatus {
    /// Whether the credentials of the tenant work.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Active | Self::Filling)
    }

    /// Whether the data of the tenant stays: nothing empties or removes it. Only then does the tenant get events.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Active | Self::Filling | Self::Suspended)
    }
}

/// Background work on a whole tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleJob {
    pub work: Work,
    pub due_at: Timestamp,
    /// The actor who requested the work.
    pub actor: Actor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Removes all data of the tenant, then the tenant itself.
    Delete,
    /// Removes rows that were written after the tenant was deleted, by work that was in progress then.
    Sweep,
    /// Removes all data of the tenant, then fills it again.
    Prepare,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    #[serde(skip)]
    pub id: TenantId,
    pub name: String,
    pub slug: String,
    pub kind: TenantKind,
    pub status: TenantStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub version: u64,
    /// How far the tenant's clock is ahead of the installation's clock.
    #[serde(rename = "clock_ahead_seconds", with = "whole_seconds")]
    pub clock_ahead: Duration,
}

mod whole_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        span.as_secs().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}

/// The limits for one advance of a clock and for its total lead. Both exceed any planned use and keep times far below the maximum
/// timestamp.
pub const MAX_ADVANCE: Duration = Duration::from_hours(24 * 366);
pub(super) const MAX_AHEAD: Duration = Duration::from_hours(24 * 3_660);

impl Tenant {
    /// Whether the tenant has expired.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// The lead of the tenant's clock after an advance by `span`.
    pub fn ahead_after(&self, span: Duration) -> Result<Duration, TenantError> {
        if self.kind != TenantKind::Evaluation {
            return Err(TenantError::SharedClock("only an evaluation tenant has its own clock"));
        }
        if !self.id.has_own_clock() {
            let reason = "it was created by an older release without tenant clocks. Create a new evaluation tenant";
            return Err(TenantError::SharedClock(reason));
        }
        let ahead = self.clock_ahead + span.min(MAX_ADVANCE);
        if ahead > MAX_AHEAD { Err(TenantError::ClockLimit(MAX_AHEAD)) } else { Ok(ahead) }
    }
}

/// A tenant to create.
#[derive(Clone, Debug)]
pub struct NewTenant {
    pub name: String,
    /// Derived from the name when absent.
    pub slug: Option<String>,
    pub kind: TenantKind,
    pub expires_days: Option<u32>,
}

impl NewTenant {
    pub fn slug(&self) -> Result<String, TenantError> {
        let slug = match &self.slug {
            Some(slug) => slug.clone(),
            None => Some(slug_of(&self.name)).filter(|slug| !slug.is_empty()).ok_or(TenantError::SlugNeeded)?,
        };
        let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        if slug.is_empty() || slug.len() > MAX_SLUG || !slug.chars().all(allowed) || slug.starts_with('-') || slug.ends_with('-') {
            return Err(TenantError::BadSlug("use 1 to 63 lower-case letters, digits and inner hyphens"));
        }
        if slug == PLATFORM_SLUG && self.kind != TenantKind::Platform {
            return Err(TenantError::BadSlug("platform is reserved for the operator"));
        }
        Ok(slug)
    }
}

/// Derives a slug from a name: keeps letters without accents and digits, and replaces the rest with hyphens.
fn slug_of(name: &str) -> String {
    let mut slug = String::new();
    for letter in fold(name).chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(MAX_SLUG);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slug(name: &str, slug: Option<&str>) -> Option<String> {
        let new =
            NewTenant { name: name.to_owned(), slug: slug.map(str::to_owned), kind: TenantKind::Standard, expires_days: None };
        new.slug().ok()
    }

    #[test]
    fn slugs_are_derived_or_validated() {
        assert_eq!(slug("Acme & Söhne GmbH", None).as_deref(), Some("acme-sohne-gmbh"));
        assert_eq!(slug("Müller Straße Łódź", None).as_deref(), Some("muller-strasse-lodz"));
        assert_eq!(slug("x", Some("acme-1")).as_deref(), Some("acme-1"));
        for bad in ["", "-a", "a-", "A", "a b", "platform"] {
            assert_eq!(slug("x", Some(bad)), None, "{bad}");
        }
        assert_eq!(slug("日本", None), None);
    }
}
