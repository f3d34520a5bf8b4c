//! Forms: the fields that a browser sent, and the fields that a page shows. A form works without a script.

use maud::{Markup, html};
use serde_json::{Map, Value};

use tenantd_base::{entropy, secrets::digest};
use tenantd_http::pages::{Call, FORM_TOKEN};

use crate::refusal::Refusal;

/// The field with the token that makes a form act once, however often it is sent.
pub(crate) const ONCE: &str = "once";
/// The field with the version of the record that the form changes.
pub(crate) const VERSION: &str = "version";

/// The field of a form that deletes a record, with the list that the record was in.
pub(crate) const LIST: &str = "list";

/// The fields that every form has: they show that it comes from this page, and let it act once.
pub(crate) fn tokens(form_token: &str) -> Markup {
    let once = data_encoding::HEXLOWER.encode(&entropy::quick_bytes::<12>());
    html! {
        input type="hidden" name=(FORM_TOKEN) value=(form_token);
        input type="hidden" name=(ONCE) value=(once);
    }
}

/// The idempotency key of a form: its token and what it asks for. A form that is corrected and sent again is another request.
pub(crate) fn once(fields: &Fields, call: &Call) -> Option<String> {
    let token = Some(fields.get(ONCE)).filter(|token| !token.is_empty())?;
    let text = format!("{token}\n{}\n{}", call.target, call.body.as_ref().map(Value::to_string).unwrap_or_default());
    Some(data_encoding::HEXLOWER.encode(&digest(text.as_bytes())))
}

/// The field of a form that deletes a record: the list to show if the record is already gone.
pub(crate) fn list_field(list: &str) -> Markup {
    html! { input type="hidden" name=(LIST) value=(list); }
}

/// The fields of a form. Before it is sent it has the values to begin with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn new(fields: &[(String, String)]) -> Self {
        Self(fields.to_vec())
    }

    /// The value of a field without surrounding spaces; empty if it is missing.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.trim())
    }

    /// All values of a field that can be sent several times.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.into()));
    }

    /// The members of a body from the fields of the same names that are not empty.
    pub(crate) fn filled(&self, names: &[&str]) -> Map<String, Value> {
        let given = names.iter().filter(|name| !self.get(name).is_empty());
        given.map(|name| ((*name).to_owned(), self.get(name).into())).collect()
    }

    /// The members of a merge patch from the fields of the same names. An empty field removes the value.
    pub(crate) fn patch(&self, names: &[&str]) -> Map<String, Value> {
        let given = names.iter().filter(|name| self.has(name));
        let value = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
        given.map(|name| ((*name).to_owned(), value(self.get(name)))).collect()
    }

    /// A field with words that commas separate.
    pub(crate) fn words(&self, name: &str) -> Vec<Value> {
        self.get(name).split(',').map(str::trim).filter(|word| !word.is_empty()).map(Value::from).collect()
    }

    /// A field with one value on each line.
    pub(crate) fn each_line(&self, name: &str) -> Vec<Value> {
        self.get(name).lines().map(str::trim).filter(|line| !line.is_empty()).map(Value::from).collect()
    }
}

/// How a field is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control<'a> {
    /// An `input` of this type.
    Input(&'static str),
    /// A text of several lines.
    Text { rows: u8 },
    /// One of several values, each with its words.
    Choice(&'a [(String, String)]),
}

/// A form that is shown: what its fields have, and what is wrong with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) refusal: Option<&'a Refusal>,
}

impl Shown<'_> {
    /// A field with its label, its hint and what is wrong with it.
    pub(crate) fn field(&self, name: &str, label: &str, control: Control<'_>, hint: &str, required: bool) -> Markup {
        let (value, problem) = (self.fields.get(name), self.refusal.and_then(|refusal| refusal.about(name)));
        let (hint_id, problem_id) = (format!("{name}-hint"), format!("{name}-problem"));
        let described = match (hint.is_empty(), problem.is_some()) {
            (true, false) => None,
            (false, false) => Some(hint_id.clone()),
            (true, true) => Some(problem_id.clone()),
            (false, true) => Some(format!("{problem_id} {hint_id}")),
        };
        let invalid = problem.map(|_| "true");
        html! {
            div.field {
                label for=(name) { (label) @if !required { " " span.optional { "optional" } } }
                @match control {
                    Control::Input(kind) => {
                        input id=(name) name=(name) type=(kind) value=(value) required[required] aria-describedby=[described] aria-invalid=[invalid];
                    }
                    Control::Text { rows } => {
                        textarea id=(name) name=(name) rows=(rows) required[required] aria-describedby=[described] aria-invalid=[invalid] { (value) }
                    }
                    Control::Choice(choices) => {
                        select id=(name) name=(name) required[required] aria-describedby=[described] aria-invalid=[invalid] {
                            (options(choices, value))
                        }
                    }
                }
                @if let Some(problem) = problem { p.problem id=(problem_id) { (problem) } }
                @if !hint.is_empty() { p.hint id=(hint_id) { (hint) } }
            }
        }
    }

    /// All that is wrong, at the top of the form.
    pub(crate) fn summary(&self) -> Markup {
        let Some(refusal) = self.refusal else { return html! {} };
        html! {
            div.alert role="alert" tabindex="-1" {
                strong { (refusal.title) }
                @if refusal.errors.is_empty() {
                    p { (refusal.detail) }
                } @else {
                    ul {
                        @for error in &refusal.errors {
                            @let field = error.pointer.as_deref().and_then(|pointer| pointer.split('/').nth(1)).filter(|name| !name.is_empty());
                            li { @if let Some(field) = field { a href={ "#" (field) } { (field.replace('_', " ")) } ": " } (error.message) }
                        }
                    }
                }
            }
        }
    }
}

/// The options of a `select`.
pub(crate) fn options(choices: &[(String, String)], chosen: &str) -> Markup {
    html! {
        @for (value, words) in choices {
            option value=(value) selected[value == chosen] { (words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        Fields::new(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn an_empty_field_is_left_out_of_a_new_record_and_removes_a_value_of_an_old_one() {
        let sent = fields(&[("name", " Ada "), ("site", ""), ("ids", "a"), ("ids", "b"), ("tags", "vip\r\n\n a, b ")]);
        assert_eq!(Value::Object(sent.filled(&["name", "site", "other"])), json!({"name": "Ada"}));
        assert_eq!(Value::Object(sent.patch(&["name", "site", "other"])), json!({"name": "Ada", "site": null}));
        assert_eq!((sent.all("ids"), sent.each_line("tags")), (vec!["a", "b"], vec![json!("vip"), json!("a, b")]));
    }

    #[test]
    fn a_field_says_what_is_wrong_with_it_and_shows_what_was_typed_as_text() {
        let sent = fields(&[("name", "<b>")]);
        let refusal: Refusal =
            serde_json::from_value(json!({"title": "Wrong", "errors": [{"pointer": "/name", "message": "is taken"}]})).unwrap();
        let shown = Shown { fields: &sent, refusal: Some(&refusal) };
        let field = shown.field("name", "Name", Control::Input("text"), "", true).into_string();
        assert!(
            field.contains("value=\"&lt;b&gt;\"") && field.contains("aria-invalid=\"true\"") && field.contains("is taken"),
            "{field}"
        );
        assert!(shown.summary().into_string().contains("<a href=\"#name\">name</a>: is taken"));
    }
}
