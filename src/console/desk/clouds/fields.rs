//! The fields of a kind of cloud, as inputs of a form and as members of a body of the API.

use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::{
    components::words,
    desk::{
        organizations::{choices, or_none},
        tickets::{lines, renamed},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
};

/// A kind of cloud.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its name in the API.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) config: &'static [Field],
    /// The forms of the credential that the kind accepts, with their titles.
    pub(super) credential: &'static [(&'static str, &'static [Field])],
}

#[derive(Debug)]
pub(super) struct Field {
    /// Its name in the API. No kind has two fields with the same name.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    form: Form,
    hint: &'static str,
    required: bool,
}

/// How a field is typed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Line,
    Text,
    /// A line that a page never shows again.
    Secret,
    /// Several lines that a page never shows again.
    SecretText,
    Number,
    /// Words that commas separate.
    Words,
    Choice(&'static [&'static str]),
}

impl Field {
    pub(super) const fn required(name: &'static str, label: &'static str, form: Form, hint: &'static str) -> Self {
        Self { name, label, form, hint, required: true }
    }

    pub(super) const fn optional(name: &'static str, label: &'static str, form: Form, hint: &'static str) -> Self {
        Self { name, label, form, hint, required: false }
    }

    const fn is_secret(&self) -> bool {
        matches!(self.form, Form::Secret | Form::SecretText)
    }

    fn input(&self, shown: Shown<'_>, required: bool) -> Markup {
        let of = |control: Control<'_>| shown.field(self.name, self.label, control, self.hint, required);
        match self.form {
            Form::Line | Form::Words => of(Control::Input("text")),
            Form::Secret => of(Control::Input("password")),
            Form::Number => of(Control::Input("number")),
            Form::Text | Form::SecretText => of(Control::Text { rows: 6 }),
            Form::Choice(values) => of(Control::Choice(&or_none("None", choices(values)))),
        }
    }

    /// The value for the API. `None` if the field is empty.
    fn value(&self, fields: &Fields) -> Option<Value> {
        let text = fields.get(self.name);
        if text.is_empty() {
            return None;
        }
        Some(match self.form {
            Form::Words => fields.words(self.name).into(),
            Form::Number => number(text),
            _ => lines(text).into(),
        })
    }

    /// The value as a page shows it: a certificate is long, so the page only says that it is there.
    pub(super) fn shown(&self, value: &Value) -> String {
        match self.form {
            Form::Text => "Set".to_owned(),
            Form::Choice(_) => words(&typed(value)),
            _ => typed(value),
        }
    }
}

/// A value of the API as it is typed.
fn typed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A number for the API. It refuses text that is no number, and says so.
pub(super) fn number(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
}

impl Kind {
    fn credential_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.credential.iter().flat_map(|(_, fields)| *fields)
    }

    /// The configuration that was typed. A text that is the same as before keeps its line breaks, because a changed target needs the
    /// credential again.
    pub(super) fn config(&self, fields: &Fields, before: &Map<String, Value>) -> Map<String, Value> {
        let value = |field: &Field| {
            let typed = field.value(fields)?;
            let known = before.get(field.name).filter(|known| is_same_text(known, &typed));
            Some((field.name.to_owned(), known.cloned().unwrap_or(typed)))
        };
        self.config.iter().filter_map(value).collect()
    }

    pub(super) fn credential(&self, fields: &Fields) -> Map<String, Value> {
        self.credential_fields().filter_map(|field| Some((field.name.to_owned(), field.value(fields)?))).collect()
    }

    /// The values that a form begins with.
    pub(super) fn fill(&self, fields: &mut Fields, config: &Map<String, Value>) {
        for field in self.config {
            if let Some(value) = config.get(field.name) {
                fields.set(field.name, typed(value));
            }
        }
    }

    /// Removes the secrets, so that the page does not show them again.
    pub(super) fn without_secrets(&self, fields: &Fields) -> Fields {
        let mut fields = fields.clone();
        for field in self.credential_fields().filter(|field| field.is_secret()) {
            fields.set(field.name, "");
        }
        fields
    }

    /// Names the places in the body after the fields of the form.
    pub(super) fn placed(&self, refusal: Refusal) -> Refusal {
        let place = |part: &str, field: &Field| (format!("/{part}/{}", field.name), field.name);
        let config = self.config.iter().map(|field| place("config", field));
        let credential = self.credential_fields().map(|field| place("credential", field));
        let whole = self.credential_fields().next().map(|first| ("/credential".to_owned(), first.name));
        let names: Vec<(String, &str)> = config.chain(credential).chain(whole).collect();
        renamed(refusal, &names.iter().map(|(place, name)| (place.as_str(), *name)).collect::<Vec<_>>())
    }

    pub(super) fn config_inputs(&self, shown: Shown<'_>) -> Markup {
        html! {
            fieldset.group {
                legend { "Configuration" }
                @for field in self.config { (field.input(shown, field.required)) }
            }
        }
    }

    /// The inputs of the credential. One that replaces another may stay empty.
    pub(super) fn credential_inputs(&self, shown: Shown<'_>, replaces: bool) -> Markup {
        html! {
            @for (title, fields) in self.credential {
                fieldset.group {
                    legend { (title) }
                    @for field in *fields { (field.input(shown, field.required && !replaces)) }
                }
            }
        }
    }

    /// A credential for an example, without secrets.
    pub(super) fn example_credential(&self) -> Option<Value> {
        let (_, fields) = self.credential.first()?;
        let example = fields.iter().map(|field| (field.name.to_owned(), Value::from("…")));
        Some(Value::Object(example.collect()))
    }
}

