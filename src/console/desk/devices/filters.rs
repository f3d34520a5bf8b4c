//! The filters of the inventory: fields, chips that remove one, and views that everyone has.

use form_urlencoded::Serializer;
use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::PATH;
use crate::{
    desk::{
        organizations::{choices, name_of, or_none},
        views::{Area, SavedView},
    },
    form::options,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) const CLASSES: [&str; 10] =
    ["workstation", "server", "vm", "hypervisor", "network", "printer", "mobile", "storage", "iot", "other"];
pub(super) const LIFECYCLES: [&str; 5] = ["active", "spare", "in_repair", "retired", "missing"];
const FAMILIES: [&str; 8] = ["windows", "macos", "linux", "esxi", "ios", "android", "network_os", "other"];
const AGENTS: [&str; 4] = ["online", "offline", "overdue", "never"];
const HEALTHS: [&str; 4] = ["healthy", "needs_attention", "unhealthy", "unknown"];
const PATCHES: [&str; 5] = ["compliant", "pending", "failing", "reboot_pending", "unknown"];
const WARRANTIES: [&str; 5] = ["active", "expiring_soon", "expired", "none", "unknown"];
/// What the API counts devices by.
pub(super) const GROUPS: [(&str, &str); 10] = [
    ("organization", "Organization"),
    ("class", "Class"),
    ("os", "Operating system"),
    ("os_version", "System version"),
    ("manufacturer", "Manufacturer"),
    ("model", "Model"),
    ("agent_status", "Agent"),
    ("patch_status", "Updates"),
    ("warranty_status", "Warranty"),
    ("software", "Software"),
];
const SORTS: [(&str, &str); 6] = [
    ("name", "Name"),
    ("-name", "Name, from the end"),
    ("-last_seen_at", "Last seen"),
    ("last_seen_at", "Longest not seen"),
    ("-updated_at", "Last changed"),
    ("-created_at", "Newest"),
];
pub(super) const VIEWS: Area = Area {
    name: "devices",
    path: PATH,
    common: &[
        ("All", ""),
        ("Servers not online", "class=server&agent_status=offline&agent_status=overdue"),
        ("Missing updates", "patch_status=pending&patch_status=failing"),
        ("Restart needed", "reboot_required=true"),
        ("Not protected", "protected=false"),
        ("Warranty ends soon", "warranty_status=expiring_soon"),
    ],
};
/// The parameters with a field in the form.
const FIELDS: [&str; 12] = [
    "q",
    "class",
    "organization_id",
    "os_family",
    "agent_status",
    "health",
    "patch_status",
    "warranty_status",
    "protected",
    "software",
    "sort",
    "group_by",
];
/// The fields that are folded away.
const FOLDED: [&str; 6] = ["os_family", "health", "patch_status", "warranty_status", "protected", "software"];
/// Parameters that do not filter.
const VIEW_PARAMETERS: [&str; 7] = ["sort", "cursor", "limit", "group_by", "rows", "sections", "include_total"];

/// What the filters offer besides fixed values.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) organizations: Vec<(String, String)>,
    pub(super) views: Option<Vec<SavedView>>,
}

/// Views, fields and chips. They look the same above the list and above the counts.
pub(super) fn controls(query: &Query, offered: &Offered, visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Markup {
    html! {
        (VIEWS.chips(query, offered.views.as_deref(), visitor, refusal))
        (form(query, &offered.organizations, visitor.may(Scope::InventoryRead)))
        (chips(query, &offered.organizations))
    }
}

/// The filter that finds the devices with a program. `None` if its name would mean something else in a filter.
pub(crate) fn software_filter(program: &str) -> Option<String> {
    // A comma separates the values of a filter, so only the text before it can be asked for.
    let (start, rest) = program.split_once(',').map_or((program, None), |(start, rest)| (start.trim(), Some(rest)));
    let is_plain = !start.is_empty() && !start.contains(['<', '>', '=', '*']);
    is_plain.then(|| if rest.is_some() { format!("{start}*") } else { start.to_owned() })
}

/// The query without what only chooses a view of the list.
pub(super) fn filters_only(query: &Query) -> Query {
    VIEW_PARAMETERS.iter().fold(query.clone(), |query, name| query.without(name))
}

/// All values of a parameter, joined as the API accepts them.
pub(crate) fn chosen(query: &Query, name: &str) -> String {
    query.pairs().filter(|(known, _)| *known == name).map(|(_, value)| value).collect::<Vec<_>>().join(",")
}

/// A `select` that keeps several values, which only a URL can have.
pub(crate) fn select(query: &Query, name: &str, label: &str, mut choices: Vec<(String, String)>) -> Markup {
    let value = chosen(query, name);
    if !choices.iter().any(|(known, _)| *known == value) {
        let words = value.split(',').map(name_of).collect::<Vec<_>>().join(" or ");
        choices.push((value.clone(), words));
    }
    html! { label { (label) select name=(name) { (options(&choices, &value)) } } }
}

pub(crate) fn any_of(values: &[&str]) -> Vec<(String, String)> {
    or_none("Any", choices(values))
}

pub(crate) fn pairs(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect()
}

fn form(query: &Query, organizations: &[(String, String)], may_count: bool) -> Markup {
    let is_grouped = !query.first("group_by").is_empty();
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name) && *name != "cursor" && !(is_grouped && *name == "rows"));
    let is_unfolded = FOLDED.iter().any(|name| !query.first(name).is_empty());
    let sort = if query.first("sort").is_empty() { query.clone().with("sort", "name") } else { query.clone() };
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter devices" data-filter {
            label { "Words" input type="search" name="q" value=(query.first("q")) maxlength="200"; }
            (select(query, "class", "Class", any_of(&CLASSES)))
            (select(query, "organization_id", "Organization", or_none("Any", organizations.to_vec())))
            (select(query, "agent_status", "Agent", any_of(&AGENTS)))
            (select(&sort, "sort", "Sort", pairs(&SORTS)))
            @if may_count { (select(query, "group_by", "Count by", or_none("Nothing: list devices", pairs(&GROUPS)))) }
            details.more open[is_unfolded] {
                summary { "More filters" }
                div.filter-fields {
                    (select(query, "os_family", "System", any_of(&FAMILIES)))
                    (select(query, "health", "Health", any_of(&HEALTHS)))
                    (select(query, "patch_status", "Updates", any_of(&PATCHES)))
                    (select(query, "warranty_status", "Warranty", any_of(&WARRANTIES)))
                    (select(query, "protected", "Backup", or_none("Any", pairs(&[("true", "Protected"), ("false", "Not protected")]))))
                    label {
                        "Software"
                        input type="text" name="software" value=(chosen(query, "software")) placeholder="Google Chrome<131" maxlength="400" aria-describedby="software-hint";
                    }
                }
                p.hint #software-hint {
                    "The name of a program finds who has it. " code { "Google*" } " matches the beginning of a name, and "
                    code { "Google Chrome<131" } " compares versions."
                }
            }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

