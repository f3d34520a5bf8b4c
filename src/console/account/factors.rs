//! `/second-factor`: the second factors of the person who is signed in. Who lacks a factor that their role needs is led here, and can
//! do nothing else until they have added or proven one.
//!
//! If the API wants a recent sign-in, the page asks for the password and keeps what was typed in hidden fields. The password itself reaches
//! only `POST /api/auth/confirm`.

use http::{Method, StatusCode};
use maud::{Markup, html};
use poem::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_http::{
    pages::{ApiAnswer, Call, PageVisit, SECOND_FACTOR, SIGN_IN},
    problem::{Code, Problem},
};

use super::{
    Sent, passing_on,
    passkey::{self, Use},
    problem, retry_after,
};
use crate::{
    layout, page,
    query::{Query, segment},
    refusal::Refusal,
};

pub(super) const FIELDS: [&str; 10] =
    ["action", "id", "name", "code", "recovery_code", "enrolment", "key", "methods", PASSWORD, passkey::FIELD];
const API: &str = "/api/auth/factors";
const CONFIRM: &str = "/api/auth/confirm";
/// The field with the password that confirms who the person is.
const PASSWORD: &str = "confirm_password";

#[derive(Debug, Deserialize)]
struct Factor {
    id: String,
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Factors {
    data: Vec<Factor>,
    recovery_codes_left: u32,
}

impl Factors {
    fn has(&self, kind: &str) -> bool {
        self.data.iter().any(|factor| factor.kind == kind)
    }
}

/// What the page shows in addition to the factors.
enum Part<'a> {
    Nothing,
    Alert(&'a str),
    /// An app that the person is adding. The QR code is shown only the first time.
    App {
        enrolment: &'a str,
        key: &'a str,
        qr: Option<&'a str>,
        alert: Option<&'a str>,
    },
    /// What the API has returned for a passkey that the person is adding.
    Passkey(&'a Value),
    Codes(&'a [String]),
    /// The API wants a recent sign-in for what was typed. The alert says why the password was refused.
    Confirm {
        typed: Sent<'a>,
        alert: Option<&'a str>,
    },
    /// The session has to prove a factor first.
    Prove,
}

pub(super) async fn show(visit: &PageVisit<'_>) -> Result<Response, Problem> {
    render(visit, StatusCode::OK, &Part::Nothing).await
}

pub(super) async fn submit(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    // A password may begin or end with a space.
    if let Some(password) = sent.get(PASSWORD) {
        let answer = visit.api.call(Call::send(Method::POST, CONFIRM, Some(json!({"password": password})))).await;
        if let Some(refusal) = Refusal::of(&answer) {
            return unconfirmed(visit, sent, &answer, &refusal).await;
        }
    }
    let text = |name: &str| sent.get(name).unwrap_or_default().trim();
    let call = match text("action") {
        "begin" => return begin(visit, sent).await,
        "add" => return add(visit, sent).await,
        "codes" => return make_codes(visit, sent).await,
        "begin-passkey" => return begin_passkey(visit, sent).await,
        "add-passkey" => return add_passkey(visit, sent).await,
        "verify" if sent.get(passkey::FIELD).is_some() => {
            let body = json!({"passkey": passkey::read(text(passkey::FIELD))?});
            Call::send(Method::POST, format!("{API}/verify"), Some(body))
        }
        "verify" if sent.get("recovery_code").is_some() => {
            Call::send(Method::POST, format!("{API}/verify"), Some(json!({"recovery_code": text("recovery_code")})))
        }
        "verify" => Call::send(Method::POST, format!("{API}/verify"), Some(json!({"code": text("code")}))),
        "rename" => Call::send(Method::PATCH, format!("{API}/{}", segment(text("id"))), Some(json!({"name": text("name")}))),
        "remove" => Call::send(Method::DELETE, format!("{API}/{}", segment(text("id"))), None),
        _ => return Err(Problem::new(Code::MalformedRequest, "The form does not say what to do.")),
    };
    let answer = visit.api.call(call).await;
    match Refusal::of(&answer) {
        None => Ok(page::see_other(SECOND_FACTOR)),
        Some(refusal) => again(visit, sent, &answer, &refusal).await,
    }
}

/// The page again, with why the API refused, or with what it wants first.
async fn again(visit: &PageVisit<'_>, sent: Sent<'_>, answer: &ApiAnswer, refusal: &Refusal) -> Result<Response, Problem> {
    if !refusal.status.is_client_error() {
        return Err(problem(answer));
    }
    let alert = words(answer, refusal);
    let part = match () {
        () if refusal.is(Code::RecentSignInRequired) => Part::Confirm { typed: sent, alert: None },
        () if refusal.is(Code::SecondFactorMissing) => Part::Prove,
        () => Part::Alert(&alert),
    };
    Ok(passing_on(render(visit, refusal.status, &part).await?, answer))
}

/// The page that asks for the password again, with why the last one did not confirm anything.
async fn unconfirmed(visit: &PageVisit<'_>, sent: Sent<'_>, answer: &ApiAnswer, refusal: &Refusal) -> Result<Response, Problem> {
    if !refusal.status.is_client_error() || refusal.is(Code::SecondFactorMissing) {
        return again(visit, sent, answer, refusal).await;
    }
    let alert = words(answer, refusal);
    let part = Part::Confirm { typed: sent, alert: Some(&alert) };
    Ok(passing_on(render(visit, refusal.status, &part).await?, answer))
}

fn words(answer: &ApiAnswer, refusal: &Refusal) -> String {
    match retry_after(answer) {
        Some(seconds) => format!("Too many attempts. Try again in {seconds} seconds."),
        None => refusal.errors.first().map_or_else(|| refusal.detail.clone(), |error| error.message.clone()),
    }
}

async fn begin(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let answer = visit.api.call(Call::send(Method::POST, format!("{API}/totp"), None)).await;
    if let Some(refusal) = Refusal::of(&answer) {
        return again(visit, sent, &answer, &refusal).await;
    }
    let text = |name: &str| answer.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let part = Part::App { enrolment: text("enrolment"), key: text("secret"), qr: Some(text("qr_svg")), alert: None };
    render(visit, StatusCode::OK, &part).await
}

async fn add(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let [enrolment, key, name, code] = ["enrolment", "key", "name", "code"].map(|name| sent.get(name).unwrap_or_default().trim());
    let body = json!({"enrolment": enrolment, "name": name, "code": code});
    let answer = visit.api.call(Call::send(Method::POST, API, Some(body))).await;
    let Some(refusal) = Refusal::of(&answer) else {
        return Ok(page::see_other(&Query::default().with("added", "true").at(SECOND_FACTOR)));
    };
    let alert = ["code", "name"].iter().find_map(|field| refusal.about(field));
    let alert = alert.or(refusal.is(Code::AlreadyExists).then_some(refusal.detail.as_str()));
    match alert {
        Some(alert) => {
            let part = Part::App { enrolment, key, qr: None, alert: Some(alert) };
            render(visit, refusal.status, &part).await
        }
        None => again(visit, sent, &answer, &refusal).await,
    }
}

async fn begin_passkey(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let answer = visit.api.call(Call::send(Method::POST, format!("{API}/passkeys/options"), None)).await;
    match Refusal::of(&answer) {
        Some(refusal) => again(visit, sent, &answer, &refusal).await,
        None => render(visit, StatusCode::OK, &Part::Passkey(&answer.body)).await,
    }
}

async fn add_passkey(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let text = |name: &str| sent.get(name).unwrap_or_default().trim();
    let mut body = passkey::read(text(passkey::FIELD))?;
    if let Some(body) = body.as_object_mut() {
        body.insert("name".to_owned(), text("name").into());
    }
    let answer = visit.api.call(Call::send(Method::POST, format!("{API}/passkeys"), Some(body))).await;
    match Refusal::of(&answer) {
        Some(refusal) => again(visit, sent, &answer, &refusal).await,
        None => Ok(page::see_other(&Query::default().with("added", "passkey").at(SECOND_FACTOR))),
    }
}

async fn make_codes(visit: &PageVisit<'_>, sent: Sent<'_>) -> Result<Response, Problem> {
    let answer = visit.api.call(Call::send(Method::POST, format!("{API}/recovery-codes"), None)).await;
    if let Some(refusal) = Refusal::of(&answer) {
        return again(visit, sent, &answer, &refusal).await;
    }
    let codes = answer.body.get("codes").cloned().unwrap_or_default();
    let codes: Vec<String> = serde_json::from_value(codes).map_err(Problem::internal)?;
    render(visit, StatusCode::OK, &Part::Codes(&codes)).await
}

async fn render(visit: &PageVisit<'_>, status: StatusCode, part: &Part<'_>) -> Result<Response, Problem> {
    let (factors, session) = (visit.api.call(Call::get(API)).await, visit.api.call(Call::get("/api/auth/session")).await);
    if let Some(refusal) = Refusal::of(&factors) {
        let is_signed_out = refusal.status == StatusCode::UNAUTHORIZED;
        let way = Query::default().with("return_to", SECOND_FACTOR).at(SIGN_IN);
        return if is_signed_out { Ok(page::see_other(&way)) } else { Err(problem(&factors)) };
    }
    let factors: Factors = serde_json::from_value(factors.body).map_err(Problem::internal)?;
    let is_lacking = session.body.get("second_factor_missing").and_then(Value::as_bool).unwrap_or(false);
    let asks_proof = !factors.data.is_empty() && (matches!(part, Part::Prove) || visit.parameter("prove") == "true");
    let content = html! {
        @match part {
            Part::Alert(alert) => { div.alert role="alert" { (alert) } }
            Part::App { alert: Some(alert), .. } => { div.alert #problem role="alert" { (alert) } }
            Part::Codes(codes) => (new_codes(codes)),
            Part::Nothing | Part::App { .. } | Part::Confirm { .. } | Part::Prove | Part::Passkey(_) => {}
        }
        @if visit.parameter("added") == "passkey" && !is_lacking { p.note role="status" { "The passkey is added. You can sign in with it alone." } }
        @if visit.parameter("added") == "true" && !is_lacking { p.note role="status" { "The app is added. From now on, a sign-in with your password needs its code." } }
        @if let Part::App { enrolment, key, qr, alert } = part {
            (app(enrolment, key, *qr, alert.is_some()))
        } @else if let Part::Passkey(begun) = part {
            (new_passkey(begun))
        } @else if let Part::Confirm { typed, alert } = part {
            (confirm(*typed, *alert))
        } @else if is_lacking {
            (lacking(&factors))
        } @else if asks_proof {
            p { "Prove your second factor. Then you can change your factors and your password, and confirm that it is you." }
            (proof(&factors))
        } @else {
            (own(&factors))
        }
        p { @if is_lacking { (sign_out()) } @else { a href="/profile" { "Your profile" } " · " a href="/" { "Home" } } }
    };
    Ok(page::unkept(status, &layout::narrow("Second factor", &content)))
}

/// What a person can do who lacks a factor that their role needs.
fn lacking(factors: &Factors) -> Markup {
    if factors.data.is_empty() {
        return html! {
            p { "Your role needs a second factor. Add an authenticator app or a passkey to continue." }
            (begin_forms())
        };
    }
    html! {
        p { "Your role needs a second factor. Prove yours to continue." }
        (proof(factors))
    }
}

/// The forms that prove a factor of the person.
fn proof(factors: &Factors) -> Markup {
    html! {
        @if factors.has("totp") {
            form method="post" action=(SECOND_FACTOR) {
                input type="hidden" name="action" value="verify";
                div.field {
                    label for="code" { "Code of your authenticator app" }
                    input id="code" name="code" type="text" inputmode="numeric" autocomplete="one-time-code" maxlength="16" required autofocus;
                }
                button { "Continue" }
            }
        }
        @if factors.has("passkey") {
            @if !factors.has("totp") { p { "Your second factor is a passkey." } }
            form method="post" action=(SECOND_FACTOR) {
                input type="hidden" name="action" value="verify";
                (passkey::part(passkey::FIELD, Use::Proof, "Use a passkey"))
            }
        }
        @if factors.recovery_codes_left > 0 {
            details {
                summary { "Use a recovery code" }
                form method="post" action=(SECOND_FACTOR) {
                    input type="hidden" name="action" value="verify";
                    div.field {
                        label for="recovery_code" { "Recovery code" }
                        input id="recovery_code" name="recovery_code" type="text" autocomplete="off" spellcheck="false" maxlength="60" required;
                    }
                    button { "Continue with a recovery code" }
                }
            }
        }
    }
}

/// Asks for the password, and keeps what was typed before.
fn confirm(typed: Sent<'_>, alert: Option<&str>) -> Markup {
    let again = Query::default().with("fresh", "true").with("return_to", SECOND_FACTOR).at(SIGN_IN);
    html! {
        h2 { "Confirm that it is you" }
        p { "This changes how you sign in, so tenantd asks for your password again if you have not entered it recently." }
        form method="post" action=(SECOND_FACTOR) {
            @for (name, value) in typed.0.iter().filter(|(name, _)| name != PASSWORD) {
                input type="hidden" name=(name) value=(value);
            }
            @if let Some(alert) = alert { div.alert #confirm-problem role="alert" { (alert) } }
            div.field {
                label for=(PASSWORD) { "Password" }
                input id=(PASSWORD) name=(PASSWORD) type="password" autocomplete="current-password" maxlength="256" required autofocus
                    aria-invalid=[alert.map(|_| "true")] aria-describedby=[alert.map(|_| "confirm-problem")];
            }
            button { "Confirm and continue" }
        }
        p { "You sign in through your organization? " a href=(again) { "Sign in again" } ", then repeat the change." }
    }
}

/// The factors of a person, and what they can do with them.
fn own(factors: &Factors) -> Markup {
    html! {
        @if factors.data.is_empty() {
            p { "You have no second factor. With one, a stolen password alone does not sign anybody in." }
        }
        @for factor in &factors.data {
            section aria-label=(factor.name) {
                h2 { (factor.name) }
                p.muted { @if factor.kind == "passkey" { "A passkey" } @else { "An authenticator app" } }
                form method="post" action=(SECOND_FACTOR) {
                    input type="hidden" name="action" value="rename";
                    input type="hidden" name="id" value=(factor.id);
                    div.field {
                        label for={ "name-" (factor.id) } { "Name" }
                        input id={ "name-" (factor.id) } name="name" type="text" maxlength="60" required value=(factor.name);
                    }
                    button.second { "Rename " (factor.name) }
                }
                form method="post" action=(SECOND_FACTOR) {
                    input type="hidden" name="action" value="remove";
                    input type="hidden" name="id" value=(factor.id);
                    button.second.danger { "Remove " (factor.name) }
                }
            }
        }
        (begin_forms())
        @if !factors.data.is_empty() {
            h2 { "Recovery codes" }
            @match factors.recovery_codes_left {
                0 => p { "You have no recovery codes. With one, you can sign in after you have lost your factors." },
                left => p { "You have " (left) " unused codes. New codes replace them." },
            }
            form method="post" action=(SECOND_FACTOR) {
                input type="hidden" name="action" value="codes";
                button.second { "Make new recovery codes" }
            }
        }
    }
}

/// The ways to add a factor. Only the script can make a passkey, so it shows that form.
fn begin_forms() -> Markup {
    html! {
        form method="post" action=(SECOND_FACTOR) {
            input type="hidden" name="action" value="begin";
            button.second { "Add an authenticator app" }
        }
        div data-passkey hidden {
            form method="post" action=(SECOND_FACTOR) {
                input type="hidden" name="action" value="begin-passkey";
                button.second { "Add a passkey" }
            }
        }
    }
}

/// The form for the name of a passkey, whose button makes it.
fn new_passkey(begun: &Value) -> Markup {
    html! {
        p { "A passkey is stored on this device, in a password manager or on a security key. It signs you in without your password." }
        form method="post" action=(SECOND_FACTOR) {
            input type="hidden" name="action" value="add-passkey";
            div.field {
                label for="name" { "Name of the device or password manager" }
                input id="name" name="name" type="text" maxlength="60" required value="Passkey" autofocus;
            }
            (passkey::part(passkey::FIELD, Use::New(begun), "Make the passkey"))
        }
        p { a href=(SECOND_FACTOR) { "Cancel" } }
    }
}

/// The form for the first code of an app.
fn app(enrolment: &str, key: &str, qr: Option<&str>, is_wrong: bool) -> Markup {
    let image = qr.map(|svg| format!("data:image/svg+xml;base64,{}", data_encoding::BASE64.encode(svg.as_bytes())));
    let (described, invalid) = (is_wrong.then_some("problem"), is_wrong.then_some("true"));
    html! {
        @if let Some(image) = image {
            p { "Scan this code with your authenticator app." }
            p { img src=(image) alt="QR code with the key below" width="240" height="240"; }
        }
        p { "Or type this key into the app: " code { (key) } }
        form method="post" action=(SECOND_FACTOR) {
            input type="hidden" name="action" value="add";
            input type="hidden" name="enrolment" value=(enrolment);
            input type="hidden" name="key" value=(key);
            div.field {
                label for="name" { "Name of the app or device" }
                input id="name" name="name" type="text" maxlength="60" required value="Phone";
            }
            div.field {
                label for="code" { "Code that the app shows" }
                input id="code" name="code" type="text" inputmode="numeric" autocomplete="one-time-code" maxlength="16" required autofocus aria-describedby=[described] aria-invalid=[invalid];
            }
            button { "Add the app" }
        }
        p { a href=(SECOND_FACTOR) { "Cancel" } }
    }
}

fn new_codes(codes: &[String]) -> Markup {
    html! {
        div.note role="status" {
            p { strong { "Store these codes now. They are not shown again." } }
            p { "Each signs you in once, with your password, if you lose your other factors." }
            ul { @for code in codes { li { code { (code) } } } }
        }
    }
}

fn sign_out() -> Markup {
    html! { form method="post" action="/sign-out" { button.quiet { "Sign out" } } }
}
