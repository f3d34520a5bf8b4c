//! Times as people read them: how long ago or how long until, with the exact time in the reader's zone.

use jiff::tz::TimeZone;
use maud::{Markup, html};

use tenantd_base::clock::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The time of the reader, and the zone to show times in.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) now: Timestamp,
    pub(crate) zone: TimeZone,
}

impl Clock {
    /// A time of an answer, such as `4 min ago` with the exact time as a title. Text that is no time is shown as it is.
    pub(crate) fn relative(&self, text: &str) -> Markup {
        let Some(at) = Timestamp::parse(text) else { return html! { (text) } };
        html! { time datetime=(text) title=(self.exact(at)) { (self.distance(at)) } }
    }

    /// The exact time, such as `18 Nov 2026, 14:05`.
    pub(crate) fn absolute(&self, text: &str) -> Markup {
        let Some(at) = Timestamp::parse(text) else { return html! { (text) } };
        html! { time datetime=(text) title=(self.distance(at)) { (self.exact(at)) } }
    }

    pub(crate) fn day(&self, at: Timestamp, form: &str) -> String {
        self.local(at).map(|time| time.strftime(form).to_string()).unwrap_or_default()
    }

    /// The IANA name of the zone.
    pub(crate) fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The hour of the day, 0 to 23.
    pub(crate) fn hour(&self) -> i8 {
        self.local(self.now).map_or(12, |time| time.hour())
    }

    /// The time left until a moment: `38 min left` or `11 d late`, and whether it has passed.
    pub(crate) fn left(&self, text: &str) -> Option<(String, bool)> {
        let seconds = Timestamp::parse(text)?.as_seconds() - self.now.as_seconds();
        let word = if seconds < 0 { "late" } else { "left" };
        Some((format!("{} {word}", span(seconds.abs())), seconds < 0))
    }

    /// The share of the time between two moments that has passed, in percent.
    pub(crate) fn passed(&self, from: &str, to: &str) -> u32 {
        let (Some(from), Some(to)) = (Timestamp::parse(from), Timestamp::parse(to)) else { return 0 };
        let (whole, gone) = (to.as_millis() - from.as_millis(), self.now.as_millis() - from.as_millis());
        if whole <= 0 { 100 } else { u32::try_from((gone.max(0) * 100 / whole).min(100)).unwrap_or(100) }
    }

    fn distance(&self, at: Timestamp) -> String {
        let seconds = self.now.as_seconds() - at.as_seconds();
        match seconds {
            0..MINUTE => "now".to_owned(),
            MINUTE.. => format!("{} ago", span(seconds)),
            _ => format!("in {}", span(-seconds)),
        }
    }

    /// The exact time as a title; nothing if the text is no time.
    pub(crate) fn exact_text(&self, text: &str) -> Option<String> {
        Timestamp::parse(text).map(|at| self.exact(at))
    }

    fn exact(&self, at: Timestamp) -> String {
        self.day(at, "%-d %b %Y, %H:%M")
    }

    fn local(&self, at: Timestamp) -> Option<jiff::Zoned> {
        Some(jiff::Timestamp::from_millisecond(at.as_millis()).ok()?.to_zoned(self.zone.clone()))
    }
}

/// A length of time in its largest unit, such as `38 min`.
fn span(seconds: i64) -> String {
    match seconds {
        ..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..DAY => format!("{} h", seconds / HOUR),
        _ => format!("{} d", seconds / DAY),
    }
}

/// The day that begins at a moment in UTC, such as `31 Jan 2026`.
pub(crate) fn day_in_utc(text: &str) -> String {
    let start = Timestamp::parse(text).and_then(|at| jiff::Timestamp::from_millisecond(at.as_millis()).ok());
    start.map(|at| at.to_zoned(TimeZone::UTC).strftime("%-d %b %Y").to_string()).unwrap_or_default()
}

/// Minutes of work, such as `1 h 20 min`.
pub(crate) fn minutes(count: u64) -> String {
    match (count / 60, count % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_by_their_largest_unit_in_the_zone_of_the_reader() {
        let now = Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap();
        let clock = Clock { now, zone: tenantd_base::zones::find("Europe/Berlin").unwrap() };
        let shown = |text: &str| clock.relative(text).into_string();
        assert!(shown("2026-11-18T11:56:00.000Z").contains(">4 min ago<"));
        assert!(shown("2026-11-18T11:56:00.000Z").contains("title=\"18 Nov 2026, 12:56\""), "the exact time is in the zone");
        assert!(shown("2026-11-18T11:59:30.000Z").contains(">now<"));
        assert!(shown("2026-11-20T12:00:00.000Z").contains(">in 2 d<"));
        assert_eq!(shown("<b>"), "&lt;b&gt;");
        assert_eq!(clock.left("2026-11-18T12:38:00.000Z"), Some(("38 min left".to_owned(), false)));
        assert_eq!(clock.left("2026-11-07T12:00:00.000Z"), Some(("11 d late".to_owned(), true)));
        assert_eq!(clock.passed("2026-11-18T11:00:00.000Z", "2026-11-18T13:00:00.000Z"), 50);
        assert_eq!(clock.passed("2026-11-18T11:00:00.000Z", "2026-11-18T11:30:00.000Z"), 100);
        assert_eq!((minutes(45), minutes(60), minutes(80)), ("45 min".to_owned(), "1 h".to_owned(), "1 h 20 min".to_owned()));
    }
}
