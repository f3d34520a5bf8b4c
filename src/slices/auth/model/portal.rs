//! The portal for contacts: whether a tenant has one, and which contacts may sign in to it.

use serde::{Deserialize, Serialize};

use tenantd_base::clock::Timestamp;
use tenantd_directory::{User, UserStatus};
use tenantd_store::events::Actor;

/// Whether the contacts of a tenant can sign in. A tenant that has never changed it has no portal, with version 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortalSettings {
    pub enabled: bool,
    pub version: u64,
}

/// The access of a contact. It counts for the address that it was given for, so that a new address does not open the account to
/// another person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortalAccess {
    pub email: String,
    pub given_at: Timestamp,
    pub given_by: Actor,
    /// Whether it once did not count. The contact's password is gone, and the access does not return by itself.
    pub ended: bool,
}

impl PortalAccess {
    /// Whether the access counts for the contact as they are now.
    pub fn counts_for(&self, user: &User) -> bool {
        let is_same = user.email.as_deref() == Some(self.email.as_str());
        !self.ended && is_same && user.status == UserStatus::Active && user.role().is_none() && user.organization_id().is_some()
    }
}
