//! The starters: ready-made workflows that can be installed.

use http::Method;
use maud::{Markup, html};
use serde_json::json;

use super::{
    API, PATH, STARTERS,
    catalog::{Starter, catalog},
    record::{Workflow, must_write, text},
};
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, trail},
        records::List,
    },
    form::{Fields, Shown},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    must_write(&visitor)?;
    page(&visitor, None).await
}

/// Creates a workflow from a starter. It is disabled, so that somebody looks at it before it acts.
pub(super) async fn install(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let body = json!({"action": "create", "starter": fields.get("starter"), "definition": {"enabled": false}});
    match visitor.act(Method::POST, API, Some(body)).await {
        Ok(answer) => Ok(Reply::SeeOther(format!("{PATH}/{}", segment(text(&answer.body, "id"))))),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let starters = catalog(visitor).await?.starters;
    let workflows: List<Workflow> = visitor.read(format!("{API}?limit=200")).await?;
    let example = json!({"action": "create", "starter": "ticket-on-backup-failure", "definition": {"enabled": false}});
    let body = html! {
        (trail(&[(PATH, "Workflows")]))
        (page_head(
            &html! { "Starters" },
            &html! { "Ready-made workflows. A starter is installed disabled: look at it, try it with a dry run, then enable it." },
            &curl(visitor.visit.base_url, "POST", API, Some(&example)),
        ))
        (Shown { fields: &Fields::default(), refusal }.summary())
        ul.cards { @for starter in &starters { (entry(starter, &workflows.data, visitor)) } }
    };
    let content = Content::new("Starters", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn entry(starter: &Starter, workflows: &[Workflow], visitor: &Visitor<'_>) -> Markup {
    let installed = workflows.iter().find(|workflow| workflow.key == text(&starter.definition, "key"));
    html! {
        li {
            strong { (starter.title()) }
            p { (text(&starter.definition, "description")) }
            div.actions {
                @match installed {
                    Some(workflow) => { span { "Installed: " a href=(workflow.path()) { (workflow.name) } } }
                    None => {
                        form method="post" action=(STARTERS) {
                            (visitor.tokens())
                            input type="hidden" name="starter" value=(starter.name);
                            button aria-label={ "Install " (starter.title()) } { "Install" }
                        }
                        a.button href={ "/workflows/new?starter=" (segment(&starter.name)) } aria-label={ "Edit first: " (starter.title()) } { "Edit first" }
                    }
                }
            }
        }
    }
}
