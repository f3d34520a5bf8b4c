//! The values that a step's expressions can use, read from one snapshot: only those that the step mentions.

use serde_json::{Map, Value, json};

use tenantd_store::{Read, StoreError};

use super::super::{
    definition::{Program, Step},
    model::{Run, Token},
    repo,
};

/// The fields of a run that expressions can read.
fn describe_run(run: &Run) -> Value {
    let mut shown = json!({
        "id": run.id,
        "workflow_id": run.workflow_id,
        "workflow_key": run.workflow_key,
        "workflow_name": run.workflow_name,
        "created_at": run.created_at,
        "started_by": {"id": run.started_by.id, "name": run.started_by.name},
    });
    if let (Some(error), Some(shown)) = (&run.error, shown.as_object_mut()) {
        shown.insert("error".to_owned(), json!({"code": error.code, "message": error.message, "step": error.step}));
    }
    shown
}

/// The names that a step's expressions can use, and their values.
pub(crate) fn names(
    tx: &impl Read,
    run: &Run,
    program: &Program,
    token: &Token,
    step: &Step,
) -> Result<Map<String, Value>, StoreError> {
    let key = (run.tenant_id, run.id);
    let given = repo::runs::inputs(tx, key)?;
    let mut names = Map::new();
    names.insert("inputs".to_owned(), given.inputs.0);
    if let Some(event) = given.event {
        names.insert("event".to_owned(), event.0);
    }
    names.insert("run".to_owned(), describe_run(run));
    let mut steps = Map::new();
    for number in program.reads(step) {
        let Some(other) = program.definition.step(*number) else { continue };
        let path = format!("{}{}", scope_of(&token.scope, other.loops.len()), other.id);
        let mut shown = Map::new();
        if let Some(row) = repo::runs::step(tx, key, &path)? {
            shown.insert("status".to_owned(), row.status.name().into());
            if let Some(output) = row.output {
                shown.insert("output".to_owned(), output.0);
            }
            if let Some(error) = row.error {
                shown.insert("error".to_owned(), json!({"code": error.code, "message": error.message}));
            }
        }
        steps.insert(other.id.clone(), Value::Object(shown));
    }
    names.insert("steps".to_owned(), Value::Object(steps));
    if let (Some(item), Some(path)) = (token.item, loop_path(&token.scope)) {
        let row = repo::runs::step(tx, key, path)?;
        let items = row.and_then(|row| row.input).map(|input| input.0);
        let value = items.as_ref().and_then(|input| input.get("items")?.get(item as usize)).cloned();
        names.insert("item".to_owned(), value.unwrap_or_default());
        names.insert("item_index".to_owned(), item.into());
    }
    Ok(names)
}

/// The prefix of a scope with this many loops.
fn scope_of(scope: &str, loops: usize) -> &str {
    let length: usize = scope.split_inclusive('/').take(loops).map(str::len).sum();
    scope.get(..length).unwrap_or(scope)
}

/// The path of the innermost loop of a scope: `a[1]/b[2]/` is inside of `a[1]/b`.
fn loop_path(scope: &str) -> Option<&str> {
    scope.rfind('[').and_then(|at| scope.get(..at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_split_into_their_loops() {
        assert_eq!(
            (scope_of("a[1]/b[22]/", 0), scope_of("a[1]/b[22]/", 1), scope_of("a[1]/b[22]/", 2)),
            ("", "a[1]/", "a[1]/b[22]/")
        );
        assert_eq!((loop_path("a[1]/b[22]/"), loop_path("a[1]/"), loop_path("")), (Some("a[1]/b"), Some("a"), None));
    }
}
