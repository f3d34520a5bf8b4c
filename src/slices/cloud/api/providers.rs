//! `/api/cloud/providers`: the collection, with the target of a change in the query or in the body.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Enum, Object, OpenApi};

use tenantd_base::{
    fault::Fault,
    id::{CloudProviderId, OrganizationId, TenantId},
};
use tenantd_egress::TargetUrl;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter, OptionalBody, target},
    need::{Allowed, ProvidersRead, ProvidersWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::{Code, Problem},
    reply::{Changed, Empty, Listed, Settled},
    wire::{OneOrMany, Word},
};
use tenantd_store::{Key, StoreError};

use super::{
    super::{
        Core, adapters,
        error::{CloudError, VerificationResult},
        fleet::Known,
        model::{self, ProviderKind, ProviderStatus, Verification},
        repo,
        service::{Service, find_provider},
    },
    Area,
    bodies::{CreateCloudProvider, UpdateCloudProvider, VerifyCloudProvider, read_way},
    provider::{self, DeleteProviderTarget},
    show_provider,
    wire::{CloudProvider, ProviderVerification},
};

/// A request waits for a cloud at most this long.
pub(super) const VERIFY_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Object)]
struct ListCloudProviders {
    /// Providers of one of these kinds.
    #[oai(validator(min_items = 1, max_items = 8))]
    kind: Option<Vec<Word<ProviderKind>>>,
    /// Providers in one of these states.
    #[oai(validator(min_items = 1, max_items = 6))]
    status: Option<Vec<ProviderStatus>>,
    /// Providers of one of these organizations.
    #[oai(validator(min_items = 1, max_items = 64))]
    organization_id: Option<Vec<OrganizationId>>,
    /// A part of the name, in any case.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: Option<String>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListCloudProviders {
    fn matches(&self, known: &Known) -> bool {
        fn wanted<T: PartialEq>(list: Option<&Vec<T>>, value: Option<T>) -> bool {
            list.is_none_or(|list| value.is_some_and(|value| list.contains(&value)))
        }
        let provider = &known.provider;
        let name = self.name.as_deref().map(str::to_lowercase);
        wanted(self.kind.as_ref(), Some(provider.kind.into()))
            && wanted(self.status.as_ref(), Some(provider.status(&known.sync)))
            && wanted(self.organization_id.as_ref(), provider.organization_id)
            && name.is_none_or(|part| provider.name.to_lowercase().contains(&part))
    }
}

#[derive(Debug, Object)]
struct ProviderTargetQuery {
    /// The provider, unless the body names it.
    id: Option<CloudProviderId>,
}

/// `sync` verifies before the answer and stores the provider in any case; `require` stores it only when it is valid; `skip` does not
/// verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
enum VerifyMode {
    Sync,
    Skip,
    Require,
}

#[derive(Debug, Object)]
struct PostProviderQuery {
    /// When a provider is created: whether its credential is tried. `sync` when absent; it takes at most 10 seconds.
    verify: Option<VerifyMode>,
    /// When a provider is verified: the provider, unless the body names it.
    id: Option<CloudProviderId>,
}

type PostBody = OneOrMany<CreateCloudProvider, VerifyCloudProvider>;
type PostAnswer = OneOrMany<CloudProvider, ProviderVerification>;

pub(crate) struct ProvidersApi {
    pub(crate) core: Arc<Core>,
}

