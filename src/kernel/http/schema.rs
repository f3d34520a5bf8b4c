//! Checks input against the published document. Reports all errors at once, each with its place, the allowed values, and the
//! closest one. So the document cannot promise anything that the server does not enforce.

mod findings;
mod items;
mod remainder;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::{
    bounded::checked_pattern,
    problem::{FieldError, Findings, MAX_ERRORS, Place},
};
use findings::{bounded, collect, unknown};
use items::Items;
pub use remainder::Refusal;
use remainder::Required;

/// Checks the body of one operation.
#[derive(Debug)]
pub struct BodySchema {
    validator: Validator,
    /// The members of the outermost object, for suggestions.
    properties: Vec<String>,
    /// Present for a body of several records that can be checked one by one.
    items: Option<Items>,
    /// The required members of each form that the body can have.
    required: Vec<Required>,
    /// Whether the handler gets the rest of a body that does not match: see [`super::input::Lenient`].
    pub is_lenient: bool,
}

/// Checks the query of one operation, and converts its texts to JSON of the declared types.
#[derive(Debug)]
pub struct QuerySchema {
    validator: Validator,
    parameters: Vec<Parameter>,
    /// Whether undeclared parameters are ignored.
    open: bool,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    Integer,
    Number,
    Boolean,
    /// Texts that are separated by commas or given by repeating the parameter.
    List,
    /// Texts under names that the caller chooses: `tag.KEY=…`, or `tag[KEY]=…` as OpenAPI writes it. `tag=KEY` is a key with an
    /// empty text.
    Map,
}

/// Compiles a schema. A validator copies everything that it is given, so it gets only the schemas that this one refers to.
fn compile(mut schema: Value, components: &Value) -> Result<Validator, String> {
    let mut schemas = Map::new();
    collect_references(&schema, components, &mut schemas);
    if let Value::Object(schema) = &mut schema {
        schema.insert("components".to_owned(), json!({"schemas": schemas}));
    }
    check_unseen(&mut schema);
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .build(&schema)
        .map_err(|error| error.to_string())
}

/// Refuses all characters that show nothing, also those that the published pattern leaves out.
fn check_unseen(schema: &mut Value) {
    match schema {
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| {
            let checked = member.as_str().filter(|_| name == "pattern").and_then(checked_pattern);
            match checked {
                Some(pattern) => *member = pattern.into(),
                None => check_unseen(member),
            }
        }),
        Value::Array(elements) => elements.iter_mut().for_each(check_unseen),
        _ => {}
    }
}

/// Adds the schemas that `schema` refers to, directly or indirectly.
fn collect_references(schema: &Value, components: &Value, schemas: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            let name = members.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
            if let Some(name) = name.filter(|name| !schemas.contains_key(*name))
                && let Some(found) = components.get("schemas").and_then(|all| all.get(name))
            {
                schemas.insert(name.to_owned(), found.clone());
                collect_references(found, components, schemas);
            }
            members.values().for_each(|member| collect_references(member, components, schemas));
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect_references(element, components, schemas)),
        _ => {}
    }
}

/// Follows a reference into the components.
pub fn resolve<'a>(schema: &'a Value, components: &'a Value) -> &'a Value {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    name.and_then(|name| components.get("schemas")?.get(name)).unwrap_or(schema)
}

impl BodySchema {
    pub fn new(schema: &Value, components: &Value) -> Result<Self, String> {
        let alternatives = schema.get("anyOf").and_then(Value::as_array).map_or(std::slice::from_ref(schema), Vec::as_slice);
        let required = alternatives.iter().map(|form| Required::of(resolve(form, components))).collect();
        let properties = alternatives.iter().filter_map(|form| resolve(form, components).get("properties")?.as_object());
        let properties = properties.flat_map(|properties| properties.keys().cloned()).collect();
        let items = alternatives.iter().find_map(|form| Items::of(resolve(form, components), components)).transpose()?;
        Ok(Self { validator: compile(schema.clone(), components)?, properties, items, required, is_lenient: false })
    }

