//! The list of tenants.

use maud::{Markup, html};

use super::{API, HOME, PATH, Tenant};
use crate::{
    components::{curl, empty, page_head, words},
    desk::{
        Content, Reply,
        organizations::{choices, counted, optional, or_none, pages, trail},
        records::List,
    },
    form::options,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const STATUSES: [&str; 5] = ["active", "suspended", "preparing", "filling", "deleting"];
const HEADS: [&str; 7] = ["Name", "Slug", "Kind", "Status", "Events", "Last event", "Expires"];

pub(super) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().or("limit", "50").with("include_total", "true").at(API);
    let tenants: List<Tenant> = visitor.read(&target).await?;
    let total = tenants.page.total.unwrap_or_default();
    let body = html! {
        (trail(&[(HOME, "Operator")]))
        (page_head(
            &html! { "Tenants" },
            &html! { (counted(total, "tenant", "tenants")) ", oldest first" },
            &html! {
                (curl(visitor.visit.base_url, "GET", &target, None))
                a.button.primary href={ (PATH) "/new" } { "New tenant" }
            },
        ))
        (filter(&query))
        @if tenants.data.is_empty() {
            (empty("No tenant matches. Enter the whole slug, or remove a filter."))
        } @else {
            (table(&tenants.data, &visitor))
        }
        (pages(&query, PATH, tenants.data.len(), &tenants.page))
    };
    Ok(Reply::Page(Content::new("Tenants", body).live("tenant.*")))
}

fn filter(query: &Query) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "slug" | "status" | "cursor"));
    let statuses = or_none("Any", choices(&STATUSES));
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter tenants" data-filter {
            label { "Slug" input type="search" name="slug" value=(query.first("slug")) maxlength="63"; }
            label { "Status" select name="status" { (options(&statuses, query.first("status"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(tenants: &[Tenant], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Tenants" {
            table.list data-rows {
                thead { tr { @for head in HEADS { th scope="col" { (head) } } } }
                tbody { @for tenant in tenants { (row(tenant, visitor)) } }
            }
        }
    }
}

fn row(tenant: &Tenant, visitor: &Visitor<'_>) -> Markup {
    let time = |text: Option<&str>| text.map_or_else(|| optional(None), |text| visitor.clock.relative(text));
    html! {
        tr {
            td.main { a href=(tenant.path()) data-record { (tenant.name) } }
            td { code { (tenant.slug) } }
            td { (words(&tenant.kind)) }
            td { (tenant.status_badge()) }
            td { @match &tenant.activity { Some(activity) => { (activity.events) } None => { (optional(None)) } } }
            td.time { (time(tenant.activity.as_ref().map(|activity| activity.last_event_at.as_str()))) }
            td.time { (time(tenant.expires_at.as_deref())) }
        }
    }
}
