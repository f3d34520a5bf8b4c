//! `/sign-out`: ends the session. A person who signed in through a provider is shown where to sign out of it too.

use http::{HeaderValue, Method, StatusCode};
use maud::html;
use poem::Response;
use serde_json::Value;

use tenantd_http::{
    credentials::forget_session,
    pages::{Call, PageVisit, SIGN_IN},
    problem::Problem,
};

use super::problem;
use crate::{layout, page};

/// Ends the session and removes its cookie.
pub(super) async fn submit(visit: &PageVisit<'_>) -> Result<Response, Problem> {
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/sso/logout", None)).await;
    // A session that does not work cannot be ended, but the browser may still have its cookie.
    let is_over = answer.status.is_success() || matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if !is_over {
        return Err(problem(&answer));
    }
    let text = |name: &str| answer.body.get(name).and_then(Value::as_str);
    let mut response = match (text("provider_name"), text("provider_logout_url")) {
        (Some(name), Some(url)) => signed_out(name, url),
        _ => page::see_other(SIGN_IN),
    };
    for (name, value) in forget_session(visit.secure) {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

/// The page after the end of a session that a provider started. Its session continues until the person ends it there.
fn signed_out(name: &str, url: &str) -> Response {
    let content = html! {
        p { "You are still signed in at " (name) ". On a shared computer, sign out there too." }
        p { a href=(url) { "Sign out of " (name) } }
        p { a href=(SIGN_IN) { "Sign in again" } }
    };
    page::unkept(StatusCode::OK, &layout::narrow("You are signed out", &content))
}
