//! `/api/admin/users/{id}/sessions`: lists and ends the sessions of a user.

use poem_openapi::{Object, OpenApi, param::Path};

use tenantd_base::id::{SessionId, UserId};
use tenantd_directory as directory;
use tenantd_http::{
    input::Filter,
    need::{Allowed, UsersRead, UsersWrite},
    page::{PageQuery, PageRequest},
    problem::Problem,
    reply::{Empty, Listed},
};
use tenantd_store::Store;

use super::{
    super::{accounts::sessions, error::AuthError, own_account::Own, service::Users},
    Area,
    wire::UserSession,
};

#[derive(Debug, Object)]
pub(super) struct ListSessions {
    #[oai(flatten)]
    pub(super) page: PageQuery,
}

pub(crate) struct UserSessionsApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/admin/users", tag = "Area::Users")]
impl UserSessionsApi {
    /// List the sessions of a user
    ///
    /// Returns all sessions that have not expired, in no particular order.
    #[oai(path = "/:id/sessions", method = "get", operation_id = "list_user_sessions")]
    async fn list_user_sessions(
        &self,
        auth: Allowed<UsersRead>,
        id: Path<UserId>,
        query: Filter<ListSessions>,
    ) -> Result<Listed<UserSession>, Problem> {
        let request = PageRequest::new(&auth.context, &query.0.page)?;
        let tenant = auth.principal.tenant_id;
        let (mut found, total) = self.store.read(|tx| {
            let user = directory::user(tx, tenant, id.0)?.ok_or(AuthError::NotFound)?;
            let page = sessions(tx, &user, request.after.as_deref(), request.limit + 1)?;
            let count = || sessions(tx, &user, None, usize::MAX).map(|all| all.len() as u64);
            let total = if request.include_total { Some(count()?) } else { None };
            Ok::<_, AuthError>((page, total))
        })?;
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|(_, position)| position.to_vec());
        let time = |at| auth.context.guard_time_in(tenant, at);
        let current = Own::of(&auth.principal).ok().map(|own| own.session);
        let data: Vec<UserSession> = found.into_iter().map(|(session, _)| UserSession::new(session, current, time)).collect();
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// End a session of a user
    ///
    /// Ends the session immediately. The user can sign in again.
    #[oai(path = "/:id/sessions/:session_id", method = "delete", operation_id = "delete_user_session")]
    async fn delete_user_session(
        &self,
        auth: Allowed<UsersWrite>,
        id: Path<UserId>,
        /// The id of the session.
        session_id: Path<SessionId>,
    ) -> Result<Empty, Problem> {
        let intent = auth.context.guarding_intent(&auth.principal);
        let users = self.users.clone();
        self.store.write(move |tx| users.end_session(tx, &mut intent.begin(), id.0, session_id.0)).await?;
        Ok(Empty::new())
    }

    /// End the sessions of a user
    ///
    /// Ends all sessions of the user immediately. The user can sign in again.
    #[oai(path = "/:id/sessions", method = "delete", operation_id = "delete_user_sessions")]
    async fn delete_user_sessions(&self, auth: Allowed<UsersWrite>, id: Path<UserId>) -> Result<Empty, Problem> {
        let intent = auth.context.guarding_intent(&auth.principal);
        let users = self.users.clone();
        self.store.write(move |tx| users.end_sessions(tx, &mut intent.begin(), id.0)).await?;
        Ok(Empty::new())
    }
}
