//! `/api/admin/users/{id}/sso`: removes the link between a user and their identity at an identity provider.

use poem_openapi::{OpenApi, param::Path};

use tenantd_base::id::UserId;
use tenantd_directory::UserView;
use tenantd_http::{
    mark::{Marked, RecentSignIn},
    need::{Allowed, UsersWrite},
    problem::Problem,
    reply::Changed,
};
use tenantd_store::Store;

use super::{
    super::{accounts::Manager, error::AuthError, service::Users},
    Area,
    user::show,
};

pub(crate) struct UserSsoApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin/users", tag = "Area::Users")]
impl UserSsoApi {
    /// Unlink a user from their identity provider
    ///
    /// Removes the link and ends the user's sessions. The next sign-on with their e-mail address links them again. Use this when a
    /// person got a new account at the provider. Your credential must have all rights of an administrator. If the user cannot sign in without the link, their personal keys are revoked, and a new
    /// link does not bring them back. A user without a link stays unchanged, but their sessions end.
    #[oai(path = "/:id/sso", method = "delete", operation_id = "unlink_user")]
    async fn unlink_user(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<UserId>,
    ) -> Result<Changed<UserView>, Problem> {
        let (users, manager) = (self.users.clone(), Manager::of(&auth.principal));
        let intent = auth.context.guarding_intent(&auth.principal);
        let shown = self.store.write(move |tx| {
            let user = users.unlink_account(tx, &mut intent.begin(), &manager, id.0)?;
            Ok::<_, AuthError>(show(tx, user)?)
        });
        let shown = shown.await?;
        Ok(Changed::new(&shown, shown.version))
    }
}