#[OpenApi(prefix_path = "/api/cloud/providers", tag = "Area::Cloud")]
impl ProvidersApi {
    /// List cloud providers
    ///
    /// The tenant's providers, newest first, without their credentials.
    #[oai(path = "/", method = "get", operation_id = "list_cloud_providers")]
    async fn list_cloud_providers(
        &self,
        auth: Allowed<ProvidersRead>,
        query: Filter<ListCloudProviders>,
    ) -> Result<Listed<CloudProvider>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let tenant = auth.principal.tenant_id;
        let (shown, last, total) = self.core.store.read(|tx| {
            let mut found = Vec::new();
            for provider in repo::providers::list(tx, tenant)?.into_iter().rev() {
                let sync = repo::providers::sync(tx, (tenant, provider.id))?;
                let known = Known { provider, sync };
                if auth.principal.reach.covers(known.provider.organization_id) && query.0.matches(&known) {
                    found.push(known);
                }
            }
            let total = request.include_total.then_some(found.len() as u64);
            if let Some(after) = &request.after {
                found.retain(|known| known.provider.id.to_bytes() < *after);
            }
            let more = found.len() > request.limit;
            found.truncate(request.limit);
            let last = found.last().filter(|_| more).map(|known| known.provider.id.to_bytes());
            let shown = found.into_iter().map(|known| CloudProvider::new(tx, known));
            Ok::<_, StoreError>((shown.collect::<Result<Vec<_>, _>>()?, last, total))
        })?;
        Ok(Listed::new(&shown, &request.page(last, total)))
    }

    /// Create or verify a cloud provider
    ///
    /// Without `action`, a provider is created; its credential is kept sealed and is never shown again. With `"action": "verify"` a credential
    /// is tried: that of a stored provider by `id`, or one that is not stored, by `kind`, `config` and `credential`.
    #[oai(path = "/", method = "post", operation_id = "create_cloud_provider")]
    async fn create_cloud_provider(
        &self,
        auth: Allowed<ProvidersWrite>,
        query: Filter<PostProviderQuery>,
        idempotency_key: IdempotencyKey,
        body: Body<PostBody>,
    ) -> Result<Settled<PostAnswer>, Problem> {
        match body.0 {
            OneOrMany::One(body) => {
                refuse(query.0.id.is_some(), "id", "a provider that is created has no id yet")?;
                let mode = query.0.verify.unwrap_or(VerifyMode::Sync);
                self.create(&auth, mode, idempotency_key, body).await
            }
            OneOrMany::Many(body) => {
                refuse(query.0.verify.is_some(), "verify", "it is for the creation of a provider")?;
                self.verify(&auth, query.0.id, idempotency_key, body).await
            }
        }
    }

    /// Change a cloud provider
    ///
    /// The provider is named by `?id=` or by `id` in the body. What the body does not name stays as it is; without `credential` the stored
    /// one is kept. It is bound to its target: a change of the scheme, host or port of `config.endpoint` or `config.auth_url`, of
    /// `config.ca_certificate_pem` or of `config.tls_fingerprint` is a 422 unless you send `credential` again. Not while VMs are being
    /// created there.
    #[oai(path = "/", method = "put", operation_id = "update_cloud_provider")]
    async fn update_cloud_provider(
        &self,
        auth: Allowed<ProvidersWrite>,
        query: Filter<ProviderTargetQuery>,
        if_match: IfMatch,
        body: Body<UpdateCloudProvider>,
    ) -> Result<Changed<CloudProvider>, Problem> {
        let id = target(query.0.id, body.0.id)?;
        provider::update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a cloud provider
    ///
    /// The provider is named by `?id=` or by `id` in the body. We forget its VMs; in the cloud nothing happens to them. Not while VMs are
    /// being created there.
    #[oai(path = "/", method = "delete", operation_id = "delete_cloud_provider")]
    async fn delete_cloud_provider(
        &self,
        auth: Allowed<ProvidersWrite>,
        query: Filter<ProviderTargetQuery>,
        if_match: IfMatch,
        body: OptionalBody<DeleteProviderTarget>,
    ) -> Result<Empty, Problem> {
        let id = target(query.0.id, body.0.id)?;
        provider::delete(&self.core, &auth, id, if_match).await
    }
}

/// A parameter that belongs to the other thing that can be done here.
fn refuse(given: bool, parameter: &str, why: &str) -> Result<(), Problem> {
    if !given {
        return Ok(());
    }
    let error = tenantd_http::problem::FieldError::parameter(parameter, "not_allowed", why);
    Err(Problem::invalid(vec![error]))
}

