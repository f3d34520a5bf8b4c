//! `/api/cloud/providers`: the collection. Updates and deletions name the provider in the query or in the body.

use std::{sync::Arc, time::Duration};

use poem_openapi::{Enum, Object, OpenApi};

use tenantd_base::{
    fault::Fault,
    id::{CloudProviderId, OrganizationId, TenantId},
};
use tenantd_egress::TargetUrl;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter, Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, ProvidersRead, ProvidersWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::{Code, Problem},
    recent::RecentUnlessReducing,
    reply::{Changed, Empty, Listed, Settled},
    wire::{OneOrMany, Word},
};
use tenantd_store::{Key, StoreError, is_rehearsal};

use super::{
    super::{
        Core, adapters,
        error::{CloudError, VerificationResult},
        fleet::SyncedProvider,
        model::{self, ProviderKind, ProviderStatus, Verification},
        repo,
        service::{Service, find_provider},
    },
    Area,
    bodies::{CreateCloudProvider, UpdateCloudProvider, VerifyCloudProvider, read_connection},
    provider::{self, DeleteProviderTarget},
    show_provider,
    wire::{CloudProvider, ProviderVerification},
};

/// The longest time that a request waits for a cloud.
pub(super) const VERIFY_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Object)]
struct ListCloudProviders {
    /// Return only providers of one of these kinds.
    #[oai(validator(min_items = 1, max_items = 8))]
    kind: Option<Vec<Word<ProviderKind>>>,
    /// Return only providers with one of these statuses.
    #[oai(validator(min_items = 1, max_items = 6))]
    status: Option<Vec<ProviderStatus>>,
    /// Return only providers of one of these organizations.
    #[oai(validator(min_items = 1, max_items = 64))]
    organization_id: Option<Vec<OrganizationId>>,
    /// Return only providers whose name contains this text, ignoring case.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: Option<String>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListCloudProviders {
    fn matches(&self, known: &SyncedProvider) -> bool {
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
    /// The id of the provider. Not needed if the body names it.
    id: Option<CloudProviderId>,
}

/// `sync` verifies the credential and stores the provider whatever the result. `require` stores the provider only if the credential
/// is valid. `skip` does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
enum VerifyMode {
    Sync,
    Skip,
    Require,
}

#[derive(Debug, Object)]
struct PostProviderQuery {
    /// When you create a provider: whether tenantd verifies its credential first. Defaults to `sync`. A verification takes at most
    /// 10 seconds.
    verify: Option<VerifyMode>,
    /// When you verify a provider: its id. Not needed if the body names it.
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
    /// Returns the tenant's providers, newest first, without their credentials.
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
                let known = SyncedProvider { provider, sync };
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
    /// Creates a provider, unless the body has an `action`. tenantd encrypts the credential and never returns it. With `"action":
    /// "verify"`, verifies a credential instead: the credential of a stored provider, named by `id`, or an unsaved one in `kind`,
    /// `config` and `credential`.
    #[oai(path = "/", method = "post", operation_id = "create_cloud_provider")]
    async fn create_cloud_provider(
        &self,
        auth: Allowed<ProvidersWrite>,
        _recent: Marked<RecentSignIn>,
        query: Filter<PostProviderQuery>,
        idempotency_key: IdempotencyKey,
        body: Lenient<PostBody>,
    ) -> Result<Settled<PostAnswer>, Problem> {
        match body.0 {
            OneOrMany::One(body) => {
                refuse(query.0.id.is_some(), "id", "is not allowed when you create a provider: the server assigns the id")?;
                let mode = query.0.verify.unwrap_or(VerifyMode::Sync);
                self.create(&auth, mode, idempotency_key, body).await
            }
            OneOrMany::Many(body) => {
                refuse(query.0.verify.is_some(), "verify", "is allowed only when you create a provider")?;
                self.verify(&auth, query.0.id, idempotency_key, body).await
            }
        }
    }

    /// Change a cloud provider
    ///
    /// Updates the provider that `?id=` or `id` in the body names. Fields that the body omits keep their values, including
    /// `credential`. The stored credential is bound to its target. If you change the scheme, host or port of `config.endpoint` or
    /// `config.auth_url`, or change `config.ca_certificate_pem` or `config.tls_fingerprint`, send `credential` again; otherwise the
    /// response is 422. Such a change is refused while VMs are being created at the provider.
    #[oai(path = "/", method = "put", operation_id = "update_cloud_provider")]
    async fn update_cloud_provider(
        &self,
        auth: Allowed<ProvidersWrite>,
        recent: RecentUnlessReducing,
        query: Filter<ProviderTargetQuery>,
        if_match: IfMatch,
        body: Body<UpdateCloudProvider>,
    ) -> Result<Changed<CloudProvider>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(query.0.id, body.0.id)?;
        provider::update(&self.core, &auth, id, if_match, body.0).await
    }

