//! The operations of a PATCH (RFC 7644, 3.5.2), as clients really send them: names of operations in any case, values without a path
//! whose members are paths, and booleans as texts.

use serde_json::{Map, Value, json};

use tenantd_base::id::UserId;

use super::{
    super::error::{Reason, ScimError},
    GroupEdit, MAX_EMAILS, MAX_MEMBERS,
    attribute::{Meaning, Path, Resource, meaning},
    filter::Filter,
    person,
};

const MAX_OPERATIONS: usize = 1000;
const MAX_USER_OPERATIONS: usize = 50;
/// The most bytes of the e-mail addresses of a user as JSON. Each filter of a path reads all of them.
const MAX_EMAILS_BYTES: usize = MAX_EMAILS * 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Replace,
    Remove,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    op: Op,
    path: Path,
    value: Value,
}

fn syntax(detail: impl Into<String>) -> ScimError {
    ScimError::new(Reason::InvalidSyntax, detail)
}

fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).filter(|value| !value.is_null())
}

/// Reads the operations of a body. An operation without a path becomes one for each member of its value.
///
/// **Invariant:** a person changes by few operations, and each of them adds few addresses, so the work grows with the size of the body
/// only.
pub(crate) fn read(resource: Resource, body: &Value) -> Result<Vec<Operation>, ScimError> {
    let listed = body.as_object().and_then(|body| member(body, "Operations")).and_then(Value::as_array);
    let listed = listed.ok_or_else(|| syntax("The body needs a list `Operations`."))?;
    let most = match resource {
        Resource::User => MAX_USER_OPERATIONS,
        Resource::Group => MAX_OPERATIONS,
    };
    let too_many = || ScimError::new(Reason::TooMany, format!("A request can have at most {most} operations for one resource."));
    if listed.is_empty() {
        return Err(syntax("A request needs at least one operation."));
    }
    if listed.len() > most {
        return Err(too_many());
    }
    let mut operations = Vec::new();
    for given in listed {
        let given = given.as_object().ok_or_else(|| syntax("Each operation must be an object."))?;
        let op = match member(given, "op").and_then(Value::as_str).map(str::to_ascii_lowercase).as_deref() {
            Some("add") => Op::Add,
            Some("replace") => Op::Replace,
            Some("remove") => Op::Remove,
            _ => return Err(syntax("`op` must be add, replace or remove.")),
        };
        let value = member(given, "value").cloned().unwrap_or_default();
        match member(given, "path") {
            Some(path) => {
                let path = path.as_str().ok_or_else(|| ScimError::new(Reason::InvalidPath, "`path` must be a text."))?;
                operations.extend(Path::parse(resource, path)?.map(|path| Operation { op, path, value }));
            }
            None if op == Op::Remove => return Err(ScimError::new(Reason::NoTarget, "A remove operation needs a `path`.")),
            None => {
                let members = value.as_object().ok_or_else(|| syntax("Without a `path`, `value` must be an object."))?;
                for (name, value) in members.iter().filter(|(name, _)| meaning(name) != Meaning::ReadOnly) {
                    let path = Path::parse(resource, name)?;
                    operations.extend(path.map(|path| Operation { op, path, value: value.clone() }));
                }
            }
        }
    }
    if operations.len() > most {
        return Err(too_many());
    }
    if operations.iter().any(|operation| operation.path.attribute == "emails" && has_many(&operation.value)) {
        return Err(person::too_many_emails());
    }
    Ok(operations)
}

/// Whether a list has more values than a user can have e-mail addresses.
fn has_many(emails: &Value) -> bool {
    emails.as_array().is_some_and(|emails| emails.len() > MAX_EMAILS)
}

/// Applies operations to a person in the form of `Person::to_value`. A status that is removed stays as it is.
pub(crate) fn apply(person: &mut Value, operations: &[Operation]) -> Result<(), ScimError> {
    let fields = person.as_object_mut().ok_or_else(|| syntax("The user is not an object."))?;
    for operation in operations {
        match operation.path.attribute {
            "name" => change_name(fields, operation)?,
            "emails" => {
                change_emails(fields, operation)?;
                let emails = fields.get("emails").unwrap_or(&Value::Null);
                if has_many(emails) {
                    return Err(person::too_many_emails());
                }
                if emails.to_string().len() > MAX_EMAILS_BYTES {
                    return Err(ScimError::value("The e-mail addresses are too long."));
                }
            }
            "active" if operation.op == Op::Remove || operation.value.is_null() => {}
            attribute if operation.op == Op::Remove || operation.value.is_null() => {
                if attribute == "userName" {
                    return Err(ScimError::new(Reason::Mutability, "userName is required, so it cannot be removed."));
                }
                fields.remove(attribute);
            }
            attribute => {
                fields.insert(attribute.to_owned(), operation.value.clone());
            }
        }
    }
    Ok(())
}

