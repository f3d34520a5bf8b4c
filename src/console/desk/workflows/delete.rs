//! The page that asks before a workflow is archived.

use http::Method;
use maud::html;

use tenantd_http::problem::Code;

use super::{
    PATH,
    record::{Workflow, workflow},
};
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, trail, version_field},
    },
    form::{Fields, Shown, list_field},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const CANCEL: &str = "cancel_runs";

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let workflow = workflow(&visitor).await?;
    Ok(page(&visitor, &workflow, None))
}

/// Archives the workflow, or shows why the API refuses.
pub(super) async fn archive(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let workflow = workflow(&visitor).await?;
    // An archived workflow stays readable.
    if let Some(list) = visitor.list_without().filter(|_| workflow.archived_at.is_some()) {
        return Ok(Reply::SeeOther(list));
    }
    let cancels = visitor.fields().get(CANCEL) == "true";
    let query = if cancels { Query::default().with(CANCEL, "true") } else { Query::default() };
    match visitor.act(Method::DELETE, query.at(&workflow.api()), None).await {
        Ok(_) => Ok(Reply::SeeOther(PATH.to_owned())),
        Err(refusal) if is_correctable(&refusal) => Ok(page(&visitor, &workflow, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, workflow: &Workflow, refusal: Option<&Refusal>) -> Reply {
    let title = format!("Delete {}", workflow.name);
    let below =
        "Archives the workflow: it starts no more runs, and its key is free again. Its runs stay readable. This cannot be undone.";
    let has_conflict = refusal.is_some_and(|refusal| refusal.is(Code::VersionConflict));
    let cancels = visitor.fields().get(CANCEL) == "true";
    let body = html! {
        (trail(&[(PATH, "Workflows"), (workflow.path().as_str(), workflow.name.as_str())]))
        (page_head(&html! { (title) }, &html! { (below) }, &curl(visitor.visit.base_url, "DELETE", &workflow.api(), None)))
        form.stack method="post" action={ (workflow.path()) "/delete" } {
            (visitor.tokens())
            (version_field(workflow.version))
            (list_field(PATH))
            (Shown { fields: &Fields::default(), refusal }.summary())
            @if has_conflict {
                p.note { "The workflow changed after you opened this page. " a href=(workflow.path()) { "Look at the workflow" } " before you delete it." }
            }
            label.check { input type="checkbox" name=(CANCEL) value="true" checked[cancels]; "Cancel the runs that have not ended" }
            div.actions {
                button.danger { "Delete" }
                a.button href=(workflow.path()) { "Cancel" }
            }
        }
    };
    let content = Content::new(title, body);
    Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    })
}
