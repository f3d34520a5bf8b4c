//! The parts of a resource that a client asks for: `attributes` and `excludedAttributes` (RFC 7644, 3.9).

use serde_json::{Map, Value};

use super::super::{
    error::{Reason, ScimError},
    model::attribute::{Resource, without_schema},
};

/// Names beyond this number are an error, not a choice.
const MAX_NAMES: usize = 50;

#[derive(Clone, Debug, Default)]
pub(super) struct Projection {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Projection {
    pub(super) fn new(resource: Resource, included: Vec<String>, excluded: Vec<String>) -> Result<Self, ScimError> {
        if !included.is_empty() && !excluded.is_empty() {
            return Err(ScimError::value("Send either `attributes` or `excludedAttributes`."));
        }
        if included.len().max(excluded.len()) > MAX_NAMES {
            return Err(ScimError::new(Reason::InvalidValue, format!("A request can name at most {MAX_NAMES} attributes.")));
        }
        let folded = |names: Vec<String>| -> Vec<String> {
            let names = names.iter().map(|name| without_schema(resource, name.trim()).to_ascii_lowercase());
            names.filter(|name| !name.is_empty()).collect()
        };
        Ok(Self { included: folded(included), excluded: folded(excluded) })
    }

    /// Whether an attribute is in the answer, so that one that is not need not be read.
    pub(super) fn shows(&self, name: &str) -> bool {
        let folded = name.to_ascii_lowercase();
        let is_of = |chosen: &String| *chosen == folded || chosen.strip_prefix(&folded).is_some_and(|rest| rest.starts_with('.'));
        if self.included.is_empty() { !self.excluded.contains(&folded) } else { self.included.iter().any(is_of) }
    }

    pub(super) fn apply(&self, value: Value) -> Value {
        let Value::Object(members) = value else { return value };
        let kept = members.into_iter().filter_map(|(name, value)| {
            if matches!(name.as_str(), "id" | "schemas") {
                return Some((name, value));
            }
            self.shows(&name).then(|| (name.to_ascii_lowercase(), value)).map(|(folded, value)| {
                let value = self.parts(&folded, value);
                (name, value)
            })
        });
        Value::Object(kept.collect())
    }

    /// The chosen parts of an attribute that has several.
    fn parts(&self, attribute: &str, value: Value) -> Value {
        match value {
            Value::Array(values) => values.into_iter().map(|value| self.parts(attribute, value)).collect(),
            Value::Object(parts) => {
                let is_whole = self.included.iter().any(|name| name == attribute);
                let keeps = |part: &str| {
                    let name = format!("{attribute}.{}", part.to_ascii_lowercase());
                    if self.included.is_empty() {
                        !self.excluded.contains(&name)
                    } else {
                        is_whole || self.included.contains(&name)
                    }
                };
                let kept: Map<String, Value> = parts.into_iter().filter(|(part, _)| keeps(part)).collect();
                kept.into()
            }
            value => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn projected(included: &[&str], excluded: &[&str]) -> Value {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let user = json!({"schemas": ["s"], "id": "usr_1", "userName": "ada", "name": {"givenName": "Ada", "familyName": "Byron"},
            "emails": [{"value": "a@b", "type": "work"}]});
        Projection::new(Resource::User, owned(included), owned(excluded)).unwrap().apply(user)
    }

    #[test]
    fn a_client_chooses_attributes_and_parts() {
        let base = |more: Value| {
            let mut value = json!({"schemas": ["s"], "id": "usr_1"});
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            value
        };
        assert_eq!(projected(&["USERNAME"], &[]), base(json!({"userName": "ada"})));
        assert_eq!(
            projected(&["name.givenName", "emails"], &[]),
            base(json!({"name": {"givenName": "Ada"}, "emails": [{"value": "a@b", "type": "work"}]}))
        );
        let without = base(json!({"userName": "ada", "name": {"givenName": "Ada"}}));
        assert_eq!(projected(&[], &["name.familyName", "urn:ietf:params:scim:schemas:core:2.0:User:emails", "id"]), without);
        assert!(Projection::new(Resource::User, vec!["id".to_owned()], vec!["name".to_owned()]).is_err());
    }
}
