//! `/internal/admin/tenants/{id}/identity-providers/relax`: the operator lifts enforced single sign-on, on the admin socket.

use poem_openapi::{Object, OpenApi, Tags, param::Path};
use serde::Serialize;

use tenantd_base::id::{IdentityProviderId, TenantId};
use tenantd_http::{
    input::Filter,
    need::{Allowed, LocalOperator},
    problem::Problem,
    reply::Answer,
};
use tenantd_platform::Tenants;
use tenantd_store::{Store, WriteTx};

use super::{super::service::Service, wire::IdentityProvider};

#[derive(Tags)]
enum Area {
    /// Administer the installation through the admin socket.
    Administration,
}

#[derive(Debug, Object)]
struct RelaxQuery {
    /// The provider to relax. When absent, all providers of the tenant.
    identity_provider_id: Option<IdentityProviderId>,
}

/// The providers that no longer enforce single sign-on.
#[derive(Debug, Object, Serialize)]
struct RelaxedProviders {
    identity_providers: Vec<IdentityProvider>,
}

pub(crate) struct AdminRelaxApi {
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl AdminRelaxApi {
    /// Lift enforced single sign-on of a tenant
    ///
    /// Sets `enforcement` of the tenant's identity providers to `off`, so that staff can sign in with their passwords again. Use it
    /// when a provider fails and no break-glass account works. The response lists the providers that were changed.
    #[oai(path = "/tenants/:id/identity-providers/relax", method = "post", operation_id = "relax_identity_providers")]
    async fn relax_identity_providers(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        query: Filter<RelaxQuery>,
    ) -> Result<Answer<RelaxedProviders>, Problem> {
        self.store.read(|tx| self.tenants.get(tx, id.0).map(drop))?;
        let (intent, tenants) = (auth.context.guarding_intent(&auth.principal), self.tenants.clone());
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            tenants.enter(&mut act, id.0);
            Service::relax(tx, &mut act, query.0.identity_provider_id)
        };
        let relaxed = self.store.write(work).await?;
        Ok(Answer::new(&RelaxedProviders { identity_providers: relaxed.into_iter().map(Into::into).collect() }))
    }
}
