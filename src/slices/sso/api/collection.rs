//! `/api/admin/identity-providers`: the collection. Updates and deletions name the provider in the query or in the body.

use poem_openapi::{Object, OpenApi};

use tenantd_auth::Manager;
use tenantd_base::id::IdentityProviderId;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter, Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Created, Empty, Listed},
};
use tenantd_store::Key;

use super::{
    super::{error::SsoError, model, repo, service::NewProvider},
    Area,
    record::{self, ApiState},
    wire::{CreateIdentityProvider, DeleteIdentityProvider, IdentityProvider, UpdateIdentityProvider},
};

#[derive(Debug, Object)]
struct ListIdentityProviders {
    /// `true` returns only enabled providers, `false` only disabled ones. When absent, both.
    enabled: Option<bool>,
    #[oai(flatten)]
    page: PageQuery,
}

#[derive(Debug, Object)]
struct IdentityProviderTarget {
    /// The id of the provider. Not needed if the body names it.
    id: Option<IdentityProviderId>,
}

pub(crate) struct ProvidersApi(pub(crate) ApiState);

#[OpenApi(prefix_path = "/api/admin/identity-providers", tag = "Area::IdentityProviders")]
impl ProvidersApi {
    /// List identity providers
    ///
    /// Returns the tenant's providers, newest first, without their client secrets.
    #[oai(path = "/", method = "get", operation_id = "list_identity_providers")]
    async fn list_identity_providers(
        &self,
        auth: Allowed<UsersRead>,
        query: Filter<ListIdentityProviders>,
    ) -> Result<Listed<IdentityProvider>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let wanted = |provider: &model::IdentityProvider| query.0.enabled.is_none_or(|enabled| provider.enabled == enabled);
        let mut found = self.0.store.read(|tx| Ok::<_, SsoError>(repo::list(tx, auth.principal.tenant_id)?))?;
        found.reverse();
        found.retain(wanted);
        let total = request.include_total.then_some(found.len() as u64);
        if let Some(after) = &request.after {
            found.retain(|provider| provider.id.to_bytes() < *after);
        }
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|provider| provider.id.to_bytes());
        let data = self.0.store.read(|tx| {
            let shown = found.into_iter().map(|provider| {
                let history = repo::history::get(tx, (provider.tenant_id, provider.id))?;
                let tenant = provider.tenant_id;
                Ok(IdentityProvider::from(provider).with_history(history).at(&auth.context.base_url, tenant))
            });
            shown.collect::<Result<Vec<_>, SsoError>>()
        })?;
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Create an identity provider
    ///
    /// Creates an identity provider. Staff with an e-mail address of its domains can sign in through it as soon as the domain is
    /// proven. To prove a domain, publish the TXT record that `domain_claims` names, then call `POST
    /// /api/admin/identity-providers/{id}/domains/{domain}/verify`. The operator can approve the domain instead. Register
    /// `redirect_uri` of the answer at the provider, and `backchannel_logout_uri` if it reports the end of sessions.
    ///
    /// A provider can sign anyone in. So besides `users:write`, your credential must have all scopes of an administrator, from any
    /// network. A domain that another provider has proven, or whose addresses belong to staff of another tenant, is refused with
    /// 409 `already_exists`. The error reveals neither the reason nor the owner.
    #[oai(path = "/", method = "post", operation_id = "create_identity_provider")]
    async fn create_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateIdentityProvider>,
    ) -> Result<Created<IdentityProvider>, Problem> {
        let (service, manager) = (self.0.service.clone(), Manager::of(&auth.principal));
        manager.check_every_account().map_err(SsoError::from)?;
        let mut new = NewProvider::from(body.0);
        new.faults.extend(self.0.vet(&new.issuer, auth.principal.tenant_kind).await);
        let base_url = auth.context.base_url.clone();
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let provider = service.create(tx, act, &manager, &new)?;
                let (version, path) = (provider.version, record::path(provider.id));
                let tenant = provider.tenant_id;
                Ok::<_, SsoError>(Created::new(&IdentityProvider::from(provider).at(&base_url, tenant), version, &path))
            })
            .await
    }

    /// Change an identity provider
    ///
    /// Updates the provider that `?id=` or `id` in the body names. Your credential must have all scopes of an administrator, from
    /// any network. To reduce the provider (`enabled: false`, fewer domains, a lower role), `users:write` is enough. Users who are
    /// signed in stay signed in, except that with `enforcement` the sessions end that were not started through a provider. While
    /// the provider is enforced, an active administrator must be able to sign in with a password or a passkey. The stored client secret is bound to the issuer: if you change the issuer's scheme, host or port,
    /// send `client_secret` again; otherwise the response is 422.
    #[oai(path = "/", method = "put", operation_id = "update_identity_provider")]
    async fn update_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        recent: RecentUnlessReducing,
        query: Filter<IdentityProviderTarget>,
        if_match: IfMatch,
        body: Body<UpdateIdentityProvider>,
    ) -> Result<Changed<IdentityProvider>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(query.0.id, body.0.id)?;
        self.0.update(&auth, id, if_match, body.0).await
    }

    /// Delete an identity provider
    ///
    /// Deletes the provider that `?id=` or `id` in the body names. Other providers can then use its domains. Users who are signed
    /// in stay signed in. A provider that enforces single sign-on cannot be deleted: set `enforcement` to `off` first.
    #[oai(path = "/", method = "delete", operation_id = "delete_identity_provider")]
    async fn delete_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        query: Filter<IdentityProviderTarget>,
        if_match: IfMatch,
        body: OptionalBody<DeleteIdentityProvider>,
    ) -> Result<Empty, Problem> {
        let id = target(query.0.id, body.0.id)?;
        self.0.delete(&auth, id, if_match).await
    }
}
