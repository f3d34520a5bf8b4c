//! `/api/admin/users/{id}`: one user. The handlers of the collection share `update` and `remove`.

use poem_openapi::{OpenApi, param::Path};

use tenantd_base::id::UserId;
use tenantd_directory::{self as directory, User, UserChange, UserView};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Lenient, target},
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersRead, UsersWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    recent::RecentUnlessReducing,
    reply::{Changed, Empty, Found},
};
use tenantd_store::{Read, Store, StoreError};

use super::{
    super::{accounts::Manager, error::AuthError, own_account::Own, service::Users},
    Area,
    wire::{UpdateUser, UserWithToken},
};

pub(super) fn path(id: UserId) -> String {
    format!("/api/admin/users/{id}")
}

/// Returns a user with the names that their record refers to.
pub(super) fn show(tx: &impl Read, user: User) -> Result<UserView, StoreError> {
    let labels = directory::user_labels(tx, &user)?;
    Ok(UserView::new(user, labels))
}

pub(crate) struct UserApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin/users", tag = "Area::Users")]
impl UserApi {
    /// Read a user
    ///
    /// Returns a member of staff or a contact.
    #[oai(path = "/:id", method = "get", operation_id = "read_user")]
    async fn read_user(
        &self,
        auth: Allowed<UsersRead>,
        id: Path<UserId>,
        if_none_match: IfNoneMatch,
    ) -> Result<Found<UserView>, Problem> {
        let tenant = auth.principal.tenant_id;
        let shown = self.store.read(|tx| {
            let user = directory::user(tx, tenant, id.0)?.ok_or(AuthError::NotFound)?;
            Ok::<_, AuthError>(show(tx, user)?)
        })?;
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Change a user by path
    ///
    /// Changes the user like `PUT /api/admin/users?id=`. Fields that the body omits keep their values.
    #[oai(path = "/:id", method = "put", operation_id = "update_user_by_id")]
    async fn update_user_by_id(
        &self,
        auth: Allowed<UsersWrite>,
        recent: RecentUnlessReducing,
        id: Path<UserId>,
        if_match: IfMatch,
        body: Lenient<UpdateUser>,
    ) -> Result<Changed<UserView>, Problem> {
        recent.check(body.0.only_disables())?;
        let id = target(Some(id.0), body.0.id)?;
        update(&self.users, &self.store, &auth, id, if_match, body.0).await
    }

    /// Remove a user by path
    ///
    /// Removes the user like `DELETE /api/admin/users?id=`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_user_by_id")]
    async fn delete_user_by_id(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<UserId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        remove(&self.users, &self.store, &auth, id.0, if_match).await
    }

    /// Issue a password token for a user
    ///
    /// Creates a token for a new password and returns it. The token is not shown again, and earlier tokens stop working. Your
    /// credential must cover the role of the user. The old password works until the user has set a new one. The token stops working
    /// if the role or the address of the user changes, or if you lose the rights that you issued it with. For your own account, the
    /// session must have proven a second factor if you have one.
    #[oai(path = "/:id/reset-password", method = "post", operation_id = "issue_password_token")]
    async fn issue_password_token(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<UserId>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<UserWithToken>, Problem> {
        let (users, manager, own) = (self.users.clone(), Manager::of(&auth.principal), Own::of(&auth.principal).ok());
        let base_url = auth.context.base_url.to_string();
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let (user, token) = users.issue_password_token(tx, act, &manager, own, id.0)?;
                let version = user.version;
                Ok::<_, AuthError>(Changed::new(&UserWithToken::new(show(tx, user)?, Some(&token), &base_url), version).secret())
            })
            .await
    }
}

pub(super) async fn update(
    users: &Users,
    store: &Store,
    auth: &Allowed<UsersWrite>,
    id: UserId,
    if_match: IfMatch,
    body: UpdateUser,
) -> Result<Changed<UserView>, Problem> {
    let (users, manager, change) = (users.clone(), Manager::of(&auth.principal), UserChange::from(body));
    let intent = auth.context.guarding_intent(&auth.principal);
    let shown = store.write(move |tx| {
        let user = users.update_account(tx, &mut intent.begin(), &manager, id, &if_match, &change)?;
        Ok::<_, AuthError>(show(tx, user)?)
    });
    let shown = shown.await?;
    Ok(Changed::new(&shown, shown.version))
}

pub(super) async fn remove(
    users: &Users,
    store: &Store,
    auth: &Allowed<UsersWrite>,
    id: UserId,
    if_match: IfMatch,
) -> Result<Empty, Problem> {
    let users = users.clone();
    let intent = auth.context.guarding_intent(&auth.principal);
    store.write(move |tx| users.remove_account(tx, &mut intent.begin(), id, &if_match)).await?;
    Ok(Empty::new())
}
