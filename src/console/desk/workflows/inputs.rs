//! The fields for the inputs of a run, made from the JSON Schema of the workflow.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::record::text;
use crate::{
    components::words,
    desk::organizations::or_none,
    form::{Control, Fields, Shown},
    refusal::{FieldRefusal, Refusal},
};

/// The field for all inputs in JSON, if their schema has no simple form.
const ALL: &str = "inputs";
const PREFIX: &str = "input_";
/// A schema with more properties is filled in as JSON.
const MOST_FIELDS: usize = 30;

/// How an input is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Time,
    Number,
    Flag,
    Choice(Vec<String>),
    Organization,
    /// Texts, one on each line.
    Lines,
    Json,
}

#[derive(Clone, Debug)]
pub(super) struct Input {
    name: String,
    label: String,
    about: String,
    kind: Kind,
    is_required: bool,
    default: Option<Value>,
}

/// The inputs of a run; `None` if they are one text in JSON.
#[derive(Clone, Debug)]
pub(super) struct Inputs(Option<Vec<Input>>);

impl Inputs {
    pub(super) fn of(schema: Option<&Value>) -> Self {
        let Some(schema) = schema else { return Self(None) };
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let properties = match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => properties.clone(),
            None if is_closed => Map::new(),
            None => return Self(None),
        };
        let is_simple = |name: &String| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
        if properties.len() > MOST_FIELDS || !properties.keys().all(is_simple) {
            return Self(None);
        }
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let input = |(name, property): (&String, &Value)| Input {
            name: name.clone(),
            label: Some(text(property, "title")).filter(|title| !title.is_empty()).map_or_else(|| words(name), str::to_owned),
            about: text(property, "description").to_owned(),
            kind: kind(property),
            is_required: required.iter().any(|wanted| wanted.as_str() == Some(name.as_str())),
            default: property.get("default").cloned(),
        };
        let mut inputs: Vec<Input> = properties.iter().map(input).collect();
        inputs.sort_by_key(|input| !input.is_required);
        Self(Some(inputs))
    }

    pub(super) fn asks_for_organization(&self) -> bool {
        self.0.iter().flatten().any(|input| input.kind == Kind::Organization)
    }

    /// What the fields have before somebody types.
    pub(super) fn start(&self, fields: &mut Fields) {
        if self.0.is_none() {
            fields.set(ALL, "{}");
        }
        for input in self.0.iter().flatten() {
            if let Some(default) = &input.default {
                fields.set(&input.field(), input.shown(default));
            }
        }
    }

    /// The inputs that were typed. What does not have the form of its type is sent as it is, so that the API says what is wrong.
    pub(super) fn typed(&self, fields: &Fields) -> Value {
        let Some(inputs) = &self.0 else {
            let text = fields.get(ALL);
            return json(if text.is_empty() { "{}" } else { text });
        };
        let given = inputs.iter().filter(|input| !fields.get(&input.field()).is_empty());
        Value::Object(given.map(|input| (input.name.clone(), input.typed(fields.get(&input.field())))).collect())
    }

    /// A refusal that names the fields of the form.
    pub(super) fn refusal(&self, refusal: &Refusal) -> Refusal {
        let place = |error: &FieldRefusal| {
            let input = error.pointer.as_deref().and_then(|pointer| pointer.strip_prefix("/inputs/")).filter(|_| self.0.is_some());
            let pointer = input.map(|rest| format!("/{PREFIX}{rest}")).or_else(|| error.pointer.clone());
            FieldRefusal { pointer, ..error.clone() }
        };
        Refusal { errors: refusal.errors.iter().map(place).collect(), ..refusal.clone() }
    }

    pub(super) fn show(&self, shown: Shown<'_>, organizations: &[(String, String)]) -> Markup {
        html! {
            @match &self.0 {
                None => { (shown.field(ALL, "Inputs", Control::Text { rows: 6 }, "An object in JSON.", false)) }
                Some(inputs) => {
                    @if !inputs.is_empty() {
                        fieldset #inputs {
                            legend { "Inputs" }
                            @for input in inputs { (input.show(shown, organizations)) }
                        }
                    }
                }
            }
        }
    }
}

