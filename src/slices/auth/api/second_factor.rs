//! `POST /api/auth/second-factor`: the second step of a sign-in, and the errors of second factors.

use poem::Request;
use poem_openapi::{Object, OpenApi};

use tenantd_base::{clock::Clock, fault::Fault, secrets::Secret};
use tenantd_http::{
    context::RequestContext,
    credentials::check_same_origin,
    input::Body,
    mark::{Marked, SetsCookie, SignIn},
    problem::{Code, FieldError, Problem},
    reply::Answer,
};

use super::{
    super::{
        error::{AuthError, FactorError},
        factors::SecondFactorRequest,
        model::{CHALLENGE_LIFE, Presented, RefusalReason},
        service::Users,
    },
    passkeys::PasskeyAssertion,
    session::{Area, LoggedIn, browser, signed_in},
};

/// The second step of a sign-in. Send exactly one of `code`, `recovery_code` and `passkey`.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct SecondFactor {
    /// The `challenge` of the problem `second_factor_required`.
    #[oai(write_only, validator(min_length = 1, max_length = 100))]
    challenge: String,
    /// The code that the authenticator app shows.
    #[oai(write_only, validator(min_length = 1, max_length = 16))]
    code: Option<String>,
    /// One of the recovery codes. Case, spaces and hyphens do not matter.
    #[oai(write_only, validator(min_length = 1, max_length = 60))]
    recovery_code: Option<String>,
    /// What a passkey returned for the challenge of `POST /api/auth/passkey/options` with the same `challenge`.
    passkey: Option<PasskeyAssertion>,
}

/// What a person sends as their second factor.
pub(super) enum Sent {
    Typed(Presented),
    Passkey(PasskeyAssertion),
}

/// Returns the one factor that a person presents.
pub(super) fn sent(
    code: Option<String>,
    recovery_code: Option<String>,
    passkey: Option<PasskeyAssertion>,
) -> Result<Sent, AuthError> {
    match (code, recovery_code, passkey) {
        (Some(code), None, None) => Ok(Sent::Typed(Presented::Code(code))),
        (None, Some(code), None) => Ok(Sent::Typed(Presented::RecoveryCode(Secret::new(code)))),
        (None, None, Some(passkey)) => Ok(Sent::Passkey(passkey)),
        _ => {
            let message = "send exactly one of code, recovery_code and passkey";
            Err(AuthError::Invalid(vec![Fault::new("", "one_of", message)]))
        }
    }
}

/// Returns the problem that asks for the second factor.
fn required(request: &SecondFactorRequest) -> Problem {
    let methods: Vec<&str> = request.methods.iter().map(|method| method.name()).collect();
    Problem::plain(Code::SecondFactorRequired)
        .with("challenge", request.challenge.expose())
        .with("methods", methods)
        .with("expires_in_seconds", CHALLENGE_LIFE.as_secs())
        .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
        .header(http::header::CACHE_CONTROL, "no-store")
}

impl From<FactorError> for Problem {
    fn from(error: FactorError) -> Self {
        let invalid = |pointer: &str, code: &str, message: &str| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        match error {
            FactorError::SecondFactorRequired(request) => required(&request),
            FactorError::BadChallenge => {
                Self::new(Code::InvalidCredentials, "The sign-in has expired or is over. Sign in with your password again.")
                    .with("attempts_left", 0)
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
            }
            FactorError::WrongFactor { attempts_left, reason } => {
                let message = match reason {
                    RefusalReason::WrongPasskey => "The passkey is not one of yours, or the browser used it for something else.",
                    _ => "The code is wrong, or it was used before.",
                };
                Self::new(Code::InvalidCredentials, message)
                    .with("attempts_left", attempts_left)
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
            }
            FactorError::BadEnrolment => {
                invalid("/enrolment", "not_valid", "is used, has expired, or belongs to somebody else; begin again")
            }
            FactorError::WrongNewCode => {
                invalid("/code", "wrong_code", "is not the code of this app; check that the clock of the device is right")
            }
            FactorError::FactorNameTaken => Self::new(
                Code::AlreadyExists,
                "You already have a second factor with this name. Names are not case-sensitive. Choose another name.",
            ),
            FactorError::TooManyFactors { most } => Self::new(
                Code::LimitReached,
                format!("A user can have at most {most} second factors. Remove one that you no longer use."),
            ),
            FactorError::NoFactor => {
                Self::new(Code::InvalidTransition, "Recovery codes replace a second factor, and you have none. Add one first.")
            }
            FactorError::FactorRequired => {
                Self::new(Code::InvalidTransition, "Your role needs a second factor. Add another one before you remove this one.")
            }
            FactorError::WrongOwnFactor(RefusalReason::WrongPasskey) => {
                invalid("/passkey", "wrong_passkey", "is not one of yours, or was used for something else; ask for new options")
            }
            FactorError::WrongOwnFactor(_) => invalid("/code", "wrong_code", "is wrong, or was used before"),
            FactorError::OwnFactorsRequired => Self::new(
                Code::InvalidTransition,
                "Your role needs a second factor, so you cannot remove all of yours. Another administrator can remove them.",
            ),
            FactorError::FactorToProve => Self::new(
                Code::SecondFactorMissing,
                "You have a second factor that this session has not proven. Prove it with `POST /api/auth/factors/verify` or on the page \
                 /second-factor, or sign in again with it.",
            ),
            FactorError::NoPasskeysHere => Self::new(
                Code::InvalidTransition,
                "Passkeys do not work at this address: browsers need a host name and HTTPS. Open this site by its name instead of an IP address.",
            ),
            FactorError::NoPasskey => {
                Self::new(Code::InvalidTransition, "You have no passkey for this host name. Use another second factor.")
            }
            FactorError::BadPasskey(field, fault) => invalid(&format!("/{field}"), "wrong_passkey", &fault.to_string()),
            FactorError::PasskeyKnown => {
                Self::new(Code::AlreadyExists, "This passkey was added before. Use a different authenticator.")
            }
            FactorError::RefusedPasskey => {
                Self::new(Code::InvalidCredentials, "This passkey does not sign you in. Choose another way to sign in.")
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
            }
        }
    }
}

pub(crate) struct SecondFactorApi {
    pub(crate) users: Users,
    pub(crate) clock: Clock,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl SecondFactorApi {
    /// Sign in with a second factor
    ///
    /// Starts a session and sets the session cookie, like `POST /api/auth/login`. `challenge` comes from the problem
    /// `second_factor_required` of that operation. It is valid for five minutes and for five attempts, and starts one session. A code
    /// works once. After five wrong factors for an account, tenantd refuses further ones for a while, also with a new challenge.
    #[oai(path = "/second-factor", method = "post", operation_id = "send_second_factor")]
    async fn send_second_factor(
        &self,
        _cookie: Marked<SetsCookie>,
        _class: Marked<SignIn>,
        request: &Request,
        body: Body<SecondFactor>,
    ) -> Result<Answer<LoggedIn>, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let SecondFactor { challenge, code, recovery_code, passkey } = body.0;
        let (challenge, now) = (Secret::new(challenge), self.clock.now());
        let presented = match sent(code, recovery_code, passkey)? {
            Sent::Typed(presented) => presented,
            Sent::Passkey(passkey) => {
                let bound = self.users.step_of(&challenge, now)?.ok_or(AuthError::from(FactorError::BadChallenge))?;
                self.users.presented_passkey(bound, &passkey.read(&context)?, now)?
            }
        };
        let login = self.users.second_factor(&challenge, presented, browser(request, &context), now).await?;
        Ok(signed_in(&context, login))
    }
}
