//! A tenant and its rules.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use tenantd_base::{access::TenantKind, clock::Timestamp, id::TenantId, vocabulary::vocabulary};
use tenantd_store::events::Actor;

use super::error::TenantError;

/// The slug of the operator's own tenant.
pub const PLATFORM_SLUG: &str = "platform";
const MAX_SLUG: usize = 63;

vocabulary! {
    TenantStatus as variants:
    Active "active",
    /// Every request is refused; nothing is lost.
    Suspended "suspended",
    /// It is being filled, and cannot be used before that is done.
    Preparing "preparing",
    /// Everything of it is being removed, for good.
    Deleting "deleting",
}

/// What is still to be done with a tenant as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    pub work: Work,
    pub due_at: Timestamp,
    /// Who asked for it.
    pub actor: Actor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Remove everything of it, and then the tenant itself.
    Delete,
    /// The tenant is gone: remove what came in from work that was under way then.
    Sweep,
    /// Remove everything of it, and then fill it anew.
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
    /// How far the tenant's own clock is ahead of the installation's.
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

/// How far a clock can be advanced at one time, and how far ahead it can come to be: more than anything here is planned for, and far
/// from the end of what a time can be.
pub const MAX_ADVANCE: Duration = Duration::from_hours(24 * 366);
pub(super) const MAX_AHEAD: Duration = Duration::from_hours(24 * 3_660);

impl Tenant {
    /// Whether its time has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// How far ahead the tenant's clock is when it is advanced by `span`.
    pub fn ahead_after(&self, span: Duration) -> Result<Duration, TenantError> {
        if self.kind != TenantKind::Evaluation {
            return Err(TenantError::SharedClock("only an evaluation tenant has a clock of its own"));
        }
        if !self.id.has_own_clock() {
            let reason = "it was created by a release without clocks of tenants; create another evaluation tenant";
            return Err(TenantError::SharedClock(reason));
        }
        let ahead = self.clock_ahead + span.min(MAX_ADVANCE);
        if ahead > MAX_AHEAD { Err(TenantError::ClockLimit(MAX_AHEAD)) } else { Ok(ahead) }
    }
}

/// A tenant that is to be created.
#[derive(Clone, Debug)]
pub struct NewTenant {
    pub name: String,
    /// Made from the name when absent.
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
            return Err(TenantError::BadSlug("a slug has 1 to 63 lower-case letters, digits and inner hyphens"));
        }
        if slug == PLATFORM_SLUG && self.kind != TenantKind::Platform {
            return Err(TenantError::BadSlug("the slug platform is the operator's own"));
        }
        Ok(slug)
    }
}

/// A slug from a name: its letters and digits, hyphens for the rest.
fn slug_of(name: &str) -> String {
    let mut slug = String::new();
    for letter in name.chars().flat_map(char::to_lowercase) {
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
    fn a_slug_is_made_from_the_name_or_checked() {
        assert_eq!(slug("Acme & Söhne GmbH", None).as_deref(), Some("acme-s-hne-gmbh"));
        assert_eq!(slug("x", Some("acme-1")).as_deref(), Some("acme-1"));
        for bad in ["", "-a", "a-", "A", "a b", "platform"] {
            assert_eq!(slug("x", Some(bad)), None, "{bad}");
        }
        assert_eq!(slug("日本", None), None);
    }
}
