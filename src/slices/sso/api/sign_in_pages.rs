//! `/sign-in` and `/sign-out`: pages that work without a script. Somebody gives their e-mail address; its domain leads them to their provider
//! or to a password.
//!
//! The way to a provider is a page that leads on at once, for browsers do not let a form be redirected to another host.

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
        flow::{SignOn, Wish},
        model::{Domain, ReturnPath},
    },
    sign_on::{redirect_uri, set_ticket},
};

const WRONG: &str = "E-mail address or password is wrong.";
const CHOOSE: &str = "You have this password at several tenants. Choose one, and enter your password again.";

#[derive(Debug, Object)]
struct SignInQuery {
    /// The path of this site to go to afterwards.
    #[oai(validator(max_length = 1000))]
    return_to: Option<String>,
    /// Ask for the password at once.
    password: Option<bool>,
    /// The id or slug of the tenant to sign in to with a password. Needed by people whose address many tenants have.
    #[oai(validator(max_length = 63))]
    tenant: Option<String>,
}

#[derive(Debug, Object)]
struct SignInForm {
    #[oai(validator(max_length = 254))]
    email: String,
    #[oai(validator(max_length = 256))]
    password: Option<String>,
    /// The id or slug of the tenant that was chosen, where the password is right at several.
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
    /// Tells somebody who is signed in that they are.
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
    /// Without a password, the domain of the address leads to its provider, or to the question for the password.
    #[oai(path = "/sign-in", method = "post", operation_id = "submit_sign_in")]
    async fn submit_sign_in(
        &self,
        _class: Marked<SignIn>,
        request: &Request,
        body: Form<SignInForm>,
    ) -> Result<PageAnswer, Problem> {
        let context = RequestContext::of(request)?;
        // Another site must not be able to sign a browser in as somebody else.
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
    /// Ends the session of the cookie, and shows the sign-in page.
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
            // Whatever is wrong with the session, signing in is the way out of it.
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
        let (tenant, way) = (tenant.as_deref(), return_to.as_ref());
        let page = SignInPage { email, with_password: false, tenant, tenants: &[], return_to: way, alert: None };
        let Some(domain) = Domain::of_email(email) else {
            let alert = Some("Enter your e-mail address, such as ada@example.com.");
            return Ok(PageAnswer::shown(StatusCode::UNPROCESSABLE_ENTITY, SignInPage { alert, ..page }.render()));
        };
        let wish = Wish {
            domain,
            return_to: return_to.clone().unwrap_or_else(ReturnPath::home),
            login_hint: Some(email.to_owned()),
            redirect_uri: redirect_uri(context),
        };
        match self.sign_on.begin(wish, self.clock.now()).await {
            Ok(begun) => Ok(PageAnswer::shown(StatusCode::OK, way_page(&begun.provider.name, &begun.redirect_url))
                .with_header(header::REFRESH, &format!("0;url={}", begun.redirect_url))
                .with_header(header::SET_COOKIE, &set_ticket(context.secure, &begun.cookie))),
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
                let way = return_to.clone().unwrap_or_else(ReturnPath::home);
                let session = session_cookie(context.secure, login.token.expose(), age);
                Ok(PageAnswer::see_other(way.as_str()).with_header(header::SET_COOKIE, &session))
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

/// Where to go afterwards. The same rule as everywhere, told where it was broken.
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
    /// The one that was named.
    tenant: Option<&'a str>,
    /// Those to choose from.
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
        // The first field that is still to be filled in has the focus.
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
    html.paragraph(&format!("You are {name} at {}.", principal.tenant_name));
    let way = return_to.map_or("/documentation/", ReturnPath::as_str);
    html.raw(&format!("<p><a href=\"{}\">Go on</a></p>", escape(way)));
    html.raw("<form method=\"post\" action=\"/sign-out\"><button>Sign out</button></form>");
    html
}

/// The header of this page leads on at once; the link is for where it does not.
fn way_page(provider: &str, url: &str) -> Html {
    let mut html = Html::new("Sign in through your organization");
    html.raw(&format!("<p><a href=\"{}\">Continue to {}</a></p>", escape(url), escape(provider)));
    html
}
