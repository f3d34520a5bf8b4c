//! Passkeys: adding one to the own account, and signing in with one. What a browser and an authenticator exchange is defined by Web
//! Authentication. Its byte strings are in base64url without padding, as in the JSON forms of that standard.

use data_encoding::BASE64URL_NOPAD;
use http::header::CACHE_CONTROL;
use poem::Request;
use poem_openapi::{Object, OpenApi, types::Any};
use serde::Serialize;
use serde_json::Value;

use tenantd_base::{
    clock::{Clock, Timestamp},
    fault::Fault,
    secrets::Secret,
};
use tenantd_http::{
    context::RequestContext,
    credentials::check_same_origin,
    idempotency::IdempotencyKey,
    input::{Body, OptionalBody},
    mark::{Marked, RecentSignIn, SetsCookie, SignIn, WithoutFactor},
    need::{Allowed, OwnAccount},
    problem::Problem,
    reply::{Answer, Created},
};

use super::{
    super::{
        error::{AuthError, FactorError},
        factors::{AskedPasskey, NewPasskey, SentPasskey},
        model::{Assertion, RelyingParty},
        service::Users,
    },
    OrConflict,
    factor_wire::Factor,
    factors::enrolling,
    session::{Area, LoggedIn, browser, signed_in},
};

/// What an authenticator needs to make a passkey.
#[derive(Debug, Object, Serialize)]
struct BegunPasskey {
    /// Send this with the new passkey to `POST /api/auth/factors/passkeys`. It is valid for five minutes, only for you, and once.
    enrolment: String,
    /// The `PublicKeyCredentialCreationOptionsJSON` of Web Authentication. A browser reads it with
    /// `PublicKeyCredential.parseCreationOptionsFromJSON`, and `navigator.credentials.create` makes the passkey.
    options: Any<Value>,
    /// When the enrolment expires.
    expires_at: Timestamp,
}

/// The request to add a passkey.
#[derive(Debug, Object)]
struct AddPasskey {
    /// The `enrolment` that the start of adding the passkey returned.
    #[oai(write_only, validator(min_length = 1, max_length = 2000))]
    enrolment: String,
    /// A name by which you recognize the passkey. It must be unique among your factors, ignoring case.
    #[oai(validator(min_length = 1, max_length = 60))]
    name: String,
    /// `clientDataJSON` of the browser's answer, in base64url.
    #[oai(write_only, validator(min_length = 1, max_length = 5464))]
    client_data: String,
    /// `attestationObject` of the browser's answer, in base64url. tenantd ignores the attestation statement in it.
    #[oai(write_only, validator(min_length = 1, max_length = 21848))]
    attestation_object: String,
}

/// What an authenticator needs to use a passkey.
#[derive(Debug, Object, Serialize)]
struct AskedForPasskey {
    /// Send this with what the browser returned. It is valid for five minutes, for one use of a passkey.
    ticket: String,
    /// The `PublicKeyCredentialRequestOptionsJSON` of Web Authentication. A browser reads it with
    /// `PublicKeyCredential.parseRequestOptionsFromJSON`, and `navigator.credentials.get` uses a passkey.
    options: Any<Value>,
    /// When the ticket expires.
    expires_at: Timestamp,
}

/// The request for a challenge that a passkey answers.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct AskForPasskey {
    /// The `challenge` of the problem `second_factor_required`, for the second step of a sign-in. Without it, the passkey signs in
    /// alone.
    #[oai(write_only, validator(min_length = 1, max_length = 100))]
    challenge: Option<String>,
}

/// What a passkey returned: the `response` of the browser's answer, with names in snake case.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct PasskeyAssertion {
    /// The `ticket` that came with the options.
    #[oai(write_only, validator(min_length = 1, max_length = 2000))]
    ticket: String,
    /// `id` of the browser's answer: the name of the passkey.
    #[oai(write_only, validator(min_length = 1, max_length = 1364))]
    id: String,
    /// `clientDataJSON`, in base64url.
    #[oai(write_only, validator(min_length = 1, max_length = 5464))]
    client_data: String,
    /// `authenticatorData`, in base64url.
    #[oai(write_only, validator(min_length = 1, max_length = 2732))]
    authenticator_data: String,
    /// `signature`, in base64url.
    #[oai(write_only, validator(min_length = 1, max_length = 1366))]
    signature: String,
    /// `userHandle`, in base64url. Required if the passkey signs in alone.
    #[oai(write_only, validator(min_length = 1, max_length = 88))]
    user_handle: Option<String>,
}

