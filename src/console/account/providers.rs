//! The ways from `/sign-in` to an identity provider: by the domain of an address, by a choice among the providers of a tenant, and
//! again for somebody who is signed in and confirms who they are.

use http::{HeaderValue, Method, StatusCode, header};
use maud::{Markup, html};
use poem::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::return_path::ReturnPath;
use tenantd_http::{
    pages::{ApiAnswer, Call, PageVisit, SIGN_IN},
    problem::{Code, Problem},
};

use super::{passing_on, problem};
use crate::{layout, page, query::Query, refusal::Refusal};

/// A provider to choose from.
#[derive(Debug, Deserialize)]
pub(super) struct Provider {
    id: String,
    name: String,
}

/// The providers that the staff of a tenant can choose from.
pub(super) async fn of_tenant(visit: &PageVisit<'_>, tenant: &str) -> Result<Vec<Provider>, Problem> {
    let answer = visit.api.call(Call::get(Query::default().with("tenant", tenant).at("/api/auth/sso/providers"))).await;
    match answer.status {
        status if status.is_success() => {
            let listed = answer.body.get("identity_providers").cloned().unwrap_or_default();
            serde_json::from_value(listed).map_err(Problem::internal)
        }
        // A text that cannot name a tenant.
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => Ok(Vec::new()),
        _ => Err(problem(&answer)),
    }
}

/// The buttons that lead to the providers of a tenant. With `chosen`, only to this one.
pub(super) fn choices(tenant: &str, providers: &[Provider], chosen: &str, return_to: Option<&ReturnPath>) -> Markup {
    html! {
        @for provider in providers.iter().filter(|provider| chosen.is_empty() || provider.id == chosen) {
            form method="post" action=(SIGN_IN) {
                input type="hidden" name="tenant" value=(tenant);
                input type="hidden" name="provider" value=(provider.id);
                @if let Some(path) = return_to { input type="hidden" name="return_to" value=(path.as_str()); }
                button { "Continue to " (provider.name) }
            }
        }
    }
}

/// Starts a sign-on and leads to the provider. `None` if there is no such provider.
pub(super) async fn begin(visit: &PageVisit<'_>, body: Value) -> Result<Option<Response>, Problem> {
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/sso", Some(body))).await;
    match answer.status {
        StatusCode::OK => lead_on(&answer).map(Some).ok_or_else(|| Problem::internal("the API did not name the provider")),
        StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => Ok(None),
        _ => Err(problem(&answer)),
    }
}

/// The page that leads to the provider. Its `Refresh` header does so immediately, and the link is a fallback.
pub(super) fn lead_on(answer: &ApiAnswer) -> Option<Response> {
    let url = answer.body.get("redirect_url")?.as_str()?;
    let name = answer.body.pointer("/provider/name")?.as_str()?;
    let content = html! { p { a href=(url) { "Continue to " (name) } } };
    let mut response = page::unkept(StatusCode::OK, &layout::narrow("Sign in through your organization", &content));
    response.headers_mut().insert(header::REFRESH, HeaderValue::try_from(format!("0;url={url}")).ok()?);
    Some(passing_on(response, answer))
}

/// The page where somebody who is signed in confirms who they are.
pub(super) fn confirmation(return_to: Option<&ReturnPath>) -> Response {
    let content = html! {
        p { "Sign in through your organization again to continue." }
        form method="post" action=(SIGN_IN) {
            input type="hidden" name="fresh" value="true";
            @if let Some(path) = return_to { input type="hidden" name="return_to" value=(path.as_str()); }
            button autofocus { "Continue" }
        }
    };
    page::unkept(StatusCode::OK, &layout::narrow("Confirm that it is you", &content))
}

/// Leads somebody who is signed in to their provider again. Without a provider, they sign in with their password.
pub(super) async fn confirm(visit: &PageVisit<'_>, return_to: Option<&ReturnPath>) -> Result<Response, Problem> {
    let body = json!({"fresh": true, "return_to": return_to.map_or("/", ReturnPath::as_str)});
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/sso", Some(body))).await;
    match Refusal::of(&answer) {
        None => lead_on(&answer).ok_or_else(|| Problem::internal("the API did not name the provider")),
        Some(refusal) if refusal.is(Code::InvalidTransition) => {
            let query = Query::default().with("password", "true").with("fresh", "password");
            let query = return_to.map_or(query.clone(), |path| query.with("return_to", path.as_str()));
            Ok(page::see_other(&query.at(SIGN_IN)))
        }
        Some(_) => Err(problem(&answer)),
    }
}
