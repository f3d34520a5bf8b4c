//! The HTTP API of sign-in, users and sessions.

mod admin;
mod examples;
mod preferences;
mod session;
mod user;
mod user_sessions;
mod user_sso;
mod users;
mod views;
mod wire;

pub(super) use admin::AdminUsersApi;
pub(super) use preferences::PreferencesApi;
pub(super) use session::AuthApi;
pub(super) use user::UserApi;
pub(super) use user_sessions::UserSessionsApi;
pub(super) use user_sso::UserSsoApi;
pub(super) use users::UsersApi;
pub(super) use views::{ViewsApi, view_fields};
pub(super) use wire::RefusedSignIn;

use poem_openapi::Tags;
use serde_json::{Value, json};

use tenantd_base::{fault::Fault, secrets::PasswordError};
use tenantd_http::problem::{Code, FieldError, Problem};

use super::error::{AuthError, TenantChoice};

#[derive(Tags)]
enum Area {
    /// Users: staff who sign in, and contacts at organizations.
    Users,
}

/// Returns the problem for a field that does not fit the kind of user.
fn for_kind(field: &str, code: &str, message: &str) -> Problem {
    Problem::from(vec![Fault::new(format!("/{field}"), code, message).depending_on(&["kind"])])
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let invalid = |pointer: &str, code: &str, message: &str| Self::invalid(vec![FieldError::pointer(pointer, code, message)]);
        match error {
            AuthError::NotFound => Self::plain(Code::NotFound),
            AuthError::BadToken => {
                Self::new(Code::InvalidCredentials, "The token is not valid or has expired. Ask an administrator for a new one.")
                    .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\"")
            }
            AuthError::BadLink => Self::new(
                Code::InvalidCredentials,
                "The link is not valid: it works once, within 24 hours. Sign in with the password that `tenantd demo` printed.",
            )
            .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\""),
            AuthError::NotStaff => {
                Self::new(Code::InvalidTransition, "The user is a contact. Only staff can sign in and have a password.")
            }
            AuthError::Required(field, whom) => for_kind(field, "required", &format!("{field} is required for {whom}")),
            AuthError::NotFor(field, whom) => {
                for_kind(field, "not_allowed", &format!("{field} is not allowed for {whom}; remove it"))
            }
            AuthError::Lacking(lacking) => lacking.into(),
            AuthError::BadPassword(message) => invalid("/password", "wrong_form", message),
            AuthError::Refused => Self::new(Code::InvalidCredentials, "E-mail address or password is wrong.")
                .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\""),
            AuthError::TenantRequired(tenants) => {
                let shown = |choice: TenantChoice| json!({"id": choice.id, "name": choice.name, "slug": choice.slug});
                let tenants: Vec<Value> = tenants.into_iter().map(shown).collect();
                Self::new(
                    Code::TenantRequired,
                    "The address belongs to several tenants. Send `tenant` with the id or slug of one of them.",
                )
                .with("tenants", tenants)
            }
            AuthError::Throttled { retry_after_seconds } => {
                Self::new(Code::RateLimited, "Too many wrong passwords for this account. Wait before you retry.")
                    .retry_after(retry_after_seconds)
            }
            AuthError::NotAPerson => Self::new(
                Code::InsufficientAuthority,
                "Only a person has preferences and saved views. Sign in, and send the session cookie instead of an API key.",
            ),
            AuthError::ViewNameTaken => Self::new(
                Code::AlreadyExists,
                "You already have a view with this name in this area. Names are not case-sensitive. Choose another name.",
            ),
            AuthError::TooManyViews { most } => Self::new(
                Code::LimitReached,
                format!("A user can have at most {most} views. Delete a view that you no longer need."),
            ),
            AuthError::Invalid(faults) => faults.into(),
            AuthError::Stale(stale) => stale.into(),
            AuthError::Keys(error) => error.into(),
            AuthError::Directory(error) => error.into(),
            AuthError::Password(PasswordError::Busy) => {
                Self::unavailable("Too many sign-ins at the same time. Retry in a moment.", 1)
            }
            AuthError::Password(error @ (PasswordError::Failed(_) | PasswordError::Unacceptable(_))) => Self::internal(error),
            AuthError::Event(error) => Self::internal(error),
            AuthError::Store(error) => error.into(),
        }
    }
}
