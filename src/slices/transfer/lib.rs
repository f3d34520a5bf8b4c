//! Moves tenants between installations: exports all records of a tenant as lines of JSON, and imports a tenant from such lines.
//!
//! Each slice describes the lines of its own tables (`kernel/store/portable`). This slice orders, signs and imports them.
//! **Invariant:** an export is one snapshot in which all events of the tenant have been processed.
//! **Invariant:** an imported tenant becomes visible only when it is complete, because its own record is written in the last
//! transaction. **Invariant:** a file is untrusted input. Every line is checked like a use case before it is stored, and
//! nothing in an unverified file can act.

mod api;
mod error;
mod export;
mod import;
mod model;
mod repo;
mod signature;

use std::sync::Arc;

use poem_openapi::OpenApi;

use tenantd_base::{
    clock::Clock,
    config,
    secrets::{InstallationKey, PublicKey, Sealer, SignatureError, Signer},
};
use tenantd_http::outgoing::Streams;
use tenantd_platform::Tenants;
use tenantd_store::{Checked, Store, TenantRows, portable::Portable};

pub use error::TransferError;
pub use model::{FORMAT, Header};

/// The public key that verifies exports of an installation with this key, and its purpose.
pub fn public_key(key: &InstallationKey) -> Result<(&'static str, PublicKey), SignatureError> {
    Ok((signature::PURPOSE, Signer::of(key, signature::PURPOSE)?.public_key()?))
}

/// What this slice needs from the other slices.
pub struct Others {
    pub tenants: Tenants,
    pub sealer: Sealer,
    /// The tables of all slices. Records come before the records that refer to them; the tenant's own record is last.
    pub portables: Vec<Box<dyn Portable>>,
    /// All tables with rows of tenants, to remove the data of failed imports.
    pub rows: Vec<&'static dyn TenantRows>,
    /// Log consumers whose work is exported with the tenant.
    pub consumers: Vec<&'static str>,
    /// Called after a tenant was imported, to update derived data.
    pub arrived: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").field("consumers", &self.consumers).finish_non_exhaustive()
    }
}

/// The state that exports and imports share.
#[derive(Clone, Debug)]
struct Core {
    store: Store,
    clock: Clock,
    others: Arc<Others>,
    signer: Arc<Signer>,
    public_key: PublicKey,
    /// Locked by the running import.
    importing: Arc<tokio::sync::Mutex<()>>,
}

/// The slice, ready to be composed with the others.
#[derive(Clone, Debug)]
pub struct Transfer {
    core: Core,
    exports: Streams,
    imports: Streams,
}

impl Transfer {
    pub fn new(
        store: Store,
        clock: Clock,
        limits: &config::Limits,
        key: &InstallationKey,
        others: Others,
    ) -> Result<Self, SignatureError> {
        let signer = Arc::new(Signer::of(key, signature::PURPOSE)?);
        let public_key = signer.public_key()?;
        let (exports, imports) =
            (Streams::new("exports of tenants", limits, &store), Streams::new("imports of tenants", limits, &store));
        let core = Core { store, clock, others: Arc::new(others), signer, public_key, importing: Arc::default() };
        Ok(Self { core, exports, imports })
    }

    /// The public key that verifies exports, and its purpose.
    pub fn public_key(&self) -> (&'static str, PublicKey) {
        (signature::PURPOSE, self.core.public_key)
    }

    /// The operations that only the admin socket serves.
    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::TransferApi { core: self.core.clone(), exports: self.exports.clone(), imports: self.imports.clone() }
    }

    /// The records that are exported with a tenant.
    pub fn portables(&self) -> &[Box<dyn Portable>] {
        &self.core.others.portables
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::IMPORTS]
    }
}
