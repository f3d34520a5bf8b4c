//! `/api/admin/identity-providers/{id}`: one provider. Also implements the updates and deletions that address the collection.

use poem_openapi::{
    ApiResponse, OpenApi,
    param::Path,
    registry::{MetaResponses, Registry},
};

use tenantd_auth::Manager;
use tenantd_base::{access::TenantKind, clock::Clock, fault::Fault, id::IdentityProviderId};
use tenantd_egress::Egress;
use tenantd_http::{
    input::{Body, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Empty, Found, declared},
};
use tenantd_store::{Store, is_rehearsal};

use super::{
    super::{
        error::{self, SsoError},
        flow::{SignOn, audience_of},
        lookups::Lookups,
        model::{Domain, check_issuer},
        repo,
        service::{ProviderChange, Service, check_rights},
    },
    Area,
    wire::{IdentityProvider, UpdateIdentityProvider},
};

pub(super) fn path(id: IdentityProviderId) -> String {
    format!("/api/admin/identity-providers/{id}")
}

/// The state that the operations on providers share.
#[derive(Clone, Debug)]
pub(crate) struct ApiState {
    pub(crate) service: Service,
    pub(crate) store: Store,
    pub(crate) egress: Egress,
    pub(crate) lookups: Lookups,
    pub(crate) sign_on: SignOn,
    pub(crate) clock: Clock,
}

/// 200 with the provider, 409 if the domain is not available, 502 if the DNS lookup fails.
#[derive(Debug)]
struct Verified(Changed<IdentityProvider>);

impl poem::IntoResponse for Verified {
    fn into_response(self) -> poem::Response {
        self.0.into_response()
    }
}

impl ApiResponse for Verified {
    fn meta() -> MetaResponses {
        let mut responses = Changed::<IdentityProvider>::meta();
        let known: Vec<Option<u16>> = responses.responses.iter().map(|response| response.status).collect();
        responses.responses.extend([409, 502].into_iter().filter(|status| !known.contains(&Some(*status))).map(declared));
        responses
    }

    fn register(registry: &mut Registry) {
        Changed::<IdentityProvider>::register(registry);
    }
}

pub(crate) struct ProviderApi(pub(crate) ApiState);

#[OpenApi(prefix_path = "/api/admin/identity-providers", tag = "Area::IdentityProviders")]
impl ProviderApi {
    /// Read an identity provider
    ///
    /// Returns the provider without its client secret, with the outcomes of the last sign-ons in `sign_on`.
    #[oai(path = "/:id", method = "get", operation_id = "read_identity_provider")]
    async fn read_identity_provider(
        &self,
        auth: Allowed<UsersRead>,
        id: Path<IdentityProviderId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<IdentityProvider>, Problem> {
        let key = (auth.principal.tenant_id, id.0);
        let (provider, history) = self.0.store.read(|tx| {
            let provider = repo::get(tx, key)?.ok_or(SsoError::NotFound)?;
            Ok::<_, SsoError>((provider, repo::history::get(tx, key)?))
        })?;
        // Sign-ons do not change the version.
        if history.is_none() && if_none_match.knows(provider.version) {
            return Ok(Found::not_modified(provider.version));
        }
        let version = provider.version;
        let shown = IdentityProvider::from(provider).with_history(history).at(&auth.context.base_url, key.0);
        Ok(Found::new(&shown, version))
    }

    /// Change an identity provider by its path
    ///
    /// Does the same as `PUT /api/admin/identity-providers?id=`. If you change the issuer's scheme, host or port, send
    /// `client_secret` in the same request.
    #[oai(path = "/:id", method = "put", operation_id = "update_identity_provider_by_id")]
    async fn update_identity_provider_by_id(
        &self,
        auth: Allowed<UsersWrite>,
        recent: RecentUnlessReducing,
        id: Path<IdentityProviderId>,
        if_match: IfMatch,
        body: Body<UpdateIdentityProvider>,
    ) -> Result<Changed<IdentityProvider>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(Some(id.0), body.0.id)?;
        self.0.update(&auth, id, if_match, body.0).await
    }

