//! `/sign-in`: the user enters an e-mail address, and its domain determines whether a provider or a password follows. A link of
//! `tenantd demo` signs in without either.
//!
//! The way to a provider is a page with a `Refresh` header, because browsers do not allow a form to redirect to another host.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use maud::{Markup, html};
use poem::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::return_path::ReturnPath;
use tenantd_http::{
    context::header as header_text,
    credentials::check_same_origin,
    pages::{ApiAnswer, Call, PageVisit, SIGN_IN},
    problem::{Code, FieldError, Place, Problem},
};

use super::{Sent, passing_on, problem, retry_after};
use crate::{layout, page, query::Query, refusal::Refusal};

pub(super) const FIELDS: [&str; 5] = ["email", "password", "tenant", "return_to", "link"];
const NO_ADDRESS: &str = "Enter your e-mail address, such as ada@example.com.";
const INCOMPLETE: &str = "Enter your e-mail address and your password.";
const WRONG: &str = "E-mail address or password is wrong.";
const CHOOSE: &str = "This password is valid at several tenants. Choose one and enter your password again.";
const BAD_LINK: &str = "This link does not work. A link signs in once, within 24 hours. Sign in with your password.";

/// A tenant to choose from.
#[derive(Debug, Deserialize)]
struct Tenant {
    id: String,
    name: String,
    slug: String,
}

pub(super) async fn show(visit: &PageVisit<'_>) -> Result<Response, Problem> {
    let return_to = return_path(Some(&visit.parameter("return_to")), Place::Parameter("return_to".to_owned()))?;
    let (link, tenant) = (visit.parameter("link"), visit.parameter("tenant"));
    if !link.is_empty() {
        if is_opened_by_person(visit) {
            return with_link(visit, &link, return_to.as_ref()).await;
        }
        return Ok(page::unkept(StatusCode::OK, &link_page(&link, return_to.as_ref())));
    }
    if is_signed_in(visit).await? {
        return Ok(page::see_other(target(return_to.as_ref())));
    }
    let form = Form {
        email: "",
        with_password: visit.parameter("password") == "true",
        tenant: Some(tenant.as_str()).filter(|tenant| !tenant.is_empty()),
        return_to: return_to.as_ref(),
    };
    Ok(page::unkept(StatusCode::OK, &form.render(None, &[])))
}

pub(super) async fn submit(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let return_to = return_path(sent.get("return_to"), Place::Pointer("/return_to".to_owned()))?;
    if let Some(link) = sent.get("link") {
        return with_link(visit, link, return_to.as_ref()).await;
    }
    let password = sent.get("password");
    let form = Form {
        email: sent.get("email").unwrap_or_default().trim(),
        with_password: password.is_some(),
        tenant: sent.get("tenant").filter(|tenant| !tenant.is_empty()),
        return_to: return_to.as_ref(),
    };
    match password {
        Some(password) => with_password(visit, form, password).await,
        None => with_provider(visit, form).await,
    }
}

/// Parses the return path. `place` is the location of the field in the error.
fn return_path(text: Option<&str>, place: Place) -> Result<Option<ReturnPath>, Problem> {
    let message = "return_to must be a path of this site, such as /tickets";
    let refused = || Problem::invalid(vec![FieldError::new(place, "wrong_form", message)]);
    let given = text.filter(|text| !text.is_empty());
    given.map(|text| ReturnPath::parse(text).ok_or_else(refused)).transpose()
}

/// Where the browser goes after signing in.
fn target(return_to: Option<&ReturnPath>) -> &str {
    return_to.map_or("/", ReturnPath::as_str)
}

async fn is_signed_in(visit: &PageVisit<'_>) -> Result<bool, Problem> {
    if visit.session().is_none() {
        return Ok(false);
    }
    let answer = visit.api.call(Call::get("/api/auth/session")).await;
    if answer.status.is_server_error() {
        return Err(problem(&answer));
    }
    // If the session is invalid for any reason, the user can sign in again.
    Ok(answer.status.is_success() && answer.body.get("kind").and_then(Value::as_str) == Some("user"))
}

/// Whether the browser says that a person opened the address, and that no other site led here. Another site must not be able to sign
/// the browser in as a different user, and a program that looks at a link must not use it up.
fn is_opened_by_person(visit: &PageVisit<'_>) -> bool {
    let says = |name: &'static str, word: &str| header_text(visit.headers, name) == Some(word);
    says("sec-fetch-mode", "navigate") && !is_prefetch(visit.headers) && check_same_origin(visit.headers, visit.base_url).is_ok()
}

fn is_prefetch(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-purpose") || headers.contains_key("purpose")
}

async fn with_link(visit: &PageVisit<'_>, link: &str, return_to: Option<&ReturnPath>) -> Result<Response, Problem> {
    let body = json!({"token": link});
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/sign-in-link", Some(body))).await;
    match answer.status {
        status if status.is_success() => Ok(passing_on(page::see_other(target(return_to)), &answer)),
        StatusCode::UNAUTHORIZED | StatusCode::UNPROCESSABLE_ENTITY => {
            // Somebody who opens their link again is signed in already.
            if is_signed_in(visit).await? {
                return Ok(page::see_other(target(return_to)));
            }
            let form = Form { email: "", with_password: true, tenant: None, return_to };
            Ok(page::unkept(StatusCode::UNAUTHORIZED, &form.render(Some(BAD_LINK), &[])))
        }
        _ => Err(problem(&answer)),
    }
}

