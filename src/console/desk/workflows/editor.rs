//! The editor: a definition as text, with its faults at their lines, and its graph beside it.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_http::problem::Code;

use super::{
    API, PATH, STARTERS,
    catalog::{Help, Starter, help},
    definition::{changes, written},
    faults::{DEFINITION, FIELDS, Faults, Validation},
    graph::graph,
    outline::outline,
    record::{Workflow, must_write, text, workflow},
};
use crate::{
    components::{card, curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, trail, version_field},
    },
    form::{Control, Fields, Shown, VERSION},
    query::segment,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The field with which the script asks for what it shows while somebody types.
const PART: &str = "part";
const HINT: &str = "In JSON: a key, triggers and steps. Below this form are the types of steps and the kinds of events.";

/// What is known of the text that was typed.
#[derive(Debug, Default)]
struct Checked {
    faults: Faults,
    /// What the API refused beside faults of the definition.
    refusal: Option<Refusal>,
    /// The definition to draw.
    drawn: Option<Value>,
    is_valid: bool,
}

impl Checked {
    fn has_conflict(&self) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| refusal.is(Code::VersionConflict))
    }
}

pub(super) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    must_write(&visitor)?;
    let help = help(&visitor).await?;
    let query = visitor.query();
    let starter = help.catalog.starters.iter().find(|starter| starter.name == query.first("starter"));
    let definition = starter.map_or_else(skeleton, Starter::disabled);
    let checked = Checked { drawn: Some(definition.clone()), ..Checked::default() };
    Ok(page(&visitor, None, &fields_of(definition), &checked, &help))
}

pub(super) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let definition = match typed(&fields) {
        Ok(definition) => definition,
        Err(faults) => return again(&visitor, None, &fields, Checked { faults, ..Checked::default() }).await,
    };
    if fields.get("do") == "check" {
        let checked = check(&visitor, &fields, definition).await?;
        return again(&visitor, None, &fields, checked).await;
    }
    let body = json!({"action": "create", "definition": definition});
    match visitor.act(Method::POST, API, Some(body)).await {
        Ok(answer) => Ok(Reply::SeeOther(format!("{PATH}/{}", segment(text(&answer.body, "id"))))),
        Err(refusal) => again(&visitor, None, &fields, refused(refusal, &fields)?).await,
    }
}

pub(super) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let workflow = workflow(&visitor).await?;
    let definition = workflow.whole_definition();
    let checked = Checked { drawn: Some(definition.clone()), ..Checked::default() };
    again(&visitor, Some(&workflow), &fields_of(definition), checked).await
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let workflow = workflow(&visitor).await?;
    let fields = visitor.fields();
    let definition = match typed(&fields) {
        Ok(definition) => definition,
        Err(faults) => return again(&visitor, Some(&workflow), &fields, Checked { faults, ..Checked::default() }).await,
    };
    if fields.get("do") == "check" {
        let checked = check(&visitor, &fields, definition).await?;
        return again(&visitor, Some(&workflow), &fields, checked).await;
    }
    let known = workflow.whole_definition();
    let mut patch = changes(known.as_object().unwrap_or(&Map::new()), &definition);
    // A text without the member keeps the state of the workflow.
    if patch.get("enabled") == Some(&Value::Null) {
        patch.remove("enabled");
    }
    match visitor.act(Method::PATCH, workflow.api(), Some(Value::Object(patch))).await {
        Ok(_) => Ok(Reply::SeeOther(workflow.path())),
        Err(refusal) => again(&visitor, Some(&workflow), &fields, refused(refusal, &fields)?).await,
    }
}

/// The page for a refusal that the reader can correct.
fn refused(refusal: Refusal, fields: &Fields) -> Result<Checked, Refusal> {
    if !is_correctable(&refusal) {
        return Err(refusal);
    }
    let faults = Faults::of_refusal(&refusal, fields);
    Ok(Checked { faults, refusal: Some(refusal), ..Checked::default() })
}

