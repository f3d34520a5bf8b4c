//! The second step of `/sign-in`: the code of an authenticator app, a passkey, or a recovery code.
//!
//! The challenge is in the form and never in an address. It is of no use without the second factor.

use http::{Method, StatusCode};
use maud::{Markup, html};
use poem::Response;
use serde_json::{Value, json};

use tenantd_base::return_path::ReturnPath;
use tenantd_http::{
    pages::{ApiAnswer, Call, PageVisit, SIGN_IN},
    problem::{Code, Problem},
};

use super::{
    Sent, passing_on,
    passkey::{self, Use},
    problem, retry_after,
};
use crate::{layout, page, refusal::Refusal};

const API: &str = "/api/auth/second-factor";
const WRONG: &str = "The code is wrong, or it was used before. Enter the code that is shown now.";
const WRONG_PASSKEY: &str = "This passkey is not one of yours. Use another one.";
const EMPTY: &str = "Enter the code.";
/// What follows a challenge that is over.
pub(super) const OVER: &str = "The sign-in took too long, or too many codes were wrong. Enter your password again.";

/// The form for the second factor.
#[derive(Clone, Copy, Debug)]
struct Form<'a> {
    challenge: &'a str,
    /// The methods that the person can use, separated by spaces.
    methods: &'a str,
    return_to: Option<&'a ReturnPath>,
}

/// What the second step led to.
pub(super) enum Outcome {
    Answered(Response),
    /// The person has to start with the password again.
    Over,
}

/// Asks for the second factor after the right password.
pub(super) fn ask(answer: &ApiAnswer, return_to: Option<&ReturnPath>) -> Response {
    let text = |name: &str| answer.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let methods = answer.body.get("methods").and_then(Value::as_array);
    let methods: Vec<&str> = methods.into_iter().flatten().filter_map(Value::as_str).collect();
    let form = Form { challenge: text("challenge"), methods: &methods.join(" "), return_to };
    page::unkept(StatusCode::OK, &form.render(None))
}

/// Sends the second factor of the form.
pub(super) async fn submit(
    visit: &PageVisit<'_>,
    sent: Sent<'_>,
    challenge: &str,
    return_to: Option<&ReturnPath>,
    target: &str,
) -> Result<Outcome, Problem> {
    let form = Form { challenge, methods: sent.get("methods").unwrap_or_default(), return_to };
    let mut body = json!({"challenge": challenge});
    for name in ["code", "recovery_code"] {
        if let (Some(value), Some(body)) = (sent.get(name), body.as_object_mut()) {
            body.insert(name.to_owned(), value.trim().into());
        }
    }
    if let (Some(used), Some(body)) = (sent.get(passkey::FIELD), body.as_object_mut()) {
        body.insert(passkey::FIELD.to_owned(), passkey::read(used)?);
    }
    let answer = visit.api.call(Call::send(Method::POST, API, Some(body))).await;
    let Some(refusal) = Refusal::of(&answer) else {
        return Ok(Outcome::Answered(passing_on(page::see_other(target), &answer)));
    };
    let is_over = answer.body.get("attempts_left").and_then(Value::as_u64) == Some(0);
    let alert = if refusal.is(Code::InvalidCredentials) && is_over {
        return Ok(Outcome::Over);
    } else if refusal.is(Code::InvalidCredentials) && sent.get(passkey::FIELD).is_some() {
        WRONG_PASSKEY.to_owned()
    } else if refusal.is(Code::InvalidCredentials) {
        WRONG.to_owned()
    } else if refusal.is(Code::ValidationFailed) {
        EMPTY.to_owned()
    } else if refusal.is(Code::RateLimited) {
        format!("Too many attempts. Try again in {} seconds.", retry_after(&answer).unwrap_or(1))
    } else {
        return Err(problem(&answer));
    };
    Ok(Outcome::Answered(passing_on(page::unkept(refusal.status, &form.render(Some(&alert))), &answer)))
}

impl Form<'_> {
    fn has(self, method: &str) -> bool {
        self.methods.split(' ').any(|known| known == method)
    }

    fn render(self, alert: Option<&str>) -> Markup {
        let (described, invalid) = (alert.map(|_| "problem"), alert.map(|_| "true"));
        let has_app = self.has("totp");
        let recovery = html! {
            form method="post" action=(SIGN_IN) {
                (self.hidden())
                div.field {
                    label for="recovery_code" { "Recovery code" }
                    input id="recovery_code" name="recovery_code" type="text" autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="60" required;
                    p.hint { "Each code works once." }
                }
                button { "Sign in with a recovery code" }
            }
        };
        let content = html! {
            @if let Some(alert) = alert { div.alert #problem role="alert" { (alert) } }
            @if has_app {
                form method="post" action=(SIGN_IN) {
                    (self.hidden())
                    div.field {
                        label for="code" { "Code of your authenticator app" }
                        input id="code" name="code" type="text" inputmode="numeric" autocomplete="one-time-code" maxlength="16" required autofocus aria-describedby=[described] aria-invalid=[invalid];
                    }
                    button { "Sign in" }
                }
            }
            @if self.has("passkey") {
                @if !has_app { p { "Your second factor is a passkey." } }
                form method="post" action=(SIGN_IN) {
                    (self.hidden())
                    (passkey::part(passkey::FIELD, Use::Step(&json!({"challenge": self.challenge})), "Use a passkey"))
                }
            }
            @if self.has("recovery_code") {
                @if has_app || self.has("passkey") { details { summary { "Use a recovery code" } (recovery) } } @else { (recovery) }
            }
            p { a href=(SIGN_IN) { "Start again" } }
        };
        layout::narrow("Second factor", &content)
    }

    fn hidden(self) -> Markup {
        html! {
            input type="hidden" name="challenge" value=(self.challenge);
            input type="hidden" name="methods" value=(self.methods);
            @if let Some(path) = self.return_to { input type="hidden" name="return_to" value=(path.as_str()); }
        }
    }
}
