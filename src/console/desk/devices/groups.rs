//! Devices counted by a field, as bars. Each group links to its devices.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;

use super::{
    INVENTORY_API, PATH,
    filters::{GROUPS, filters_only, software_filter},
};
use crate::{
    components::{Tone, bar, card, curl, empty, facts, grouped, page_head},
    desk::{
        Content,
        organizations::{counted, name_of},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// The most groups that a page shows.
const MOST: usize = 100;

/// The report. Nothing if the filters are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    groups: Groups,
    totals: Totals,
}

#[derive(Debug, Default, Deserialize)]
struct Groups {
    values: Vec<Group>,
    others: u64,
    devices: u64,
}

#[derive(Debug, Deserialize)]
struct Group {
    value: Option<String>,
    /// The name of an organization.
    name: Option<String>,
    count: u64,
}

#[derive(Debug, Default, Deserialize)]
struct Totals {
    organizations: u64,
    health: BTreeMap<String, u64>,
    missing_critical_patches: u64,
    reboot_required: u64,
    unprotected: u64,
    os_past_eol: u64,
    unencrypted: u64,
}

/// The page of `/devices?group_by=…`.
pub(super) async fn show(visitor: Visitor<'_>, query: &Query, controls: &Markup) -> Result<Content, Refusal> {
    let by = query.first("group_by").to_owned();
    let title = GROUPS.iter().find(|(value, _)| *value == by).map_or("Field", |(_, name)| *name);
    let target = filters_only(query).with("group_by", &by).with("summary", "true").at(INVENTORY_API);
    let report: Report = visitor.read(&target).await?;
    let count = report.groups.devices;
    let head = page_head(
        &html! { "Devices" },
        &html! {
            (counted(count, "device", "devices")) " of " (counted(report.totals.organizations, "organization", "organizations"))
        },
        &html! {
            a.button href=(filters_only(query).at(PATH)) { "List devices" }
            (curl(visitor.visit.base_url, "GET", &target, None))
        },
    );
    let body = html! {
        (head)
        (controls)
        @if count == 0 {
            (empty("No device matches. Remove a filter."))
        } @else {
            (card("At a glance", &glance(&report.totals, query)))
            (card(&format!("By {}", title.to_lowercase()), &table(title, &by, &report.groups, query)))
        }
    };
    Ok(Content::new(format!("Devices by {}", title.to_lowercase()), body))
}

fn glance(totals: &Totals, query: &Query) -> Markup {
    let filters = filters_only(query);
    let linked = |count: u64, name: &str, value: &str| {
        html! { a href=(filters.clone().with(name, value).at(PATH)) { (counted(count, "device", "devices")) } }
    };
    let health = |value: &str| linked(totals.health.get(value).copied().unwrap_or_default(), "health", value);
    facts(&[
        ("Unhealthy", Some(health("unhealthy"))),
        ("Needs attention", Some(health("needs_attention"))),
        ("Restart needed", Some(linked(totals.reboot_required, "reboot_required", "true"))),
        ("Not protected by backups", Some(linked(totals.unprotected, "protected", "false"))),
        ("Missing critical updates", Some(html! { (totals.missing_critical_patches) })),
        ("System no longer supported", Some(html! { (counted(totals.os_past_eol, "device", "devices")) })),
        ("Unencrypted volume", Some(html! { (counted(totals.unencrypted, "device", "devices")) })),
    ])
}

fn table(title: &str, by: &str, groups: &Groups, query: &Query) -> Markup {
    let shown = groups.values.iter().take(MOST);
    let hidden: u64 = groups.values.iter().skip(MOST).map(|group| group.count).sum::<u64>() + groups.others;
    html! {
        div.scroll tabindex="0" role="group" aria-label={ "Devices by " (title.to_lowercase()) } {
            table.list data-rows {
                thead { tr { @for head in [title, "Devices", "Share"] { th scope="col" { (head) } } } }
                tbody {
                    @for group in shown {
                        @let percent = share(group.count, groups.devices);
                        tr {
                            td.main { (name(by, group, query)) }
                            td { (grouped(group.count)) }
                            td { (bar(percent, Tone::Accent, &format!("{percent} %"))) }
                        }
                    }
                }
            }
        }
        @if hidden > 0 {
            p.muted { "The page shows the most frequent values. All others together are counted " (hidden) " times. Filter to see them, or use the API." }
        }
    }
}

fn share(count: u64, whole: u64) -> u32 {
    count.saturating_mul(100).checked_div(whole).and_then(|percent| u32::try_from(percent).ok()).unwrap_or(100)
}

/// The value of a group as a link to its devices.
fn name(by: &str, group: &Group, query: &Query) -> Markup {
    let Some(value) = &group.value else { return html! { span.muted { "Unknown" } } };
    let words = match by {
        "class" | "agent_status" | "patch_status" | "warranty_status" => name_of(value),
        _ => group.name.clone().unwrap_or_else(|| value.clone()),
    };
    let filters = narrowed(by, value);
    if filters.is_empty() {
        return html! { (words) };
    }
    let chosen = filters.into_iter().fold(filters_only(query), |query, (name, value)| query.with(name, &value));
    html! { a href=(chosen.at(PATH)) data-record { (words) } }
}

/// The filters of the list that find the devices of a group.
fn narrowed(by: &str, value: &str) -> Vec<(&'static str, String)> {
    // A comma separates the values of a filter, so only the text before it can be asked for.
    let exact = || match value.split_once(',') {
        Some((first, _)) => first.trim().to_owned(),
        None => format!("\"{value}\""),
    };
    match by {
        "organization" => vec![("organization_id", value.to_owned())],
        "class" => vec![("class", value.to_owned())],
        "os" => vec![("os_name", exact())],
        "os_version" if value.contains(',') => vec![("os_name", exact())],
        "os_version" => vec![("os_version", value.to_owned())],
        "manufacturer" => vec![("manufacturer", exact())],
        "model" => vec![("model", exact())],
        "agent_status" => vec![("agent_status", value.to_owned())],
        "patch_status" => vec![("patch_status", value.to_owned())],
        "warranty_status" => vec![("warranty_status", value.to_owned())],
        "software" => software_filter(value).map(|filter| ("software", filter)).into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_links_to_filters_that_find_its_devices() {
        let pairs = |by: &str, value: &str| format!("{:?}", narrowed(by, value));
        assert_eq!(pairs("os_version", "Windows 11 Pro 24H2"), r#"[("os_version", "Windows 11 Pro 24H2")]"#);
        assert_eq!(pairs("manufacturer", "HP"), r#"[("manufacturer", "\"HP\"")]"#);
        assert_eq!(pairs("manufacturer", "VMware, Inc."), r#"[("manufacturer", "VMware")]"#);
        assert_eq!(pairs("software", "Tool, x64"), r#"[("software", "Tool*")]"#);
        assert_eq!((share(1, 3), share(0, 0)), (33, 100));
    }
}
