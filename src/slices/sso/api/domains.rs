//! `/internal/admin/tenants/{id}/domains/{domain}/approve`: the operator's word for a domain, for anyone who may open the admin socket.

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
    /// What only the admin socket serves.
    Administration,
}

#[derive(Debug, Object)]
struct ApproveQuery {
    /// The provider that is to answer for the domain. Needed if none of them claims it and the tenant has several.
    identity_provider_id: Option<IdentityProviderId>,
}

pub(crate) struct AdminDomainsApi {
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl AdminDomainsApi {
    /// Approve a domain of a tenant
    ///
    /// The tenant's identity provider answers for the domain from then on, without a record in DNS. It is the one that claims the domain, or
    /// the tenant's only one. The tenant needs your approval if another tenant has staff with such addresses. A domain that another provider
    /// has proven stays there.
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
        let work = move |tx: &mut WriteTx| {
            let mut act = intent.begin();
            act.tenant_id = id.0;
            Service::approve_domain(tx, &mut act, &domain, query.0.identity_provider_id)
        };
        let provider = self.store.write(work).await?;
        let version = provider.version;
        Ok(Changed::new(&provider.into(), version))
    }
}
