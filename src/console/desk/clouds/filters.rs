//! The filters of the list of VMs.

use maud::{Markup, html};

use super::{API, VMS_PATH, fields::Kind, vm::STATES};
use crate::{
    desk::{
        devices::{any_of, pairs, select, without_pair},
        organizations::{named_choices, or_none, organization_choices},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// What the API counts VMs by.
pub(super) const GROUPS: [(&str, &str); 5] =
    [("provider", "Provider"), ("region", "Region"), ("state", "State"), ("size", "Size"), ("organization", "Organization")];
/// The parameters with a field in the form.
const FIELDS: [&str; 10] = ["name", "provider_id", "kind", "state", "organization_id", "region", "ip", "tag", "stale", "group_by"];
/// The fields that are folded away.
const FOLDED: [&str; 5] = ["kind", "region", "ip", "tag", "stale"];

/// The records that the filters offer.
#[derive(Debug)]
pub(super) struct Offered {
    providers: Vec<(String, String)>,
    organizations: Vec<(String, String)>,
}

pub(super) async fn offered(visitor: &Visitor<'_>) -> Result<Offered, Refusal> {
    let providers = named_choices(visitor, &format!("{API}?limit=200"), None).await?;
    Ok(Offered { providers, organizations: organization_choices(visitor, None).await? })
}

/// A tag with its value, which people type into one field: `tag=role=web` is `tag.role=web` in the API. `None` if there is nothing to
/// change.
pub(super) fn with_tag(query: &Query) -> Option<Query> {
    let (key, value) = query.first("tag").split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let rest = query.clone().without("tag").without("cursor");
    Some(match (key, value) {
        ("", _) => rest,
        (key, "") => rest.with("tag", key),
        (key, value) => rest.with(&format!("tag.{key}"), value),
    })
}

pub(super) fn form(query: &Query, offered: Offered) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name) && *name != "cursor");
    let is_unfolded = FOLDED.iter().any(|name| !query.first(name).is_empty());
    let text = |name: &str, label: &str, example: &str| {
        html! { label { (label) input type="text" name=(name) value=(query.first(name)) placeholder=(example) maxlength="400"; } }
    };
    html! {
        form.filter method="get" action=(VMS_PATH) role="search" aria-label="Filter VMs" data-filter {
            label { "Name" input type="search" name="name" value=(query.first("name")) maxlength="100"; }
            (select(query, "state", "State", any_of(&STATES)))
            (select(query, "provider_id", "Provider", or_none("Any", offered.providers)))
            (select(query, "organization_id", "Organization", or_none("Any", offered.organizations)))
            (select(query, "group_by", "Count by", or_none("Nothing", pairs(&GROUPS))))
            details.more open[is_unfolded] {
                summary { "More filters" }
                div.filter-fields {
                    (select(query, "kind", "Kind of cloud", or_none("Any", Kind::choices())))
                    (text("region", "Region", "eu-west-1"))
                    (text("ip", "IP address", "10.0.0.4"))
                    (text("tag", "Tag", "role=web"))
                    (select(query, "stale", "Data", or_none("Any", pairs(&[("false", "Up to date"), ("true", "Stale")]))))
                }
                p.hint { "A tag with its value, such as " code { "role=web" } ", or only the name of a tag that has no value." }
            }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

/// The filters without a field of their own. Each chip removes one.
pub(super) fn chips(query: &Query) -> Markup {
    let chosen: Vec<(&str, &str)> = query.pairs().filter(|(name, _)| is_chip(name)).collect();
    html! {
        @if !chosen.is_empty() {
            nav.chips aria-label="Chosen filters" {
                @for (name, value) in &chosen {
                    @let label = chip_words(name, value);
                    a.chip.chosen href=(without_pair(query, name, value).at(VMS_PATH)) aria-label={ "Remove the filter " (label) } {
                        (label) " " span aria-hidden="true" { "×" }
                    }
                }
            }
        }
    }
}

fn is_chip(name: &str) -> bool {
    name.starts_with("tag.") || name.starts_with("tag[") || name == "operation_id"
}

fn chip_words(name: &str, value: &str) -> String {
    let key = name.strip_prefix("tag.").or_else(|| name.strip_prefix("tag[")?.strip_suffix(']'));
    match key {
        Some(key) => format!("Tag: {key}={value}"),
        None => format!("Operation: {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_with_its_value_becomes_the_parameter_of_the_api() {
        let of = |text: &str| with_tag(&Query::parse(text)).map(|query| query.text());
        assert_eq!(of("state=running&tag=role%3Dweb&cursor=x").as_deref(), Some("state=running&tag.role=web"));
        assert_eq!((of("tag=role%3D").as_deref(), of("tag=%3Dweb").as_deref()), (Some("tag=role"), Some("")));
        assert_eq!((of("tag=role"), of("state=running")), (None, None));
    }

    #[test]
    fn a_filter_by_tag_has_a_chip() {
        let shown = chips(&Query::parse("tag.role=web&state=running&operation_id=op_1")).into_string();
        assert!(shown.contains("Tag: role=web") && shown.contains("Operation: op_1") && !shown.contains("running<"), "{shown}");
        assert_eq!(chip_words("tag[role]", "web"), "Tag: role=web");
    }
}
