//! The rest of a body that does not match its schema, without the wrong members. The handler checks this rest, so the caller sees
//! all errors at once. That includes errors that no schema can find, such as a reference to a missing record.

use std::collections::BTreeSet;

use poem::Response;
use serde_json::{Map, Value};

use tenantd_base::fault::pointer_part;

use crate::problem::{Code, FieldError, Findings, Place, Problem};

use super::{BodySchema, bounded};

/// The member of a bulk change that holds the patch.
const PATCH: &str = "patch";

/// The codes of the problems of a handler that name wrong members. With the others, the state of the records is the problem, not
/// the input.
const CODES: [Code; 3] = [Code::ValidationFailed, Code::TargetNotAllowed, Code::NotFound];

/// The members that a record must have, with the values of its example.
#[derive(Debug)]
pub(super) struct Required(Map<String, Value>);

impl Required {
    /// `form` is the schema of the record.
    pub(super) fn of(form: &Value) -> Self {
        let names = form.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let example = form.pointer("/examples/0");
        Self(names.filter_map(|name| Some((name.to_owned(), example?.get(name)?.clone()))).collect())
    }

    fn find(&self, member: &str) -> Option<(&String, &Value)> {
        self.0.iter().find(|(name, _)| pointer_part(name) == member)
    }
}

/// The errors of a body by its schema.
#[derive(Debug)]
pub struct Refusal {
    found: Findings,
    /// The members that the handler does not get as they were sent, as JSON pointers.
    members: BTreeSet<String>,
}

impl Refusal {
    /// Adds the errors that the handler finds in the rest. Its other failures do not concern the request that was sent.
    pub fn join(self, answer: poem::Result<Response>) -> Problem {
        let more = answer.err().and_then(|error| error.downcast::<Problem>().ok()).filter(|more| CODES.contains(&more.code));
        let Findings { mut errors, complete } = self.found;
        let mut is_partial = !complete;
        if let Some(more) = more {
            is_partial |= more.more_errors;
            let is_new = |error: &&FieldError| !self.members.iter().any(|member| is_about(error, member));
            errors.extend(more.errors.iter().filter(is_new).cloned());
        }
        bounded(errors, is_partial).into()
    }
}

/// Whether the error is about the member, or depends on it.
fn is_about(error: &FieldError, member: &str) -> bool {
    let Place::Pointer(pointer) = &error.place else { return false };
    let depends = || {
        let (record, name) = member.rsplit_once('/').unwrap_or_default();
        error.depends_on.contains(&name) && pointer.strip_prefix(record).is_some_and(|rest| rest.starts_with('/'))
    };
    pointer.strip_prefix(member).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) || depends()
}

impl BodySchema {
    /// Removes the wrong members from a refused body. Required members get the value of the example. Returns `None` if an error is
    /// not in a single member.
    pub fn remainder(&self, mut body: Value, found: &Findings) -> Option<(Value, Refusal)> {
        let places = found.errors.iter().map(|error| match &error.place {
            Place::Pointer(pointer) => self.member(pointer),
            Place::Parameter(_) | Place::Header(_) => None,
        });
        let members: BTreeSet<(String, &str)> = places.collect::<Option<_>>().filter(|_| found.complete)?;
        for (record, member) in &members {
            let required = match self.items.as_ref().filter(|items| record.starts_with(&format!("/{}/", items.member))) {
                Some(items) => items.required.find(member),
                None => self.required.iter().filter(|_| record.is_empty()).find_map(|form| form.find(member)),
            };
            let record = body.pointer_mut(record)?.as_object_mut()?;
            record.retain(|name, _| pointer_part(name) != *member);
            record.extend(required.map(|(name, value)| (name.clone(), value.clone())));
        }
        let members = members.into_iter().map(|(record, member)| format!("{record}/{member}")).collect();
        self.check(&body).is_ok().then(|| (body, Refusal { found: found.clone(), members }))
    }

