//! The HTTP API of sign-in, users and sessions.

mod admin;
mod examples;
mod factor_wire;
mod factors;
mod own_account;
mod passkeys;
mod policy;
mod portal;
mod preferences;
mod qr;
mod rights;
mod roles;
mod second_factor;
mod session;
mod user;
mod user_factors;
mod user_sessions;
mod user_sso;
mod users;
mod views;
mod wire;

pub(super) use admin::AdminUsersApi;
pub(super) use factor_wire::FactorOfUser;
pub(super) use factors::FactorsApi;
pub(super) use own_account::OwnAccountApi;
pub(super) use passkeys::PasskeysApi;
pub(super) use policy::PolicyApi;
pub(super) use portal::{PortalAccessApi, PortalApi};
pub(super) use preferences::PreferencesApi;
pub(super) use rights::RightsApi;
pub(super) use roles::RolesApi;
pub(super) use second_factor::SecondFactorApi;
pub(super) use session::AuthApi;
pub use session::browser;
pub(super) use user::UserApi;
pub(super) use user_factors::{ResetFactorsApi, UserFactorsApi};
pub(super) use user_sessions::UserSessionsApi;
pub(super) use user_sso::UserSsoApi;
pub(super) use users::UsersApi;
pub(super) use views::{ViewsApi, view_fields};
pub(super) use wire::RefusedSignIn;

use poem_openapi::{
    ApiResponse, Tags,
    registry::{MetaResponses, Registry},
};
use serde_json::{Value, json};

use tenantd_base::{fault::Fault, secrets::PasswordError};
use tenantd_http::{
    problem::{Code, FieldError, Problem},
    reply::declared,
};

use super::{
    error::{AuthError, TenantChoice},
    sign_on::RequiredSignOn,
};

/// A response that can also be 409, of an operation whose parameters do not tell.
#[derive(Debug)]
struct OrConflict<T>(T);

impl<T: poem::IntoResponse> poem::IntoResponse for OrConflict<T> {
    fn into_response(self) -> poem::Response {
        self.0.into_response()
    }
}

impl<T: ApiResponse> ApiResponse for OrConflict<T> {
    fn meta() -> MetaResponses {
        let mut responses = T::meta();
        responses.responses.push(declared(409));
        responses
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }
}

#[derive(Tags)]
enum Area {
    /// Users: staff who sign in, and contacts at organizations.
    Users,
}

/// The page that leads to the provider, and who it is. The caller has proven that the account is theirs.
fn single_sign_on_required(required: &RequiredSignOn) -> Problem {
    let RequiredSignOn { provider, tenant } = required;
    let detail = format!("{} requires you to sign in through {}. Open `sign_in_path` in a browser.", tenant.name, provider.name);
    Problem::new(Code::SingleSignOnRequired, detail)
        .with("identity_provider", json!({"id": provider.id, "name": provider.name}))
        .with("tenant", json!({"id": tenant.id, "name": tenant.name, "slug": tenant.slug}))
        .with("sign_in_path", format!("/sign-in?tenant={}&provider={}", tenant.slug, provider.id))
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
                let detail =
                    "The user is a contact. Contacts get a password with `PUT /api/directory/contacts/{id}/portal-access`.";
                Self::new(Code::InvalidTransition, detail)
            }
            AuthError::Required(field, whom) => for_kind(field, "required", &format!("{field} is required for {whom}")),
            AuthError::NotFor(field, whom) => {
                for_kind(field, "not_allowed", &format!("{field} is not allowed for {whom}; remove it"))
            }
            AuthError::Lacking(lacking) => lacking.into(),
            AuthError::BadPassword(field, message) => invalid(&format!("/{field}"), "wrong_form", &message),
            AuthError::WrongPassword(field) => invalid(&format!("/{field}"), "wrong_password", "the password is wrong"),
            AuthError::NoPassword => Self::new(
                Code::InvalidTransition,
                "You have no password, because you sign in through an identity provider. To confirm that it is you, sign in \
                 again at /sign-in?fresh=true. To get a password, ask an administrator for a link.",
            ),
            AuthError::InitialPasswordExpired => Self::new(
                Code::InvalidCredentials,
                "This initial password has expired. The operator of the installation makes a link for a new one with `tenantd user \
                 reset-password`.",
            )
            .header(http::header::WWW_AUTHENTICATE, "Bearer realm=\"tenantd\""),
            AuthError::NoSession => Self::new(
                Code::InsufficientAuthority,
                "Only a person has a password and sessions. Sign in, and send the session cookie instead of an API key.",
            ),
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
            AuthError::SingleSignOnRequired(required) => single_sign_on_required(&required),
            AuthError::LastBreakGlass => Self::new(
                Code::InvalidTransition,
                "Single sign-on is enforced, and no other active administrator could sign in if the provider failed. Add another \
                 break-glass account that has a password or a passkey to the provider first.",
            ),
            AuthError::BreakGlassKept => Self::new(
                Code::InvalidTransition,
                "The account is a break-glass account of an identity provider. Provisioning does not disable, remove or demote it, and does \
                 not change its address. Remove it from `break_glass_user_ids` first.",
            ),
            AuthError::NotProvisioned => {
                Self::new(Code::InsufficientAuthority, "The platform tenant has operators only, whom SCIM does not provision.")
            }
            AuthError::Throttled { retry_after_seconds } => {
                Self::new(Code::RateLimited, "Too many wrong passwords for this account. Wait before you retry.")
                    .retry_after(retry_after_seconds)
            }
            AuthError::NotAPerson => Self::new(
                Code::InsufficientAuthority,
                "Only a person has preferences, saved views and second factors. Sign in, and send the session cookie instead of an API key.",
            ),
            AuthError::Factor(error) => error.into(),
            AuthError::Portal(error) => error.into(),
            AuthError::NoRolesHere => {
                Self::new(Code::InvalidTransition, "The platform tenant has operators only. Create custom roles in other tenants.")
            }
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
            AuthError::Seal(error) => Self::internal(error),
            AuthError::Event(error) => Self::internal(error),
            AuthError::Store(error) => error.into(),
        }
    }
}