/// Whether two texts differ at most in line breaks and in the space around them.
fn is_same_text(one: &Value, other: &Value) -> bool {
    match (one.as_str(), other.as_str()) {
        (Some(one), Some(other)) => lines(one).trim() == lines(other).trim(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::desk::clouds::kinds::KINDS;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        Fields::new(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn a_form_becomes_the_configuration_and_the_credential_of_its_kind() {
        let kind = Kind::of("aws").unwrap();
        let typed = fields(&[("regions", "eu-west-1, eu-west-2"), ("access_key_id", "AKIA"), ("token_id", "x"), ("endpoint", "")]);
        assert_eq!(Value::Object(kind.config(&typed, &Map::new())), json!({"regions": ["eu-west-1", "eu-west-2"]}));
        assert_eq!(Value::Object(kind.credential(&typed)), json!({"access_key_id": "AKIA"}));
        let simulated = Kind::of("simulated").unwrap();
        let numbers = fields(&[("seed", "7"), ("quota", "many"), ("fail", "timeout")]);
        assert_eq!(Value::Object(simulated.config(&numbers, &Map::new())), json!({"seed": 7, "quota": "many", "fail": "timeout"}));
    }

    #[test]
    fn a_certificate_that_was_not_changed_stays_as_it_was() {
        let kind = Kind::of("hetzner").unwrap();
        let before = json!({"ca_certificate_pem": "-----BEGIN\nabc\n"}).as_object().unwrap().clone();
        let same = kind.config(&fields(&[("ca_certificate_pem", "-----BEGIN\r\nabc\r\n")]), &before);
        assert_eq!(Value::Object(same), json!({"ca_certificate_pem": "-----BEGIN\nabc\n"}));
        let changed = kind.config(&fields(&[("ca_certificate_pem", "-----BEGIN\r\nabd")]), &before);
        assert_eq!(Value::Object(changed), json!({"ca_certificate_pem": "-----BEGIN\nabd"}));
    }

    #[test]
    fn secrets_are_not_shown_again() {
        for kind in &KINDS {
            let mut typed = Fields::default();
            kind.credential_fields().for_each(|field| typed.set(field.name, "canary"));
            let shown = kind.without_secrets(&typed);
            let page = kind.credential_inputs(Shown { fields: &shown, refusal: None }, false).into_string();
            let open = kind.credential_fields().filter(|field| !field.is_secret()).count();
            assert_eq!(page.matches("canary").count(), open, "{}", kind.name);
        }
    }

    #[test]
    fn a_refusal_names_the_fields_of_the_form() {
        let refusal: Refusal = serde_json::from_value(json!({"errors": [
            {"pointer": "/config/endpoint", "message": "is required"},
            {"pointer": "/credential/token_secret", "message": "is missing"},
            {"pointer": "/credential", "message": "send it again"},
        ]}))
        .unwrap();
        let placed = Kind::of("proxmox").unwrap().placed(refusal);
        assert_eq!(placed.about("endpoint"), Some("is required"));
        assert_eq!(placed.about("token_secret"), Some("is missing"));
        assert_eq!(placed.about("token_id"), Some("send it again"));
    }
}