/// Sets the parts that the value has, under their canonical names. Parts that are not stored are left out.
fn merge(target: &mut Map<String, Value>, value: &Value, what: &str) -> Result<(), ScimError> {
    let parts = value.as_object().ok_or_else(|| ScimError::value(format!("The value of {what} must be an object.")))?;
    for (part, value) in parts {
        match meaning(part) {
            Meaning::Writable(part) => drop(target.insert(part.to_owned(), value.clone())),
            Meaning::Ignored => {}
            Meaning::ReadOnly | Meaning::Unknown => {
                return Err(ScimError::new(Reason::InvalidPath, format!("{what} has no such part.")));
            }
        }
    }
    Ok(())
}

fn change_name(fields: &mut Map<String, Value>, operation: &Operation) -> Result<(), ScimError> {
    let name = fields.entry("name").or_insert_with(|| json!({}));
    let Some(parts) = name.as_object_mut() else { return Err(syntax("The name is not an object.")) };
    match (operation.op, operation.path.part) {
        (Op::Remove, None) => parts.clear(),
        (Op::Remove, Some(part)) => drop(parts.remove(part)),
        (Op::Add | Op::Replace, None) => merge(parts, &operation.value, "name")?,
        (Op::Add | Op::Replace, Some(part)) => drop(parts.insert(part.to_owned(), operation.value.clone())),
    }
    Ok(())
}

fn change_emails(fields: &mut Map<String, Value>, operation: &Operation) -> Result<(), ScimError> {
    let emails = fields.entry("emails").or_insert_with(|| json!([]));
    let Some(emails) = emails.as_array_mut() else { return Err(syntax("The e-mail addresses are not a list.")) };
    let Operation { op, path, value } = operation;
    if let (None, None) = (&path.filter, path.part) {
        let given = || match value {
            Value::Array(given) => given.clone(),
            value => vec![value.clone()],
        };
        match op {
            Op::Remove => emails.clear(),
            Op::Replace => *emails = given(),
            Op::Add => add(emails, given()),
        }
        return Ok(());
    }
    let selected = |email: &Value| path.filter.as_ref().is_none_or(|filter| filter.matches(email));
    match (op, path.part) {
        (Op::Remove, None) => emails.retain(|email| !selected(email)),
        (Op::Remove, Some(part)) => {
            for parts in emails.iter_mut().filter(|email| selected(email)).filter_map(Value::as_object_mut) {
                parts.remove(part);
            }
        }
        (Op::Add | Op::Replace, part) => {
            if !emails.iter().any(selected) {
                emails.push(made_for(path.filter.as_ref())?);
            }
            let is_primary = matches!((part, value), (Some("primary"), Value::Bool(true)));
            let mut done = false;
            for email in emails.iter_mut() {
                let (is_selected, Some(parts)) = (!done && selected(email), email.as_object_mut()) else { continue };
                if is_selected {
                    match part {
                        Some(part) => drop(parts.insert(part.to_owned(), value.clone())),
                        None => merge(parts, value, "emails")?,
                    }
                    done = true;
                } else if is_primary {
                    parts.insert("primary".to_owned(), false.into());
                }
            }
        }
    }
    Ok(())
}

/// Adds values. One with the same address replaces the old one, and a new primary address takes the place of the old one.
fn add(emails: &mut Vec<Value>, given: Vec<Value>) {
    for email in given {
        let is = |other: &Value| other.get("value").is_some() && other.get("value") == email.get("value");
        emails.retain(|other| !is(other));
        if email.get("primary").is_some_and(|primary| person::boolean("primary", primary).unwrap_or_default()) {
            for parts in emails.iter_mut().filter_map(Value::as_object_mut) {
                parts.insert("primary".to_owned(), false.into());
            }
        }
        emails.push(email);
    }
}

/// A new value that a filter such as `type eq "work"` selects.
fn made_for(filter: Option<&Filter>) -> Result<Value, ScimError> {
    let Some(filter) = filter else { return Ok(json!({})) };
    let none = || ScimError::new(Reason::NoTarget, "No e-mail address matches the filter of the path.");
    let mut made = Map::new();
    for (part, value) in filter.conditions().ok_or_else(none)? {
        if let Meaning::Writable(part) = meaning(part) {
            made.insert(part.to_owned(), value);
        }
    }
    let made = Value::Object(made);
    if filter.matches(&made) { Ok(made) } else { Err(none()) }
}

