//! Buttons for passkeys. Only a browser can use one, so they need the script of the console, which shows them where passkeys work. It
//! asks the API for options, and sends what the browser returned with the form of the button.

use maud::{Markup, html};
use serde_json::Value;

use tenantd_http::problem::{Code, Problem};

/// The field with what the browser returned, as JSON.
pub(crate) const FIELD: &str = "passkey";
const SIGN_IN_OPTIONS: &str = "/api/auth/passkey/options";
const PROOF_OPTIONS: &str = "/api/auth/factors/passkeys/proof";

/// What a passkey of a form is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use<'a> {
    SignIn,
    /// The second step of a sign-in with this body for the API.
    Step(&'a Value),
    /// A proof by the person who is signed in.
    Proof,
    /// A new passkey with what the API has returned.
    New(&'a Value),
}

/// The part of a form that uses a passkey. Hidden until the script shows it.
pub(crate) fn part(name: &str, used: Use<'_>, words: &str) -> Markup {
    let (options, body, begun) = match used {
        Use::SignIn => (Some(SIGN_IN_OPTIONS), None, None),
        Use::Step(body) => (Some(SIGN_IN_OPTIONS), Some(body.to_string()), None),
        Use::Proof => (Some(PROOF_OPTIONS), None, None),
        Use::New(begun) => (None, None, Some(begun.to_string())),
    };
    html! {
        div data-passkey hidden {
            input type="hidden" name=(name) value="" data-options=[options] data-body=[body] data-begun=[begun];
            div.alert data-passkey-problem role="alert" hidden {}
            button.second[matches!(used, Use::SignIn)] { (words) }
        }
    }
}

/// Reads the field of a form.
pub(crate) fn read(text: &str) -> Result<Value, Problem> {
    let wrong = |_| Problem::new(Code::MalformedRequest, "The form does not contain what a passkey returned. Open the page again.");
    serde_json::from_str(text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_part_is_hidden_and_says_where_its_options_are() {
        let step = json!({"challenge": "a\"b"});
        let text = part(FIELD, Use::Step(&step), "Use a passkey").into_string();
        assert!(text.starts_with("<div data-passkey hidden>"), "{text}");
        assert!(text.contains("data-options=\"/api/auth/passkey/options\""), "{text}");
        assert!(text.contains("data-body=\"{&quot;challenge&quot;:&quot;a\\&quot;b&quot;}\""), "{text}");
        assert!(!text.contains("data-begun"), "{text}");
        assert!(read("{}").is_ok() && read("").is_err());
    }
}