impl ProvidersApi {
    async fn create(
        &self,
        auth: &Allowed<ProvidersWrite>,
        mode: VerifyMode,
        idempotency_key: IdempotencyKey,
        body: CreateCloudProvider,
    ) -> Result<Settled<PostAnswer>, Problem> {
        let new = body.read(self.core.default_interval_seconds)?;
        let tenant = auth.principal.tenant_id;
        self.core.vet(&new.config, tenant).await?;
        let verification = match mode {
            VerifyMode::Skip => None,
            VerifyMode::Sync | VerifyMode::Require => {
                Some(self.core.try_out(tenant, (new.kind, new.config.clone(), new.credential.clone())).await?)
            }
        };
        if let Some(failed) = verification.clone().filter(|verification| !verification.outcome.is_valid())
            && mode == VerifyMode::Require
        {
            return Err(CloudError::NotVerified(Box::new(VerificationResult(failed))).into());
        }
        let (core, reach) = (self.core.clone(), auth.principal.reach.clone());
        idempotency_key
            .run(auth.context.intent(&auth.principal), move |tx, act| {
                let provider = core.service.create_provider(tx, act, &reach, &new, verification.as_ref())?;
                let place = provider::path(provider.id);
                let shown = show_provider(tx, provider)?;
                Ok::<_, CloudError>(Settled::created(&shown, Some((shown.version, &place))))
            })
            .await
    }

    async fn verify(
        &self,
        auth: &Allowed<ProvidersWrite>,
        in_query: Option<CloudProviderId>,
        idempotency_key: IdempotencyKey,
        body: VerifyCloudProvider,
    ) -> Result<Settled<PostAnswer>, Problem> {
        let unstored = body.kind.is_some() || body.config.is_some() || body.credential.is_some();
        let tenant = auth.principal.tenant_id;
        let intent = auth.context.intent(&auth.principal);
        let (provider, verification) = match (in_query.or(body.id), body.kind) {
            (Some(_), _) if unstored => {
                let message = "either the id of a stored provider, or kind, config and credential of one that is not";
                return Err(CloudError::Invalid(vec![Fault::new("/id", "not_allowed", message)]).into());
            }
            (Some(_), _) => {
                let id = target(in_query, body.id)?;
                let reach = &auth.principal.reach;
                let provider = self.core.store.read(|tx| find_provider(tx, &intent.begin(), reach, id))?;
                let verification = self.core.try_stored(&provider).await?;
                (Some(provider), verification)
            }
            (None, Some(kind)) => {
                let kind = kind.into();
                let (config, credential) = read_way(kind, body.config, body.credential, true)?;
                self.core.vet(&config, tenant).await?;
                let credential = credential.unwrap_or(model::Credential::None {});
                (None, self.core.try_out(tenant, (kind, config, credential)).await?)
            }
            (None, None) => {
                let message = "name the stored provider by id, or give kind, config and credential of one that is not stored";
                return Err(CloudError::Invalid(vec![Fault::new("/id", "required", message)]).into());
            }
        };
        idempotency_key
            .run(intent, move |tx, act| {
                if let Some(provider) = &provider {
                    Service::note_verification(tx, act, provider, &verification)?;
                }
                Ok::<_, CloudError>(Settled::kept(&ProviderVerification::from(verification.clone()), None))
            })
            .await
    }
}

impl Core {
    /// Refuses targets that the address policy does not allow. They are judged again with every call.
    pub(super) async fn vet(&self, config: &model::ProviderConfig, tenant: TenantId) -> Result<(), CloudError> {
        let audience = self.audience(tenant);
        for (field, url) in config.targets() {
            let Ok(url) = TargetUrl::parse(url) else { continue };
            self.egress.vet(&url, audience).await.map_err(|_| CloudError::Blocked(field.name()))?;
        }
        Ok(())
    }

    /// Tries a credential that is not stored.
    pub(super) async fn try_out(
        &self,
        tenant: TenantId,
        way: (ProviderKind, model::ProviderConfig, model::Credential),
    ) -> Result<Verification, Problem> {
        let (adapter, access) = self.access(tenant, None, way, VERIFY_LIMIT);
        Ok(adapters::verify(adapter, &access, VERIFY_LIMIT).await)
    }

    /// Tries the credential of a stored provider.
    pub(crate) async fn try_stored(&self, provider: &model::Provider) -> Result<Verification, Problem> {
        let (adapter, access) = self.reach(provider, VERIFY_LIMIT).map_err(|failure| unopened(&failure))?;
        Ok(adapters::verify(adapter, &access, VERIFY_LIMIT).await)
    }
}

/// A credential that cannot be opened is not the caller's mistake, but only they can mend it.
fn unopened(failure: &model::Failure) -> Problem {
    Problem::new(Code::ProviderVerificationFailed, failure.message.clone())
}
