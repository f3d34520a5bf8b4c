//! Runs a workflow by hand, or plans what a run would do.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::access::Scope;

use super::{
    API, PATH,
    definition::event_kinds,
    inputs::Inputs,
    plan::Plan,
    record::{Workflow, text, workflow},
};
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, or_none, organization_choices, trail},
        runs::path as run_path,
    },
    form::{Control, Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

const EVENTS: &str = "/api/events";
/// The field with the number of the event for a dry run.
const EVENT: &str = "event";
const SUBJECT: &str = "subject_id";
const SUBJECT_HINT: &str = "What the run is about: a ticket such as T-1042, or the ID of another record such as a device.";

#[derive(Debug, Deserialize)]
struct Feed {
    data: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Event {
    seq: u64,
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    resource: Resource,
}

#[derive(Debug, Deserialize)]
struct Resource {
    id: String,
}

/// What the form offers.
struct Offered {
    inputs: Inputs,
    organizations: Vec<(String, String)>,
    events: Vec<(String, String)>,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let workflow = workflow(&visitor).await?;
    let mut fields = Fields::default();
    Inputs::of(workflow.input_schema()).start(&mut fields);
    fields.set(SUBJECT, visitor.query().first(SUBJECT));
    page(&visitor, &workflow, &fields, None, None).await
}

/// Starts a run, or plans one.
pub(super) async fn start(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let workflow = workflow(&visitor).await?;
    let fields = visitor.fields();
    let inputs = Inputs::of(workflow.input_schema());
    let is_run = fields.get("do") == "run";
    let mut body = fields.filled(&[SUBJECT]);
    body.insert("workflow_id".to_owned(), workflow.id.as_str().into());
    body.insert("inputs".to_owned(), inputs.typed(&fields));
    if !is_run {
        body.insert("dry_run".to_owned(), true.into());
        if !fields.get(EVENT).is_empty() {
            body.insert("event".to_owned(), visitor.read(format!("{EVENTS}/{}", segment(fields.get(EVENT)))).await?);
        }
    }
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) if is_run => Ok(Reply::SeeOther(run_path(text(&answer.body, "id")))),
        Ok(answer) => page(&visitor, &workflow, &fields, Some(&parsed(answer.body)?), None).await,
        Err(refusal) if is_correctable(&refusal) => page(&visitor, &workflow, &fields, None, Some(&inputs.refusal(&refusal))).await,
        Err(refusal) => Err(refusal),
    }
}

async fn offered(visitor: &Visitor<'_>, workflow: &Workflow) -> Result<Offered, Refusal> {
    let inputs = Inputs::of(workflow.input_schema());
    let organizations = if inputs.asks_for_organization() { organization_choices(visitor, None).await? } else { Vec::new() };
    Ok(Offered { inputs, organizations, events: events(visitor, workflow).await? })
}

/// The newest events that would start the workflow, by their numbers.
async fn events(visitor: &Visitor<'_>, workflow: &Workflow) -> Result<Vec<(String, String)>, Refusal> {
    let definition = workflow.definition();
    let kinds = event_kinds(&definition);
    if kinds.is_empty() || !visitor.may(Scope::EventsRead) {
        return Ok(Vec::new());
    }
    let query = kinds.iter().fold(Query::default(), |query, kind| query.and("types", kind));
    let target = query.with("order", "desc").with("limit", "20").at(EVENTS);
    let feed = visitor.read_if_allowed::<Feed>(target).await?.map_or_else(Vec::new, |feed| feed.data);
    let words = |event: &Event| {
        let time = visitor.clock.exact_text(&event.timestamp).unwrap_or_default();
        format!("{}, {time}, {}", event.kind, event.resource.id)
    };
    Ok(feed.iter().map(|event| (event.seq.to_string(), words(event))).collect())
}

async fn page(
    visitor: &Visitor<'_>,
    workflow: &Workflow,
    fields: &Fields,
    plan: Option<&Plan>,
    refusal: Option<&Refusal>,
) -> Result<Reply, Refusal> {
    let offered = offered(visitor, workflow).await?;
    let shown = Shown { fields, refusal };
    let title = format!("{} {}", if workflow.can_start() { "Run" } else { "Plan" }, workflow.name);
    let body = html! {
        (trail(&[(PATH, "Workflows"), (workflow.path().as_str(), workflow.name.as_str())]))
        (page_head(
            &html! { (title) },
            &html! { "A dry run plans every step and changes nothing." },
            &curl(visitor.visit.base_url, "POST", &format!("{API}?dry_run=true"), Some(&example(workflow, &offered, fields))),
        ))
        div.editor {
            (form(visitor, workflow, &offered, shown))
            @if let Some(plan) = plan { (plan.card()) }
        }
    };
    let content = Content::new(title, body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn example(workflow: &Workflow, offered: &Offered, fields: &Fields) -> Value {
    json!({"workflow_id": workflow.id, "inputs": offered.inputs.typed(fields)})
}

/// The first button is the one that Enter presses: it changes nothing.
fn form(visitor: &Visitor<'_>, workflow: &Workflow, offered: &Offered, shown: Shown<'_>) -> Markup {
    let events = or_none("No event", offered.events.clone());
    html! {
        form.stack method="post" action={ (workflow.path()) "/run" } {
            (visitor.tokens())
            (shown.summary())
            @if let Some(reason) = hindrance(workflow) { p.note { (reason) } }
            (offered.inputs.show(shown, &offered.organizations))
            (shown.field(SUBJECT, "Subject", Control::Input("text"), SUBJECT_HINT, false))
            @if !offered.events.is_empty() {
                (shown.field(EVENT, "Event of the dry run", Control::Choice(&events), "The newest events that the triggers name. The plan reads the event that you choose.", false))
            }
            div.actions {
                button name="do" value="plan" { "Dry run" }
                @if workflow.can_start() { button.primary name="do" value="run" { "Run" } }
                a.button href=(workflow.path()) { "Cancel" }
            }
        }
    }
}

/// Why nobody can start it now.
fn hindrance(workflow: &Workflow) -> Option<&'static str> {
    match (workflow.is_manual(), workflow.can_start()) {
        (false, _) => Some("Only its events and schedules start this workflow. You can plan a run."),
        (true, false) => Some("The workflow is disabled. You can plan a run. Enable it to start one."),
        (true, true) => None,
    }
}
