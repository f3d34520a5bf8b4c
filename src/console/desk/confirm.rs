//! "Confirm that it is you": what the desk shows when the API wants a recent sign-in for what a form asks. The page keeps what was typed in
//! hidden fields. It sends them again with the password or a passkey, and the desk confirms and then does what the form asked for.
//!
//! **Invariant:** no cache keeps the page, because the hidden fields can hold secrets. The password itself is not shown again, and reaches
//! only `POST /api/auth/confirm`.

use http::Method;
use maud::html;
use serde_json::json;

use tenantd_http::{
    pages::{Call, FORM_TOKEN, PageVisit, SECOND_FACTOR, SIGN_IN},
    problem::Code,
};

use super::Content;
use crate::{
    account::passkey::{self, Use},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The field with the password. No other form of the desk has a field of this name.
const PASSWORD: &str = "confirm_password";
/// The field with what a passkey returned.
const PASSKEY: &str = "confirm_passkey";
const API: &str = "/api/auth/confirm";

/// A form that was sent from the page: what confirms, and the fields that were typed before.
pub(super) struct Confirmation {
    proof: Proof,
    pub(super) action: Vec<(String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Proof {
    Password(String),
    /// What a passkey returned, as JSON.
    Passkey(String),
}

impl Confirmation {
    /// `None` if the form does not come from this page.
    pub(super) fn of(form: &[(String, String)]) -> Option<Self> {
        // A password may begin or end with a space.
        let sent = |wanted: &str| form.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        let proof = sent(PASSWORD).map(Proof::Password).or_else(|| sent(PASSKEY).map(Proof::Passkey))?;
        Some(Self { proof, action: form.iter().filter(|(name, _)| name != PASSWORD && name != PASSKEY).cloned().collect() })
    }

    pub(super) async fn send(&self, visit: &PageVisit<'_>) -> Result<(), Refusal> {
        let body = match &self.proof {
            Proof::Password(password) => json!({"password": password}),
            Proof::Passkey(sent) => {
                json!({"passkey": passkey::read(sent).map_err(|problem| Refusal::new(problem.code, problem.detail.as_str()))?})
            }
        };
        let call = Call::send(Method::POST, API, Some(body));
        Refusal::of(&visit.api.call(call).await).map_or(Ok(()), Err)
    }
}

/// The page. `refusal` says why the password was refused.
pub(super) fn content(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Content {
    let visit = visitor.visit;
    let target = if visit.query.is_empty() { visit.path.to_owned() } else { format!("{}?{}", visit.path, visit.query) };
    let typed = visit.form.unwrap_or_default().iter().filter(|(name, _)| name != FORM_TOKEN);
    let kept = html! {
        input type="hidden" name=(FORM_TOKEN) value=(visit.form_token);
        @for (name, value) in typed { input type="hidden" name=(name) value=(value); }
    };
    let again = Query::default().with("fresh", "true").with("return_to", visit.path).at(SIGN_IN);
    let problem =
        refusal.map(|refusal| ["password", "passkey"].iter().find_map(|field| refusal.about(field)).unwrap_or(&refusal.detail));
    let body = html! {
        h1 { "Confirm that it is you" }
        p.lead { "This changes who has access, so tenantd asks for your password or a passkey again if you have not used it recently." }
        form.stack method="post" action=(target) {
            (kept)
            @if let Some(problem) = problem { div.alert #confirm-problem role="alert" { (problem) } }
            div.field {
                label for=(PASSWORD) { "Password" }
                input id=(PASSWORD) name=(PASSWORD) type="password" autocomplete="current-password" maxlength="256" required autofocus
                    aria-invalid=[problem.map(|_| "true")] aria-describedby=[problem.map(|_| "confirm-problem")];
            }
            div.actions { button { "Confirm and continue" } a.button href=(visit.path) { "Cancel" } }
        }
        form.stack method="post" action=(target) {
            (kept)
            (passkey::part(PASSKEY, Use::Proof, "Confirm with a passkey"))
        }
        @if refusal.is_some_and(|refusal| refusal.is(Code::SecondFactorMissing)) {
            p { a href=(Query::default().with("prove", "true").at(SECOND_FACTOR)) { "Prove your second factor" } ", then repeat the change." }
        }
        p.muted {
            "You have no password because you sign in through your organization? "
            a href=(again) { "Sign in again" }
            ", then repeat the change."
        }
    };
    let refused = Refusal::new(Code::RecentSignInRequired, "");
    Content::new("Confirm that it is you", body).with_secret().refused(refusal.unwrap_or(&refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Fields;

    #[test]
    fn a_confirmation_keeps_what_was_typed_before() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let form: Vec<(String, String)> = pairs(&[("name", "a"), (PASSWORD, " secret "), ("scopes", "x"), ("scopes", "y")]);
        let found = Confirmation::of(&form).unwrap();
        assert_eq!(found.proof, Proof::Password(" secret ".to_owned()));
        assert_eq!(Fields::new(&found.action).all("scopes"), ["x", "y"]);
        assert!(!Fields::new(&found.action).has(PASSWORD));
        assert!(Confirmation::of(&found.action).is_none());
        let form: Vec<(String, String)> = pairs(&[("name", "a"), (PASSKEY, "{}")]);
        let found = Confirmation::of(&form).unwrap();
        assert_eq!((found.proof, found.action), (Proof::Passkey("{}".to_owned()), pairs(&[("name", "a")])));
    }
}
