//! `/api/admin/provisioning`: the groups of identity providers, and the roles that they give.

use poem_openapi::{Object, OpenApi};

use tenantd_auth::Manager;
use tenantd_http::{
    input::{Filter, Lenient},
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    page::{PageQuery, PageRequest},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Found, Listed},
};
use tenantd_store::{Key, Store, StoreError};

use super::{
    super::{
        model, repo,
        service::{NewRules, Service},
    },
    Area, protocol,
    wire::{ProvisionedGroup, ReplaceRoleRules, RoleRules},
};

#[derive(Debug, Object)]
struct ListProvisionedGroups {
    /// Returns only groups whose name contains this text. Ignores case.
    #[oai(validator(min_length = 1, max_length = 100))]
    q: Option<String>,
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct ProvisioningApi {
    pub(crate) store: Store,
    pub(crate) service: Service,
}

#[OpenApi(prefix_path = "/api/admin/provisioning", tag = "Area::Provisioning")]
impl ProvisioningApi {
    /// List provisioned groups
    ///
    /// Returns the groups that identity providers have created with SCIM, oldest first. A group gives a role only if a rule says so.
    #[oai(path = "/groups", method = "get", operation_id = "list_provisioned_groups")]
    async fn list_provisioned_groups(
        &self,
        auth: Allowed<UsersRead>,
        query: Filter<ListProvisionedGroups>,
    ) -> Result<Listed<ProvisionedGroup>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let (tenant, part) = (auth.principal.tenant_id, query.0.q.map(|part| part.to_lowercase()));
        let mut found = self.store.read(|tx| repo::groups(tx, tenant))?;
        let is_wanted = |group: &model::Group| part.as_ref().is_none_or(|part| group.display_name.to_lowercase().contains(part));
        found.retain(is_wanted);
        let total = request.include_total.then_some(found.len() as u64);
        if let Some(after) = &request.after {
            found.retain(|group| group.id.to_bytes() > *after);
        }
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|group| group.id.to_bytes());
        let data: Vec<ProvisionedGroup> = found.into_iter().map(ProvisionedGroup::from).collect();
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Read the role rules
    ///
    /// Returns which roles the groups of identity providers give. Until somebody sets rules, a provisioned person is a viewer who
    /// reaches no organization.
    #[oai(path = "/role-rules", method = "get", operation_id = "read_role_rules")]
    async fn read_role_rules(&self, auth: Allowed<UsersRead>, if_none_match: IfNoneMatch) -> Result<Found<RoleRules>, Problem> {
        let rules = self.store.read(|tx| Ok::<_, StoreError>(RoleRules::from(repo::rules(tx, auth.principal.tenant_id)?)))?;
        if if_none_match.knows(rules.version) {
            return Ok(Found::not_modified(rules.version));
        }
        Ok(Found::new(&rules, rules.version))
    }

    /// Set the role rules
    ///
    /// Replaces all rules. The first rule whose group a person is in decides about their role and their organizations. A provisioned
    /// person whom no rule is about gets the default role. An account that an administrator created keeps its role until a rule first
    /// gives it one. The rules apply at once to everybody. The last administrator and break-glass accounts keep their role.
    ///
    /// Rules decide who administers the tenant. So your credential must cover the role of an administrator.
    #[oai(path = "/role-rules", method = "put", operation_id = "replace_role_rules")]
    async fn replace_role_rules(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        if_match: IfMatch,
        body: Lenient<ReplaceRoleRules>,
    ) -> Result<Changed<RoleRules>, Problem> {
        let (manager, new) = (Manager::of(&auth.principal), NewRules::from(body.0));
        let intent = auth.context.guarding_intent(&auth.principal);
        let changed = self.store.write(move |tx| Service::replace_rules(tx, &mut intent.begin(), &manager, &if_match, &new));
        let shown = RoleRules::from(changed.await?);
        protocol::settle(&self.store, &self.service, (&auth.context, &auth.principal)).await;
        Ok(Changed::new(&shown, shown.version))
    }
}