impl PasskeyAssertion {
    /// Reads what was sent to this address.
    pub(super) fn read(self, context: &RequestContext) -> Result<SentPasskey, AuthError> {
        let Self { ticket, id, client_data, authenticator_data, signature, user_handle } = self;
        let assertion = Assertion {
            credential_id: bytes("id", &id)?,
            client_data: bytes("client_data", &client_data)?,
            authenticator_data: bytes("authenticator_data", &authenticator_data)?,
            signature: bytes("signature", &signature)?,
            user_handle: user_handle.map(|handle| bytes("user_handle", &handle)).transpose()?,
        };
        // Without a host name there is no valid ticket either.
        let party = RelyingParty::at(&context.base_url.to_string());
        Ok(SentPasskey { ticket: Secret::new(ticket), assertion, party })
    }
}

fn bytes(field: &str, text: &str) -> Result<Vec<u8>, AuthError> {
    let wrong = |_| AuthError::Invalid(vec![Fault::new(format!("/{field}"), "wrong_form", "must be base64url without padding")]);
    BASE64URL_NOPAD.decode(text.as_bytes()).map_err(wrong)
}

/// Where passkeys work, if they work at the address of the request.
fn party(context: &RequestContext) -> Result<RelyingParty, AuthError> {
    Ok(RelyingParty::at(&context.base_url.to_string()).ok_or(FactorError::NoPasskeysHere)?)
}

fn shown(asked: AskedPasskey) -> Answer<AskedForPasskey> {
    let AskedPasskey { ticket, options, expires_at } = asked;
    let shown = AskedForPasskey { ticket: ticket.expose().to_owned(), options: Any(options), expires_at };
    Answer::new(&shown).with_header(CACHE_CONTROL, "no-store")
}

