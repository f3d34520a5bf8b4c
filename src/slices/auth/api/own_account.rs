//! `/api/auth`: what people do with their own account. An API key has no password and no sessions.

use poem_openapi::{Object, OpenApi, param::Path};
use serde::Serialize;

use tenantd_base::{
    clock::{Clock, Timestamp},
    fault::Fault,
    id::SessionId,
    secrets::Secret,
};
use tenantd_http::{
    credentials::session_cookie,
    input::{Body, Filter},
    mark::{Marked, RecentSignIn, SetsCookie, SignIn, WhileFull, WithoutFactor},
    need::{Allowed, OwnAccount},
    page::PageRequest,
    problem::Problem,
    reply::{Answer, Empty, Listed},
};
use tenantd_store::Store;

use super::{
    super::{error::AuthError, own_account::Own, repo, service::Users},
    passkeys::PasskeyAssertion,
    session::Area,
    user_sessions::ListSessions,
    wire::UserSession,
};

/// The request to change the own password.
#[derive(Debug, Object)]
struct ChangePassword {
    /// The password that you have now.
    #[oai(write_only, validator(min_length = 1, max_length = 256))]
    current_password: String,
    /// The new password, 12 to 256 characters. Common passwords, and words about you with a few digits, are refused.
    #[oai(write_only, validator(min_length = 1, max_length = 1024))]
    new_password: String,
}

/// The request to confirm that the person of the session is present. Send exactly one of `password` and `passkey`.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct ConfirmSignIn {
    /// Your password.
    #[oai(write_only, validator(min_length = 1, max_length = 256))]
    password: Option<String>,
    /// What a passkey returned for the challenge of `POST /api/auth/factors/passkeys/proof`.
    passkey: Option<PasskeyAssertion>,
}

/// A session whose person has confirmed who they are.
#[derive(Debug, Object, Serialize)]
struct SignInConfirmed {
    /// When you proved who you are.
    proven_at: Timestamp,
    /// Until when sensitive operations accept the session without another confirmation.
    recent_until: Timestamp,
}

pub(crate) struct OwnAccountApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
    pub(crate) clock: Clock,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl OwnAccountApi {
    /// Confirm that it is you
    ///
    /// Proves again, with your password or a passkey, that you are the person of the session. Sensitive operations need a session that was
    /// proven within the last 15 minutes, by default; otherwise they fail with 403 `recent_sign_in_required`. A wrong password or passkey
    /// counts like a failed sign-in. If you have neither, or must sign in through an identity provider, sign in again instead. If you have a
    /// second factor that the session has not proven, the request fails with 403 `second_factor_missing`: prove it first with
    /// `POST /api/auth/factors/verify`.
    #[oai(path = "/confirm", method = "post", operation_id = "confirm_sign_in")]
    async fn confirm_sign_in(
        &self,
        auth: Allowed<OwnAccount>,
        _class: Marked<SignIn>,
        _without: Marked<WithoutFactor>,
        body: Body<ConfirmSignIn>,
    ) -> Result<Answer<SignInConfirmed>, Problem> {
        let own = Own::of(&auth.principal)?;
        let now = self.clock.now();
        let session = match (body.0.password, body.0.passkey) {
            (Some(password), None) => self.users.confirm(own, Secret::new(password), now).await?,
            (None, Some(passkey)) => self.users.confirm_with_passkey(own, &passkey.read(&auth.context)?, now).await?,
            _ => {
                let message = "send exactly one of password and passkey";
                return Err(AuthError::Invalid(vec![Fault::new("", "one_of", message)]).into());
            }
        };
        let time = |at| auth.context.guard_time_in(auth.principal.tenant_id, at);
        let recent_until = time(session.proven_at + auth.context.recent_within);
        Ok(Answer::new(&SignInConfirmed { proven_at: time(session.proven_at), recent_until }))
    }

    /// Change your password
    ///
    /// Replaces your password. Ends all your other sessions, and all links to set a password or to sign in stop working. The session
    /// of the request continues with a new cookie. A wrong current password counts like a failed sign-in. If you have a second factor,
    /// the session must have proven it. If you must sign in through an identity provider, the request fails with 403
    /// `single_sign_on_required`.
    #[oai(path = "/own-password", method = "put", operation_id = "change_own_password")]
    async fn change_own_password(
        &self,
        auth: Allowed<OwnAccount>,
        _class: Marked<SignIn>,
        _cookie: Marked<SetsCookie>,
        body: Body<ChangePassword>,
    ) -> Result<Empty, Problem> {
        let context = &auth.context;
        let ChangePassword { current_password, new_password } = body.0;
        let own = Own::of(&auth.principal)?;
        let changed =
            self.users.change_own_password(own, Secret::new(current_password), Secret::new(new_password), self.clock.now());
        let (session, token) = changed.await?;
        let age = session.expires_at.since(context.clocks.installation()).as_secs();
        let cookie = session_cookie(context.secure, token.expose(), age);
        Ok(Empty::new().with_header(http::header::SET_COOKIE, &cookie).with_header(http::header::CACHE_CONTROL, "no-store"))
    }

    /// List your sessions
    ///
    /// Returns the places where you are signed in, in no particular order. `is_current` marks the session of the request.
    #[oai(path = "/sessions", method = "get", operation_id = "list_own_sessions")]
    async fn list_own_sessions(
        &self,
        auth: Allowed<OwnAccount>,
        query: Filter<ListSessions>,
    ) -> Result<Listed<UserSession>, Problem> {
        let (own, request) = (Own::of(&auth.principal)?, PageRequest::new(&auth.context, &query.0.page)?);
        let (mut found, total) = self.store.read(|tx| {
            let page = repo::sessions_of(tx, own.key(), request.after.as_deref(), request.limit + 1)?;
            let count = || repo::sessions_of(tx, own.key(), None, usize::MAX).map(|all| all.len() as u64);
            let total = if request.include_total { Some(count()?) } else { None };
            Ok::<_, AuthError>((page, total))
        })?;
        let more = found.len() > request.limit;
        found.truncate(request.limit);
        let last = found.last().filter(|_| more).map(|(_, position)| position.to_vec());
        let time = |at| auth.context.guard_time_in(auth.principal.tenant_id, at);
        let shown = |(session, _)| UserSession::new(session, Some(own.session), time);
        let data: Vec<UserSession> = found.into_iter().map(shown).collect();
        Ok(Listed::new(&data, &request.page(last, total)))
    }

    /// End one of your sessions
    ///
    /// Ends the session immediately. The session of the request can be ended too, which signs you out.
    #[oai(path = "/sessions/:id", method = "delete", operation_id = "end_own_session")]
    async fn end_own_session(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        _full: Marked<WhileFull>,
        id: Path<SessionId>,
    ) -> Result<Empty, Problem> {
        let (own, users) = (Own::of(&auth.principal)?, self.users.clone());
        let intent = auth.context.guarding_intent(&auth.principal);
        self.store.write(move |tx| users.end_session(tx, &mut intent.begin(), own.key().1, id.0)).await?;
        Ok(Empty::new())
    }

    /// End your other sessions
    ///
    /// Signs you out everywhere except in the session of the request.
    #[oai(path = "/sessions", method = "delete", operation_id = "end_other_sessions")]
    async fn end_other_sessions(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        _full: Marked<WhileFull>,
    ) -> Result<Empty, Problem> {
        let (own, users) = (Own::of(&auth.principal)?, self.users.clone());
        let intent = auth.context.guarding_intent(&auth.principal);
        self.store.write(move |tx| users.end_other_sessions(tx, &mut intent.begin(), own)).await?;
        Ok(Empty::new())
    }
}
