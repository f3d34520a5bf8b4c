//! The page of an operation in the background: its progress, and its result or its error.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{
    API, OPERATIONS_API, OPERATIONS_PATH, VMS_API, VMS_PATH,
    vm::{Vm, provider_link, vm_rows},
};
use crate::{
    components::{Tone, badge, bar, card, curl, facts, page_head, words},
    desk::{
        Content, Reply,
        organizations::{named_choices, trail},
        records::List,
    },
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// How long a page that waits for the end of an operation waits.
const WAIT_SECONDS: &str = "20";

#[derive(Debug, Deserialize)]
struct Operation {
    id: String,
    kind: String,
    status: String,
    phase: String,
    progress: u32,
    error: Option<Problem>,
    #[serde(default)]
    leftovers: Vec<Leftover>,
    #[serde(default)]
    provider_ids: Vec<String>,
    created_at: String,
    updated_at: String,
    ended_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Problem {
    code: String,
    message: String,
    transient: bool,
}

/// A VM that a failed operation left in the cloud, or may have left.
#[derive(Debug, Deserialize)]
struct Leftover {
    vm_id: String,
    name: String,
    provider_vm_id: Option<String>,
    token: String,
    uncertain: bool,
}

impl Operation {
    fn is_order(&self) -> bool {
        self.kind == "vm_provision"
    }

    fn title(&self) -> &'static str {
        if self.is_order() { "Order of VMs" } else { "Sync of providers" }
    }

    fn path(&self) -> String {
        format!("{OPERATIONS_PATH}/{}", self.id)
    }
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let api = format!("{OPERATIONS_API}/{}", segment(visitor.part("id")));
    let wait = visitor.query().first("wait_seconds").to_owned();
    let target = if wait.is_empty() { api.clone() } else { Query::default().with("wait_seconds", &wait).at(&api) };
    let operation: Operation = visitor.read(target).await?;
    let of_operation = Query::default().with("operation_id", &operation.id);
    let vms: Option<List<Vm>> = if operation.is_order() {
        visitor.read_if_allowed(of_operation.clone().with("limit", "20").at(VMS_API)).await?
    } else {
        None
    };
    let names = named_choices(&visitor, &format!("{API}?limit=200"), None).await?;
    let body = html! {
        (trail(&[(VMS_PATH, "Virtual machines")]))
        (page_head(
            &html! { (operation.title()) },
            &html! { (status_badge(&operation.status)) " started " (visitor.clock.relative(&operation.created_at)) },
            &curl(visitor.visit.base_url, "GET", &api, None),
        ))
        div.split {
            div {
                (card("Progress", &progress(&operation)))
                @if let Some(error) = &operation.error { (card("Error", &failure(&operation, error, &names, &visitor))) }
                @if !operation.leftovers.is_empty() { (card("Left in the cloud", &leftovers(&operation.leftovers))) }
                @if let Some(vms) = &vms { (card("Virtual machines", &machines(vms, &of_operation, &visitor))) }
            }
            div { (card("Details", &details(&operation, &names, &visitor))) }
        }
    };
    let content = Content::new(operation.title(), body);
    Ok(Reply::Page(if operation.ended_at.is_none() { content.live("vm.*") } else { content }))
}

fn status_badge(status: &str) -> Markup {
    let tone = match status {
        "running" => Tone::Accent,
        "succeeded" => Tone::Good,
        "failed" => Tone::Bad,
        _ => Tone::Neutral,
    };
    badge(tone, &words(status))
}

fn progress(operation: &Operation) -> Markup {
    let tone = match operation.status.as_str() {
        "succeeded" => Tone::Good,
        "failed" => Tone::Bad,
        _ => Tone::Accent,
    };
    let wait = Query::default().with("wait_seconds", WAIT_SECONDS).at(&operation.path());
    html! {
        p role="status" { (bar(operation.progress, tone, &format!("{} %", operation.progress))) " " (phase_words(operation)) }
        @if operation.ended_at.is_none() {
            p.muted { "The operation continues in the background, also when you leave this page or tenantd restarts." }
            div.actions {
                a.button href=(operation.path()) { "Reload" }
                a.button href=(wait) { "Wait for the end" }
            }
        } @else if operation.status == "succeeded" && !operation.is_order() {
            p { a href=(VMS_PATH) { "Show the VMs" } }
        }
    }
}

fn phase_words(operation: &Operation) -> &str {
    match (operation.phase.as_str(), operation.status.as_str()) {
        ("queued", _) => "Waits for its turn.",
        ("ordering", _) => "tenantd sends the orders to the cloud.",
        ("starting", _) => "The VMs exist, and are starting.",
        ("syncing", _) => "tenantd reads the VMs.",
        ("done", "succeeded") => "Done.",
        ("done", "failed") => "Ended with an error.",
        ("done", "cancelled") => "Was cancelled.",
        (other, _) => other,
    }
}

fn failure(operation: &Operation, error: &Problem, names: &[(String, String)], visitor: &Visitor<'_>) -> Markup {
    // An order has one provider.
    let again = operation.provider_ids.first().filter(|_| operation.is_order() && visitor.may(Scope::VmsWrite));
    html! {
        p { (error.message) " " code { (error.code) } }
        p { strong { "What to do: " } (advice(&error.code, error.transient, operation.is_order())) }
        p { "Concerned: " (providers(operation, names, visitor)) }
        @if let Some(id) = again {
            div.actions { a.button href=(Query::default().with("provider_id", id).at("/vms/new")) { "Order again" } }
        }
    }
}

/// The providers of the operation, by name.
fn providers(operation: &Operation, names: &[(String, String)], visitor: &Visitor<'_>) -> Markup {
    let name = |id: &str| names.iter().find(|(known, _)| known == id).map_or_else(|| id.to_owned(), |(_, name)| name.clone());
    html! {
        @for (place, id) in operation.provider_ids.iter().enumerate() {
            @if place > 0 { ", " }
            (provider_link(id, &name(id), visitor))
        }
    }
}

/// How to go on after an error. The API has remedies only for the checks of a verification, so this leads there.
fn advice(code: &str, is_transient: bool, is_order: bool) -> &'static str {
    match (code, is_order) {
        ("quota_exceeded", true) => {
            "ask the provider for a higher quota, or delete resources that you no longer need. Then order again."
        }
        ("not_found" | "invalid_request", true) => "correct the values that the message names, then order again.",
        (_, true) if is_transient => "the problem may be temporary. Verify the provider, then order again.",
        (_, false) if is_transient => "the problem may be temporary. tenantd repeats the sync by itself.",
        _ => "open the provider and verify it. The check that fails says how to fix the problem.",
    }
}