async fn with_provider(visit: &PageVisit<'_>, form: Form<'_>) -> Result<Response, Problem> {
    let no_address = || page::unkept(StatusCode::UNPROCESSABLE_ENTITY, &form.render(Some(NO_ADDRESS), &[]));
    let Some((_, domain)) = form.email.rsplit_once('@') else { return Ok(no_address()) };
    let body = json!({"domain": domain, "login_hint": form.email, "return_to": target(form.return_to)});
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/sso", Some(body))).await;
    match answer.status {
        StatusCode::OK => to_provider(&answer).ok_or_else(|| Problem::internal("the API did not name the provider")),
        StatusCode::NOT_FOUND => Ok(page::unkept(StatusCode::OK, &Form { with_password: true, ..form }.render(None, &[]))),
        StatusCode::UNPROCESSABLE_ENTITY => Ok(no_address()),
        _ => Err(problem(&answer)),
    }
}

/// The page that leads to the provider. Its `Refresh` header does so immediately, and the link is a fallback.
fn to_provider(answer: &ApiAnswer) -> Option<Response> {
    let url = answer.body.get("redirect_url")?.as_str()?;
    let name = answer.body.pointer("/provider/name")?.as_str()?;
    let content = html! { p { a href=(url) { "Continue to " (name) } } };
    let mut response = page::unkept(StatusCode::OK, &layout::narrow("Sign in through your organization", &content));
    response.headers_mut().insert(header::REFRESH, HeaderValue::try_from(format!("0;url={url}")).ok()?);
    Some(passing_on(response, answer))
}

async fn with_password(visit: &PageVisit<'_>, form: Form<'_>, password: &str) -> Result<Response, Problem> {
    let mut body = json!({"email": form.email, "password": password});
    if let (Some(tenant), Some(body)) = (form.tenant, body.as_object_mut()) {
        body.insert("tenant".to_owned(), tenant.into());
    }
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/login", Some(body))).await;
    let Some(refusal) = Refusal::of(&answer) else {
        return Ok(passing_on(page::see_other(target(form.return_to)), &answer));
    };
    let mut tenants: Vec<Tenant> = Vec::new();
    let alert = if refusal.is(Code::InvalidCredentials) {
        WRONG.to_owned()
    } else if refusal.is(Code::TenantRequired) {
        let listed = answer.body.get("tenants").cloned().unwrap_or_default();
        tenants = serde_json::from_value(listed).map_err(Problem::internal)?;
        CHOOSE.to_owned()
    } else if refusal.is(Code::ValidationFailed) {
        INCOMPLETE.to_owned()
    } else if refusal.is(Code::RateLimited) {
        format!("Too many attempts. Try again in {} seconds.", retry_after(&answer).unwrap_or(1))
    } else {
        return Err(problem(&answer));
    };
    Ok(passing_on(page::unkept(refusal.status, &form.render(Some(&alert), &tenants)), &answer))
}

/// The page of a link that the browser has not opened by itself.
fn link_page(link: &str, return_to: Option<&ReturnPath>) -> Markup {
    let content = html! {
        form method="post" action=(SIGN_IN) {
            input type="hidden" name="link" value=(link);
            @if let Some(path) = return_to { input type="hidden" name="return_to" value=(path.as_str()); }
            p { "This link signs you in once." }
            button autofocus { "Sign in" }
        }
    };
    layout::narrow("Sign in", &content)
}

/// The form for signing in.
#[derive(Clone, Copy)]
struct Form<'a> {
    email: &'a str,
    with_password: bool,
    /// The tenant that the request names.
    tenant: Option<&'a str>,
    return_to: Option<&'a ReturnPath>,
}

impl Form<'_> {
    fn render(self, alert: Option<&str>, tenants: &[Tenant]) -> Markup {
        let (described, invalid) = (alert.map(|_| "problem"), alert.map(|_| "true"));
        // The first empty field has the focus.
        let on_email = self.email.is_empty() || !self.with_password;
        let content = html! {
            @if let Some(alert) = alert { div.alert #problem role="alert" { (alert) } }
            form method="post" action=(SIGN_IN) {
                div.field {
                    label for="email" { "E-mail address" }
                    input id="email" name="email" type="email" autocomplete="username" maxlength="254" required value=(self.email) aria-describedby=[described] aria-invalid=[invalid] autofocus[on_email];
                }
                @if !tenants.is_empty() {
                    div.field {
                        label for="tenant" { "Tenant" }
                        select id="tenant" name="tenant" required {
                            @for tenant in tenants { option value=(tenant.id) { (tenant.name) " (" (tenant.slug) ")" } }
                        }
                    }
                } @else if let Some(tenant) = self.tenant {
                    input type="hidden" name="tenant" value=(tenant);
                }
                @if self.with_password {
                    div.field {
                        label for="password" { "Password" }
                        input id="password" name="password" type="password" autocomplete="current-password" maxlength="256" required aria-describedby=[described] aria-invalid=[invalid] autofocus[!on_email];
                    }
                }
                @if let Some(path) = self.return_to { input type="hidden" name="return_to" value=(path.as_str()); }
                button { @if self.with_password { "Sign in" } @else { "Continue" } }
            }
            p { (self.other_way()) }
        };
        layout::narrow("Sign in", &content)
    }

    /// The link to the other form: for a password, or for a provider.
    fn other_way(self) -> Markup {
        let (words, query) = if self.with_password {
            ("Sign in through your organization", Query::default())
        } else {
            ("Sign in with a password", Query::default().with("password", "true"))
        };
        let query = match self.return_to {
            Some(path) => query.with("return_to", path.as_str()),
            None => query,
        };
        html! { a href=(query.at(SIGN_IN)) { (words) } }
    }
}
