//! `/sign-in`: the user enters an e-mail address, and its domain determines whether a provider or a password follows. A passkey, or a
//! link of `tenantd demo`, signs in without either.
//!
//! The way to a provider is a page with a `Refresh` header (`providers.rs`), because browsers do not allow a form to redirect to
//! another host.

use http::{HeaderMap, Method, StatusCode};
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

use super::{
    Sent, passing_on,
    passkey::{self, Use},
    problem, providers, retry_after,
    second_factor::{self, Outcome},
};
use crate::{layout, page, query::Query, refusal::Refusal};

pub(super) const FIELDS: [&str; 12] = [
    "email",
    "password",
    "tenant",
    "return_to",
    "link",
    "provider",
    "fresh",
    "challenge",
    "methods",
    "code",
    "recovery_code",
    passkey::FIELD,
];
const NO_ADDRESS: &str = "Enter your e-mail address, such as ada@example.com.";
const INCOMPLETE: &str = "Enter your e-mail address and your password.";
const WRONG: &str = "E-mail address or password is wrong.";
const CHOOSE: &str = "This password is valid at several tenants. Choose one and enter your password again.";
const NO_PROVIDER: &str = "This provider is not available. Choose another way to sign in.";
const BAD_PASSKEY: &str = "This passkey does not sign you in. Choose another way to sign in.";
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
    let fresh = visit.parameter("fresh");
    if fresh != "password" && is_signed_in(visit).await? {
        let confirms = fresh == "true";
        return Ok(if confirms {
            providers::confirmation(return_to.as_ref())
        } else {
            page::see_other(target(return_to.as_ref()))
        });
    }
    let offered = if tenant.is_empty() { Vec::new() } else { providers::of_tenant(visit, &tenant).await? };
    let choices = providers::choices(&tenant, &offered, &visit.parameter("provider"), return_to.as_ref());
    let form = Form {
        email: "",
        with_password: visit.parameter("password") == "true",
        tenant: Some(tenant.as_str()).filter(|tenant| !tenant.is_empty()),
        return_to: return_to.as_ref(),
    };
    Ok(page::unkept(StatusCode::OK, &form.render_with(None, &[], &choices)))
}

pub(super) async fn submit(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let return_to = return_path(sent.get("return_to"), Place::Pointer("/return_to".to_owned()))?;
    if let Some(link) = sent.get("link") {
        return with_link(visit, link, return_to.as_ref()).await;
    }
    if let Some(challenge) = sent.get("challenge") {
        let step = second_factor::submit(visit, sent, challenge, return_to.as_ref(), target(return_to.as_ref()));
        let form = Form { email: "", with_password: true, tenant: None, return_to: return_to.as_ref() };
        return Ok(match step.await? {
            Outcome::Answered(response) => response,
            Outcome::Over => page::unkept(StatusCode::UNAUTHORIZED, &form.render(Some(second_factor::OVER), &[])),
        });
    }
    if let Some(passkey) = sent.get(passkey::FIELD) {
        return with_passkey(visit, passkey, return_to.as_ref()).await;
    }
    if sent.get("fresh") == Some("true") {
        return providers::confirm(visit, return_to.as_ref()).await;
    }
    if let (Some(tenant), Some(provider)) = (sent.get("tenant"), sent.get("provider")) {
        let body = json!({"tenant": tenant, "identity_provider_id": provider, "return_to": target(return_to.as_ref())});
        let form = Form { email: "", with_password: false, tenant: None, return_to: return_to.as_ref() };
        let missing = || page::unkept(StatusCode::UNPROCESSABLE_ENTITY, &form.render(Some(NO_PROVIDER), &[]));
        return Ok(providers::begin(visit, body).await?.unwrap_or_else(missing));
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
    Ok(answer.status.is_success() && matches!(answer.body.get("kind").and_then(Value::as_str), Some("user" | "contact")))
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
        StatusCode::FORBIDDEN if Refusal::of(&answer).is_some_and(|refusal| refusal.is(Code::SingleSignOnRequired)) => {
            Ok(required(&answer, return_to))
        }
        _ => Err(problem(&answer)),
    }
}