pub(crate) struct PasskeysApi {
    pub(crate) users: Users,
    pub(crate) clock: Clock,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl PasskeysApi {
    /// Begin to add a passkey
    ///
    /// Returns what a browser needs to make a passkey on this device, in a password manager or on a security key. Nothing is stored until
    /// you send the passkey to `POST /api/auth/factors/passkeys`. Passkeys belong to the host name of the address: at an IP address, or
    /// without HTTPS, the request fails with 409 `invalid_transition`. You must have signed in within the last 15 minutes. If you have a
    /// factor, the session must have proven one; otherwise the request fails with 403 `second_factor_missing`. Needs a session: an API
    /// key is refused with 403 `insufficient_authority`.
    #[oai(path = "/factors/passkeys/options", method = "post", operation_id = "begin_passkey")]
    async fn begin_passkey(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        _without: Marked<WithoutFactor>,
    ) -> Result<OrConflict<Answer<BegunPasskey>>, Problem> {
        let (who, party) = (enrolling(&auth.principal)?, party(&auth.context)?);
        let mut act = auth.context.guarding_intent(&auth.principal).begin();
        let begun = self.users.begin_passkey(&mut act, who, &party)?;
        let shown = BegunPasskey {
            enrolment: begun.enrolment.expose().to_owned(),
            options: Any(begun.options),
            expires_at: begun.expires_at,
        };
        Ok(OrConflict(Answer::new(&shown).with_header(CACHE_CONTROL, "no-store")))
    }

    /// Add a passkey
    ///
    /// Adds the passkey that a browser has made. From then on, it signs you in alone if it verifies you with a PIN, a fingerprint or your
    /// face. A sign-in with your password also needs one of your factors. You can have 10, passkeys and apps together. The first factor
    /// ends all your other sessions. You must have signed in within the last 15 minutes. If you have a factor, the session must have
    /// proven one; otherwise the request fails with 403 `second_factor_missing`. Needs a session: an API key is refused with 403
    /// `insufficient_authority`.
    #[oai(path = "/factors/passkeys", method = "post", operation_id = "add_passkey")]
    async fn add_passkey(
        &self,
        auth: Allowed<OwnAccount>,
        _recent: Marked<RecentSignIn>,
        _without: Marked<WithoutFactor>,
        idempotency_key: IdempotencyKey,
        body: Body<AddPasskey>,
    ) -> Result<Created<Factor>, Problem> {
        let (who, users) = (enrolling(&auth.principal)?, self.users.clone());
        let AddPasskey { enrolment, name, client_data, attestation_object } = body.0;
        let new = NewPasskey {
            enrolment,
            name,
            client_data: bytes("client_data", &client_data)?,
            attestation: bytes("attestation_object", &attestation_object)?,
            party: party(&auth.context)?,
        };
        idempotency_key
            .run(auth.context.guarding_intent(&auth.principal), move |tx, act| {
                let factor = users.add_passkey(tx, act, who, &new)?;
                let (version, path) = (factor.version, format!("/api/auth/factors/{}", factor.id));
                Ok::<_, AuthError>(Created::new(&Factor::from(factor), version, &path))
            })
            .await
    }

    /// Ask for a proof with a passkey
    ///
    /// Returns what a browser needs to use one of your passkeys in this session. Send the result as `passkey` to
    /// `POST /api/auth/confirm`, or to `POST /api/auth/factors/verify` if the session lacks a second factor. Without a passkey for the
    /// host name, the request fails with 409 `invalid_transition`. Needs a session: an API key is refused with 403
    /// `insufficient_authority`.
    #[oai(path = "/factors/passkeys/proof", method = "post", operation_id = "begin_passkey_proof")]
    async fn begin_passkey_proof(
        &self,
        auth: Allowed<OwnAccount>,
        _without: Marked<WithoutFactor>,
    ) -> Result<OrConflict<Answer<AskedForPasskey>>, Problem> {
        let (who, party) = (enrolling(&auth.principal)?, party(&auth.context)?);
        let mut act = auth.context.guarding_intent(&auth.principal).begin();
        Ok(OrConflict(shown(self.users.ask_for_passkey(&mut act, self.users.proof_of(who)?, &party)?)))
    }

    /// Ask for a sign-in with a passkey
    ///
    /// Returns what a browser needs to use a passkey. Without `challenge`, the browser offers the passkeys that it finds, and the passkey
    /// signs in alone with `POST /api/auth/passkey`. With `challenge`, it must be a passkey of the person whose password was right, for
    /// `POST /api/auth/second-factor`. At an IP address, or without HTTPS, the request fails with 409 `invalid_transition`.
    #[oai(path = "/passkey/options", method = "post", operation_id = "begin_passkey_sign_in")]
    async fn begin_passkey_sign_in(
        &self,
        _class: Marked<SignIn>,
        request: &Request,
        body: OptionalBody<AskForPasskey>,
    ) -> Result<OrConflict<Answer<AskedForPasskey>>, Problem> {
        let context = RequestContext::of(request)?;
        let challenge = body.0.challenge.map(Secret::new);
        Ok(OrConflict(shown(self.users.ask_to_sign_in(challenge.as_ref(), &party(&context)?, self.clock.now())?)))
    }

    /// Sign in with a passkey
    ///
    /// Starts a session and sets the session cookie, like `POST /api/auth/login`. The passkey names the account, and replaces the password
    /// and the second factor: the authenticator must have verified the person. A passkey that is unknown, wrong or disabled fails with 401
    /// `invalid_credentials`, and the answer does not reveal why. A person who must sign in through an identity provider is refused with 403 `single_sign_on_required`.
    #[oai(path = "/passkey", method = "post", operation_id = "sign_in_with_passkey")]
    async fn sign_in_with_passkey(
        &self,
        _cookie: Marked<SetsCookie>,
        _class: Marked<SignIn>,
        request: &Request,
        body: Body<PasskeyAssertion>,
    ) -> Result<Answer<LoggedIn>, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let sent = body.0.read(&context)?;
        let login = self.users.sign_in_with_passkey(&sent, browser(request, &context), self.clock.now()).await?;
        Ok(signed_in(&context, login))
    }
}
