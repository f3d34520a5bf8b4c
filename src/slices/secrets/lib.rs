//! The named secrets of a tenant. Clients write them and never read them back. Each secret lists the servers to which it may be
//! sent. Workflow steps use a secret as `{{ secrets.NAME }}`.
//!
//! **Invariant:** a value leaves the store only through [`Vault::reveal`], for a server that the secret lists and a workflow that
//! it permits. Adding a server requires sending the value again. **Boundary:** this slice knows nothing about steps. A caller that
//! sends a secret asks the vault when it sends.

mod api;
mod error;
mod model;
mod repo;
mod service;
mod vault;

use std::sync::Arc;

use poem_openapi::OpenApi;

use tenantd_base::{clocks::Clocks, id::TenantId, secrets::Sealer};
use tenantd_store::{Checked, Read, SealedTable, Store, StoreError, events::EventKind, portable::Portable};

pub use error::SecretError;
pub use model::is_name;
pub use service::KnowsWorkflow;
pub use vault::{Refusal, RevealRequest, Vault};

use service::Service;

pub const EVENTS: &[&EventKind] = &[&service::CREATED, &service::UPDATED, &service::ROTATED, &service::DELETED];

/// The state that all handlers share.
#[derive(Debug)]
struct Core {
    store: Store,
    service: Service,
}

#[derive(Clone, Debug)]
pub struct NamedSecrets {
    core: Arc<Core>,
    vault: Vault,
}

impl NamedSecrets {
    pub fn new(store: Store, clocks: Clocks, sealer: Sealer, knows_workflow: KnowsWorkflow) -> Self {
        let vault = Vault { store: store.clone(), clocks, sealer: sealer.clone() };
        let service = Service { sealer, knows_workflow };
        Self { core: Arc::new(Core { store, service }), vault }
    }

    /// Gives access to the values, for callers that send them.
    pub fn vault(&self) -> Vault {
        self.vault.clone()
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        (api::SecretsApi { core: self.core.clone() }, api::SecretApi { core: self.core.clone() })
    }

    /// The tables that a tenant export contains. A secret that arrives without its value needs a new one at the destination.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::secret_fields()?;
        Ok(repo::portable::portable(move |record| fields.check(record)))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::SECRETS, &repo::USES]
    }

    /// The tables whose values are sealed with the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&repo::SECRETS]
    }
}

/// The names of a tenant's secrets, in no particular order.
pub fn names(tx: &impl Read, tenant: TenantId) -> Result<Vec<String>, StoreError> {
    Ok(repo::list(tx, tenant)?.into_iter().map(|secret| secret.name).collect())
}
