//! What somebody may do now, asked by whoever acts for them later: a workflow for its author, a webhook for its owner.
//!
//! **Invariant:** rights are asked when they are used, never remembered. A person who lost a role, or a key that has ended, gives no right
//! to anything that they have set up.

use std::{fmt, sync::Arc};

use super::{
    authority::Authority,
    clock::Timestamp,
    events::Actor,
    id::TenantId,
    store::{ReadTx, StoreError},
};

/// Knows the people and the keys of tenants.
pub trait HolderRights: Send + Sync + 'static {
    /// The rights of a person or a key now. Of those who are gone, disabled or over, none.
    fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError>;
}

/// A shared [`HolderRights`].
#[derive(Clone)]
pub struct Holders(Arc<dyn HolderRights>);

impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holders")
    }
}

impl Holders {
    pub fn new(rights: impl HolderRights) -> Self {
        Self(Arc::new(rights))
    }

    pub fn authority(&self, tx: &ReadTx, tenant: TenantId, holder: &Actor, now: Timestamp) -> Result<Authority, StoreError> {
        self.0.authority(tx, tenant, holder, now)
    }
}
