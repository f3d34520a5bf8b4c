//! `/api/admin/identity-providers`: the collection, with the target of a change in the query or in the body.

use poem_openapi::{Object, OpenApi};

use tenantd_auth::Manager;
use tenantd_base::id::IdentityProviderId;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Filter, OptionalBody, target},
    need::{Allowed, UsersRead, UsersWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    reply::{Changed, Created, Empty, Listed},
};
use tenantd_store::Key;

use super::{
    super::{error::SsoError, model, repo, service::NewProvider},
    Area,
    record::{self, Desk},
    wire::{CreateIdentityProvider, DeleteIdentityProvider, IdentityProvider, UpdateIdentityProvider},
};

#[derive(Debug, Object)]
struct ListIdentityProviders {
    /// Only those that are enabled, or only those that are not.
    enabled: Option<bool>,
    #[oai(flatten)]
    page: PageQuery,
}

#[derive(Debug, Object)]
struct IdentityProviderTarget {
    /// The provider, unless the body names it.
    id: Option<IdentityProviderId>,
}

pub(crate) struct ProvidersApi(pub(crate) Desk);

#[OpenApi(prefix_path = "/api/admin/identity-providers", tag = "Area::IdentityProviders")]
impl ProvidersApi {
    /// List identity providers
    ///
    /// The tenant's providers, newest first, without their client secrets.
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
                Ok(IdentityProvider::from(provider).with_history(history))
            });
            shown.collect::<Result<Vec<_>, SsoError>>()
        })?;
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Create an identity provider
    ///
    /// Staff with an e-mail address of a domain can sign in through the provider once the domain is proven. `domain_claims` names the TXT
    /// record that proves it. Publish the record, then call `POST /api/admin/identity-providers/{id}/domains/{domain}/verify`. The operator
    /// can approve the domain instead. At the provider, register `/api/auth/sso/callback` of this installation as the redirect URI.
    ///
    /// A provider can sign anyone in, so besides `users:write` your credential must have all scopes of an administrator, from any network.
    /// A domain that another provider has proven, or that has staff in another tenant, is refused with 409 `already_exists`. The error says
    /// neither which of the two it is nor who has it.
    #[oai(path = "/", method = "post", operation_id = "create_identity_provider")]
    async fn create_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        idempotency_key: IdempotencyKey,
        body: Body<CreateIdentityProvider>,
    ) -> Result<Created<IdentityProvider>, Problem> {
        let (service, manager) = (self.0.service.clone(), Manager::of(&auth.principal));
        manager.check_every_account().map_err(SsoError::from)?;
        let new = NewProvider::try_from(body.0)?;
        self.0.vet(&new.issuer, auth.principal.tenant_kind).await?;
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let provider = service.create(tx, act, &manager, &new)?;
                let (version, path) = (provider.version, record::path(provider.id));
                Ok::<_, SsoError>(Created::new(&IdentityProvider::from(provider), version, &path))
            })
            .await
    }

    /// Change an identity provider
    ///
    /// Name the provider by `?id=` or by `id` in the body. Your credential must have all scopes of an administrator, from any network. Reducing the
    /// provider (`enabled: false`, fewer domains, a lower role) needs `users:write` alone. People who are signed in stay so.
    /// The stored client secret is bound to the issuer: a change of its scheme, host or port is a 422 unless you send `client_secret` again.
    #[oai(path = "/", method = "put", operation_id = "update_identity_provider")]
    async fn update_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        query: Filter<IdentityProviderTarget>,
        if_match: IfMatch,
        body: Body<UpdateIdentityProvider>,
    ) -> Result<Changed<IdentityProvider>, Problem> {
        let id = target(query.0.id, body.0.id)?;
        self.0.update(&auth, id, if_match, body.0).await
    }

    /// Delete an identity provider
    ///
    /// Name the provider by `?id=` or by `id` in the body. Its domains are free again. People who are signed in stay so.
    #[oai(path = "/", method = "delete", operation_id = "delete_identity_provider")]
    async fn delete_identity_provider(
        &self,
        auth: Allowed<UsersWrite>,
        query: Filter<IdentityProviderTarget>,
        if_match: IfMatch,
        body: OptionalBody<DeleteIdentityProvider>,
    ) -> Result<Empty, Problem> {
        let id = target(query.0.id, body.0.id)?;
        self.0.delete(&auth, id, if_match).await
    }
}
