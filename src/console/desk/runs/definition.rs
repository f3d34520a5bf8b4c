//! The definition that a run uses, as far as a page needs it: which steps follow a step, and who may approve it.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    API,
    record::{Run, status_badge},
    values::json_details,
};
use crate::{
    desk::workflows::{branches, steps, text},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

/// Members of a step that say what it does. The first that a step has is shown.
const TELLING: [&str; 6] = ["subject", "message", "url", "workflow_key", "name", "body"];

/// The rules of an approval.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// The roles that may decide. Without any, everyone with the scope `workflows:approve` may.
    pub(super) roles: Vec<String>,
    /// How many people must approve.
    pub(super) required: u64,
    pub(super) timeout_seconds: Option<u64>,
    /// What happens if nobody decides in time: `fail`, `reject` or `approve`.
    pub(super) on_timeout: String,
    /// Whether the person who requested the run may approve it.
    pub(super) self_approval: bool,
}

impl Rules {
    /// The rules of a step. `None` stands for a step with the defaults of the API.
    pub(super) fn of(step: Option<&Value>) -> Self {
        let with = step.and_then(|step| step.get("with")).unwrap_or(&Value::Null);
        let roles = with.get("roles").and_then(Value::as_array).into_iter().flatten();
        Self {
            roles: roles.filter_map(|role| role.as_str().map(str::to_owned)).collect(),
            required: with.get("required").and_then(Value::as_u64).unwrap_or(1),
            timeout_seconds: with.get("timeout_seconds").and_then(Value::as_u64),
            on_timeout: with.get("on_timeout").and_then(Value::as_str).unwrap_or("fail").to_owned(),
            self_approval: with.get("self_approval").and_then(Value::as_bool).unwrap_or(false),
        }
    }
}

/// The definition of a run, in the version that the run uses; null if it cannot be read.
pub(super) async fn definition(visitor: &Visitor<'_>, run: &Run) -> Result<Value, Refusal> {
    let target = format!("{API}/{}?version={}", segment(&run.workflow.id), run.workflow.version);
    Ok(visitor.read_if_allowed(target).await?.unwrap_or_default())
}

fn top(definition: &Value) -> &Value {
    definition.get("steps").unwrap_or(&Value::Null)
}

/// The step with this id, and the steps that follow it in its list.
pub(super) fn find<'a>(definition: &'a Value, id: &str) -> Option<(&'a Value, &'a [Value])> {
    find_in(top(definition), id)
}

fn find_in<'a>(list: &'a Value, id: &str) -> Option<(&'a Value, &'a [Value])> {
    let all = steps(list);
    match all.iter().position(|step| text(step, "id") == id) {
        Some(place) => all.get(place..)?.split_first(),
        None => all.iter().flat_map(branches).find_map(|(_, inner)| find_in(inner, id)),
    }
}

/// What the run does after an approval.
pub(super) fn following(steps: &[Value]) -> Markup {
    html! {
        @if steps.is_empty() {
            p.muted { "No step follows in its list." }
        } @else {
            ol {
                @for step in steps {
                    li {
                        strong { (text(step, "id")) } " " code { (text(step, "type")) }
                        @if let Some(about) = about(step) { " " (about) }
                        @if !text(step, "if").is_empty() { p { "Only if " code { (text(step, "if")) } "." } }
                        (json_details("Settings", step.get("with")))
                    }
                }
            }
        }
    }
}

fn about(step: &Value) -> Option<&str> {
    let with = step.get("with")?;
    TELLING.iter().map(|name| text(with, name)).find(|text| !text.is_empty())
}

/// The steps of a definition that a run has not started.
pub(super) fn to_come<'a>(definition: &'a Value, run: &Run) -> Vec<&'a Value> {
    // A run that has failed continues with other steps.
    if run.has_ended() || run.error.is_some() {
        return Vec::new();
    }
    let has_started = |step: &&Value| run.steps.iter().any(|started| started.path == text(step, "id"));
    steps(top(definition)).iter().filter(|step| !has_started(step)).collect()
}

/// The steps that a run has not started, at the end of its timeline.
pub(super) fn pending(steps: &[&Value]) -> Markup {
    html! {
        @for step in steps {
            li.entry.event {
                div { code { (text(step, "id")) } " " (status_badge("pending")) " " span.muted { (text(step, "type")) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example() -> Value {
        let ask = json!({"id": "ask", "type": "approval", "with": {"roles": ["admin"], "required": 2}});
        let note = |id: &str| json!({"id": id, "type": "set", "with": {"x": 1}});
        let each = json!({"id": "each", "type": "for_each", "with": {"items": "{{ inputs.all }}", "steps": [ask, note("after")]}});
        let fork = json!({"id": "fork", "type": "parallel", "with": {"branches": [[note("one")], [each, note("two")]]}});
        json!({"steps": [note("first"), fork, note("last")]})
    }

    fn ids(steps: &[Value]) -> Vec<&str> {
        steps.iter().map(|step| text(step, "id")).collect()
    }

    #[test]
    fn an_approval_is_found_inside_other_steps_with_what_follows_it() {
        let definition = example();
        let (step, next) = find(&definition, "ask").unwrap();
        let rules = Rules::of(Some(step));
        assert_eq!((rules.roles, rules.required, rules.self_approval), (vec!["admin".to_owned()], 2, false));
        assert_eq!(ids(next), ["after"]);
        assert_eq!(ids(find(&definition, "fork").unwrap().1), ["last"]);
        assert!(find(&definition, "missing").is_none() && find(&Value::Null, "ask").is_none());
    }

    #[test]
    fn a_step_is_told_by_its_subject_or_its_message() {
        let step = json!({"id": "a", "type": "ticket.create", "with": {"subject": "Offboard <b>", "type": "task"}});
        assert_eq!(about(&step), Some("Offboard <b>"));
        let shown = following(&[step]).into_string();
        assert!(shown.contains("Offboard &lt;b&gt;") && shown.contains("<summary>Settings</summary>"), "{shown}");
        assert_eq!(about(&json!({"id": "b", "type": "set", "with": {"x": 1}})), None);
    }
}
