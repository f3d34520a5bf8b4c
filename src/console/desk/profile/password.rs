//! The form with which people change their own password.

use http::{Method, StatusCode};
use maud::{Markup, html};
use serde_json::json;

use crate::{
    components::page_head,
    desk::{Content, Reply},
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) const PATH: &str = "/profile/password";
const API: &str = "/api/auth/own-password";
const CURRENT: &str = "current_password";
const NEW: &str = "new_password";

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(page(&visitor, None))
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    // A password may begin or end with a space.
    let typed = |name: &str| {
        let fields = visitor.visit.form.unwrap_or_default();
        fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    };
    let body = json!({CURRENT: typed(CURRENT), NEW: typed(NEW)});
    match visitor.act(Method::PUT, API, Some(body)).await {
        Ok(answer) => Ok(Reply::SignedIn("/profile?password=changed".to_owned(), answer.headers)),
        Err(refusal) if refusal.status.is_client_error() && refusal.status != StatusCode::UNAUTHORIZED => {
            Ok(page(&visitor, Some(&refusal)))
        }
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Reply {
    let fields = Fields::default();
    let shown = Shown { fields: &fields, refusal };
    let body = html! {
        (page_head(&html! { "Change your password" }, &html! { a href="/profile" { "Your profile" } }, &html! {}))
        form.stack method="post" action=(PATH) {
            (visitor.tokens())
            (shown.summary())
            (field(CURRENT, "Current password", "current-password", "", refusal))
            (field(NEW, "New password", "new-password", "At least 12 characters. Several words that do not belong together are easy to remember.", refusal))
            div.actions { button { "Change the password" } a.button href="/profile" { "Cancel" } }
        }
        p.muted { "This signs you out on all other devices." }
    };
    let content = Content::new("Change your password", body).with_secret();
    Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    })
}

/// A field that is never shown with what was typed.
fn field(name: &str, label: &str, purpose: &str, hint: &str, refusal: Option<&Refusal>) -> Markup {
    let problem = refusal.and_then(|refusal| refusal.about(name));
    let described = format!("{name}-hint {name}-problem");
    html! {
        div.field {
            label for=(name) { (label) }
            input id=(name) name=(name) type="password" autocomplete=(purpose) maxlength="256" required aria-describedby=(described)
                aria-invalid=[problem.map(|_| "true")];
            p.problem id={ (name) "-problem" } { @if let Some(problem) = problem { (problem) } }
            p.hint id={ (name) "-hint" } { (hint) }
        }
    }
}