/// The changes of a group. Each member is named once in the result of a request, so the work grows with its size only.
pub(crate) fn group_edits(operations: &[Operation]) -> Result<Vec<GroupEdit>, ScimError> {
    let mut edits = Vec::new();
    for Operation { op, path, value } in operations {
        edits.push(match (path.attribute, op) {
            ("displayName", Op::Remove) => {
                return Err(ScimError::new(Reason::Mutability, "displayName is required, so it cannot be removed."));
            }
            ("displayName", _) => GroupEdit::DisplayName(person::text("displayName", value)?),
            ("externalId", Op::Remove) => GroupEdit::ExternalId(None),
            ("externalId", _) => GroupEdit::ExternalId(person::optional("externalId", value)?),
            ("members", op) => member_edit(*op, path, value)?,
            _ => return Err(ScimError::new(Reason::InvalidPath, "A Group has no such attribute.")),
        });
    }
    Ok(edits)
}

fn member_edit(op: Op, path: &Path, value: &Value) -> Result<GroupEdit, ScimError> {
    if path.part.is_some() {
        return Err(ScimError::new(Reason::Mutability, "A member cannot change. Remove it, and add another one."));
    }
    if let Some(filter) = &path.filter {
        let texts = filter.only_equal_texts("value").filter(|_| op == Op::Remove);
        let texts = texts.ok_or_else(|| {
            ScimError::new(Reason::InvalidPath, "Members are removed with a path such as `members[value eq \"usr_…\"]`.")
        })?;
        // Somebody who is no member need not exist.
        return Ok(GroupEdit::Remove(texts.iter().filter_map(|text| text.parse().ok()).collect()));
    }
    Ok(match op {
        Op::Add => GroupEdit::Add(members(value)?),
        Op::Replace => GroupEdit::Replace(members(value)?),
        Op::Remove if value.is_null() => GroupEdit::Replace(Vec::new()),
        Op::Remove => GroupEdit::Remove(members(value)?),
    })
}

