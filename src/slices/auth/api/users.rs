//! `/api/admin/users`: the collection. A change names its user in the query or in the body.

use poem_openapi::{Object, OpenApi};

use tenantd_base::{
    access::StaffRole,
    id::{OrganizationId, TenantId, UserId},
    vocabulary::vocabulary,
};
use tenantd_directory::{NewUser, PersonKind, UserQuery, UserStatus, UserView, list_users};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Filter, Lenient, OptionalBody, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    page::{PageQuery, PageRequest},
    precondition::IfMatch,
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Created, Empty, Listed},
    wire::{Word, word_type},
};
use tenantd_store::{Direction, Store, StoreError};

use super::{
    super::{accounts::Manager, error::AuthError, service::Users},
    Area,
    user::{self, show},
    wire::{CreateUser, RemoveUser, UpdateUser, UserWithToken},
};

vocabulary! {
    UserSort:
    CreatedAt "created_at", CreatedAtDescending "-created_at",
}

word_type! {
    UserSort, "UserSort";
}

#[derive(Debug, Object)]
struct ListUsers {
    /// Returns only users of this kind.
    kind: Option<PersonKind>,
    /// Returns only staff with this role: `admin`, `technician`, `viewer`, `operator`, or the id of a custom role.
    role: Option<StaffRole>,
    /// Returns only users with this status.
    status: Option<Word<UserStatus>>,
    /// Returns only contacts of this organization.
    organization_id: Option<OrganizationId>,
    /// Returns only users whose name or e-mail address contains this text. Ignores case.
    #[oai(validator(min_length = 1, max_length = 100))]
    q: Option<String>,
    /// The sort order. A leading `-` reverses it. Defaults to `-created_at` (newest first).
    sort: Option<UserSort>,
    #[oai(flatten)]
    page: PageQuery,
}

impl ListUsers {
    fn query(&self, tenant_id: TenantId) -> UserQuery {
        let forward = self.sort == Some(UserSort::CreatedAt);
        UserQuery {
            tenant_id,
            staff: self.kind.map(|kind| kind == PersonKind::Staff),
            role: self.role,
            status: self.status.map(Into::into),
            organization_id: self.organization_id,
            text: self.q.as_deref().map(str::to_lowercase),
            direction: if forward { Direction::Forward } else { Direction::Backward },
        }
    }
}

#[derive(Debug, Object)]
struct UserTarget {
    /// The id of the user. Required unless the body contains `id`.
    id: Option<UserId>,
}

pub(crate) struct UsersApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin/users", tag = "Area::Users")]
impl UsersApi {
    /// List users
    ///
    /// Returns the tenant's staff and contacts.
    #[oai(path = "/", method = "get", operation_id = "list_users")]
    async fn list_users(&self, auth: Allowed<UsersRead>, query: Filter<ListUsers>) -> Result<Listed<UserView>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let user_query = query.0.query(auth.principal.tenant_id);
        let reading = request.clone();
        let found = self.store.scan_for(auth.principal.tenant_id, move |tx| {
            let page = list_users(tx, &user_query, reading.after.as_deref(), reading.limit, reading.include_total)?;
            let shown: Result<Vec<UserView>, StoreError> = page.users.into_iter().map(|user| show(tx, user)).collect();
            Ok::<_, StoreError>((shown?, page.last, page.total))
        });
        let (data, last, total) = found.await?;
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// Create a user
    ///
    /// Creates a member of staff or a contact. For staff, the response contains a link to set their password, and the token in it
    /// for `POST /api/auth/password`. Both are shown only in this response, and work once within 72 hours. You can only assign a
    /// role that your own credential covers: its scopes, over the organizations of the user, from any network.
    #[oai(path = "/", method = "post", operation_id = "create_user")]
    async fn create_user(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
        body: Lenient<CreateUser>,
    ) -> Result<Created<UserWithToken>, Problem> {
        let new = NewUser::try_from(body.0)?;
        let (users, manager) = (self.users.clone(), Manager::of(&auth.principal));
        let base_url = auth.context.base_url.to_string();
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let (user, token) = users.create_account(tx, act, &manager, &new)?;
                let (version, path) = (user.version, user::path(user.id));
                let shown = UserWithToken::new(show(tx, user)?, token.as_ref(), &base_url);
                Ok::<_, AuthError>(Created::new(&shown, version, &path).secret())
            })
            .await
    }

    /// Change a user
    ///
    /// Changes the user that `?id=` or `id` in the body names. To change the role, the organizations or the status, your credential must
    /// cover the role before and after. Lowering the role and disabling the user require only `users:write`. Changing the address or the `external_id` of a
    /// member of staff requires all rights of an administrator, because a provider recognizes the person by them. The last active administrator who can sign in cannot be disabled or demoted.
    ///
    /// Disabling a user pauses the API keys that they own, directly or through other keys. Lowering their role pauses the keys that
    /// it no longer covers. A caller who covers such a key can take it over.
    #[oai(path = "/", method = "put", operation_id = "update_user")]
    async fn update_user(
        &self,
        auth: Allowed<UsersWrite>,
        recent: RecentUnlessReducing,
        query: Filter<UserTarget>,
        if_match: IfMatch,
        body: Lenient<UpdateUser>,
    ) -> Result<Changed<UserView>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(query.0.id, body.0.id)?;
        user::update(&self.users, &self.store, &auth, id, if_match, body.0).await
    }

    /// Remove a user
    ///
    /// Removes the user that `?id=` or `id` in the body names. Their sessions end, and tenantd pauses the API keys that they own,
    /// directly or through other keys. A caller who covers such a key can take it over. The last active administrator who can sign
    /// in cannot be removed.
    #[oai(path = "/", method = "delete", operation_id = "delete_user")]
    async fn delete_user(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        query: Filter<UserTarget>,
        if_match: IfMatch,
        body: OptionalBody<RemoveUser>,
    ) -> Result<Empty, Problem> {
        let id = target(query.0.id, body.0.id)?;
        user::remove(&self.users, &self.store, &auth, id, if_match).await
    }
}