    pub fn lenient(self, is_lenient: bool) -> Self {
        Self { is_lenient, ..self }
    }

    pub fn check(&self, body: &Value) -> Result<(), Findings> {
        if self.validator.is_valid(body) {
            return Ok(());
        }
        Err(collect(&self.validator, body, &self.properties, Place::Pointer))
    }

    /// Checks a request. If the caller wants one result per record, it refuses single records within `body`.
    pub fn admit(&self, body: &mut Value) -> Result<(), Findings> {
        let Err(found) = self.check(body) else { return Ok(()) };
        let Some((items, refused)) = self.items.as_ref().and_then(|items| Some((items, items.refuse(body)?))) else {
            return Err(found);
        };
        match self.check(&refused.without) {
            Err(others) if !(refused.is_all && items.is_empty_list(&others)) => Err(others),
            _ => {
                *body = refused.body;
                Ok(())
            }
        }
    }
}

impl QuerySchema {
    /// `parameters` are those that the document lists.
    pub fn new(parameters: &[Value], components: &Value, open: bool) -> Result<Self, String> {
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut known = Vec::new();
        for parameter in parameters {
            let Some(name) = parameter.get("name").and_then(Value::as_str) else { continue };
            let schema = parameter.get("schema").cloned().unwrap_or_default();
            known.push(Parameter { name: name.to_owned(), shape: shape_of(resolve(&schema, components)) });
            properties.insert(name.to_owned(), schema);
            if parameter.get("required") == Some(&Value::Bool(true)) {
                required.push(Value::String(name.to_owned()));
            }
        }
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        Ok(Self { validator: compile(schema, components)?, parameters: known, open })
    }

    /// Converts the query to a JSON object of the declared types, or returns all its errors.
    pub fn check(&self, pairs: &[(String, String)]) -> Result<Value, Findings> {
        let mut query = Map::new();
        let mut errors = Vec::new();
        for (name, text) in pairs {
            if errors.len() > MAX_ERRORS {
                break;
            }
            let repeated = || FieldError::parameter(name, "repeated", format!("the parameter {name} is given twice"));
            if let Some((parameter, key)) = self.entry_of_map(name) {
                if !add_entry(&mut query, parameter, key, text) {
                    errors.push(repeated());
                }
                continue;
            }
            let shape = self.parameters.iter().find(|parameter| parameter.name == *name).map(|parameter| parameter.shape);
            if shape == Some(Shape::Map) && !text.split(',').any(str::is_empty) {
                for key in text.split(',') {
                    if !add_entry(&mut query, name, key, "") {
                        errors.push(repeated());
                    }
                }
                continue;
            }
            let Some(shape) = shape else {
                if self.open {
                    continue;
                }
                let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
                let error = FieldError::parameter(name, "unknown_parameter", format!("the parameter {name} does not exist here"));
                errors.push(unknown(error, name, &known));
                continue;
            };
            let value = to_json(text, shape);
            if let (Shape::List, Some(Value::Array(before)), Value::Array(more)) = (shape, query.get_mut(name), &value) {
                before.extend_from_slice(more);
            } else if query.insert(name.clone(), value).is_some() {
                errors.push(repeated());
            }
        }
        let query = Value::Object(query);
        if !self.validator.is_valid(&query) {
            let place = |pointer: String| {
                let name = pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
                Place::Parameter(name.to_owned())
            };
            errors.extend(collect(&self.validator, &query, &[], place).errors);
        }
        if errors.is_empty() { Ok(query) } else { Err(bounded(errors, false)) }
    }

    /// The parameter and the key that `tag.KEY` or `tag[KEY]` names.
    fn entry_of_map<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        // A key may itself contain dots and brackets, so both readings are tried.
        let readings = [name.strip_suffix(']').and_then(|rest| rest.split_once('[')), name.split_once('.')];
        let is_map = |parameter: &str| self.parameters.iter().any(|known| known.name == parameter && known.shape == Shape::Map);
        readings.into_iter().flatten().find(|(parameter, key)| is_map(parameter) && !key.is_empty())
    }
}

