//! `/sign-in` and `/sign-out`: pages that work without scripts. The user enters an e-mail address. Its domain determines whether a
//! provider or a password follows.
//!
//! The redirect to a provider is a page with a `Refresh` header, because browsers do not allow a form to redirect to another host.

use std::sync::Arc;

use http::{StatusCode, header};
use poem::Request;
use poem_openapi::{Object, OpenApi};

use tenantd_auth::{Attempt, AuthError, SliceAuthenticator, TenantChoice, Users};
use tenantd_base::{
    access::{Identity, Principal},
    clock::Clock,
    secrets::Secret,
};
use tenantd_http::{
    context::RequestContext,
    credentials::{self, Authenticator, check_same_origin, forget_session, session_cookie, session_token},
    input::{Filter, Form},
    mark::{Marked, SignIn},
    pages::{Html, PageAnswer, escape},
    problem::{FieldError, Place, Problem},
};

use super::{
    super::{
        error::SsoError,
        flow::{SignOn, SignOnRequest},
        model::{Domain, ReturnPath},
    },
    sign_on::{redirect_uri, set_ticket},
};

const WRONG: &str = "E-mail address or password is wrong.";
const CHOOSE: &str = "This password is valid at several tenants. Choose one and enter your password again.";

#[derive(Debug, Object)]
struct SignInQuery {
    /// The path on this site to open after the sign-in.
    #[oai(validator(max_length = 1000))]
    return_to: Option<String>,
    /// Whether to ask for the password immediately.
    password: Option<bool>,
    /// The id or slug of the tenant to sign in to with a password. Needed if many tenants have a user with this address.
    #[oai(validator(max_length = 63))]
    tenant: Option<String>,
}

#[derive(Debug, Object)]
struct SignInForm {
    #[oai(validator(max_length = 254))]
    email: String,
    #[oai(validator(max_length = 256))]
    password: Option<String>,
    /// The id or slug of the chosen tenant, if the password is valid at several tenants.
    #[oai(validator(max_length = 63))]
    tenant: Option<String>,
    #[oai(validator(max_length = 1000))]
    return_to: Option<String>,
}

pub(crate) struct SignInPages {
    pub(crate) sign_on: SignOn,
    pub(crate) users: Users,
    pub(crate) authenticator: Arc<SliceAuthenticator>,
    pub(crate) clock: Clock,
}

#[OpenApi]
impl SignInPages {
    /// Show the sign-in page
    ///
    /// Returns the sign-in form, or the current user if the browser is signed in.
    #[oai(path = "/sign-in", method = "get", operation_id = "show_sign_in")]
    async fn show_sign_in(&self, request: &Request, query: Filter<SignInQuery>) -> Result<PageAnswer, Problem> {
        let context = RequestContext::of(request)?;
        let return_to = return_path(query.0.return_to.as_deref(), Place::Parameter("return_to".to_owned()))?;
        if let Some(principal) = self.signed_in(request, &context)? {
            return Ok(PageAnswer::shown(StatusCode::OK, signed_in_page(&principal, return_to.as_ref())));
        }
        let with_password = query.0.password.unwrap_or(false);
        let tenant = query.0.tenant.filter(|tenant| !tenant.is_empty());
        let page = SignInPage {
            email: "",
            with_password,
            tenant: tenant.as_deref(),
            tenants: &[],
            return_to: return_to.as_ref(),
            alert: None,
        };
        Ok(PageAnswer::shown(StatusCode::OK, page.render()))
    }

    /// Sign in
    ///
    /// Signs the user in with the password. Without a password, continues with the provider of the address's domain, or with the
    /// password form if there is none.
    #[oai(path = "/sign-in", method = "post", operation_id = "submit_sign_in")]
    async fn submit_sign_in(
        &self,
        _class: Marked<SignIn>,
        request: &Request,
        body: Form<SignInForm>,
    ) -> Result<PageAnswer, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign the browser in as a different user.
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        let SignInForm { email, password, tenant, return_to } = body.0;
        let return_to = return_path(return_to.as_deref(), Place::Pointer("/return_to".to_owned()))?;
        let tenant = tenant.filter(|tenant| !tenant.is_empty());
        match password {
            Some(password) => {
                let former = session_token(request.headers(), context.secure);
                let attempt = Attempt { email, password: Secret::new(password), tenant, former };
                self.with_password(&context, attempt, return_to).await
            }
            None => self.with_provider(&context, &email, tenant, return_to).await,
        }
    }

    /// Sign out
    ///
    /// Ends the session of the cookie and redirects to the sign-in page.
    #[oai(path = "/sign-out", method = "post", operation_id = "submit_sign_out")]
    async fn submit_sign_out(&self, request: &Request) -> Result<PageAnswer, Problem> {
        let context = RequestContext::of(request)?;
        check_same_origin(request.headers(), &context.base_url.to_string())?;
        if let Some(token) = session_token(request.headers(), context.secure) {
            self.users.logout(&token).await?;
        }
        let forget = forget_session(context.secure).into_iter();
        Ok(forget.fold(PageAnswer::see_other("/sign-in"), |answer, (name, value)| answer.with_header(name, &value)))
    }
}

