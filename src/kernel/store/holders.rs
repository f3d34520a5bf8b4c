//! The current rights of the person or key that something acts for later: a workflow acts for its author, a webhook for its
//! owner.
//!
//! **Invariant:** rights are checked on every use and never cached. If a person loses a role or a key ends, everything they set
//! up loses those rights too. **Exception:** records of an older release, which did not check owners, keep working without an
//! owner until a grace period ends.

use std::{fmt, sync::Arc, time::Duration};

use tenantd_base::{authority::Authority, clock::Timestamp, id::TenantId};

use crate::{ReadTx, StoreError, events::Actor};

/// Looks up the people and API keys of tenants.
pub trait HolderRights: Send + Sync + 'static {
    /// Returns the current rights of a person or a key. A removed, disabled or expired holder has none.
    fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError>;
}

/// A shared [`HolderRights`], with the grace period of records from older releases.
#[derive(Clone)]
pub struct Holders {
    rights: Arc<dyn HolderRights>,
    grace: Duration,
}

impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holders")
    }
}

impl Holders {
    pub fn new(rights: impl HolderRights, grace: Duration) -> Self {
        Self { rights: Arc::new(rights), grace }
    }

    /// When a record of an older release stops working if it has had no owner since `since`.
    pub fn grace_ends(&self, since: Timestamp) -> Timestamp {
        since + self.grace
    }

    pub fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError> {
        self.rights.authority(tx, tenant, holder, now)
    }
}
