//! The fields that an update changed, as its event shows them.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The changed fields, each as `{"from": …, "to": …}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Changes(Map<String, Value>);

impl Changes {
    /// Compares two objects field by field. A field missing in one of them is `null` there.
    pub fn between(before: &Value, after: &Value) -> Self {
        let names = [before, after].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
        let changed = names.filter(|name| before.get(name) != after.get(name));
        changed.fold(Self::default(), |changes, name| changes.with(name, before.get(name), after.get(name)))
    }

    /// Adds a field even if the two values are equal, because secrets are shown masked.
    #[must_use]
    pub fn with(mut self, field: &str, from: impl Serialize, to: impl Serialize) -> Self {
        self.0.insert(field.to_owned(), json!({"from": from, "to": to}));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_differ_are_changes() {
        let before = json!({"name": "A", "tags": ["x"], "note": null, "old": 1});
        let after = json!({"name": "B", "tags": ["x"], "note": "n", "new": true});
        let changes = serde_json::to_string(&Changes::between(&before, &after).with("key", "hidden", "hidden")).unwrap();
        let expected = [
            r#"{"key":{"from":"hidden","to":"hidden"},"name":{"from":"A","to":"B"},"new":{"from":null,"to":true},"#,
            r#""note":{"from":null,"to":"n"},"old":{"from":1,"to":null}}"#,
        ];
        assert_eq!(changes, expected.concat());
        assert_eq!(Changes::between(&before, &before), Changes::default());
    }
}
