//! The fields of an endpoint in a form.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{
    kinds::{Kind, area_name},
    one::{order_words, retry_words},
    record::Endpoint,
};
use crate::{
    desk::organizations::{choices, counted},
    form::{Control, Fields, Shown},
};

const PRIORITIES: [&str; 4] = ["critical", "high", "medium", "low"];
/// Where errors of the API belong in the form.
pub(super) const PLACES: [(&str, &str); 3] = [
    ("/filter/organization_ids", "organization_ids"),
    ("/filter/priorities", "priorities"),
    ("/filter/exclude_actor_ids", "exclude_actor_ids"),
];

/// What the form offers.
#[derive(Debug)]
pub(super) struct Offered<'a> {
    pub(super) areas: BTreeMap<&'a str, Vec<&'a Kind>>,
    pub(super) organizations: Vec<(String, String)>,
    /// The custom headers that are stored.
    pub(super) header_names: &'a [String],
}

impl Offered<'_> {
    /// Whether the form has a box for a kind or a pattern.
    fn has(&self, event: &str) -> bool {
        let is_area = event.strip_suffix(".*").is_some_and(|area| self.areas.contains_key(area));
        event == "*" || is_area || self.areas.values().flatten().any(|kind| kind.name == event)
    }

    /// The form of an endpoint before it is changed.
    pub(super) fn fields_of(&self, endpoint: &Endpoint) -> Fields {
        let (ticked, written): (Vec<&String>, Vec<&String>) = endpoint.events.iter().partition(|event| self.has(event));
        let patterns = written.into_iter().cloned().collect::<Vec<_>>().join(", ");
        let limit = endpoint.rate_limit_per_second.map(|limit| limit.to_string());
        let single = [
            ("name", endpoint.name.clone()),
            ("url", endpoint.url.clone()),
            ("description", endpoint.description.clone().unwrap_or_default()),
            ("patterns", patterns),
            ("exclude_actor_ids", endpoint.filter.exclude_actor_ids.join(", ")),
            ("ordering", endpoint.ordering.clone()),
            ("retry", endpoint.retry.clone()),
            ("timeout_seconds", endpoint.timeout_seconds.to_string()),
            ("rate_limit_per_second", limit.unwrap_or_default()),
            ("ca_certificate_pem", endpoint.ca_certificate_pem.clone().unwrap_or_default()),
        ];
        let several = [("organization_ids", &endpoint.filter.organization_ids), ("priorities", &endpoint.filter.priorities)];
        let several = several.into_iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value.clone())));
        let events = ticked.into_iter().map(|event| ("events", event.clone()));
        let all = single.into_iter().chain(several).chain(events);
        Fields::new(&all.map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>())
    }

    pub(super) fn show(&self, shown: Shown<'_>) -> Markup {
        let is_open = ["organization_ids", "priorities", "exclude_actor_ids", "headers", "ordering", "retry", "timeout_seconds"]
            .into_iter()
            .chain(["rate_limit_per_second", "ca_certificate_pem"])
            .any(|name| shown.refusal.is_some_and(|refusal| refusal.about(name).is_some()));
        html! {
            (shown.field("name", "Name", Control::Input("text"), "", true))
            (shown.field("url", "URL", Control::Input("url"), "Where tenantd sends the events. http or https, without a user name or a password.", true))
            (shown.field("description", "Description", Control::Text { rows: 2 }, "", false))
            (self.events(shown))
            (shown.field("patterns", "More kinds of events", Control::Input("text"), "Names or patterns such as workflow.run.*, separated by commas.", false))
            details open[is_open || is_filtered(shown)] {
                summary { "Filter" }
                (self.filter(shown))
            }
            details open[is_open] {
                summary { "Headers, retries and limits" }
                (self.sending(shown))
            }
        }
    }

    /// All kinds that the reader may read, by area.
    fn events(&self, shown: Shown<'_>) -> Markup {
        let ticked = shown.fields.all("events");
        let problem = shown.refusal.and_then(|refusal| refusal.about("events"));
        let tick = |value: &str, words: &Markup| {
            html! {
                label {
                    input type="checkbox" name="events" value=(value) checked[ticked.contains(&value)];
                    span { code { (value) } " " span.muted { (words) } }
                }
            }
        };
        html! {
            fieldset.choices #events tabindex="-1" aria-describedby=[problem.map(|_| "events-problem")] {
                legend { "Events" }
                @if let Some(problem) = problem { p.problem #events-problem { (problem) } }
                (tick("*", &html! { "All events that you may read" }))
                @for (area, kinds) in &self.areas {
                    @let pattern = format!("{area}.*");
                    @let count = kinds.iter().filter(|kind| ticked.contains(&kind.name.as_str())).count();
                    @let has_all = ticked.contains(&pattern.as_str());
                    details open[has_all || count > 0] {
                        summary {
                            (area_name(area)) " "
                            span.muted {
                                (counted(kinds.len() as u64, "kind", "kinds"))
                                @if has_all { ", all chosen" } @else if count > 0 { ", " (count) " chosen" }
                            }
                        }
                        (tick(&pattern, &html! { "All of these, and those that later releases add" }))
                        @for kind in kinds { (tick(&kind.name, &html! { (kind.summary) })) }
                    }
                }
            }
        }
    }

    fn filter(&self, shown: Shown<'_>) -> Markup {
        // An organization that is not offered, because the reader may not see it, stays chosen.
        let mut organizations = self.organizations.clone();
        for id in shown.fields.all("organization_ids") {
            if !organizations.iter().any(|(known, _)| known == id) {
                organizations.push((id.to_owned(), id.to_owned()));
            }
        }
        html! {
            (boxes(shown, "priorities", "Only tickets with these priorities", &choices(&PRIORITIES)))
            @if !organizations.is_empty() { (boxes(shown, "organization_ids", "Only records of these organizations", &organizations)) }
            (shown.field("exclude_actor_ids", "Not caused by", Control::Input("text"), "IDs of users, API keys or workflows, separated by commas. An integration can leave out its own changes.", false))
        }
    }

    fn sending(&self, shown: Shown<'_>) -> Markup {
        let named = |values: &[&str], words: fn(&str) -> String| {
            values.iter().map(|value| ((*value).to_owned(), words(value))).collect::<Vec<_>>()
        };
        let (orders, retries) = (named(&["none", "per_resource"], order_words), named(&["standard", "fast", "long"], retry_words));
        let (stored, number) = (self.header_names, Control::Input("number"));
        let hint = "One on each line, such as x-room: operations. You cannot read the values later.";
        html! {
            (shown.field("headers", "Custom headers", Control::Text { rows: 3 }, hint, false))
            @if !stored.is_empty() {
                p.hint {
                    "Stored: " (stored.join(", ")) ". Headers that you enter replace them. "
                    "If you change the scheme, host or port of the URL, or the certificates, enter them again: tenantd removes the stored values."
                }
                label.check { input type="checkbox" name="remove_headers" value="true" checked[shown.fields.has("remove_headers")]; "Remove the stored headers" }
            }
            (shown.field("ordering", "Order", Control::Choice(&orders), "In order: an event waits until every earlier event of the same record is settled.", true))
            (shown.field("retry", "Retries", Control::Choice(&retries), "", true))
            (shown.field("timeout_seconds", "Timeout in seconds", number, "1 to 60, for the whole exchange.", false))
            (shown.field("rate_limit_per_second", "Deliveries a second", number, "1 to 1,000. Leave it empty for no limit.", false))
            (shown.field("ca_certificate_pem", "Certificates", Control::Text { rows: 3 }, "PEM certificates of the authorities to trust instead of the usual ones.", false))
        }
    }
}

/// Whether a value of the filter is chosen.
fn is_filtered(shown: Shown<'_>) -> bool {
    ["organization_ids", "priorities", "exclude_actor_ids"].into_iter().any(|name| !shown.fields.get(name).is_empty())
}

/// Boxes of which several can be ticked.
fn boxes(shown: Shown<'_>, name: &str, legend: &str, offered: &[(String, String)]) -> Markup {
    let ticked = shown.fields.all(name);
    let (problem, problem_id) = (shown.refusal.and_then(|refusal| refusal.about(name)), format!("{name}-problem"));
    html! {
        fieldset.choices.many id=(name) tabindex="-1" aria-describedby=[problem.map(|_| problem_id.as_str())] {
            legend { (legend) " " span.optional { "optional" } }
            @if let Some(problem) = problem { p.problem id=(problem_id) { (problem) } }
            @for (value, words) in offered {
                label {
                    input type="checkbox" name=(name) value=(value) checked[ticked.contains(&value.as_str())];
                    span { (words) }
                }
            }
        }
    }
}
