//! Applies the bounds of the published document to records that do not arrive as a request. Data that a tenant imports from another
//! installation must have the same lengths, counts and forms as data that is sent to the API.

use poem_openapi::types::Type;
use serde_json::{Map, Value, json};

use super::{
    bounded::{NO_CONTROL_CHARACTERS, VISIBLE_BOUNDED_TEXT, VISIBLE_TEXT},
    openapi,
    problem::Place,
    schema::BodySchema,
};

/// The constraints of a record, as far as a type of the API declares them.
#[derive(Debug)]
pub struct Shape(BodySchema);

impl Shape {
    /// All fields of the type.
    pub fn of<T: Type>() -> Result<Self, String> {
        let schema = openapi::input_schema::<T>();
        Self::compile(&schema, schema.get("components"))
    }

    /// Only these fields of the type. Other members of a record are ignored.
    pub fn fields<T: Type>(fields: &[&str]) -> Result<Self, String> {
        let schema = openapi::input_schema::<T>();
        let name = T::name();
        let place = format!("/components/schemas/{name}/properties");
        let known = schema.pointer(&place).and_then(Value::as_object).ok_or_else(|| format!("{name} has no fields"))?;
        let field = |field: &&str| {
            let found = known.get(*field).ok_or_else(|| format!("{name} has no field {field}"))?;
            Ok(((*field).to_owned(), found.clone()))
        };
        let properties = fields.iter().map(field).collect::<Result<Map<_, _>, String>>()?;
        Self::compile(&json!({"type": "object", "properties": properties}), schema.get("components"))
    }

    fn compile(schema: &Value, components: Option<&Value>) -> Result<Self, String> {
        let (mut schema, mut components) = (schema.clone(), components.cloned().unwrap_or_default());
        // Some import paths are stricter than others about characters that do no harm in a record.
        without_pattern(&mut schema);
        without_pattern(&mut components);
        BodySchema::new(&schema, &components).map(Self)
    }

    /// The first error of the record, in words.
    pub fn check(&self, record: &Value) -> Result<(), String> {
        let mut given = record.clone();
        // Where a request omits a field, a stored record has nothing or an empty list.
        if let Value::Object(fields) = &mut given {
            fields.retain(|_, field| !field.as_array().is_some_and(Vec::is_empty));
        }
        drop_nulls(&mut given);
        self.0.check(&given).map_err(|found| {
            let message = found.errors.first().map(|error| {
                let place = match &error.place {
                    Place::Pointer(text) | Place::Parameter(text) | Place::Header(text) => text.as_str(),
                };
                format!("{}: {}", place.trim_start_matches('/'), error.message)
            });
            message.unwrap_or_else(|| "the record does not match its type".to_owned())
        })
    }
}

fn without_pattern(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_of_texts =
                |value: &Value| [NO_CONTROL_CHARACTERS, VISIBLE_TEXT, VISIBLE_BOUNDED_TEXT].iter().any(|known| value == known);
            members.retain(|name, value| name != "pattern" || !is_of_texts(value));
            members.values_mut().for_each(without_pattern);
        }
        Value::Array(items) => items.iter_mut().for_each(without_pattern),
        _ => {}
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use poem_openapi::Object;

    use super::*;

    #[derive(Debug, Object)]
    struct Thing {
        #[oai(validator(min_length = 1, max_length = 3))]
        name: String,
        #[oai(validator(max_items = 2))]
        tags: Option<Vec<String>>,
        other: u32,
    }

    #[test]
    fn a_record_must_keep_to_the_bounds_of_the_named_fields() {
        let shape = Shape::fields::<Thing>(&["name", "tags"]).unwrap();
        assert_eq!(shape.check(&json!({"name": "abc", "tags": null, "more": 1})), Ok(()));
        assert_eq!(shape.check(&json!({"name": "abc", "tags": []})), Ok(()));
        assert_eq!(shape.check(&json!({"name": "abcd"})), Err("name: must have at most 3 characters".to_owned()));
        assert_eq!(
            shape.check(&json!({"name": "a", "tags": ["a", "b", "c"]})),
            Err("tags: must have at most 2 entries".to_owned())
        );
        let whole = Shape::of::<Thing>().unwrap();
        assert_eq!(whole.check(&json!({"name": "a"})), Err("other: other is required".to_owned()));
        assert!(Shape::fields::<Thing>(&["nothing"]).is_err());
        let Thing { name, tags, other } = Thing { name: String::new(), tags: None, other: 0 };
        assert_eq!((name, tags, other), (String::new(), None, 0));
    }
}
