//! Bodies of several records that are done one by one (`"atomic": false`): a record that does not match its schema is refused by itself.

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
    /// The member that has the records.
    pub(super) member: String,
    pub(super) required: Required,
    validator: Validator,
    /// Members of a record, for suggestions.
    properties: Vec<String>,
    /// How many records there may be.
    most: usize,
}

/// A body with records that were refused.
pub(super) struct Refused {
    /// As its handler gets it: what a record was refused with is in its place.
    pub(super) body: Value,
    /// For a check of everything else: without those records.
    pub(super) without: Value,
    /// Whether none is left.
    pub(super) is_all: bool,
}

impl Items {
    /// `form` is the schema of a body. It has records that are checked one by one if it has a member `atomic` and a list.
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

    /// Refuses records of `body`, if its sender wants to know of each and any is not valid.
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
        let judged = records.iter().zip(&is_valid).map(|(record, valid)| match valid {
            true => record.clone(),
            false => json!({ REFUSED: self.problem(record) }),
        });
        let with = |records: Vec<Value>| {
            let mut members = body.as_object().cloned().unwrap_or_default();
            members.insert(self.member.clone(), Value::Array(records));
            Value::Object(members)
        };
        Some(Refused { body: with(judged.collect()), is_all: valid.is_empty(), without: with(valid) })
    }

    /// Whether nothing is wrong but that all records were refused.
    pub(super) fn is_empty_list(&self, found: &Findings) -> bool {
        let list = Place::Pointer(format!("/{}", self.member));
        found.errors.iter().all(|error| error.code == "too_few" && error.place == list)
    }

    fn problem(&self, record: &Value) -> Value {
        Problem::from(collect(&self.validator, record, &self.properties, Place::Pointer)).of_item()
    }
}