impl SignInPages {
    fn signed_in(&self, request: &Request, context: &RequestContext) -> Result<Option<Arc<Principal>>, Problem> {
        let Some(token) = session_token(request.headers(), context.secure) else { return Ok(None) };
        match self.authenticator.session(&token, context.now) {
            Ok(principal) => Ok(Some(principal)),
            Err(credentials::AuthError::Store(error)) => Err(error.into()),
            // If the session is invalid for any reason, the user can sign in again.
            Err(_) => Ok(None),
        }
    }

    async fn with_provider(
        &self,
        context: &RequestContext,
        email: &str,
        tenant: Option<String>,
        return_to: Option<ReturnPath>,
    ) -> Result<PageAnswer, Problem> {
        let email = email.trim();
        let (tenant, target) = (tenant.as_deref(), return_to.as_ref());
        let page = SignInPage { email, with_password: false, tenant, tenants: &[], return_to: target, alert: None };
        let Some(domain) = Domain::of_email(email) else {
            let alert = Some("Enter your e-mail address, such as ada@example.com.");
            return Ok(PageAnswer::shown(StatusCode::UNPROCESSABLE_ENTITY, SignInPage { alert, ..page }.render()));
        };
        let sign_on_request = SignOnRequest {
            domain,
            return_to: return_to.clone().unwrap_or_else(ReturnPath::home),
            login_hint: Some(email.to_owned()),
            redirect_uri: redirect_uri(context),
        };
        match self.sign_on.begin(sign_on_request, self.clock.now()).await {
            Ok(started) => Ok(PageAnswer::shown(StatusCode::OK, redirect_page(&started.provider.name, &started.redirect_url))
                .with_header(header::REFRESH, &format!("0;url={}", started.redirect_url))
                .with_header(header::SET_COOKIE, &set_ticket(context.secure, &started.cookie))),
            Err(SsoError::NoProvider) => Ok(PageAnswer::shown(StatusCode::OK, SignInPage { with_password: true, ..page }.render())),
            Err(error) => Err(error.into()),
        }
    }

