//! `/internal/admin/users`: users of any tenant, for callers with access to the admin socket.

use poem_openapi::{Object, OpenApi, Tags, param::Path};
use serde::Serialize;

use tenantd_base::{
    access::{Role, TenantKind},
    id::TenantId,
    secrets::{PasswordHash, Secret},
};
use tenantd_directory::UserView;
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::Body,
    need::{Allowed, LocalOperator},
    problem::Problem,
    reply::{Answer, Changed, Created},
};
use tenantd_platform::Tenants;
use tenantd_store::{ReadTx, Store, events::Intent};

use super::{
    super::{
        accounts,
        error::AuthError,
        model::{NewUser, PasswordContext},
        service::{FirstPassword, Users},
    },
    user::show,
    wire::UserWithToken,
};

#[derive(Tags)]
pub(super) enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

/// The maximum number of users in a response.
const MAX_LISTED: usize = 10_000;

/// A member of staff to create in a tenant.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct CreateStaff {
    /// The e-mail address to sign in with, unique within the tenant.
    #[oai(validator(min_length = 3, max_length = 254))]
    email: String,
    /// The name of the person.
    #[oai(validator(min_length = 1, max_length = 100))]
    name: String,
    /// The role of the person. `operator` is for the platform tenant only.
    role: Role,
    /// The password, 12 to 256 characters. Omit it to get a link with which the person sets their password.
    #[oai(write_only, validator(min_length = 12, max_length = 256))]
    password: Option<String>,
}

/// A new password for a user.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct ResetPassword {
    /// The e-mail address of the user.
    #[oai(validator(min_length = 3, max_length = 254))]
    email: String,
    /// The tenant of the user. Required if several tenants have this address.
    tenant_id: Option<TenantId>,
    /// The new password, 12 to 256 characters. Omit it to get a link with which the person sets their password.
    #[oai(write_only, validator(min_length = 12, max_length = 256))]
    password: Option<String>,
}

#[derive(Debug, Object, Serialize)]
struct UserList {
    /// The users, oldest first.
    data: Vec<UserView>,
}

pub(crate) struct AdminUsersApi {
    pub(crate) users: Users,
    pub(crate) tenants: Tenants,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl AdminUsersApi {
    /// Create a user in a tenant
    ///
    /// Creates a member of staff. Without `password`, the response contains a link to set it, which works once within 72 hours. Operators belong to the platform tenant, all other roles to other tenants. The
    /// e-mail address must be unique within the tenant.
    #[oai(path = "/tenants/:id/users", method = "post", operation_id = "create_tenant_user")]
    async fn create_tenant_user(
        &self,
        auth: Allowed<LocalOperator>,
        id: Path<TenantId>,
        idempotency_key: IdempotencyKey,
        body: Body<CreateStaff>,
    ) -> Result<Created<UserWithToken>, Problem> {
        let CreateStaff { email, name, role, password } = body.0;
        let tenant = self.store.read(|tx| self.tenants.get(tx, id.0))?;
        let intent = auth.context.guarding_intent(&auth.principal);
        let context = PasswordContext::default().with_person(&name, Some(&email)).with_tenant(&tenant.name, &tenant.slug);
        let password = self.hash(password, &context, &intent).await?;
        let base_url = auth.context.base_url.to_string();
        let new = NewUser { tenant_id: tenant.id, email, name, role };
        let is_platform = tenant.kind == TenantKind::Platform;
        let users = self.users.clone();
        idempotency_key
            .run(intent, move |tx, act| {
                let first = password.as_ref().map_or(FirstPassword::None, FirstPassword::Chosen);
                let user = users.create(tx, act, &new, first, is_platform)?;
                let token = if password.is_none() { Some(accounts::issue(tx, act, &user)?) } else { None };
                let location = format!("/internal/admin/tenants/{}/users", user.tenant_id);
                let version = user.version;
                let shown = UserWithToken::new(show(tx, user)?, token.as_ref(), &base_url);
                Ok::<_, AuthError>(Created::new(&shown, version, &location).secret())
            })
            .await
    }

    /// List the staff of a tenant
    ///
    /// Returns up to 10,000 members of staff, oldest first, without their passwords.
    #[oai(path = "/tenants/:id/users", method = "get", operation_id = "list_tenant_users")]
    async fn list_tenant_users(&self, _auth: Allowed<LocalOperator>, id: Path<TenantId>) -> Result<Answer<UserList>, Problem> {
        self.store.read(|tx| self.tenants.get(tx, id.0).map(drop))?;
        let users = self.users.clone();
        let list = move |tx: &ReadTx| {
            let found = users.list(tx, id.0, MAX_LISTED)?;
            Ok::<_, AuthError>(found.into_iter().map(|user| show(tx, user)).collect::<Result<Vec<_>, _>>()?)
        };
        Ok(Answer::new(&UserList { data: self.store.scan(list).await? }))
    }

    /// Set a user's password
    ///
    /// Sets the password and ends all sessions of the user. Without `password`, the old password stops working, and the response contains
    /// a link to set a new one, which works once within 72 hours. If several tenants have this address, `tenant_id` selects one.
    #[oai(path = "/users/reset-password", method = "post", operation_id = "reset_user_password")]
    async fn reset_user_password(
        &self,
        auth: Allowed<LocalOperator>,
        idempotency_key: IdempotencyKey,
        body: Body<ResetPassword>,
    ) -> Result<Changed<UserWithToken>, Problem> {
        let ResetPassword { email, tenant_id, password } = body.0;
        let intent = auth.context.guarding_intent(&auth.principal);
        let context = match &password {
            Some(_) => self.store.read(|tx| self.users.password_context(&self.users.find_staff(tx, &email, tenant_id)?))?,
            None => PasswordContext::default(),
        };
        let password = self.hash(password, &context, &intent).await?;
        let (users, base_url) = (self.users.clone(), auth.context.base_url.to_string());
        idempotency_key
            .run(intent, move |tx, act| {
                let (user, token) = match &password {
                    Some(password) => (users.reset_password(tx, act, &email, tenant_id, password)?, None),
                    None => users.reset_with_token(tx, act, &email, tenant_id).map(|(user, token)| (user, Some(token)))?,
                };
                let version = user.version;
                let shown = UserWithToken::new(show(tx, user)?, token.as_ref(), &base_url);
                Ok::<_, AuthError>(Changed::new(&shown, version).secret())
            })
            .await
    }
}

impl AdminUsersApi {
    async fn hash(
        &self,
        password: Option<String>,
        context: &PasswordContext,
        intent: &Intent,
    ) -> Result<Option<PasswordHash>, AuthError> {
        match password {
            Some(password) => self.users.hash_password(Secret::new(password), context, intent).await.map(Some),
            None => Ok(None),
        }
    }
}