/// The people that a list of members names.
pub(crate) fn members(value: &Value) -> Result<Vec<UserId>, ScimError> {
    let listed = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(listed) => listed.iter().collect(),
        value => vec![value],
    };
    if listed.len() > MAX_MEMBERS {
        return Err(ScimError::new(Reason::TooMany, format!("A group can have at most {MAX_MEMBERS} members.")));
    }
    let id = |member: &Value| -> Result<UserId, ScimError> {
        let text = member.as_object().and_then(|parts| parts.iter().find(|(name, _)| name.eq_ignore_ascii_case("value")));
        let text = text.map_or(member, |(_, value)| value).as_str();
        let bad = || ScimError::value("Each of members needs the id of a user as its `value`.");
        text.ok_or_else(bad)?.parse().map_err(|_| bad())
    };
    listed.into_iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(operations: &Value) -> Result<Value, ScimError> {
        let mut person = json!({"userName": "ada@example.com", "active": true, "name": {"givenName": "Ada"},
            "emails": [{"value": "ada@example.com", "type": "work", "primary": true}]});
        let operations = read(Resource::User, &json!({"Operations": operations}))?;
        apply(&mut person, &operations)?;
        Ok(person)
    }

    #[test]
    fn operations_of_common_clients_apply() {
        let found = patched(&json!([
            {"op": "Replace", "path": "active", "value": "False"},
            {"op": "Add", "path": "name.familyName", "value": "Byron"},
            {"op": "replace", "value": {"displayName": "Ada B.", "name.givenName": "Augusta", "title": "Countess", "id": "7"}},
            {"op": "replace", "path": "emails[type eq \"work\"].value", "value": "a@example.com"},
            {"op": "add", "path": "emails[type eq \"home\"].value", "value": "a@home.example"},
            {"op": "Remove", "path": "externalId"},
        ]));
        let found = found.unwrap();
        assert_eq!((&found["active"], &found["displayName"]), (&json!("False"), &json!("Ada B.")));
        assert_eq!(found["name"], json!({"givenName": "Augusta", "familyName": "Byron"}));
        assert_eq!(
            found["emails"],
            json!([{"value": "a@example.com", "type": "work", "primary": true}, {"type": "home", "value": "a@home.example"}])
        );
    }

    #[test]
    fn a_new_primary_address_takes_the_place_of_the_old_one() {
        let found =
            patched(&json!([{"op": "add", "path": "emails", "value": [{"value": "b@example.com", "primary": true}]}])).unwrap();
        assert_eq!(found["emails"][0]["primary"], false);
        assert_eq!(found["emails"][1], json!({"value": "b@example.com", "primary": true}));
        let found = patched(&json!([{"op": "remove", "path": "emails[type eq \"work\"]"}])).unwrap();
        assert_eq!(found["emails"], json!([]));
    }

    #[test]
    fn a_person_has_few_operations_and_addresses() {
        let add = |name: String| json!({"op": "add", "path": "emails", "value": [{"value": name}]});
        let renames = |count: usize| Value::from(vec![json!({"op": "replace", "path": "displayName", "value": "Ada"}); count]);
        assert!(patched(&renames(MAX_USER_OPERATIONS)).is_ok());
        let few: Value = (1..MAX_EMAILS).map(|place| add(format!("ada{place}@example.com"))).collect();
        assert_eq!(patched(&few).unwrap()["emails"].as_array().map(Vec::len), Some(MAX_EMAILS));
        let repeated: Value = (0..MAX_EMAILS * 2).map(|_| add("b@example.com".to_owned())).collect();
        assert_eq!(patched(&repeated).unwrap()["emails"].as_array().map(Vec::len), Some(2));
        let many: Value = (0..MAX_EMAILS).map(|place| add(format!("ada{place}@example.com"))).collect();
        let listed: Vec<Value> = (0..=MAX_EMAILS).map(|place| json!({"value": format!("ada{place}@example.com")})).collect();
        let parts: Map<String, Value> =
            (0..=MAX_USER_OPERATIONS).map(|place| (format!("emails[type eq \"{place}\"].value"), json!("a@b"))).collect();
        for (operations, reason) in [
            (renames(MAX_USER_OPERATIONS + 1), Reason::TooMany),
            (json!([{"op": "replace", "value": parts}]), Reason::TooMany),
            (many, Reason::InvalidValue),
            (json!([{"op": "add", "path": "emails", "value": listed}, {"op": "remove", "path": "emails"}]), Reason::InvalidValue),
            (json!([{"op": "replace", "value": {"emails": listed}}, {"op": "remove", "path": "emails"}]), Reason::InvalidValue),
            (json!([add("x".repeat(MAX_EMAILS_BYTES)), {"op": "remove", "path": "emails"}]), Reason::InvalidValue),
        ] {
            let refused = patched(&operations).unwrap_err();
            assert!(matches!(refused, ScimError::Refused { reason: found, .. } if found == reason), "{operations}: {refused}");
        }
    }

    #[test]
    fn a_status_that_is_removed_stays() {
        let (off, removed) =
            (json!({"op": "replace", "path": "active", "value": false}), json!({"op": "remove", "path": "active"}));
        let cleared = json!({"op": "replace", "value": {"active": null}});
        for operations in [json!([off, removed]), json!([off, cleared])] {
            assert_eq!(patched(&operations).unwrap()["active"], false, "{operations}");
        }
        assert_eq!(patched(&json!([removed])).unwrap()["active"], true);
    }

    #[test]
    fn wrong_operations_are_refused() {
        for (operations, reason) in [
            (json!([]), Reason::InvalidSyntax),
            (json!([{"op": "move", "path": "active"}]), Reason::InvalidSyntax),
            (json!([{"op": "remove"}]), Reason::NoTarget),
            (json!([{"op": "remove", "path": "userName"}]), Reason::Mutability),
            (json!([{"op": "replace", "path": "id", "value": "x"}]), Reason::Mutability),
            (json!([{"op": "replace", "path": "shoeSize", "value": 4}]), Reason::InvalidPath),
            (json!([{"op": "replace", "value": "x"}]), Reason::InvalidSyntax),
            (json!([{"op": "replace", "path": "emails[value co \"x@\"].type", "value": "work"}]), Reason::NoTarget),
        ] {
            let refused = patched(&operations).unwrap_err();
            assert!(matches!(refused, ScimError::Refused { reason: found, .. } if found == reason), "{operations}: {refused}");
        }
    }

    #[test]
    fn members_are_added_and_removed_in_all_forms() {
        let id = UserId::from_bytes([1; 16]);
        let edits = |operations: Value| {
            group_edits(&read(Resource::Group, &json!({"Operations": operations})).unwrap()).map_err(|error| error.to_string())
        };
        let add = json!([{"op": "Add", "path": "members", "value": [{"value": id.to_string()}]}]);
        assert_eq!(edits(add), Ok(vec![GroupEdit::Add(vec![id])]));
        let remove = json!([{"op": "remove", "path": format!("members[value eq \"{id}\"]")}]);
        assert_eq!(edits(remove), Ok(vec![GroupEdit::Remove(vec![id])]));
        let listed = json!([{"op": "Remove", "path": "members", "value": [{"value": id.to_string()}]}]);
        assert_eq!(edits(listed), Ok(vec![GroupEdit::Remove(vec![id])]));
        assert_eq!(edits(json!([{"op": "remove", "path": "members"}])), Ok(vec![GroupEdit::Replace(Vec::new())]));
        let replaced = json!([{"op": "replace", "value": {"displayName": "Desk", "members": [{"value": id.to_string()}]}}]);
        assert_eq!(edits(replaced), Ok(vec![GroupEdit::DisplayName("Desk".to_owned()), GroupEdit::Replace(vec![id])]));
        assert!(edits(json!([{"op": "add", "path": "members", "value": [{"value": "nobody"}]}])).is_err());
        assert!(edits(json!([{"op": "remove", "path": "members[type eq \"User\"]"}])).is_err());
    }
}