/// Adds an entry. Returns whether it is the first of its key.
fn add_entry(query: &mut Map<String, Value>, parameter: &str, key: &str, text: &str) -> bool {
    let entries = query.entry(parameter).or_insert_with(|| json!({}));
    entries.as_object_mut().is_some_and(|entries| entries.insert(key.to_owned(), Value::String(text.to_owned())).is_none())
}

fn shape_of(schema: &Value) -> Shape {
    match schema.get("type").and_then(Value::as_str) {
        Some("integer") => Shape::Integer,
        Some("number") => Shape::Number,
        Some("boolean") => Shape::Boolean,
        Some("array") => Shape::List,
        Some("object") => Shape::Map,
        _ => Shape::Text,
    }
}

/// Converts a text to the shape. A text that does not fit stays a text, and the schema then reports what was expected.
fn to_json(text: &str, shape: Shape) -> Value {
    let text_value = || Value::String(text.to_owned());
    let plain_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'.');
    match shape {
        Shape::Integer if plain_number => text.parse::<i64>().map_or_else(|_| text_value(), Value::from),
        Shape::Number if plain_number => text.parse::<f64>().map_or_else(|_| text_value(), Value::from),
        Shape::Text | Shape::Integer | Shape::Number | Shape::Map => text_value(),
        Shape::Boolean => match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => text_value(),
        },
        Shape::List => text.split(',').map(|item| Value::String(item.to_owned())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> BodySchema {
        let components = json!({"schemas": {"Key": {
            "type": "object",
            "required": ["name", "scopes"],
            "additionalProperties": false,
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 5},
                "scopes": {"type": "array", "items": {"type": "string", "enum": ["a:read", "a:write"]}, "minItems": 1, "uniqueItems": true},
                "expires_days": {"type": "integer", "minimum": 1.0, "maximum": 365.0}
            }
        }}});
        BodySchema::new(&json!({"$ref": "#/components/schemas/Key"}), &components).unwrap()
    }

    fn codes(result: Result<(), Findings>) -> Vec<(String, String)> {
        let place = |place: &Place| match place {
            Place::Pointer(text) | Place::Parameter(text) | Place::Header(text) => text.clone(),
        };
        result.unwrap_err().errors.iter().map(|error| (place(&error.place), error.code.clone())).collect()
    }

    #[test]
    fn all_errors_of_a_body_are_reported_at_once() {
        let given = json!({"nam": "x", "scopes": ["a:reed"], "expires_days": 366});
        let errors = body().check(&given).unwrap_err();
        let found = codes(Err(errors.clone()));
        assert!(errors.complete);
        let errors = errors.errors;
        for expected in
            [("/name", "required"), ("/nam", "unknown_field"), ("/scopes/0", "not_allowed"), ("/expires_days", "too_large")]
        {
            assert!(found.contains(&(expected.0.to_owned(), expected.1.to_owned())), "{found:?}");
        }
        assert!(errors.iter().any(|error| error.suggestion.as_deref() == Some("name")));
        assert!(errors.iter().any(|error| error.suggestion.as_deref() == Some("a:read")));
        assert!(errors.iter().any(|error| error.message == "must be at most 365"), "{errors:?}");
    }

    #[test]
    fn the_search_for_errors_ends_early() {
        let key = |name: &str, value: Value| {
            let mut key = json!({"name": "x", "scopes": ["a:read"]});
            key.as_object_mut().unwrap().insert(name.to_owned(), value);
            key
        };
        let mut strange = json!({"name": "x", "scopes": ["a:read"]});
        strange.as_object_mut().unwrap().extend((0..80_000).map(|number| (format!("f{number}"), json!(1))));
        let few = key("scopes", (0..10).map(|_| json!(1)).collect());
        let many = key("scopes", (0..500_000).map(|_| json!(1)).collect());
        // The error is behind the part that is searched.
        let hidden = key("scopes", (0..20_000).map(|number| if number < 19_999 { json!("a:read") } else { json!(1) }).collect());
        for (input, complete) in [(few, true), (strange, false), (many, false), (hidden, false)] {
            let found = body().check(&input).unwrap_err();
            assert!((1..=MAX_ERRORS).contains(&found.errors.len()), "{}", found.errors.len());
            assert_eq!(found.complete, complete, "{:?}", found.errors.first());
            assert!(found.errors.iter().all(|error| error.code != "required"), "members that were cut off do not count as missing");
        }
        let schema = QuerySchema::new(&[], &json!({}), false).unwrap();
        let pairs: Vec<(String, String)> = (0..5_000).map(|number| (format!("p{number}"), String::new())).collect();
        let found = schema.check(&pairs).unwrap_err();
        assert_eq!((found.errors.len(), found.complete), (MAX_ERRORS, false));
    }

    #[test]
    fn wrong_types_are_refused() {
        let given = json!({"name": 5, "scopes": ["a:read"], "expires_days": 1.5});
        assert_eq!(codes(body().check(&given)).len(), 2);
        assert!(body().check(&json!({"name": "x", "scopes": ["a:read"]})).is_ok());
    }

    #[test]
    fn a_query_is_converted_to_its_declared_types() {
        let parameters = [
            json!({"name": "limit", "schema": {"type": "integer", "minimum": 1, "maximum": 200}}),
            json!({"name": "status", "schema": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}}),
            json!({"name": "flag", "schema": {"type": "boolean"}}),
            json!({"name": "tag", "schema": {"type": "object", "additionalProperties": {"type": "string"}}}),
        ];
        let schema = QuerySchema::new(&parameters, &json!({}), false).unwrap();
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
        };
        let good = schema.check(&pairs(&[("limit", "5"), ("status", "a,b"), ("flag", "true")])).unwrap();
        assert_eq!(good, json!({"limit": 5, "status": ["a", "b"], "flag": true}));
        let repeated = schema.check(&pairs(&[("status", "a"), ("limit", "5"), ("status", "b,a")])).unwrap();
        assert_eq!(repeated, json!({"limit": 5, "status": ["a", "b", "a"]}));
        let mapped = schema.check(&pairs(&[("tag.env", "prod"), ("tag[role.x]", "web"), ("tag.a[b]", "c")])).unwrap();
        assert_eq!(mapped, json!({"tag": {"env": "prod", "role.x": "web", "a[b]": "c"}}));
        let bare = schema.check(&pairs(&[("tag", "web,prod"), ("tag.a", "b"), ("tag", "x")])).unwrap();
        assert_eq!(bare, json!({"tag": {"web": "", "prod": "", "a": "b", "x": ""}}));
        for (given, place, code) in [
            (("limit", "0"), "limit", "too_small"),
            (("limit", "five"), "limit", "wrong_type"),
            (("limit", "1e2"), "limit", "wrong_type"),
            (("status", "a,c"), "status", "not_allowed"),
            (("flag", "yes"), "flag", "wrong_type"),
            (("limits", "5"), "limits", "unknown_parameter"),
            (("tag", ""), "tag", "wrong_type"),
            (("tag", "env,"), "tag", "wrong_type"),
            (("tag", "env,env"), "tag", "repeated"),
            (("tag.", "x"), "tag.", "unknown_parameter"),
            (("flag.env", "x"), "flag.env", "unknown_parameter"),
        ] {
            let found = codes(schema.check(&pairs(&[given])).map(drop));
            assert_eq!(found, [(place.to_owned(), code.to_owned())]);
        }
        assert_eq!(codes(schema.check(&pairs(&[("limit", "1"), ("limit", "2")])).map(drop))[0].1, "repeated");
    }
}
