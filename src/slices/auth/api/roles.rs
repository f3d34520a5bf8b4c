//! `/api/admin/roles`: roles that the tenant creates next to the built-in ones.

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::{change::Change, id::RoleId};
use tenantd_directory::{self as directory, NewRole, RoleChange, RoleView};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient},
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    page::{PageQuery, PageRequest},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Created, Empty, Found, Listed},
};
use tenantd_store::{Key, Store};

use super::{
    super::{accounts::Manager, error::AuthError, service::Users},
    Area,
};

/// The request to create a role.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateRole {
    /// The name of the role. It must differ from the names of the tenant's other roles and of the built-in ones by more than case,
    /// accents and spaces.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// What the role is for.
    #[oai(validator(min_length = 1, max_length = 1000))]
    description: Option<String>,
    /// The scopes of the role, or wildcards such as `tickets:*`, `*:read` and `*`. A wildcard stands for the scopes of this release:
    /// scopes that a later release adds do not join it.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    scopes: Vec<String>,
}

impl From<CreateRole> for NewRole {
    fn from(body: CreateRole) -> Self {
        let CreateRole { name, description, scopes } = body;
        Self { name, description, scopes }
    }
}

/// The request to change a role. Fields that you omit keep their values; `null` clears a field.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateRole {
    /// The name of the role. It must differ from the names of the tenant's other roles and of the built-in ones by more than case,
    /// accents and spaces.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: Option<String>,
    /// What the role is for.
    #[oai(validator(min_length = 1, max_length = 1000))]
    description: Change<String>,
    /// The scopes of the role, or wildcards. Replaces all previous scopes.
    #[oai(validator(min_items = 1, max_items = 64, unique_items))]
    scopes: Option<Vec<String>>,
}

impl From<UpdateRole> for RoleChange {
    fn from(body: UpdateRole) -> Self {
        let UpdateRole { name, description, scopes } = body;
        Self { name, description, scopes }
    }
}

#[derive(Debug, Object)]
struct ListRoles {
    #[oai(flatten)]
    page: PageQuery,
}

pub(crate) struct RolesApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin/roles", tag = "Area::Users")]
impl RolesApi {
    /// List custom roles
    ///
    /// Returns the roles that the tenant created, oldest first. The built-in roles `admin`, `technician` and `viewer` are not in the
    /// list. `GET /api/admin/users?role=` with the id of a role lists its members.
    #[oai(path = "/", method = "get", operation_id = "list_roles")]
    async fn list_roles(&self, auth: Allowed<UsersRead>, query: Filter<ListRoles>) -> Result<Listed<RoleView>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let mut found = self.store.read(|tx| directory::roles(tx, auth.principal.tenant_id))?;
        found.sort_by_key(|role| role.id);
        let total = request.include_total.then_some(found.len() as u64);
        if let Some(after) = &request.after {
            found.retain(|role| role.id.to_bytes() > *after);
        }
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|role| role.id.to_bytes());
        let data: Vec<RoleView> = found.into_iter().map(RoleView::from).collect();
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Create a custom role
    ///
    /// Creates a role that you can give to users. Your credential must hold all scopes of the role, over the whole tenant. A tenant
    /// can have 100 roles.
    #[oai(path = "/", method = "post", operation_id = "create_role")]
    async fn create_role(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateRole>,
    ) -> Result<Created<RoleView>, Problem> {
        let (new, users, manager) = (NewRole::from(body.0), self.users.clone(), Manager::of(&auth.principal));
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let role = users.create_role(tx, act, &manager, &new)?;
                let (version, path) = (role.version, format!("/api/admin/roles/{}", role.id));
                Ok::<_, AuthError>(Created::new(&RoleView::from(role), version, &path))
            })
            .await
    }

    /// Read a custom role
    ///
    /// Returns the role with the scopes that its wildcards stand for.
    #[oai(path = "/:id", method = "get", operation_id = "read_role")]
    async fn read_role(
        &self,
        auth: Allowed<UsersRead>,
        id: Path<RoleId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<RoleView>, Problem> {
        let found = self.store.read(|tx| directory::role(tx, auth.principal.tenant_id, id.0))?;
        let shown = RoleView::from(found.ok_or(AuthError::NotFound)?);
        let version = shown.version;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&shown, version) })
    }

    /// Change a custom role
    ///
    /// Changes the role for all of its members immediately, also in their open sessions. Your credential must hold the scopes of the
    /// role before and after the change. Removing scopes alone requires only `users:write`; API keys of members that the role no longer
    /// covers are paused.
    #[oai(path = "/:id", method = "patch", operation_id = "update_role")]
    async fn update_role(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<RoleId>,
        if_match: IfMatch,
        body: Lenient<UpdateRole>,
    ) -> Result<Changed<RoleView>, Problem> {
        let (users, manager, change) = (self.users.clone(), Manager::of(&auth.principal), RoleChange::from(body.0));
        let intent = auth.context.guarding_intent(&auth.principal);
        let changed =
            self.store.write(move |tx| users.update_role(tx, &mut intent.begin(), &manager, id.0, &if_match, &change)).await?;
        let shown = RoleView::from(changed);
        Ok(Changed::new(&shown, shown.version))
    }

    /// Delete a custom role
    ///
    /// Deletes a role that no user has and that no rule gives. Otherwise, the response is `409 in_use` with the counts in `dependents`.
    /// Give the users in `users` another role with `PUT /api/admin/users/{id}`. Give the rules in `role_rules` another role with
    /// `PUT /api/admin/provisioning/role-rules`; the default role of these rules counts as one. A sign-in policy that names the role no
    /// longer does.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_role")]
    async fn delete_role(&self, auth: Allowed<UsersWrite>, id: Path<RoleId>, if_match: IfMatch) -> Result<Empty, Problem> {
        let users = self.users.clone();
        let intent = auth.context.guarding_intent(&auth.principal);
        self.store.write(move |tx| users.remove_role(tx, &mut intent.begin(), id.0, &if_match)).await?;
        Ok(Empty::new())
    }
}
