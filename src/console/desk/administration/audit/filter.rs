//! The filters of the audit. A day in the URL is a day of the reader; the API takes moments.

use jiff::{civil::Date, tz::TimeZone};
use maud::{Markup, html};

use tenantd_base::clock::Timestamp;

use super::PATH;
use crate::{form::options, query::Query};

const SORTS: [(&str, &str); 2] = [("", "Newest first"), ("at", "Oldest first")];
/// Patterns that the field for actions suggests.
const ACTIONS: [&str; 14] = [
    "api_key.*",
    "auth.*",
    "auth.login_failed",
    "backup.*",
    "cloud.*",
    "export.*",
    "identity_provider.*",
    "operator.*",
    "secret.*",
    "sla.updated",
    "tenant.*",
    "user.*",
    "webhook.*",
    "workflow.*",
];
const FIELDS: [&str; 8] = ["action", "actor_id", "resource_kind", "resource_id", "since", "until", "sort", "cursor"];

pub(super) fn form(query: &Query) -> Markup {
    let sorts: Vec<(String, String)> = SORTS.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name));
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter the audit" data-filter {
            label { "Action" input type="text" name="action" value=(query.first("action")) list="audit-actions" placeholder="user.*"; }
            datalist id="audit-actions" { @for action in ACTIONS { option value=(action) {} } }
            (text(query, "actor_id", "Actor ID"))
            (text(query, "resource_kind", "Kind of resource"))
            (text(query, "resource_id", "Resource ID"))
            (day(query, "since", "From"))
            (day(query, "until", "To"))
            label { "Sort" select name="sort" { (options(&sorts, query.first("sort"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn text(query: &Query, name: &str, label: &str) -> Markup {
    html! { label { (label) input type="text" name=(name) value=(query.first(name)); } }
}

/// A field for a day. A moment that a link has brought here is kept as text.
fn day(query: &Query, name: &str, label: &str) -> Markup {
    let value = query.first(name);
    let kind = if value.is_empty() || date(value).is_some() { "date" } else { "text" };
    html! { label { (label) input type=(kind) name=(name) value=(value); } }
}

fn date(text: &str) -> Option<Date> {
    let is_day = text.len() == "2026-01-31".len();
    text.parse().ok().filter(|_| is_day)
}

/// The query for the API: `since` is the start of a day, `until` the end of one. What is no day goes to the API as it is.
pub(super) fn asked(query: &Query, zone: &TimeZone) -> Query {
    let since = date(query.first("since"));
    let until = date(query.first("until")).and_then(|date| date.tomorrow().ok());
    let days = [("since", since), ("until", until)];
    days.into_iter().fold(query.clone(), |query, (name, date)| match date.and_then(|date| start(date, zone)) {
        Some(moment) => query.with(name, &moment),
        None => query,
    })
}

fn start(date: Date, zone: &TimeZone) -> Option<String> {
    let start = date.to_zoned(zone.clone()).ok()?.timestamp();
    Some(Timestamp::from_millis(start.as_millisecond()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_reader_and_the_last_one_is_included() {
        let zone = tenantd_base::zones::find("Europe/Berlin").unwrap();
        let asked = |text: &str| asked(&Query::parse(text), &zone);
        let days = asked("since=2026-11-01&until=2026-11-01&action=user.*");
        assert_eq!(days.first("since"), "2026-10-31T23:00:00.000Z");
        assert_eq!(days.first("until"), "2026-11-01T23:00:00.000Z");
        assert_eq!(days.first("action"), "user.*");
        assert_eq!(asked("since=2026-11-01T10:00:00Z").first("since"), "2026-11-01T10:00:00Z");
        assert_eq!(asked("until=soon").first("until"), "soon");
    }
}
