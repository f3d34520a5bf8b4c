//! `/api/auth/factors`: the second factors of the signed-in person.

use http::header::CACHE_CONTROL;
use poem_openapi::{OpenApi, param::Path};

use tenantd_base::{
    access::{Identity, Principal},
    id::FactorId,
};
use tenantd_http::{
    idempotency::IdempotencyKey,
    input::{Body, Lenient},
    mark::{Marked, RecentSignIn, SignIn, WithoutFactor},
    need::{Allowed, OwnAccount},
    precondition::IfMatch,
    problem::Problem,
    reply::{Answer, Changed, Created, Empty},
};
use tenantd_store::{Read, Store};

use super::{
    super::{
        error::AuthError,
        factors::{Enrolling, rename_factor},
        repo::{
            UserKey,
            factors::{RECOVERY_CODES, factors_of},
        },
        service::Users,
    },
    factor_wire::{AddFactor, BegunTotp, Factor, Factors, NewRecoveryCodes, ProveFactor, UpdateFactor},
    preferences::person,
    qr,
    second_factor::{Sent, sent},
    session::Area,
};

pub(crate) struct FactorsApi {
    pub(crate) users: Users,
    pub(crate) store: Store,
}

/// Returns the person of the session.
pub(super) fn enrolling(principal: &Principal) -> Result<Enrolling, AuthError> {
    match &principal.identity {
        Identity::User { id, session_id, .. } | Identity::Contact { id, session_id, .. } => {
            Ok(Enrolling { user: (principal.tenant_id, *id), session: *session_id })
        }
        Identity::ApiKey { .. } | Identity::LocalOperator => Err(AuthError::NotAPerson),
    }
}

/// Returns the factors of a user.
pub(super) fn shown(tx: &impl Read, user: UserKey) -> Result<Factors, AuthError> {
    let data = factors_of(tx, user)?.into_iter().map(Into::into).collect();
    let left = RECOVERY_CODES.get(tx, &user)?.map_or(0, |codes| codes.unused.len());
    Ok(Factors { data, recovery_codes_left: u32::try_from(left).unwrap_or(u32::MAX) })
}

#[OpenApi(prefix_path = "/api/auth/factors", tag = "Area::Authentication")]
impl FactorsApi {
    /// List your second factors
    ///
    /// Returns the second factors of the signed-in person, and how many recovery codes are left. Needs a session: an API key is
    /// refused with 403 `insufficient_authority`.
    #[oai(path = "/", method = "get", operation_id = "list_factors")]
    async fn list_factors(&self, auth: Allowed<OwnAccount>, _without: Marked<WithoutFactor>) -> Result<Answer<Factors>, Problem> {
        let user = person(&auth.principal)?;
        Ok(Answer::new(&self.store.read(|tx| shown(tx, user))?))
    }

    /// Begin to add an authenticator app
    ///
    /// Makes a key for an app that shows codes (TOTP, RFC 6238: SHA-1, six digits, 30 seconds), and returns it as text, as an
    /// `otpauth:` address and as a QR code. Nothing is stored until you send a code of the app to `POST /api/auth/factors`. You must
    /// have signed in within the last 15 minutes. If you have a factor, the session must have proven one; otherwise the request fails
    /// with 403 `second_factor_missing`. Needs a session: an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/totp", method = "post", operation_id = "begin_totp")]
    async fn begin_totp(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        _without: Marked<WithoutFactor>,
    ) -> Result<Answer<BegunTotp>, Problem> {
        let who = enrolling(&auth.principal)?;
        let mut act = auth.context.guarding_intent(&auth.principal).begin();
        let begun = self.users.begin_totp(&mut act, who, &auth.principal.tenant_name)?;
        let shown = BegunTotp {
            enrolment: begun.enrolment.expose().to_owned(),
            secret: begun.key.expose().to_owned(),
            uri: begun.uri.expose().to_owned(),
            qr_svg: qr::svg(begun.uri.expose()).map_err(Problem::internal)?,
            expires_at: begun.expires_at,
        };
        Ok(Answer::new(&shown).with_header(CACHE_CONTROL, "no-store"))
    }