    /// The record that a pointer leads into, and the member of it. Both are written as in the pointer.
    fn member<'a>(&self, pointer: &'a str) -> Option<(String, &'a str)> {
        let mut parts = pointer.strip_prefix('/')?.split('/');
        let first = parts.next()?;
        if self.items.as_ref().is_some_and(|items| items.member == first) {
            let place = parts.next()?;
            return Some((format!("/{first}/{place}"), parts.next()?));
        }
        if first == PATCH {
            return Some((format!("/{PATCH}"), parts.next()?));
        }
        Some((String::new(), first))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> BodySchema {
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let record = json!({
            "type": "object", "additionalProperties": false, "required": ["name"], "examples": [{"name": "example", "owner": "nobody"}],
            "properties": {"name": {"type": "string"}, "owner": {"type": "string"}, "tags": texts, "a/b": {"type": "string"}}
        });
        let records = json!({
            "type": "object", "additionalProperties": false, "required": ["records"],
            "properties": {"atomic": {"type": "boolean"}, "records": {"type": "array", "maxItems": 3, "items": {"$ref": "#/components/schemas/Record"}}}
        });
        let changes = json!({
            "type": "object", "additionalProperties": false, "required": ["ids", "patch"],
            "properties": {"ids": texts, "patch": {"type": "object", "properties": {"owner": {"type": "string"}}}}
        });
        let components = json!({"schemas": {"Record": record, "Records": records, "Changes": changes}});
        let forms = ["Record", "Records", "Changes"].map(|name| json!({"$ref": format!("#/components/schemas/{name}")}));
        BodySchema::new(&json!({"anyOf": forms}), &components).unwrap()
    }

    fn remainder(body: &Value) -> Option<(Value, Refusal)> {
        let schema = schema();
        let found = schema.check(body).unwrap_err();
        schema.remainder(body.clone(), &found)
    }

    fn places(refusal: Refusal, more: Vec<FieldError>) -> Vec<String> {
        let problem = refusal.join(Err(Problem::invalid(more).into()));
        let place = |error: &FieldError| match &error.place {
            Place::Pointer(text) | Place::Parameter(text) | Place::Header(text) => text.clone(),
        };
        problem.errors.iter().map(place).collect()
    }

    #[test]
    fn wrong_members_are_removed_and_required_ones_replaced() {
        for (given, left) in [
            (json!({"owner": "me"}), json!({"owner": "me", "name": "example"})),
            (json!({"name": 5, "owner": 5, "tags": ["x"]}), json!({"name": "example", "tags": ["x"]})),
            (json!({"name": "x", "tags": ["x", 5], "a/b": 5, "other": 1}), json!({"name": "x"})),
            (
                json!({"records": [{"name": "x"}, {"owner": "me"}, {"name": "y", "owner": 5}]}),
                json!({"records": [{"name": "x"}, {"owner": "me", "name": "example"}, {"name": "y"}]}),
            ),
            (json!({"ids": ["x"], "patch": {"owner": 5}}), json!({"ids": ["x"], "patch": {}})),
        ] {
            assert_eq!(remainder(&given).unwrap().0, left, "{given}");
        }
    }

    #[test]
    fn errors_outside_of_single_members_leave_no_rest() {
        for given in [json!([]), json!({"records": [{"name": "x"}, 5]}), json!({"records": 5}), json!({"ids": ["x"], "patch": 5})] {
            assert!(remainder(&given).is_none(), "{given}");
        }
        let many: Map<String, Value> = (0..100).map(|number| (format!("f{number}"), json!(1))).collect();
        assert!(remainder(&Value::Object(many)).is_none(), "the search ended early");
    }

    #[test]
    fn handler_errors_about_removed_members_are_dropped() {
        let given = json!({"name": "x", "owner": 5, "tags": 5});
        let pointers = ["/name", "/owner", "/owner/id", "/owners"];
        let mut more = pointers.map(|pointer| FieldError::pointer(pointer, "unknown", "unknown")).to_vec();
        more.push(FieldError::parameter("dry_run", "unknown", "unknown"));
        assert_eq!(places(remainder(&given).unwrap().1, more), ["/owner", "/tags", "/name", "/owners", "dry_run"]);
        for pointer in ["/site", "/site/city"] {
            let missing = |depends_on| FieldError { depends_on, ..FieldError::pointer(pointer, "required", "required") };
            assert_eq!(places(remainder(&given).unwrap().1, vec![missing(&["tags"])]), ["/owner", "/tags"]);
            assert_eq!(places(remainder(&given).unwrap().1, vec![missing(&["name"])]), ["/owner", "/tags", pointer]);
        }
    }

    #[test]
    fn other_failures_of_the_handler_are_not_reported() {
        let (_, refusal) = remainder(&json!({"name": 5})).unwrap();
        let problem = refusal.join(Err(Problem::plain(Code::NotFound).into()));
        assert_eq!((problem.code, problem.errors.len()), (Code::ValidationFailed, 1));
    }

    #[test]
    fn unknown_records_and_refused_targets_are_reported() {
        for (code, pointer) in [(Code::NotFound, "/ids/1"), (Code::TargetNotAllowed, "/url")] {
            let (_, refusal) = remainder(&json!({"name": 5})).unwrap();
            let mut more = Problem::plain(code);
            more.errors.push(FieldError::pointer(pointer, code.name(), "unknown"));
            let problem = refusal.join(Err(more.into()));
            assert_eq!((problem.code, problem.errors.len()), (Code::ValidationFailed, 2));
        }
    }
}
