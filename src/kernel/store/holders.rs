//! What somebody may do now, asked by what acts for them later: a workflow for its author, a webhook for its owner.
//!
//! **Invariant:** rights are asked when they are used, never remembered. A person who lost a role, or a key that has ended, gives no right
//! to anything that they have set up. **Exception:** a record of an older release, which checked no owner, goes on without one until its
//! grace is over.

use std::{fmt, sync::Arc, time::Duration};

use tenantd_base::{authority::Authority, clock::Timestamp, id::TenantId};

use crate::{ReadTx, StoreError, events::Actor};

/// Knows the people and the keys of tenants.
pub trait HolderRights: Send + Sync + 'static {
    /// The rights of a person or a key now. Of those who are gone, disabled or over, none.
    fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError>;
}

/// A shared [`HolderRights`], and how long records of older releases go on without an owner.
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

    /// When a record of an older release stops that has no owner since this time.
    pub fn grace_ends(&self, since: Timestamp) -> Timestamp {
        since + self.grace
    }

    pub fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError> {
        self.rights.authority(tx, tenant, holder, now)
    }
}