    /// Add an authenticator app
    ///
    /// Adds the app that you have begun to add, once the code shows that it works. From then on, a sign-in with your password also
    /// needs one of your factors. You can have 10. The first factor ends all your other sessions. You must have signed in within the
    /// last 15 minutes. If you have a factor, the session must have proven one; otherwise the request fails with 403
    /// `second_factor_missing`. Needs a session: an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/", method = "post", operation_id = "add_factor")]
    async fn add_factor(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        _without: Marked<WithoutFactor>,
        idempotency_key: IdempotencyKey,
        body: Body<AddFactor>,
    ) -> Result<Created<Factor>, Problem> {
        let who = enrolling(&auth.principal)?;
        let (users, AddFactor { enrolment, name, code }) = (self.users.clone(), body.0);
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let factor = users.add_totp(tx, act, who, &enrolment, &name, &code)?;
                let (version, path) = (factor.version, format!("/api/auth/factors/{}", factor.id));
                Ok::<_, AuthError>(Created::new(&Factor::from(factor), version, &path))
            })
            .await
    }

    /// Prove a second factor
    ///
    /// Proves one of your second factors in a session that began without one, such as after single sign-on. Without that, the session
    /// cannot change your factors or your password, and cannot confirm that it is you. Send exactly one of `code`, `recovery_code` and
    /// `passkey`. After five wrong factors, tenantd refuses further ones for a while. Needs a session: an API key is refused with 403
    /// `insufficient_authority`.
    #[oai(path = "/verify", method = "post", operation_id = "verify_factor")]
    async fn verify_factor(
        &self,
        auth: Allowed<OwnAccount>,
        _without: Marked<WithoutFactor>,
        _class: Marked<SignIn>,
        body: Body<ProveFactor>,
    ) -> Result<Empty, Problem> {
        let who = enrolling(&auth.principal)?;
        let ProveFactor { code, recovery_code, passkey } = body.0;
        let presented = match sent(code, recovery_code, passkey)? {
            Sent::Typed(presented) => presented,
            Sent::Passkey(passkey) => {
                let now = auth.context.clocks.installation();
                self.users.presented_passkey(self.users.proof_of(who)?, &passkey.read(&auth.context)?, now)?
            }
        };
        let (users, intent) = (self.users.clone(), auth.context.guarding_intent(&auth.principal));
        self.store.write(move |tx| users.prove_factor(tx, &mut intent.begin(), who, &presented)).await??;
        Ok(Empty::new())
    }

    /// Rename a second factor
    ///
    /// Gives one of your factors another name. The session must have proven a factor. Needs a session: an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/:id", method = "patch", operation_id = "update_factor")]
    async fn update_factor(
        &self,
        auth: Allowed<OwnAccount>,
        id: Path<FactorId>,
        if_match: IfMatch,
        body: Lenient<UpdateFactor>,
    ) -> Result<Changed<Factor>, Problem> {
        let (who, name) = (enrolling(&auth.principal)?, body.0.name);
        let intent = auth.context.guarding_intent(&auth.principal);
        let renamed = self.store.write(move |tx| rename_factor(tx, &mut intent.begin(), who, id.0, &if_match, &name));
        let shown = Factor::from(renamed.await?);
        Ok(Changed::new(&shown, shown.version()))
    }

    /// Remove a second factor
    ///
    /// Removes one of your factors, and ends your other sessions. Recovery codes are removed with the last one. You must have signed in within the last 15 minutes,
    /// and the session must have proven a factor; otherwise the request fails with 403 `second_factor_missing`. Needs a session: an
    /// API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/:id", method = "delete", operation_id = "delete_factor")]
    async fn delete_factor(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        id: Path<FactorId>,
        if_match: IfMatch,
    ) -> Result<Empty, Problem> {
        let (who, users) = (enrolling(&auth.principal)?, self.users.clone());
        let intent = auth.context.guarding_intent(&auth.principal);
        self.store.write(move |tx| users.remove_factor(tx, &mut intent.begin(), who, id.0, &if_match)).await?;
        Ok(Empty::new())
    }

    /// Make recovery codes
    ///
    /// Makes 10 codes for the case that you lose your other factors, and returns them once. Each signs you in once, with your
    /// password. Earlier codes stop working. You need a second factor, the session must have proven one, and you must have signed in
    /// within the last 15 minutes. Needs a session: an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/recovery-codes", method = "post", operation_id = "create_recovery_codes")]
    async fn create_recovery_codes(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        idempotency_key: IdempotencyKey,
    ) -> Result<Changed<NewRecoveryCodes>, Problem> {
        let who = enrolling(&auth.principal)?;
        let users = self.users.clone();
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let codes = users.make_recovery_codes(tx, act, who)?;
                let codes = codes.iter().map(|code| code.expose().to_owned()).collect();
                Ok::<_, AuthError>(Changed::unversioned(&NewRecoveryCodes { codes }).secret())
            })
            .await
    }
}
