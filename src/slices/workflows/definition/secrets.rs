//! Named secrets in the `with` of a step: finds the texts that name them, and replaces these texts.
//!
//! A text that names a secret contains only fixed text besides it. It is removed from the values that expressions see, and a
//! placeholder takes its place in runs, dry runs and events. **Invariant:** the definition determines where a secret goes. Inputs
//! and responses are never interpreted as names of secrets.

use serde_json::Value;

use tenantd_base::{
    fault::pointer_part,
    secrets::{SecretPart, SecretText},
};
use tenantd_secrets::is_name;
use tenantd_store::steps::SecretPlace;

use super::super::language::{self, Piece};

/// The prefix of an expression that names a secret.
const PREFIX: &str = "secrets.";

/// Whether the text ends with its only secret, as the value of a header must.
fn is_header(text: &SecretText) -> bool {
    matches!(text.parts.last(), Some(SecretPart::Secret(_))) && text.names().count() == 1
}

/// Replaces the texts of `with` that name secrets with placeholders, and returns them. References in other places or other forms
/// stay; the check of expressions refuses them.
pub(super) fn take(with: &mut Value, places: &[SecretPlace]) -> Vec<SecretText> {
    let mut taken = Vec::new();
    for place in places {
        match place {
            SecretPlace::Headers(name) => {
                for (header, value) in with.get_mut(*name).and_then(Value::as_object_mut).into_iter().flatten() {
                    let pointer = format!("/{name}/{}", pointer_part(header));
                    take_text(value, pointer, &mut taken, is_header);
                }
            }
            SecretPlace::Texts(name) => {
                if let Some(value) = with.get_mut(*name) {
                    take_all(value, &format!("/{name}"), &mut taken);
                }
            }
        }
    }
    taken
}

fn take_all(value: &mut Value, at: &str, taken: &mut Vec<SecretText>) {
    match value {
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(place, item)| take_all(item, &format!("{at}/{place}"), taken));
        }
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| take_all(member, &format!("{at}/{}", pointer_part(name)), taken));
        }
        text => take_text(text, at.to_owned(), taken, |_| true),
    }
}

fn take_text(value: &mut Value, pointer: String, taken: &mut Vec<SecretText>, fits: fn(&SecretText) -> bool) {
    let Some(parts) = value.as_str().and_then(read) else { return };
    let text = SecretText { pointer, parts };
    if text.names().next().is_some() && fits(&text) {
        *value = Value::String(text.placeholder());
        taken.push(text);
    }
}

/// The parts of a text, if all its expressions are names of secrets.
fn read(text: &str) -> Option<Vec<SecretPart>> {
    let part = |piece: Piece<'_>| match piece {
        Piece::Text(text) => Some(SecretPart::Text(text.to_owned())),
        Piece::Expression(expression) => {
            let name = expression.strip_prefix(PREFIX)?;
            is_name(name).then(|| SecretPart::Secret(name.to_owned()))
        }
    };
    language::pieces(text).ok()?.into_iter().map(part).collect()
}

/// Whether a text contains nothing but a reference to a secret, optionally after a common `Authorization` scheme. Accepts the form
/// in a definition and the placeholder.
pub(crate) fn is_bare_reference(text: &str) -> bool {
    let words = ["Bearer ", "Basic ", "Token ", "ApiKey "];
    let rest = words.iter().find_map(|word| text.strip_prefix(word)).unwrap_or(text);
    let placed = rest.strip_prefix("[secret ").and_then(|rest| rest.strip_suffix(']'));
    placed.is_some_and(is_name) || matches!(read(rest).as_deref(), Some([SecretPart::Secret(_)]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use tenantd_base::secrets::Secret;

    use super::*;

    const PLACES: [SecretPlace; 2] = [SecretPlace::Headers("headers"), SecretPlace::Texts("body")];

    #[test]
    fn texts_with_secrets_are_replaced_and_filled_later() {
        let mut with = json!({
            "url": "https://x.example/{{ secrets.github }}",
            "headers": {"authorization": "Bearer {{ secrets.github }}", "x/y": "{{secrets.other}}", "accept": "*/*"},
            "body": {"a": ["{{ inputs.x }}", "k={{ secrets.github }}&l={{ secrets.other }}."], "b": 1},
        });
        let taken = take(&mut with, &PLACES);
        let places: Vec<&str> = taken.iter().map(|text| text.pointer.as_str()).collect();
        assert_eq!(places, ["/headers/authorization", "/headers/x~1y", "/body/a/1"]);
        assert_eq!(with["headers"]["authorization"], "Bearer [secret github]");
        assert_eq!(with["body"]["a"], json!(["{{ inputs.x }}", "k=[secret github]&l=[secret other]."]));
        assert_eq!(with["url"], "https://x.example/{{ secrets.github }}", "left to the check of expressions");
        let (github, other) = (Secret::new("one"), Secret::new("two"));
        let value = |name: &str| Some(if name == "github" { &github } else { &other });
        assert_eq!(taken[0].filled(value), Some(Secret::new("Bearer one")));
        assert_eq!(taken[2].filled(value), Some(Secret::new("k=one&l=two.")));
        assert_eq!(taken[2].filled(|_| None), None);
    }

    #[test]
    fn a_secret_cannot_be_part_of_an_expression() {
        for text in [
            "{{ secrets.a | upper }}",
            "{{ secrets.a }}{{ inputs.b }}",
            "{{ secrets['a'] }}",
            "{{ secrets }}",
            "{{ secrets.a.b }}",
            "{{ secrets.a-b }}",
            "{{ 'x' ~ secrets.a }}",
        ] {
            let mut with = json!({"headers": {"x": text}, "body": text});
            assert_eq!(take(&mut with, &PLACES), [], "{text}");
        }
        for header in ["{{ secrets.a }} behind", "{{ secrets.a }}{{ secrets.b }}"] {
            assert_eq!(take(&mut json!({"headers": {"x": header}}), &PLACES), [], "{header}");
        }
    }

    #[test]
    fn only_a_bare_reference_is_shown() {
        for bare in ["{{ secrets.a }}", "Bearer {{ secrets.a }}", "Bearer [secret a]", "[secret a]"] {
            assert!(is_bare_reference(bare), "{bare}");
        }
        for other in ["Bearer abc", "abc{{ secrets.a }}", "{{ inputs.a }}", "Bearer [secret a] b", "", "abc [secret a]"] {
            assert!(!is_bare_reference(other), "{other}");
        }
    }
}
