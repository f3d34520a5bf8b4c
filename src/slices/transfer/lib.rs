//! Tenants on their way between installations: all of one as lines of JSON, and a tenant from such lines.
//!
//! Each slice describes the lines of its own tables (`kernel/store/portable`). This slice puts them in order, signs them, and takes them in. **Invariant:** an export is one snapshot in which nothing is left to be done with the tenant's events.
//! **Invariant:** a tenant that arrives is there when all of it is: its own record comes with the last transaction. **Invariant:** a file is
//! input. No line is stored that was not checked as its use case would, and nothing of a file that nobody vouches for can act.

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

/// What exports of an installation with this key are checked with, and what the key is for.
pub fn public_key(key: &InstallationKey) -> Result<(&'static str, PublicKey), SignatureError> {
    Ok((signature::PURPOSE, Signer::of(key, signature::PURPOSE)?.public_key()?))
}

/// What the slice is given of the others.
pub struct Others {
    pub tenants: Tenants,
    pub sealer: Sealer,
    /// The tables of all slices, in an order in which what is referred to comes first and the tenant's own record last.
    pub portables: Vec<Box<dyn Portable>>,
    /// Everything that tenants have anywhere: what an import has left behind is removed by it.
    pub rows: Vec<&'static dyn TenantRows>,
    /// Readers of the log whose work leaves with the tenant.
    pub consumers: Vec<&'static str>,
    /// Called when a tenant has arrived: for what is derived from records.
    pub arrived: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").field("consumers", &self.consumers).finish_non_exhaustive()
    }
}

/// What exports and imports share.
#[derive(Clone, Debug)]
struct Core {
    store: Store,
    clock: Clock,
    others: Arc<Others>,
    signer: Arc<Signer>,
    public_key: PublicKey,
    /// Held by the import that is under way.
    importing: Arc<tokio::sync::Mutex<()>>,
}

/// The slice, ready to be put together with the others.
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

    /// What others check exports with, and what it is for.
    pub fn public_key(&self) -> (&'static str, PublicKey) {
        (signature::PURPOSE, self.core.public_key)
    }

    /// What only the admin socket serves.
    pub fn admin_api(&self) -> impl OpenApi + use<> {
        api::TransferApi { core: self.core.clone(), exports: self.exports.clone(), imports: self.imports.clone() }
    }

    /// What leaves with a tenant.
    pub fn portables(&self) -> &[Box<dyn Portable>] {
        &self.core.others.portables
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::IMPORTS]
    }
}