    /// Verify a domain of an identity provider
    ///
    /// Looks up the TXT record that `domain_claims` of the provider names. If DNS has the record, the domain is proven, and people
    /// with an address of the domain can sign in through the provider. The domain stays proven if you remove the record.
    ///
    /// Your credential must have all scopes of an administrator, from any network. If DNS does not have the record yet, the
    /// response is 422 `domain_not_proven` and contains the record. If another provider has proven the domain in the meantime, or
    /// another tenant has staff with addresses of the domain, the response is 409 `already_exists`; only the operator can then
    /// approve the domain. A tenant can verify one domain at a time.
    #[oai(path = "/:id/domains/:domain/verify", method = "post", operation_id = "verify_identity_provider_domain")]
    async fn verify_identity_provider_domain(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<IdentityProviderId>,
        domain: Path<String>,
    ) -> Result<Verified, Problem> {
        Manager::of(&auth.principal).check_every_account().map_err(SsoError::from)?;
        let domain = Domain::parse(&domain.0).map_err(|problem| SsoError::Invalid(vec![error::bad_domain(None, problem)]))?;
        self.0.verify_domain(&auth, id.0, domain).await
    }

    /// Delete an identity provider by its path
    ///
    /// Does the same as `DELETE /api/admin/identity-providers?id=`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_identity_provider_by_id")]
    async fn delete_identity_provider_by_id(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<IdentityProviderId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        self.0.delete(&auth, id.0, if_match).await
    }
}

impl ApiState {
    /// The fault of an issuer whose address is not allowed. A rehearsal looks up no names. Every later request checks it again.
    pub(super) async fn vet(&self, issuer: &str, tenant: TenantKind) -> Option<Fault> {
        let (url, audience) = (check_issuer(issuer).ok()?, audience_of(tenant));
        let vetted = if is_rehearsal() { self.egress.vet_address(&url, audience) } else { self.egress.vet(&url, audience).await };
        vetted.err().map(|_| error::refused_issuer())
    }

    async fn verify_domain(&self, auth: &Allowed<UsersWrite>, id: IdentityProviderId, domain: Domain) -> Result<Verified, Problem> {
        let key = (auth.principal.tenant_id, id);
        let manager = Manager::of(&auth.principal);
        let provider = self.store.read(|tx| repo::get(tx, key)?.ok_or(SsoError::NotFound))?;
        let claim = provider.claim(&domain).ok_or(SsoError::NotFound)?;
        let texts = if claim.proof.is_some() {
            Vec::new()
        } else {
            let _lookup = self.lookups.begin(key.0).ok_or(SsoError::LookupsBusy)?;
            self.egress.texts(&claim.record_name()).await.map_err(|error| SsoError::Dns(error.to_string()))?
        };
        let intent = auth.context.guarding_intent(&auth.principal);
        let service = self.service.clone();
        let work = self.store.write(move |tx| service.prove_domain(tx, &mut intent.begin(), &manager, id, &domain, &texts));
        let provider = work.await?;
        let version = provider.version;
        Ok(Verified(Changed::new(&IdentityProvider::from(provider).at(&auth.context.base_url, key.0), version)))
    }

    pub(super) async fn update(
        &self,
        auth: &Allowed<UsersWrite>,
        id: IdentityProviderId,
        if_match: IfMatch,
        body: UpdateIdentityProvider,
    ) -> Result<Changed<IdentityProvider>, Problem> {
        let manager = Manager::of(&auth.principal);
        let key = (auth.principal.tenant_id, id);
        let change = match ProviderChange::try_from(body) {
            Ok(change) => change,
            // No stored value is invalid, so an invalid value is a change and needs full rights.
            Err(invalid) => {
                manager.check_every_account().map_err(SsoError::from)?;
                return Err(invalid.into());
            }
        };
        self.store.read(|tx| check_rights(&manager, &repo::get(tx, key)?.ok_or(SsoError::NotFound)?, &change))?;
        if let Some(issuer) = &change.issuer
            && let Some(refused) = self.vet(issuer, auth.principal.tenant_kind).await
        {
            return Err(SsoError::Invalid(vec![refused]).into());
        }
        let (intent, service) = (auth.context.guarding_intent(&auth.principal), self.service.clone());
        let work = self.store.write(move |tx| service.update(tx, &mut intent.begin(), &manager, id, &if_match, &change));
        let provider = work.await?;
        let version = provider.version;
        Ok(Changed::new(&IdentityProvider::from(provider).at(&auth.context.base_url, key.0), version))
    }

    pub(super) async fn delete(
        &self,
        auth: &Allowed<UsersWrite>,
        id: IdentityProviderId,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        let intent = auth.context.guarding_intent(&auth.principal);
        self.store.write(move |tx| Service::delete(tx, &mut intent.begin(), id, &if_match)).await?;
        Ok(Empty::new())
    }
}