impl Input {
    fn field(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// A value as the field has it.
    fn shown(&self, value: &Value) -> String {
        match (&self.kind, value) {
            (Kind::Lines, Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
            (Kind::Json, value) => value.to_string(),
            (_, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        }
    }

    fn typed(&self, typed: &str) -> Value {
        match self.kind {
            Kind::Text | Kind::Time | Kind::Choice(_) | Kind::Organization => typed.into(),
            Kind::Number | Kind::Flag | Kind::Json => json(typed),
            Kind::Lines => typed.lines().map(str::trim).filter(|line| !line.is_empty()).collect(),
        }
    }

    fn show(&self, shown: Shown<'_>, organizations: &[(String, String)]) -> Markup {
        let field = |control: Control<'_>, hint: &str| {
            let hint = format!("{} {hint}", self.about);
            shown.field(&self.field(), &self.label, control, hint.trim(), self.is_required)
        };
        let choice = |choices: Vec<(String, String)>| field(Control::Choice(&or_none("Choose a value", choices)), "");
        match &self.kind {
            Kind::Organization if !organizations.is_empty() => choice(organizations.to_vec()),
            Kind::Organization => field(Control::Input("text"), "The ID of an organization."),
            Kind::Text => field(Control::Input("text"), ""),
            Kind::Time => field(Control::Input("text"), "A time such as 2026-01-31T09:30:00Z."),
            Kind::Number => field(Control::Input("text"), "A number."),
            Kind::Flag => {
                choice([("true", "Yes"), ("false", "No")].map(|(value, name)| (value.to_owned(), name.to_owned())).to_vec())
            }
            Kind::Choice(values) => choice(values.iter().map(|value| (value.clone(), value.clone())).collect()),
            Kind::Lines => field(Control::Text { rows: 4 }, "One on each line."),
            Kind::Json => field(Control::Text { rows: 4 }, "A value in JSON."),
        }
    }
}

/// A text in JSON. Other text is a string.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn kind(property: &Value) -> Kind {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let texts: Option<Vec<String>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
        return texts.map_or(Kind::Json, Kind::Choice);
    }
    match text(property, "type") {
        "string" if text(property, "pattern").starts_with("^org_") => Kind::Organization,
        "string" if text(property, "format") == "date-time" => Kind::Time,
        "string" => Kind::Text,
        "integer" | "number" => Kind::Number,
        "boolean" => Kind::Flag,
        "array" if property.get("items").is_some_and(|items| text(items, "type") == "string") => Kind::Lines,
        _ => Kind::Json,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inputs() -> Inputs {
        Inputs::of(Some(&json!({
            "required": ["name"],
            "properties": {
                "age": {"type": "integer"}, "name": {"type": "string"}, "tasks": {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]},
                "now": {"type": "boolean"}, "rest": {"type": "object"}, "size": {"enum": ["s", "l"]}, "org": {"type": "string", "pattern": "^org_"},
            },
        })))
    }

    #[test]
    fn fields_become_inputs_of_their_types() {
        let inputs = inputs();
        let mut fields = Fields::default();
        inputs.start(&mut fields);
        assert_eq!(fields.get("input_tasks"), "a\nb");
        for (name, value) in
            [("name", "Ada"), ("age", "7"), ("now", "true"), ("rest", "{\"a\": 1}"), ("size", "s"), ("tasks", "x\r\n\ny")]
        {
            fields.set(&format!("input_{name}"), value);
        }
        let expected = json!({"name": "Ada", "age": 7, "now": true, "rest": {"a": 1}, "size": "s", "tasks": ["x", "y"]});
        assert_eq!(inputs.typed(&fields), expected);
        assert!(inputs.asks_for_organization());
        fields.set("input_age", "seven");
        assert_eq!(inputs.typed(&fields)["age"], "seven");
    }

    #[test]
    fn inputs_without_a_simple_schema_are_json() {
        for schema in [None, Some(json!({"type": "object"})), Some(json!({"properties": {"a b": {}}}))] {
            let inputs = Inputs::of(schema.as_ref());
            let mut fields = Fields::default();
            inputs.start(&mut fields);
            assert_eq!(inputs.typed(&fields), json!({}));
        }
    }

    #[test]
    fn a_refusal_names_the_field() {
        let error = |pointer: &str| FieldRefusal::at(pointer.trim_start_matches('/'), "no");
        let refusal = Refusal { errors: vec![error("/inputs/age"), error("/subject_id")], ..Refusal::internal() };
        let named = inputs().refusal(&refusal);
        assert_eq!((named.about("input_age"), named.about("subject_id")), (Some("no"), Some("no")));
    }
}
