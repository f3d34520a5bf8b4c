//! The form that chooses metrics, the period, the buckets and the groups.

use maud::{Markup, html};

use super::{PATH, metric, request};
use crate::{
    desk::{
        devices::{pairs, select},
        organizations::or_none,
    },
    query::Query,
};

const RANGES: [(&str, &str); 7] = [
    ("24h", "24 hours"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("12mo", "12 months"),
    ("mtd", "This month"),
    ("ytd", "This year"),
];
const BUCKETS: [(&str, &str); 4] = [("hour", "Hour"), ("day", "Day"), ("week", "Week"), ("month", "Month")];
/// What each group separates.
const GROUPS: [(&str, &str); 9] = [
    ("priority", "Priority (tickets)"),
    ("organization", "Organization (tickets)"),
    ("status", "Status (unfinished tickets)"),
    ("workflow", "Workflow (runs)"),
    ("outcome", "Outcome (runs, backups, deliveries)"),
    ("state", "State (VMs)"),
    ("key", "Key or user (API requests)"),
    ("route", "Operation (API requests)"),
    ("status_class", "Status class (API requests)"),
];
const COMPARE: [(&str, &str); 1] = [("previous_period", "The period before")];
/// The parameters with a field in the form.
const FIELDS: [&str; 7] = ["range", "from", "to", "bucket", "group_by", "compare", "metrics"];

/// `known` are the metrics that the reader may read, `shown` those on the page.
pub(super) fn form(query: &Query, known: &[&str], shown: &[&str]) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name));
    let range = if query.first("from").is_empty() { query.clone().or("range", "30d") } else { query.clone().without("range") };
    let is_unfolded = !query.first("from").is_empty();
    html! {
        form.filter.analytics method="get" action=(PATH) aria-label="Choose what to show" {
            (select(&range, "range", "Period", or_none("From and to", pairs(&RANGES))))
            (select(query, "bucket", "By", or_none("Automatic", pairs(&BUCKETS))))
            (select(query, "group_by", "Group by", or_none("Nothing", pairs(&GROUPS))))
            (select(query, "compare", "Compare with", or_none("Nothing", pairs(&COMPARE))))
            details.more open[is_unfolded] {
                summary { "From and to" }
                div.filter-fields {
                    (day(query, "from", "First day"))
                    (day(query, "to", "Last day"))
                }
                p.hint { "A first day replaces the period. Without a last day, the report ends now." }
            }
            details.more {
                summary { "Metrics" }
                @for (area, metrics) in metric::by_area(known) { (choices(area, &metrics, shown, query)) }
                p.hint { "Without a choice, the page shows the usual metrics, or with groups all that can be grouped." }
            }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button.primary { "Show" }
        }
    }
}

fn day(query: &Query, name: &str, label: &str) -> Markup {
    // A time in the URL is shown as its day.
    let value = query.first(name).get(..10).unwrap_or_default();
    html! { label { (label) input type="date" name=(name) value=(value); } }
}

fn choices(area: &str, metrics: &[&str], shown: &[&str], query: &Query) -> Markup {
    // What is shown without a choice is not chosen: another group must be able to show other metrics.
    let is_chosen = !request::metrics(query).is_empty();
    html! {
        fieldset.choices {
            legend { (area) }
            div.filter-fields {
                @for name in metrics {
                    label.check {
                        input type="checkbox" name="metrics" value=(name) checked[is_chosen && shown.contains(name)];
                        (metric::title(name))
                    }
                }
            }
        }
    }
}

/// The words for a bucket, such as `day`.
pub(super) fn bucket_words(bucket: &str) -> String {
    BUCKETS.iter().find(|(value, _)| *value == bucket).map_or(bucket, |(_, words)| *words).to_lowercase()
}