async fn with_passkey(visit: &PageVisit<'_>, sent: &str, return_to: Option<&ReturnPath>) -> Result<Response, Problem> {
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/passkey", Some(passkey::read(sent)?))).await;
    let Some(refusal) = Refusal::of(&answer) else {
        return Ok(passing_on(page::see_other(target(return_to)), &answer));
    };
    let alert = if refusal.is(Code::SingleSignOnRequired) {
        return Ok(required(&answer, return_to));
    } else if refusal.is(Code::InvalidCredentials) {
        BAD_PASSKEY.to_owned()
    } else if refusal.is(Code::RateLimited) {
        too_many(&answer)
    } else {
        return Err(problem(&answer));
    };
    let form = Form { email: "", with_password: true, tenant: None, return_to };
    Ok(passing_on(page::unkept(refusal.status, &form.render(Some(&alert), &[])), &answer))
}

async fn with_provider(visit: &PageVisit<'_>, form: Form<'_>) -> Result<Response, Problem> {
    let no_address = || page::unkept(StatusCode::UNPROCESSABLE_ENTITY, &form.render(Some(NO_ADDRESS), &[]));
    let Some((_, domain)) = form.email.rsplit_once('@') else { return Ok(no_address()) };
    let body = json!({"domain": domain, "login_hint": form.email, "return_to": target(form.return_to)});
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/sso", Some(body))).await;
    match answer.status {
        StatusCode::OK => providers::lead_on(&answer).ok_or_else(|| Problem::internal("the API did not name the provider")),
        StatusCode::NOT_FOUND => Ok(page::unkept(StatusCode::OK, &Form { with_password: true, ..form }.render(None, &[]))),
        StatusCode::UNPROCESSABLE_ENTITY => Ok(no_address()),
        _ => Err(problem(&answer)),
    }
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
    if refusal.is(Code::SecondFactorRequired) {
        return Ok(second_factor::ask(&answer, form.return_to));
    }
    let mut tenants: Vec<Tenant> = Vec::new();
    let alert = if refusal.is(Code::InvalidCredentials) {
        WRONG.to_owned()
    } else if refusal.is(Code::TenantRequired) {
        let listed = answer.body.get("tenants").cloned().unwrap_or_default();
        tenants = serde_json::from_value(listed).map_err(Problem::internal)?;
        CHOOSE.to_owned()
    } else if refusal.is(Code::SingleSignOnRequired) {
        return Ok(required(&answer, form.return_to));
    } else if refusal.is(Code::ValidationFailed) {
        INCOMPLETE.to_owned()
    } else if refusal.is(Code::RateLimited) {
        too_many(&answer)
    } else {
        return Err(problem(&answer));
    };
    Ok(passing_on(page::unkept(refusal.status, &form.render(Some(&alert), &tenants)), &answer))
}

fn too_many(answer: &ApiAnswer) -> String {
    format!("Too many attempts. Try again in {} seconds.", retry_after(answer).unwrap_or(1))
}

/// The page for an account that must sign in through a provider.
fn required(answer: &ApiAnswer, return_to: Option<&ReturnPath>) -> Response {
    let text = |pointer: &str| answer.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let content = html! {
        div.alert #problem role="alert" { (text("/tenant/name")) " requires you to sign in through " (text("/identity_provider/name")) "." }
        form method="post" action=(SIGN_IN) {
            input type="hidden" name="tenant" value=(text("/tenant/slug"));
            input type="hidden" name="provider" value=(text("/identity_provider/id"));
            @if let Some(path) = return_to { input type="hidden" name="return_to" value=(path.as_str()); }
            button autofocus { "Continue to " (text("/identity_provider/name")) }
        }
    };
    page::unkept(answer.status, &layout::narrow("Sign in through your organization", &content))
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
        self.render_with(alert, tenants, &html! {})
    }

    /// `choices` leads to the providers of the tenant.
    fn render_with(self, alert: Option<&str>, tenants: &[Tenant], choices: &Markup) -> Markup {
        let (described, invalid) = (alert.map(|_| "problem"), alert.map(|_| "true"));
        // The first empty field has the focus.
        let on_email = self.email.is_empty() || !self.with_password;
        let content = html! {
            @if let Some(alert) = alert { div.alert #problem role="alert" { (alert) } }
            (choices)
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
            form method="post" action=(SIGN_IN) {
                @if let Some(path) = self.return_to { input type="hidden" name="return_to" value=(path.as_str()); }
                (passkey::part(passkey::FIELD, Use::SignIn, "Sign in with a passkey"))
            }
            p { (self.other_way()) }
            @if self.with_password {
                p.muted { "Forgot your password? Ask an administrator of your organization for a link to set a new one." }
            }
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