/// Asks the API for the faults of a definition. Nothing is stored.
async fn check(visitor: &Visitor<'_>, fields: &Fields, definition: Map<String, Value>) -> Result<Checked, Refusal> {
    let definition = Value::Object(definition);
    let body = json!({"action": "validate", "definition": definition});
    let answer = match visitor.act(Method::POST, API, Some(body)).await {
        Ok(answer) => answer,
        Err(refusal) => return refused(refusal, fields),
    };
    let faults = Faults::of(parsed::<Validation>(answer.body)?.errors, fields);
    let is_valid = faults.is_empty();
    Ok(Checked { faults, refusal: None, drawn: is_valid.then_some(definition), is_valid })
}

/// The definition that was typed. The fields win over the text, unless they are empty.
fn typed(fields: &Fields) -> Result<Map<String, Value>, Faults> {
    let mut definition = match serde_json::from_str(fields.get(DEFINITION)) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err(Faults::of_syntax(1, "The definition must be an object, such as {\"key\": …}.".to_owned())),
        Err(error) => return Err(Faults::of_syntax(error.line(), format!("This is not JSON: {error}."))),
    };
    definition.extend(fields.filled(&FIELDS.map(|(name, _)| name)));
    Ok(definition)
}

/// The fields of the form for a definition.
fn fields_of(definition: Value) -> Fields {
    let mut fields = Fields::default();
    let mut rest = definition;
    for (name, _) in FIELDS {
        let value = rest.as_object_mut().and_then(|members| members.remove(name));
        fields.set(name, value.as_ref().and_then(Value::as_str).unwrap_or_default());
    }
    fields.set(DEFINITION, written(&rest));
    fields
}

fn skeleton() -> Value {
    json!({
        "key": "my-workflow",
        "enabled": false,
        "triggers": [{"type": "manual"}],
        "steps": [{"id": "ticket", "type": "ticket.create", "with": {"organization_id": "{{ inputs.organization_id }}", "subject": "A ticket from a workflow"}}],
        "input_schema": {"type": "object", "required": ["organization_id"], "properties": {"organization_id": {"type": "string", "pattern": "^org_"}}},
    })
}

async fn again(visitor: &Visitor<'_>, workflow: Option<&Workflow>, fields: &Fields, checked: Checked) -> Result<Reply, Refusal> {
    let help = help(visitor).await?;
    if fields.get(PART) == "check" {
        return Ok(Reply::Part(part(&checked, fields, &help)));
    }
    Ok(page(visitor, workflow, fields, &checked, &help))
}

/// What the script puts into the page: the faults, the text with its marked lines or the plan, and the words for a screen reader.
fn part(checked: &Checked, fields: &Fields, help: &Help) -> Markup {
    let refusal = checked.refusal.as_ref().filter(|_| checked.faults.is_empty());
    html! {
        // Nothing above the form, which must not move under the hands of somebody who types.
        div #check-said {}
        div #check-beside {
            (checked.faults.list())
            @if let Some(refusal) = refusal { p.note { (refusal.title) ": " (refusal.detail) } }
            @if checked.is_valid { p.note { "The definition has no problems. It is not saved yet." } }
            (beside(checked, fields, help))
        }
        p #check-live {
            @if checked.is_valid { "The definition has no problems." } @else { (checked.faults.words()) }
            @if let Some(refusal) = refusal { (refusal.title) }
        }
    }
}