fn leftovers(leftovers: &[Leftover]) -> Markup {
    html! {
        p { "The operation failed, but these VMs exist in the cloud or may exist there. They can cost money." }
        div.scroll tabindex="0" role="group" aria-label="VMs left in the cloud" {
            table.list {
                thead { tr { @for head in ["VM", "ID there", "Token of the order", "What to do"] { th scope="col" { (head) } } } }
                tbody {
                    @for leftover in leftovers {
                        tr {
                            td.main { a href={ (VMS_PATH) "/" (leftover.vm_id) } { (leftover.name) } }
                            td { @match &leftover.provider_vm_id { Some(id) => { code { (id) } } None => { "Not known" } } }
                            td { code { (leftover.token) } }
                            td.wide {
                                @if leftover.uncertain { "Search the cloud for the token. If the VM exists and you do not need it, delete it there." }
                                @else { "If you do not need it, delete it in the cloud." }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn machines(vms: &List<Vm>, of_operation: &Query, visitor: &Visitor<'_>) -> Markup {
    html! {
        @if vms.data.is_empty() {
            p.muted { "The VMs of this order are not listed any more." }
        } @else {
            (vm_rows(&vms.data, false, visitor))
            p { a href=(of_operation.at(VMS_PATH)) { "Show in the list" } }
        }
    }
}

fn details(operation: &Operation, names: &[(String, String)], visitor: &Visitor<'_>) -> Markup {
    let clock = visitor.clock;
    let has_providers = !operation.provider_ids.is_empty();
    facts(&[
        ("Providers", has_providers.then(|| providers(operation, names, visitor))),
        ("Phase", Some(html! { (words(&operation.phase)) })),
        ("ID", Some(html! { code { (operation.id) } })),
        ("Started", Some(clock.absolute(&operation.created_at))),
        ("Changed", Some(clock.relative(&operation.updated_at))),
        ("Ended", operation.ended_at.as_ref().map(|at| clock.absolute(at))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_leads_to_what_can_be_done() {
        assert!(advice("quota_exceeded", false, true).contains("higher quota"));
        assert!(advice("timeout", true, false).contains("by itself"));
        assert!(advice("insufficient_permissions", false, true).contains("verify it"));
    }
}
