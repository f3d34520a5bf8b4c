//! The list of cloud providers.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    API, PATH, VMS_PATH,
    fields::Kind,
    kinds::title_of,
    record::{Provider, STATUSES, status_badge},
    verification::{Verification, allowed_badge},
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        devices::{any_of, select},
        organizations::{counted, optional, or_none, organization_choices, pages},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The parameters with a field in the form.
const FIELDS: [&str; 4] = ["name", "kind", "status", "organization_id"];
const HEADS: [&str; 8] = ["Provider", "Kind", "Organization", "Status", "May create VMs", "VMs", "Last sync", "Problem"];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().or("limit", "50").with("include_total", "true").at(API);
    let providers: List<Provider> = visitor.read(&target).await?;
    let organizations = organization_choices(&visitor, None).await?;
    let total = providers.page.total.unwrap_or_default();
    let head = page_head(
        &html! { "Clouds" },
        &html! { (counted(total, "provider", "providers")) },
        &html! {
            @if visitor.may(Scope::VmsRead) { a.button href=(VMS_PATH) { "Virtual machines" } }
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if visitor.may(Scope::ProvidersWrite) { a.button.primary href={ (PATH) "/new" } { "New provider" } }
        },
    );
    let body = html! {
        (head)
        (filter(&query, organizations))
        @if providers.data.is_empty() {
            (empty(nothing(&query, visitor.may(Scope::ProvidersWrite))))
        } @else {
            (table(&providers.data, &visitor))
        }
        (pages(&query, PATH, providers.data.len(), &providers.page))
    };
    Ok(Reply::Page(Content::new("Clouds", body).live("cloud.provider.*")))
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => {
            "There are no cloud providers yet. Connect one with New provider. A simulated one needs no credential, and is good for trying things out."
        }
        (true, false) => "There are no cloud providers that you may see.",
        (false, _) => "No provider matches. Remove a filter.",
    }
}

fn filter(query: &Query, organizations: Vec<(String, String)>) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name) && *name != "cursor");
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter providers" data-filter {
            label { "Name" input type="search" name="name" value=(query.first("name")) maxlength="100"; }
            (select(query, "kind", "Kind", or_none("Any", Kind::choices())))
            (select(query, "status", "Status", any_of(&STATUSES)))
            (select(query, "organization_id", "Organization", or_none("Any", organizations)))
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(providers: &[Provider], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Providers" {
            table.list data-rows {
                thead { tr { @for head in HEADS { th scope="col" { (head) } } } }
                tbody {
                    @for provider in providers {
                        tr {
                            td.main { a href=(provider.path()) data-record { (provider.name) } }
                            td { (title_of(&provider.kind)) }
                            td.name {
                                @match &provider.organization {
                                    Some(organization) => { (organization.link("organizations")) }
                                    None => { span.muted { "Shared" } }
                                }
                            }
                            td { (status_badge(&provider.status)) }
                            td { (allowed_badge(provider.verification.as_ref().and_then(Verification::may_provision))) }
                            td { (provider.sync.vm_count) }
                            td.time { (last_sync(provider, visitor)) }
                            td.wide { (optional(provider.problem())) }
                        }
                    }
                }
            }
        }
    }
}

fn last_sync(provider: &Provider, visitor: &Visitor<'_>) -> Markup {
    html! {
        @match &provider.sync.last_at {
            Some(at) => { (visitor.clock.relative(at)) }
            None => { span.muted { "Never" } }
        }
    }
}
