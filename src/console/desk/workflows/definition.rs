//! A definition as a text that people edit, and what an edited one changes.

use serde_json::{Map, Value};

use super::record::{text, triggers};

/// Members that come first, in this order. The others follow by name.
const FIRST: [&str; 22] = [
    "id",
    "key",
    "name",
    "description",
    "type",
    "enabled",
    "event",
    "cron",
    "timezone",
    "condition",
    "if",
    "then",
    "else",
    "triggers",
    "input_schema",
    "timeout_seconds",
    "concurrency",
    "with",
    "retry",
    "on_error",
    "steps",
    "on_failure",
];
/// A value that fits is on one line.
const WIDTH: usize = 96;

/// A definition in JSON: what belongs together is on one line if it fits.
pub(super) fn written(definition: &Value) -> String {
    let mut out = String::new();
    write(definition, 0, &mut out);
    out
}

fn write(value: &Value, indent: usize, out: &mut String) {
    let line = inline(value);
    if indent > 0 && indent + line.len() <= WIDTH {
        out.push_str(&line);
        return;
    }
    let inner = indent + 2;
    match value {
        Value::Object(members) if !members.is_empty() => {
            let write_member = |(name, member): &(&String, &Value), out: &mut String| {
                out.push_str(&format!("{}: ", Value::from(name.as_str())));
                write(member, inner, out);
            };
            lines(&ordered(members), (indent, "{", "}"), out, write_member);
        }
        Value::Array(items) if !items.is_empty() => lines(items, (indent, "[", "]"), out, |item, out| write(item, inner, out)),
        _ => out.push_str(&line),
    }
}

/// Writes parts between two brackets, each on lines of its own.
fn lines<T>(parts: &[T], (indent, open, close): (usize, &str, &str), out: &mut String, write_part: impl Fn(&T, &mut String)) {
    out.push_str(open);
    for (place, part) in parts.iter().enumerate() {
        out.push_str(if place > 0 { ",\n" } else { "\n" });
        out.push_str(&" ".repeat(indent + 2));
        write_part(part, out);
    }
    out.push_str(&format!("\n{}{close}", " ".repeat(indent)));
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = ordered(members)
                .iter()
                .map(|(name, member)| format!("{}: {}", Value::from(name.as_str()), inline(member)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn ordered(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<(&String, &Value)> = members.iter().collect();
    members.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    members
}

/// The merge patch that makes one value the other.
pub(super) fn changes(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    let removed = from.keys().filter(|name| !to.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let set = to.iter().filter(|(name, value)| from.get(*name) != Some(*value)).map(|(name, value)| {
        let change = match (from.get(name), value) {
            (Some(Value::Object(from)), Value::Object(to)) => Value::Object(changes(from, to)),
            _ => value.clone(),
        };
        (name.clone(), change)
    });
    removed.chain(set).collect()
}

/// The lists of steps inside a step, with their names.
pub(crate) fn branches(step: &Value) -> Vec<(String, &Value)> {
    let with = |name: &str| step.get("with").and_then(|with| with.get(name)).unwrap_or(&Value::Null);
    match text(step, "type") {
        "if" => vec![("then".to_owned(), with("then")), ("else".to_owned(), with("else"))],
        "for_each" => vec![("for each item".to_owned(), with("steps"))],
        "parallel" => {
            let lists = with("branches").as_array().map_or(&[][..], Vec::as_slice);
            lists.iter().enumerate().map(|(place, list)| (format!("branch {}", place + 1), list)).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn steps(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// All steps of a definition, with those inside others.
pub(super) fn all_steps(definition: &Value) -> Vec<&Value> {
    let mut open: Vec<&Value> = ["on_failure", "steps"].iter().filter_map(|name| definition.get(*name)).collect();
    let mut found = Vec::new();
    while let Some(list) = open.pop() {
        for step in steps(list) {
            found.push(step);
            open.extend(branches(step).into_iter().map(|(_, inner)| inner));
        }
    }
    found
}

/// The kinds of events that start a workflow.
pub(super) fn event_kinds(definition: &Value) -> Vec<&str> {
    let triggers = definition.as_object().map_or(&[][..], triggers);
    triggers.iter().map(|trigger| text(trigger, "event")).filter(|kind| !kind.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_has_the_usual_order_and_is_the_same_definition() {
        let definition = json!({
            "steps": [
                {"type": "ticket.create", "id": "a", "with": {"subject": "A long subject that does not fit", "organization_id": "{{ inputs.organization_id }}"}},
                {"type": "set", "id": "b"},
            ],
            "key": "k", "triggers": [{"event": "ticket.created", "type": "event"}],
        });
        let expected = r#"{
  "key": "k",
  "triggers": [{"type": "event", "event": "ticket.created"}],
  "steps": [
    {
      "id": "a",
      "type": "ticket.create",
      "with": {
        "organization_id": "{{ inputs.organization_id }}",
        "subject": "A long subject that does not fit"
      }
    },
    {"id": "b", "type": "set"}
  ]
}"#;
        assert_eq!(written(&definition), expected);
        assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), definition);
    }

    #[test]
    fn a_change_removes_members_and_replaces_lists() {
        let from = json!({"a": 1, "schema": {"x": {"deep": 1, "same": 2}, "gone": 3}, "steps": [1, 2], "same": true});
        let to = json!({"b": 2, "schema": {"x": {"deep": 4, "same": 2}}, "steps": [1], "same": true});
        let (from, to) = (from.as_object().unwrap(), to.as_object().unwrap());
        let expected = json!({"a": null, "b": 2, "schema": {"x": {"deep": 4}, "gone": null}, "steps": [1]});
        assert_eq!(Value::Object(changes(from, to)), expected);
        assert!(changes(from, from).is_empty());
    }

    #[test]
    fn steps_inside_others_are_found() {
        let definition = json!({
            "triggers": [{"type": "event", "event": "ticket.created"}, {"type": "manual"}],
            "steps": [{"id": "a", "type": "if", "with": {"then": [{"id": "b", "type": "parallel", "with": {"branches": [[{"id": "c"}], 5]}}]}}],
            "on_failure": [{"id": "d"}],
        });
        let mut ids: Vec<&str> = all_steps(&definition).into_iter().map(|step| text(step, "id")).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["a", "b", "c", "d"]);
        assert_eq!(event_kinds(&definition), ["ticket.created"]);
    }
}
