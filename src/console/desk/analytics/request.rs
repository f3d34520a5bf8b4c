//! The request that the URL of the page asks for. The parameters have the names of the API. `from` and `to` can also be days.

use jiff::{civil::Date, tz::TimeZone};

use tenantd_base::zones;

use crate::{analytics::SHOWN, moment::Clock, query::Query};

/// The parameters that the page passes on as they are.
const PASSED: [&str; 5] = ["range", "bucket", "group_by", "compare", "timezone"];
/// The names of zones are shorter, in bytes.
const MAX_ZONE_NAME: usize = 64;

/// The metrics that the URL names, also several in one parameter.
pub(super) fn metrics(query: &Query) -> Vec<&str> {
    let values = query.pairs().filter(|(name, _)| *name == "metrics").map(|(_, value)| value);
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// The metrics to ask for. Without a choice these are the usual ones, or with groups all that can be grouped.
pub(super) fn chosen<'a>(query: &'a Query, known: &[&'a str]) -> Vec<&'a str> {
    let named = metrics(query);
    if !named.is_empty() || !query.first("group_by").is_empty() {
        return named;
    }
    let usual: Vec<&str> = known.iter().copied().filter(|name| SHOWN.iter().any(|(shown, _)| shown == name)).collect();
    if usual.is_empty() { known.to_vec() } else { usual }
}

/// The parameters of the API.
pub(super) fn asked(query: &Query, metrics: &[&str], clock: &Clock) -> Query {
    let passed = query.pairs().filter(|(name, _)| PASSED.contains(name));
    let asked = passed.fold(Query::default(), |asked, (name, value)| asked.with(name, value));
    let asked = asked.or("timezone", clock.zone_name());
    let asked = metrics.iter().fold(asked, |asked, name| asked.and("metrics", name));
    if query.first("from").is_empty() {
        return asked.or("range", "30d");
    }
    let zone = Some(asked.first("timezone")).filter(|name| name.len() <= MAX_ZONE_NAME).and_then(|name| zones::find(name).ok());
    let zone = zone.unwrap_or(TimeZone::UTC);
    let asked = asked.without("range").with("from", &moment(query.first("from"), &zone, false));
    match query.first("to") {
        "" => asked,
        to => asked.with("to", &moment(to, &zone, true)),
    }
}

/// A day as its first moment, or as the first moment after it. Other text is passed on, so that the API says what is wrong.
fn moment(text: &str, zone: &TimeZone, is_end: bool) -> String {
    let day = text.parse::<Date>().ok().filter(|_| text.len() == "2026-01-31".len());
    let day = if is_end { day.and_then(|day| day.tomorrow().ok()) } else { day };
    let start = day.and_then(|day| day.to_zoned(zone.clone()).ok());
    start.map_or_else(|| text.to_owned(), |start| start.timestamp().to_string())
}

#[cfg(test)]
mod tests {
    use tenantd_base::clock::Timestamp;

    use super::*;

    fn clock() -> Clock {
        Clock { now: Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap(), zone: zones::find("Europe/Berlin").unwrap() }
    }

    #[test]
    fn a_url_is_a_request_to_the_api() {
        let query = Query::parse("metrics=vms,devices&metrics=api_requests&bucket=week&cursor=x");
        let asked = asked(&query, &metrics(&query), &clock());
        assert_eq!(asked.text(), "bucket=week&timezone=Europe%2FBerlin&metrics=vms&metrics=devices&metrics=api_requests&range=30d");
    }

    #[test]
    fn days_are_those_of_the_zone_and_the_last_one_is_included() {
        let query = Query::parse("range=7d&from=2026-10-24&to=2026-10-25");
        let asked = asked(&query, &[], &clock());
        assert_eq!((asked.first("range"), asked.first("from")), ("", "2026-10-23T22:00:00Z"));
        assert_eq!(asked.first("to"), "2026-10-25T23:00:00Z", "the day on which the clocks change has 25 hours");
        assert_eq!(moment("yesterday", &TimeZone::UTC, false), "yesterday");
    }

    #[test]
    fn the_usual_metrics_are_shown_unless_others_are_chosen() {
        let known = ["vms", "tickets_created"];
        let (all, grouped, named) = (Query::default(), Query::parse("group_by=state"), Query::parse("metrics=vms"));
        assert_eq!(chosen(&all, &known), ["tickets_created"]);
        assert!(chosen(&grouped, &known).is_empty(), "the API knows what can be grouped");
        assert_eq!(chosen(&named, &known), ["vms"]);
        assert_eq!(chosen(&all, &["vms"]), ["vms"]);
    }
}
