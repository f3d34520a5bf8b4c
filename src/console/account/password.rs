//! `/set-password`: the page of the link that an administrator gives to a user. The token in the link works once.

use http::{Method, StatusCode};
use maud::{Markup, html};
use poem::Response;
use serde_json::json;

use tenantd_http::{
    pages::{Call, PageVisit, SIGN_IN},
    problem::Problem,
};

use super::{PasswordLinks, SET_PASSWORD, Sent, problem};
use crate::{layout, page, query::Query, refusal::Refusal};

pub(super) const FIELDS: [&str; 2] = ["token", "password"];
const TITLE: &str = "Set your password";
/// A longer text is no token.
const MAX_TOKEN: usize = 100;

/// The form for the new password. Showing it does not use up the token.
pub(super) fn show(visit: &PageVisit<'_>, links: &PasswordLinks) -> Result<Response, Problem> {
    let token = visit.parameter("token");
    if token.is_empty() || token.len() > MAX_TOKEN || !links(&token)? {
        return Ok(unusable());
    }
    Ok(page::unkept(StatusCode::OK, &form(&token, None)))
}

pub(super) async fn submit(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let (token, password) = (sent.get("token").unwrap_or_default(), sent.get("password").unwrap_or_default());
    let body = json!({"token": token, "password": password});
    let answer = visit.api.call(Call::send(Method::POST, "/api/auth/password", Some(body))).await;
    let Some(refusal) = Refusal::of(&answer) else {
        return Ok(page::see_other(&Query::default().with("password", "true").at(SIGN_IN)));
    };
    match refusal.status {
        StatusCode::UNAUTHORIZED => Ok(unusable()),
        StatusCode::UNPROCESSABLE_ENTITY if refusal.about("token").is_some() => Ok(unusable()),
        StatusCode::UNPROCESSABLE_ENTITY => {
            let problem = refusal.about("password").unwrap_or(&refusal.detail);
            Ok(page::unkept(refusal.status, &form(token, Some(problem))))
        }
        _ => Err(problem(&answer)),
    }
}

fn form(token: &str, problem: Option<&str>) -> Markup {
    let described = if problem.is_some() { "problem rule" } else { "rule" };
    let invalid = problem.map(|_| "true");
    let content = html! {
        @if let Some(problem) = problem { div.alert #problem role="alert" { (problem) } }
        form method="post" action=(SET_PASSWORD) {
            input type="hidden" name="token" value=(token);
            div.field {
                label for="password" { "New password" }
                input id="password" name="password" type="password" autocomplete="new-password" minlength="12" maxlength="256" required autofocus aria-describedby=(described) aria-invalid=[invalid];
                p.hint #rule { "At least 12 characters. Several words that do not belong together are easy to remember." }
            }
            button { "Set the password" }
        }
    };
    layout::narrow(TITLE, &content)
}

/// The page for a link that was used or has expired.
fn unusable() -> Response {
    let content = html! {
        p { "The link was already used, has expired, or is incomplete. Ask an administrator of your organization for a new link." }
        p { a href=(SIGN_IN) { "Sign in" } }
    };
    page::unkept(StatusCode::UNAUTHORIZED, &layout::narrow("This link does not work", &content))
}
