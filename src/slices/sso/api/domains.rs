//! `/internal/admin/tenants/{id}/domains/{domain}/approve`: the operator's approval of a domain, on the admin socket.

use poem_openapi::{Object, OpenApi, Tags, param::Path};

use tenantd_base::id::{IdentityProviderId, TenantId};
use tenantd_http::{
    input::Filter,
    need::{Allowed, LocalOperator},
    problem::Problem,
    reply::Changed,
};
use tenantd_platform::Tenants;
use tenantd_store::{Store, WriteTx};

use super::{
    super::{
        error::{self, SsoError},
        model::Domain,
        service::Service,
    },
    wire::IdentityProvider,
};

#[derive(Tags)]
enum Area {
    /// Administer the installation through the admin socket.
    Administration,
}

#[derive(Debug, Object)]
struct ApproveQuery {
    /// The provider that receives the domain. Required if no provider claims the domain and the tenant has several providers.
    identity_provider_id: Option<IdentityProviderId>,
}

pub(crate) struct AdminDomainsApi {
    pub(crate) service: Service,
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl AdminDomainsApi {
    /// Approve a domain of a tenant
    ///
    /// Assigns the domain to an identity provider of the tenant without a DNS record: to the provider that claims the domain, or to
    /// the tenant's only provider. Your approval is needed if another tenant has staff with addresses of the domain. A domain that
    /// another provider has proven is not reassigned.
    #[oai(path = "/tenants/:id/domains/:domain/approve", method = "post", operation_id = "approve_domain")]
    async fn approve_domain(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        domain: Path<String>,
        query: Filter<ApproveQuery>,
    ) -> Result<Changed<IdentityProvider>, Problem> {
        self.store.read(|tx| self.tenants.get(tx, id.0).map(drop))?;
        let domain = Domain::parse(&domain.0).map_err(|problem| SsoError::Invalid(vec![error::bad_domain(None, problem)]))?;
        let intent = auth.context.guarding_intent(&auth.principal);
        let service = self.service.clone();
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            act.tenant_id = id.0;
            service.approve_domain(tx, &mut act, &domain, query.0.identity_provider_id)
        };
        let provider = self.store.write(work).await?;
        let version = provider.version;
        Ok(Changed::new(&IdentityProvider::from(provider).at(&auth.context.base_url, id.0), version))
    }
}