    /// Delete a cloud provider
    ///
    /// Deletes the provider that `?id=` or `id` in the body names. tenantd also removes its VMs from the list; the VMs in the cloud
    /// are not affected. Refused while VMs are being created at the provider.
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

/// Refuses a parameter that belongs to the other action of this operation.
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
        let mut new = body.read(self.core.default_interval_seconds);
        let (tenant, reach) = (auth.principal.tenant_id, auth.principal.reach.clone());
        let intent = auth.context.intent(&auth.principal);
        new.faults.extend(self.core.vet(&new.config, tenant).await);
        self.core.store.read(|tx| Service::check_provider(tx, &intent.begin(), &reach, &new))?;
        let verification = match mode {
            VerifyMode::Skip => None,
            VerifyMode::Sync | VerifyMode::Require => {
                Some(self.core.verify_unsaved(tenant, (new.kind, new.config.clone(), new.credential.clone())).await?)
            }
        };
        if let Some(failed) = verification.clone().filter(|verification| !verification.outcome.is_valid())
            && mode == VerifyMode::Require
        {
            return Err(CloudError::NotVerified(Box::new(VerificationResult(failed))).into());
        }
        let core = self.core.clone();
        idempotency_key
            .run(intent, move |tx, act| {
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
                let message = "cannot be combined with kind, config and credential: send either the id or these fields";
                return Err(CloudError::Invalid(vec![Fault::new("/id", "not_allowed", message)]).into());
            }
            (Some(_), _) => {
                let id = target(in_query, body.id)?;
                let reach = &auth.principal.reach;
                let provider = self.core.store.read(|tx| find_provider(tx, &intent.begin(), reach, id))?;
                let verification = self.core.verify_stored(&provider).await?;
                (Some(provider), verification)
            }
            (None, Some(kind)) => {
                let kind = kind.into();
                let mut faults = Vec::new();
                let (config, credential) = read_connection(kind, body.config, body.credential, true, &mut faults);
                faults.extend(self.core.vet(&config, tenant).await);
                CloudError::ensure_none(faults)?;
                let credential = credential.unwrap_or(model::Credential::None {});
                (None, self.core.verify_unsaved(tenant, (kind, config, credential)).await?)
            }
            (None, None) => {
                let message = "send the id of a stored provider, or the kind, config and credential of an unsaved one";
                return Err(CloudError::Invalid(vec![Fault::new("/id", "required", message).depending_on(&["kind"])]).into());
            }
        };
        idempotency_key
            .run(intent, move |tx, act| {
                if let Some(provider) = &provider {
                    Service::store_verification(tx, act, provider, &verification)?;
                }
                Ok::<_, CloudError>(Settled::kept(&ProviderVerification::from(verification.clone()), None))
            })
            .await
    }
}

impl Core {
    /// The faults of targets that the address policy does not allow. A rehearsal looks up no names. Every call checks its target
    /// again.
    pub(super) async fn vet(&self, config: &model::ProviderConfig, tenant: TenantId) -> Vec<Fault> {
        let (audience, mut faults) = (self.audience(tenant), Vec::new());
        for (field, url) in config.targets() {
            let Ok(url) = TargetUrl::parse(url) else { continue };
            let vetted =
                if is_rehearsal() { self.egress.vet_address(&url, audience) } else { self.egress.vet(&url, audience).await };
            if vetted.is_err() {
                let pointer = format!("/config/{}", field.name());
                faults.push(Fault::new(pointer, "target_not_allowed", "the URL's address is not allowed as a target"));
            }
        }
        faults
    }

    /// Verifies a credential that is not stored.
    pub(super) async fn verify_unsaved(
        &self,
        tenant: TenantId,
        connection: (ProviderKind, model::ProviderConfig, model::Credential),
    ) -> Result<Verification, Problem> {
        ensure_no_rehearsal()?;
        let (adapter, access) = self.access(tenant, None, connection, VERIFY_LIMIT);
        Ok(adapters::verify(adapter, &access, VERIFY_LIMIT).await)
    }

    /// Verifies the credential of a stored provider.
    pub(crate) async fn verify_stored(&self, provider: &model::Provider) -> Result<Verification, Problem> {
        ensure_no_rehearsal()?;
        let (adapter, access) = self.reach(provider, VERIFY_LIMIT).map_err(|failure| unsealing_failed(&failure))?;
        Ok(adapters::verify(adapter, &access, VERIFY_LIMIT).await)
    }
}

/// Ends a rehearsal before it calls a cloud.
pub(super) fn ensure_no_rehearsal() -> Result<(), StoreError> {
    if is_rehearsal() { Err(StoreError::Rehearsed) } else { Ok(()) }
}

/// A credential that cannot be unsealed is not the caller's mistake, but only the caller can fix it.
fn unsealing_failed(failure: &model::Failure) -> Problem {
    Problem::new(Code::ProviderVerificationFailed, failure.message.clone())
}
