//! Bodies of several records that are processed one by one (`"atomic": false`). A record that does not match its schema is refused
//! by itself.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::{
    problem::{Findings, Place, Problem},
    wire::REFUSED,
};

use super::{collect, compile, remainder::Required, resolve};

/// Checks the records of a body one by one.
#[derive(Debug)]
pub(super) struct Items {
    /// The member that holds the records.
    pub(super) member: String,
    pub(super) required: Required,
    validator: Validator,
    /// The members of a record, for suggestions.
    properties: Vec<String>,
    /// The most records that the body may have.
    most: usize,
}

/// A body in which some records were refused.
pub(super) struct Refused {
    /// The body for the handler. A refused record is replaced by its problem.
    pub(super) body: Value,
    /// The body without the refused records, to check everything else.
    pub(super) without: Value,
    /// Whether all records were refused.
    pub(super) is_all: bool,
}

impl Items {
    /// `form` is the schema of a body. Its records are checked one by one if it has a member `atomic` and a list.
    pub(super) fn of(form: &Value, components: &Value) -> Option<Result<Self, String>> {
        let members = form.get("properties")?.as_object().filter(|members| members.contains_key("atomic"))?;
        let mut lists = members.iter().map(|(name, schema)| (name, resolve(schema, components)));
        let (member, list, items) = lists.find_map(|(name, list)| Some((name, list, list.get("items")?)))?;
        let most = list.get("maxItems").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let record = resolve(items, components);
        let properties = record.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flat_map(Map::keys).cloned().collect();
        let (member, required) = (member.clone(), Required::of(record));
        Some(compile(items.clone(), components).map(|validator| Self { member, required, validator, properties, most }))
    }

    /// Refuses the invalid records of `body`, if the caller wants one result per record.
    pub(super) fn refuse(&self, body: &Value) -> Option<Refused> {
        if body.get("atomic") != Some(&Value::Bool(false)) {
            return None;
        }
        let records = body.get(&self.member)?.as_array().filter(|records| records.len() <= self.most)?;
        let is_valid: Vec<bool> = records.iter().map(|record| self.validator.is_valid(record)).collect();
        let valid: Vec<Value> =
            records.iter().zip(&is_valid).filter(|(_, valid)| **valid).map(|(record, _)| record.clone()).collect();
        if valid.len() == records.len() {
            return None;
        }
        let shown = records.iter().zip(&is_valid).map(|(record, valid)| match valid {
            true => record.clone(),
            false => json!({ REFUSED: self.problem(record) }),
        });
        let with = |records: Vec<Value>| {
            let mut members = body.as_object().cloned().unwrap_or_default();
            members.insert(self.member.clone(), Value::Array(records));
            Value::Object(members)
        };
        Some(Refused { body: with(shown.collect()), is_all: valid.is_empty(), without: with(valid) })
    }

    /// Whether the only error is that all records were refused.
    pub(super) fn is_empty_list(&self, found: &Findings) -> bool {
        let list = Place::Pointer(format!("/{}", self.member));
        found.errors.iter().all(|error| error.code == "too_few" && error.place == list)
    }

    fn problem(&self, record: &Value) -> Value {
        Problem::from(collect(&self.validator, record, &self.properties, Place::Pointer)).of_item()
    }
}
