//! Named secrets of a tenant: written and never read again, each bound to the servers that it may be sent to. Workflow steps name them as
//! `{{ secrets.NAME }}`.
//!
//! **Invariant:** a value leaves the store by [`Vault::reveal`] alone: for a server that the secret names, and for a workflow that it
//! permits. A server is added only together with the value. **Boundary:** this slice knows nothing of steps; whoever sends a secret asks
//! the vault at the moment of sending.

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
pub use vault::{Asked, Refusal, Vault};

use service::Service;

pub const EVENTS: &[&EventKind] = &[&service::CREATED, &service::UPDATED, &service::ROTATED, &service::DELETED];

/// What the handlers share.
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

    /// The way to values, for those who send them.
    pub fn vault(&self) -> Vault {
        self.vault.clone()
    }

    pub fn api(&self) -> impl OpenApi + use<> {
        (api::SecretsApi { core: self.core.clone() }, api::SecretApi { core: self.core.clone() })
    }

    /// What of a tenant's secrets goes along to another installation. Without its value, a secret waits for a new one there.
    pub fn portable() -> Result<Vec<Box<dyn Portable>>, String> {
        let fields = api::secret_fields()?;
        Ok(repo::portable::portable(move |record| fields.check(record)))
    }

    pub fn tables() -> Vec<&'static dyn Checked> {
        vec![&repo::SECRETS, &repo::USES]
    }

    /// Those with secrets under the installation key.
    pub fn sealed_tables() -> Vec<&'static dyn SealedTable> {
        vec![&repo::SECRETS]
    }
}

/// The names of a tenant's secrets, in no order.
pub fn names(tx: &impl Read, tenant: TenantId) -> Result<Vec<String>, StoreError> {
    Ok(repo::list(tx, tenant)?.into_iter().map(|secret| secret.name).collect())
}