fn page(visitor: &Visitor<'_>, workflow: Option<&Workflow>, fields: &Fields, checked: &Checked, help: &Help) -> Reply {
    let title = workflow.map_or_else(|| "New workflow".to_owned(), |workflow| format!("Edit {}", workflow.name));
    let below = match workflow {
        Some(_) => "Saving makes a new version, which acts with your rights. Runs keep the version that they were started with.",
        None => "Steps that tenantd runs by hand, after events or at times. A workflow acts with your rights.",
    };
    let path = workflow.map(Workflow::path);
    let above = match (workflow, &path) {
        (Some(workflow), Some(path)) => trail(&[(PATH, "Workflows"), (path.as_str(), workflow.name.as_str())]),
        _ => trail(&[(PATH, "Workflows")]),
    };
    let body = html! {
        (above)
        (page_head(
            &html! { (title) },
            &html! { (below) },
            &html! { (request(visitor, workflow)) @if workflow.is_none() { a.button href=(STARTERS) { "Starters" } } },
        ))
        div #check-said { (messages(checked, fields)) }
        p.unseen #check-live aria-live="polite" {}
        div.editor {
            (form(visitor, workflow, fields, checked))
            div #check-beside { (beside(checked, fields, help)) }
        }
        (card("What a definition can have", &help.show()))
    };
    let content = Content::new(title, body);
    Reply::Page(match (&checked.refusal, checked.faults.is_empty()) {
        (Some(refusal), _) => content.refused(refusal),
        (None, true) => content,
        (None, false) => content.refused(&Refusal::new(Code::ValidationFailed, "")),
    })
}

/// What the form does, as a request.
fn request(visitor: &Visitor<'_>, workflow: Option<&Workflow>) -> Markup {
    let base = visitor.visit.base_url;
    match workflow {
        Some(workflow) => curl(base, "PATCH", &workflow.api(), Some(&json!({"name": workflow.name}))),
        None => curl(base, "POST", API, Some(&json!({"action": "create", "definition": skeleton()}))),
    }
}

fn messages(checked: &Checked, fields: &Fields) -> Markup {
    let refusal = checked.refusal.as_ref().filter(|_| checked.faults.is_empty());
    html! {
        (checked.faults.summary())
        (Shown { fields, refusal }.summary())
        @if checked.has_conflict() { p.note { "The workflow changed after you opened this form. Save again to replace its definition with yours." } }
        @if checked.is_valid { p.note role="status" { "The definition has no problems. Nothing was saved." } }
    }
}

fn form(visitor: &Visitor<'_>, workflow: Option<&Workflow>, fields: &Fields, checked: &Checked) -> Markup {
    let refusal = checked.faults.refusal();
    let shown = Shown { fields, refusal: refusal.as_ref() };
    let action = workflow.map_or_else(|| format!("{PATH}/new"), |workflow| format!("{}/edit", workflow.path()));
    let cancel = workflow.map_or_else(|| PATH.to_owned(), Workflow::path);
    // A form that is shown again keeps the version that it began with, until a conflict says that there is a newer one.
    let version = match fields.get(VERSION) {
        version if !version.is_empty() && !checked.has_conflict() => version.trim_start_matches('v').parse().ok(),
        _ => workflow.map(|workflow| workflow.version),
    };
    html! {
        form method="post" action=(action) data-check {
            (visitor.tokens())
            @if let Some(version) = version { (version_field(version)) }
            (shown.field("name", "Name", Control::Input("text"), "", true))
            (shown.field("description", "Description", Control::Text { rows: 2 }, "", false))
            (shown.field(DEFINITION, "Definition", Control::Text { rows: 28 }, HINT, true))
            div.actions {
                button.primary name="do" value="save" { @if workflow.is_some() { "Save" } @else { "Create workflow" } }
                button name="do" value="check" { "Check without saving" }
                a.button href=(cancel) { "Cancel" }
            }
        }
    }
}

/// The plan of a definition, or its text with the faults.
fn beside(checked: &Checked, fields: &Fields, help: &Help) -> Markup {
    let Some(definition) = &checked.drawn else {
        let text = fields.get(DEFINITION);
        return html! { @if !checked.faults.is_empty() { (card("Where the problems are", &checked.faults.numbered(text))) } };
    };
    let needs: Vec<&str> = help.needs(definition).into_iter().collect();
    card(
        if checked.is_valid { "Plan" } else { "Graph" },
        &html! {
            (graph(fields.get("name"), definition))
            (outline(definition))
            @if !needs.is_empty() { p.muted { "Its author needs the scopes " (needs.join(", ")) "." } }
        },
    )
}