/// The filters that are chosen. Each chip removes one.
fn chips(query: &Query, organizations: &[(String, String)]) -> Markup {
    let chosen: Vec<(&str, &str)> = query.pairs().filter(|(name, _)| !VIEW_PARAMETERS.contains(name)).collect();
    html! {
        @if !chosen.is_empty() {
            nav.chips aria-label="Chosen filters" {
                @for (name, value) in &chosen {
                    @let label = format!("{}: {}", label_of(name), value_of(name, value, organizations));
                    a.chip.chosen href=(without_pair(query, name, value).at(PATH)) aria-label={ "Remove the filter " (label) } {
                        (label) " " span aria-hidden="true" { "×" }
                    }
                }
                @if chosen.len() > 1 { a.chip href=(PATH) { "Remove all filters" } }
            }
        }
    }
}

pub(crate) fn without_pair(query: &Query, name: &str, value: &str) -> Query {
    let mut text = Serializer::new(String::new());
    text.extend_pairs(query.pairs().filter(|pair| *pair != (name, value) && pair.0 != "cursor"));
    Query::parse(&text.finish())
}

fn label_of(name: &str) -> String {
    match name {
        "q" => "Words".to_owned(),
        "organization_id" => "Organization".to_owned(),
        "owner_id" => "Owner".to_owned(),
        "os_family" => "System".to_owned(),
        "agent_status" => "Agent".to_owned(),
        "patch_status" => "Updates".to_owned(),
        "warranty_status" => "Warranty".to_owned(),
        "protected" => "Backup".to_owned(),
        "software_missing" => "Without software".to_owned(),
        "reboot_required" => "Restart needed".to_owned(),
        "ip" => "IP address".to_owned(),
        "mac" => "MAC address".to_owned(),
        other => name_of(other),
    }
}

fn value_of(name: &str, value: &str, organizations: &[(String, String)]) -> String {
    match (name, value) {
        ("organization_id", id) => {
            organizations.iter().find(|(known, _)| known == id).map_or_else(|| id.to_owned(), |(_, name)| name.clone())
        }
        ("protected", "true") => "protected".to_owned(),
        ("protected", "false") => "not protected".to_owned(),
        ("reboot_required", "true") => "yes".to_owned(),
        ("reboot_required", "false") => "no".to_owned(),
        ("class" | "os_family" | "agent_status" | "health" | "patch_status" | "warranty_status" | "lifecycle", values) => {
            values.split(',').map(name_of).collect::<Vec<_>>().join(" or ")
        }
        (_, value) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_removes_its_own_value_and_the_page() {
        let query = Query::parse("class=server&class=vm&q=a+b&cursor=x");
        assert_eq!(without_pair(&query, "class", "vm").text(), "class=server&q=a+b");
        assert_eq!(filters_only(&Query::parse("sort=name&group_by=os&class=vm&cursor=x")).text(), "class=vm");
    }

    #[test]
    fn a_field_keeps_several_values() {
        let shown = select(&Query::parse("class=server&class=vm"), "class", "Class", any_of(&CLASSES)).into_string();
        assert!(shown.contains("value=\"server,vm\" selected>Server or Virtual machine"), "{shown}");
    }
}
