//! The second factors of other people: `/api/admin/users/{id}/factors`, and their removal over the admin socket.

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::id::{TenantId, UserId};
use tenantd_directory::{self as directory, UserView};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::Body,
    mark::{Marked, RecentSignIn},
    need::{Allowed, LocalOperator, UsersRead, UsersWrite},
    problem::Problem,
    reply::{Answer, Changed, Empty},
};
use tenantd_store::Store;

use super::{
    super::{accounts::Manager, error::AuthError, own_account::Own, service::Users},
    Area, admin,
    factor_wire::Factors,
    factors::shown,
    user::show,
};

pub(crate) struct UserFactorsApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin/users", tag = "Area::Users")]
impl UserFactorsApi {
    /// List the second factors of a user
    ///
    /// Returns the second factors of the user, without their keys, and how many recovery codes are left.
    #[oai(path = "/:id/factors", method = "get", operation_id = "list_user_factors")]
    async fn list_user_factors(&self, auth: Allowed<UsersRead>, id: Path<UserId>) -> Result<Answer<Factors>, Problem> {
        let key = (auth.principal.tenant_id, id.0);
        let found = self.store.read(|tx| {
            directory::user(tx, key.0, key.1)?.ok_or(AuthError::NotFound)?;
            shown(tx, key)
        })?;
        Ok(Answer::new(&found))
    }

    /// Remove the second factors of a user
    ///
    /// Removes all second factors and recovery codes of the user, and ends their sessions. Use this when a person has lost them, after
    /// you have made sure who is asking: from then on, the password alone signs in. Your credential must cover the role of the user.
    /// For your own account, the session must have proven a factor, and your role must not need one.
    #[oai(path = "/:id/factors", method = "delete", operation_id = "delete_user_factors")]
    async fn delete_user_factors(
        &self,
        auth: Allowed<UsersWrite>,
        _recent: Marked<RecentSignIn>,
        id: Path<UserId>,
    ) -> Result<Empty, Problem> {
        let (users, manager) = (self.users.clone(), Manager::of(&auth.principal));
        let (own, intent) = (Own::of(&auth.principal).ok(), auth.context.guarding_intent(&auth.principal));
        self.store.write(move |tx| users.reset_account_factors(tx, &mut intent.begin(), &manager, own, id.0)).await?;
        Ok(Empty::new())
    }
}

/// Names the user whose second factors to remove.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct ResetFactors {
    /// The e-mail address of the user.
    #[oai(validator(min_length = 3, max_length = 254))]
    email: String,
    /// The tenant of the user. Required if several tenants have this address.
    tenant_id: Option<TenantId>,
}

pub(crate) struct ResetFactorsApi {
    pub(crate) users: Users,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "admin::Area::Administration")]
impl ResetFactorsApi {
    /// Remove a user's second factors
    ///
    /// Removes all second factors and recovery codes of the user, and ends their sessions. For a person whom no administrator can
    /// help. If several tenants have this address, `tenant_id` selects one.
    #[oai(path = "/users/reset-factors", method = "post", operation_id = "reset_user_factors")]
    async fn reset_user_factors(
        &self,
        auth: Allowed<LocalOperator>,
        idempotency_key: IdempotencyKey,
        body: Body<ResetFactors>,
    ) -> Result<Changed<UserView>, Problem> {
        let ResetFactors { email, tenant_id } = body.0;
        let users = self.users.clone();
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let user = users.find_staff(tx, &email, tenant_id)?;
                users.tenants.enter(act, user.tenant_id);
                users.reset_factors(tx, act, &user)?;
                let version = user.version;
                Ok::<_, AuthError>(Changed::new(&show(tx, user)?, version))
            })
            .await
    }
}
