//! The list of VMs of all clouds, with counts by a field.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{
    PATH, VMS_API, VMS_PATH, filters, refresh,
    vm::{Vm, vm_rows},
};
use crate::{
    components::{Tone, bar, card, curl, empty, grouped, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, name_of, pages},
        records::PageInfo,
    },
    form::{Fields, Shown},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The most groups that a page shows.
const MOST_GROUPS: usize = 50;

#[derive(Debug, Deserialize)]
struct VmList {
    data: Vec<Vm>,
    page: PageInfo,
    #[serde(default)]
    groups: Vec<Group>,
}

/// The number of VMs with one value of a field.
#[derive(Debug, Deserialize)]
struct Group {
    value: Option<String>,
    /// The name of a provider or of an organization.
    name: Option<String>,
    count: u64,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    match filters::with_tag(&visitor.query()) {
        Some(query) => Ok(Reply::SeeOther(query.at(VMS_PATH))),
        None => page(&visitor, None).await,
    }
}

/// The list, with what was refused.
pub(super) async fn page(visitor: &Visitor<'_>, refusal: Option<Refusal>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().or("limit", "50").with("include_total", "true").at(VMS_API);
    let list: VmList = visitor.read(&target).await?;
    let offered = filters::offered(visitor).await?;
    let body = html! {
        (head(&list, &target, visitor))
        (Shown { fields: &Fields::default(), refusal: refusal.as_ref() }.summary())
        (filters::form(&query, offered))
        (filters::chips(&query))
        @if !list.groups.is_empty() { (groups(&list, &query)) }
        @if list.data.is_empty() {
            (empty(nothing(&query, visitor.may(Scope::VmsWrite))))
        } @else {
            (vm_rows(&list.data, true, visitor))
        }
        (pages(&query, VMS_PATH, list.data.len(), &list.page))
    };
    let content = Content::new("Virtual machines", body).live("vm.*");
    Ok(Reply::Page(match &refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(list: &VmList, target: &str, visitor: &Visitor<'_>) -> Markup {
    let below = match list.page.total {
        Some(total) => format!("{} as of the last sync", counted(total, "VM", "VMs")),
        None => "As of the last sync".to_owned(),
    };
    page_head(
        &html! { "Virtual machines" },
        &html! { (below) },
        &html! {
            @if visitor.may(Scope::ProvidersRead) { a.button href=(PATH) { "Providers" } }
            (curl(visitor.visit.base_url, "GET", target, None))
            (refresh::button("Sync all now", None, visitor))
            @if visitor.may(Scope::VmsWrite) { a.button.primary href={ (VMS_PATH) "/new" } { "Order VMs" } }
        },
    )
}

fn nothing(query: &Query, may_order: bool) -> &'static str {
    match (*query == Query::default(), may_order) {
        (true, true) => "There are no VMs yet. Connect a cloud provider, or order a VM from one that is connected.",
        (true, false) => "There are no VMs that you may see.",
        (false, _) => "No VM matches. Remove a filter.",
    }
}

fn groups(list: &VmList, query: &Query) -> Markup {
    let by = query.first("group_by");
    let title = filters::GROUPS.iter().find(|(value, _)| *value == by).map_or("Value", |(_, name)| *name);
    let all: u64 = list.groups.iter().map(|group| group.count).sum();
    let body = html! {
        div.scroll tabindex="0" role="group" aria-label={ "VMs by " (title.to_lowercase()) } {
            table.list {
                thead { tr { @for head in [title, "VMs", "Share"] { th scope="col" { (head) } } } }
                tbody {
                    @for group in list.groups.iter().take(MOST_GROUPS) {
                        @let percent = share(group.count, all);
                        tr {
                            td.main { (group_name(by, group, query)) }
                            td { (grouped(group.count)) }
                            td { (bar(percent, Tone::Accent, &format!("{percent} %"))) }
                        }
                    }
                }
            }
        }
        @if list.groups.len() > MOST_GROUPS { p.muted { "The page shows the first " (MOST_GROUPS) " values. The API answers all of them." } }
    };
    card(&format!("By {}", title.to_lowercase()), &body)
}

fn share(count: u64, whole: u64) -> u32 {
    count.saturating_mul(100).checked_div(whole).and_then(|percent| u32::try_from(percent).ok()).unwrap_or_default()
}

/// The value of a group, as a link to its VMs if the API has a filter for it.
fn group_name(by: &str, group: &Group, query: &Query) -> Markup {
    let Some(value) = &group.value else { return html! { span.muted { "None" } } };
    let words = match by {
        "state" => name_of(value),
        _ => group.name.clone().unwrap_or_else(|| value.clone()),
    };
    let filter = match by {
        "provider" => Some("provider_id"),
        "organization" => Some("organization_id"),
        "region" => Some("region"),
        "state" => Some("state"),
        _ => None,
    };
    let rest = || query.clone().without("group_by").without("cursor");
    html! {
        @match filter {
            Some(name) => { a href=(rest().with(name, value).at(VMS_PATH)) { (words) } }
            None => { (words) }
        }
    }
}