    async fn with_password(
        &self,
        context: &RequestContext,
        attempt: Attempt,
        return_to: Option<ReturnPath>,
    ) -> Result<PageAnswer, Problem> {
        let (email, tenant) = (attempt.email.clone(), attempt.tenant.clone());
        let page = |alert, tenants| {
            let (tenant, return_to) = (tenant.as_deref(), return_to.as_ref());
            SignInPage { email: &email, with_password: true, tenant, tenants, return_to, alert: Some(alert) }.render()
        };
        match self.users.login(attempt, self.clock.now()).await {
            Ok(login) => {
                let age = login.session.expires_at.since(context.now).as_secs();
                let target = return_to.clone().unwrap_or_else(ReturnPath::home);
                let session = session_cookie(context.secure, login.token.expose(), age);
                Ok(PageAnswer::see_other(target.as_str()).with_header(header::SET_COOKIE, &session))
            }
            Err(AuthError::Refused) => Ok(PageAnswer::shown(StatusCode::UNAUTHORIZED, page(WRONG, &[]))),
            Err(AuthError::TenantRequired(tenants)) => Ok(PageAnswer::shown(StatusCode::CONFLICT, page(CHOOSE, &tenants))),
            Err(AuthError::Throttled { retry_after_seconds }) => {
                let alert = format!("Too many wrong passwords. Try again in {retry_after_seconds} seconds.");
                Ok(PageAnswer::shown(StatusCode::TOO_MANY_REQUESTS, page(&alert, &[]))
                    .with_header(header::RETRY_AFTER, &retry_after_seconds.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Parses the return path. `place` is the location of the field in the error.
fn return_path(text: Option<&str>, place: Place) -> Result<Option<ReturnPath>, Problem> {
    let message = "return_to must be a path of this site, such as /documentation/";
    let refused = || Problem::invalid(vec![FieldError::new(place, "wrong_form", message)]);
    text.map(|text| ReturnPath::parse(text).ok_or_else(refused)).transpose()
}

/// The form for signing in.
#[derive(Clone, Copy)]
struct SignInPage<'a> {
    email: &'a str,
    with_password: bool,
    /// The tenant that the request names.
    tenant: Option<&'a str>,
    /// The tenants to choose from.
    tenants: &'a [TenantChoice],
    return_to: Option<&'a ReturnPath>,
    alert: Option<&'a str>,
}

impl SignInPage<'_> {
    fn render(self) -> Html {
        let mut html = Html::new("Sign in");
        if let Some(alert) = self.alert {
            html.raw(&format!("<p id=\"problem\" role=\"alert\" class=\"bad\">{}</p>", escape(alert)));
        }
        let described = if self.alert.is_some() { " aria-describedby=\"problem\" aria-invalid=\"true\"" } else { "" };
        // The first empty field has the focus.
        let (on_email, on_password) =
            if self.email.is_empty() || !self.with_password { (" autofocus", "") } else { ("", " autofocus") };
        html.raw("<form method=\"post\" action=\"/sign-in\">");
        html.raw(&format!(
            "<label for=\"email\">E-mail address</label><input id=\"email\" name=\"email\" type=\"email\" autocomplete=\"username\" \
             maxlength=\"254\" required value=\"{}\"{described}{on_email}>",
            escape(self.email)
        ));
        if !self.tenants.is_empty() {
            html.raw("<label for=\"tenant\">Tenant</label><select id=\"tenant\" name=\"tenant\" required>");
            for tenant in self.tenants {
                html.raw(&format!("<option value=\"{}\">{} ({})</option>", tenant.id, escape(&tenant.name), escape(&tenant.slug)));
            }
            html.raw("</select>");
        } else if let Some(tenant) = self.tenant {
            html.raw(&format!("<input type=\"hidden\" name=\"tenant\" value=\"{}\">", escape(tenant)));
        }
        if self.with_password {
            html.raw(&format!(
                "<label for=\"password\">Password</label><input id=\"password\" name=\"password\" type=\"password\" \
                 autocomplete=\"current-password\" maxlength=\"256\" required{described}{on_password}>"
            ));
        }
        if let Some(path) = self.return_to {
            html.raw(&format!("<input type=\"hidden\" name=\"return_to\" value=\"{}\">", escape(path.as_str())));
        }
        html.raw(if self.with_password { "<button>Sign in</button></form>" } else { "<button>Continue</button></form>" });
        let other = if self.with_password {
            ("Sign in through your organization", "")
        } else {
            ("Sign in with a password", "password=true")
        };
        let return_to: String = self
            .return_to
            .map(|path| form_urlencoded::Serializer::new(String::new()).append_pair("return_to", path.as_str()).finish())
            .unwrap_or_default();
        let query = [other.1, &return_to].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        html.raw(&format!("<p><a href=\"/sign-in{mark}{}\">{}</a></p>", escape(&query), other.0));
        html
    }
}

fn signed_in_page(principal: &Principal, return_to: Option<&ReturnPath>) -> Html {
    let mut html = Html::new("You are signed in");
    let name = match &principal.identity {
        Identity::User { name, email, .. } => format!("{name} ({email})"),
        Identity::ApiKey { name, .. } => name.clone(),
        Identity::LocalOperator => "the local operator".to_owned(),
    };
    html.paragraph(&format!("You are signed in as {name} at {}.", principal.tenant_name));
    let target = return_to.map_or("/documentation/", ReturnPath::as_str);
    html.raw(&format!("<p><a href=\"{}\">Continue</a></p>", escape(target)));
    html.raw("<form method=\"post\" action=\"/sign-out\"><button>Sign out</button></form>");
    html
}

/// The `Refresh` header of this page redirects immediately. The link is a fallback.
fn redirect_page(provider: &str, url: &str) -> Html {
    let mut html = Html::new("Sign in through your organization");
    html.raw(&format!("<p><a href=\"{}\">Continue to {}</a></p>", escape(url), escape(provider)));
    html
}
