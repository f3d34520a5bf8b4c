//! What the pages of webhooks share: links to views, times in fields, buttons that send a form.

use jiff::civil::DateTime;
use maud::{Markup, html};

use tenantd_base::clock::Timestamp;

use crate::{components::code_block, moment::Clock, query::Query, visitor::Visitor};

/// The form of a time in a field, without a zone.
const LOCAL_TIME: &str = "%Y-%m-%dT%H:%M";

/// Links to views of a page: their words and their queries. The one that is shown is marked.
pub(super) fn chips(label: &str, path: &str, current: &Query, views: &[(&str, &str)]) -> Markup {
    html! {
        nav.chips aria-label=(label) {
            @for (words, view) in views {
                @let view = Query::parse(view);
                @let is_current = (view == *current).then_some("page");
                a.chip href=(view.at(path)) aria-current=[is_current] { (words) }
            }
        }
    }
}

/// A time from a field or a URL as the API takes it: a time without a zone is in the zone of the reader. The API refuses other text.
pub(super) fn instant(text: &str, clock: &Clock) -> String {
    let local = text.parse::<DateTime>().ok().filter(|_| Timestamp::parse(text).is_none());
    let at = local.and_then(|local| local.to_zoned(clock.zone.clone()).ok());
    at.map_or_else(|| text.to_owned(), |at| at.timestamp().to_string())
}

/// A time of the API or of a URL as a field shows it, in the zone of the reader.
pub(super) fn local(text: &str, clock: &Clock) -> String {
    Timestamp::parse(text).map_or_else(|| text.to_owned(), |at| clock.day(at, LOCAL_TIME))
}

/// The exact time with seconds, as a log needs it.
pub(super) fn second(text: &str, clock: &Clock) -> Markup {
    let Some(at) = Timestamp::parse(text) else { return html! { (text) } };
    html! { time datetime=(text) { (clock.day(at, "%-d %b %Y, %H:%M:%S")) } }
}

/// Code with a button that copies it.
pub(super) fn copyable(language: &str, code: &str) -> Markup {
    html! { div { (code_block(language, code)) button type="button" class="quiet" data-copy hidden { "Copy" } } }
}

/// A button that sends a form without fields.
pub(super) fn button(visitor: &Visitor<'_>, action: &str, class: &str, words: &str) -> Markup {
    html! {
        form method="post" action=(action) {
            (visitor.tokens())
            button class=(class) { (words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_zone_is_in_the_zone_of_the_reader() {
        let clock = Clock { now: Timestamp::EPOCH, zone: tenantd_base::zones::find("Europe/Berlin").unwrap() };
        assert_eq!(instant("2026-11-18T13:00", &clock), "2026-11-18T12:00:00Z");
        assert_eq!(instant("2026-11-18T12:00:00.000Z", &clock), "2026-11-18T12:00:00.000Z");
        assert_eq!(instant("yesterday", &clock), "yesterday");
        assert_eq!(local("2026-11-18T12:00:00.000Z", &clock), "2026-11-18T13:00");
        assert_eq!(local("2026-11-18T13:00", &clock), "2026-11-18T13:00");
    }
}
