//! Buckets of time in a time zone: local hours, days, weeks and months. A day on which clocks change has 23 or 25 hours.
//!
//! Metrics are stored by quarter of an hour in UTC. **Invariant:** the offset of every time zone has been a multiple of a quarter
//! since 1972, so a bucket of any zone is a whole number of quarters. Days in Nepal and on the Chatham Islands are exact, too.

use std::time::Duration;

use jiff::{ToSpan, Zoned, civil::Date, tz::TimeZone};

use tenantd_base::{
    clock::Timestamp,
    vocabulary::vocabulary,
    zones::{self, UnknownZone},
};

use super::QUARTER_MILLIS;

vocabulary! {
    /// The length of a bucket, the shortest first.
    Bucket:
    Hour "hour", Day "day", Week "week", Month "month",
}

vocabulary! {
    /// A range up to now: a number of days or months, or since the beginning of the current month or year.
    Span:
    Day "24h", Week "7d", Month "30d", Quarter "90d", Year "12mo", MonthToDate "mtd", YearToDate "ytd",
}

/// A range cut into buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// Where each bucket begins, and where the last one ends, limited to the range.
    pub(crate) bounds: Vec<Timestamp>,
    /// Where the first bucket begins, and where the last one ends, if not limited to the range.
    first: Timestamp,
    end: Timestamp,
}

impl Buckets {
    pub(crate) fn from(&self) -> Timestamp {
        self.bounds.first().copied().unwrap_or(self.first)
    }

    pub(crate) fn to(&self) -> Timestamp {
        self.bounds.last().copied().unwrap_or(self.end)
    }

    /// Returns the part of each bucket within the range, and whether it is partial: cut by the range, or not ended yet.
    pub(crate) fn parts(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp, bool)> {
        let is_cut = move |from: Timestamp, to: Timestamp| {
            (from == self.from() && self.first < from) || (to == self.to() && self.end > to.min(now))
        };
        self.bounds.iter().zip(self.bounds.iter().skip(1)).map(move |(from, to)| (*from, *to, is_cut(*from, *to)))
    }
}

/// A time zone and its IANA name.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) name: String,
    zone: TimeZone,
}

/// The longest step to a full hour, in quarters. On Lord Howe Island, clocks change by half an hour.
const MOST_QUARTERS: u32 = 8;

impl Zone {
    pub(crate) fn parse(name: &str) -> Result<Self, UnknownZone> {
        Ok(Self { name: name.to_owned(), zone: zones::find(name)? })
    }

    pub(crate) fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    fn local(&self, at: Timestamp) -> Option<Zoned> {
        Some(jiff::Timestamp::from_millisecond(at.as_millis()).ok()?.to_zoned(self.zone.clone()))
    }

    /// Returns the first moment of a day.
    fn midnight(&self, date: Date) -> Option<Timestamp> {
        let start = date.to_zoned(self.zone.clone()).ok()?.start_of_day().ok()?;
        Some(Timestamp::from_millis(start.timestamp().as_millisecond()))
    }

    fn is_full_hour(&self, at: Timestamp) -> bool {
        self.local(at).is_some_and(|local| local.minute() == 0)
    }

    pub(crate) fn date(&self, at: Timestamp) -> Option<Date> {
        Some(self.local(at)?.date())
    }

    /// Returns the beginning of the bucket that contains `at`.
    pub(crate) fn floor(&self, bucket: Bucket, at: Timestamp) -> Option<Timestamp> {
        if bucket == Bucket::Hour {
            let quarter = Duration::from_millis(QUARTER_MILLIS.unsigned_abs());
            let mut start = Timestamp::from_millis(at.as_millis().div_euclid(QUARTER_MILLIS) * QUARTER_MILLIS);
            for _ in 0..MOST_QUARTERS {
                if self.is_full_hour(start) {
                    break;
                }
                start = start - quarter;
            }
            return Some(start);
        }
        self.midnight(first_day(bucket, self.date(at)?))
    }

    /// Returns the beginning of the bucket after the one that begins at `start`.
    pub(crate) fn next(&self, bucket: Bucket, start: Timestamp) -> Option<Timestamp> {
        self.moved(bucket, start, 1)
    }

    /// Returns the beginning of the bucket that is `count` buckets after the one that begins at `start`. A negative count goes
    /// back.
    pub(crate) fn moved(&self, bucket: Bucket, start: Timestamp, count: i64) -> Option<Timestamp> {
        let date = || self.date(start);
        let day = match bucket {
            Bucket::Hour if count < 0 => {
                let back = Duration::from_hours(count.unsigned_abs());
                return self.floor(bucket, start - back);
            }
            Bucket::Hour => {
                let quarter = Duration::from_millis(QUARTER_MILLIS.unsigned_abs());
                let mut next = start;
                for _ in 0..count {
                    for _ in 0..MOST_QUARTERS {
                        next = next + quarter;
                        if self.is_full_hour(next) {
                            break;
                        }
                    }
                }
                return Some(next);
            }
            Bucket::Day => date()?.checked_add(count.days()),
            Bucket::Week => date()?.checked_add((count * 7).days()),
            Bucket::Month => date()?.checked_add(count.months()),
        };
        self.midnight(day.ok()?)
    }

    /// Cuts a range into buckets. The first and the last bucket are cut at the ends of the range. Returns `None` for more than
    /// `most` buckets.
    pub(crate) fn cut(&self, bucket: Bucket, from: Timestamp, to: Timestamp, most: usize) -> Option<Buckets> {
        let (first, mut bounds) = (self.floor(bucket, from)?, vec![from]);
        let mut end = first;
        while end < to {
            if bounds.len() > most {
                return None;
            }
            let next = self.next(bucket, end)?;
            if next <= end {
                return None;
            }
            end = next;
            bounds.push(end.min(to));
        }
        Some(Buckets { bounds, first, end })
    }

    /// Returns the beginning of a span that ends now. It does not depend on the bucket, so neither does the total of a span.
    pub(crate) fn begin(&self, span: Span, now: Timestamp) -> Option<Timestamp> {
        let date = self.date(now)?;
        let day = match span {
            Span::Day => return self.moved(Bucket::Hour, self.floor(Bucket::Hour, now)?, -23),
            Span::Week => date.checked_sub(6.days()),
            Span::Month => date.checked_sub(29.days()),
            Span::Quarter => date.checked_sub(89.days()),
            Span::Year => date.checked_sub(12.months()).and_then(|day| day.checked_add(1.days())),
            Span::MonthToDate => Ok(date.first_of_month()),
            Span::YearToDate => Ok(date.first_of_year()),
        };
        self.midnight(day.ok()?)
    }

    /// Returns the beginning of the period to compare a range with. A month-to-date or year-to-date range moves back a month or a
    /// year. A range that begins at midnight moves back by its number of days, any other range by its length.
    pub(crate) fn begin_before(&self, span: Option<Span>, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let date = self.date(from)?;
        let day = match span {
            Some(Span::Day) => return self.moved(Bucket::Hour, from, -24),
            Some(Span::MonthToDate) => date.checked_sub(1.months()),
            Some(Span::YearToDate) => date.checked_sub(1.years()),
            _ if self.midnight(date)? == from => {
                let days = date.until(self.date(Timestamp::from_millis(to.as_millis() - 1))?).ok()?.get_days();
                date.checked_sub((i64::from(days) + 1).days())
            }
            _ => return Some(from - to.since(from)),
        };
        self.midnight(day.ok()?)
    }
}

fn first_day(bucket: Bucket, date: Date) -> Date {
    match bucket {
        Bucket::Hour | Bucket::Day => date,
        Bucket::Week => {
            let since_monday = i64::from(date.weekday().to_monday_zero_offset());
            date.checked_sub(since_monday.days()).unwrap_or(date)
        }
        Bucket::Month => date.first_of_month(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    /// The uncut bounds of the buckets that a range touches.
    fn bounds(zone: &str, bucket: Bucket, from: &str, to: &str) -> Vec<String> {
        let zone = Zone::parse(zone).unwrap();
        let mut cut = zone.cut(bucket, at(from), at(to), 1000).unwrap();
        *cut.bounds.first_mut().unwrap() = cut.first;
        *cut.bounds.last_mut().unwrap() = cut.end;
        cut.bounds.iter().map(|bound| bound.to_string()[..16].to_owned()).collect()
    }

    fn hours_of_day(zone: &str, noon: &str) -> (usize, u64) {
        let zone = Zone::parse(zone).unwrap();
        let start = zone.floor(Bucket::Day, at(noon)).unwrap();
        let end = zone.next(Bucket::Day, start).unwrap();
        (zone.cut(Bucket::Hour, start, end, 1000).unwrap().bounds.len() - 1, end.since(start).as_secs() / 60)
    }

    #[test]
    fn days_on_which_clocks_change_have_23_or_25_hours() {
        assert_eq!(hours_of_day("Europe/Berlin", "2026-03-29T12:00:00Z"), (23, 23 * 60));
        assert_eq!(hours_of_day("Europe/Berlin", "2026-10-25T12:00:00Z"), (25, 25 * 60));
        assert_eq!(hours_of_day("Europe/Berlin", "2026-07-01T12:00:00Z"), (24, 24 * 60));
        assert_eq!(hours_of_day("America/New_York", "2026-11-01T17:00:00Z"), (25, 25 * 60));
    }

    #[test]
    fn zones_with_half_and_quarter_hour_offsets_have_exact_days() {
        assert_eq!(bounds("Asia/Kolkata", Bucket::Day, "2026-05-01T00:00:00Z", "2026-05-01T01:00:00Z")[0], "2026-04-30T18:30");
        assert_eq!(bounds("Asia/Kathmandu", Bucket::Day, "2026-05-01T00:00:00Z", "2026-05-01T01:00:00Z")[0], "2026-04-30T18:15");
        // On Lord Howe Island, clocks change by half an hour: the day has 23.5 or 24.5 hours.
        assert_eq!(hours_of_day("Australia/Lord_Howe", "2026-04-05T03:00:00Z").1, 24 * 60 + 30);
        assert_eq!(hours_of_day("Australia/Lord_Howe", "2026-10-04T03:00:00Z").1, 23 * 60 + 30);
        let hours = bounds("Asia/Kathmandu", Bucket::Hour, "2026-05-01T00:20:00Z", "2026-05-01T02:00:00Z");
        assert_eq!(hours, ["2026-05-01T00:15", "2026-05-01T01:15", "2026-05-01T02:15"]);
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_the_first() {
        assert_eq!(
            bounds("UTC", Bucket::Week, "2026-01-01T10:00:00Z", "2026-01-06T00:00:00Z"),
            ["2025-12-29T00:00", "2026-01-05T00:00", "2026-01-12T00:00"]
        );
        assert_eq!(
            bounds("Europe/Berlin", Bucket::Month, "2026-03-15T10:00:00Z", "2026-04-02T00:00:00Z"),
            ["2026-02-28T23:00", "2026-03-31T22:00", "2026-04-30T22:00"]
        );
    }

    #[test]
    fn the_beginning_of_a_span_does_not_depend_on_the_bucket() {
        let (zone, now) = (Zone::parse("Europe/Berlin").unwrap(), at("2026-05-20T10:20:00Z"));
        let begin = |span| zone.begin(span, now).unwrap();
        for (span, expected) in [
            (Span::Day, "2026-05-19T11:00:00Z"),
            (Span::Week, "2026-05-13T22:00:00Z"),
            (Span::Month, "2026-04-20T22:00:00Z"),
            (Span::Quarter, "2026-02-19T23:00:00Z"),
            (Span::Year, "2025-05-20T22:00:00Z"),
            (Span::MonthToDate, "2026-04-30T22:00:00Z"),
            (Span::YearToDate, "2025-12-31T23:00:00Z"),
        ] {
            assert_eq!(begin(span), at(expected), "{}", span.name());
        }
        let count = |span, bucket| zone.cut(bucket, begin(span), now, 1000).unwrap().bounds.len() - 1;
        assert_eq!((count(Span::Day, Bucket::Hour), count(Span::Day, Bucket::Month)), (24, 1));
        assert_eq!((count(Span::Week, Bucket::Day), count(Span::Month, Bucket::Day)), (7, 30));
        assert_eq!((count(Span::Year, Bucket::Day), count(Span::Year, Bucket::Month)), (365, 13));
        assert_eq!(count(Span::MonthToDate, Bucket::Day), 20);
        let midnight = at("2026-05-19T22:00:00Z");
        assert_eq!(
            zone.begin(Span::Week, midnight).unwrap(),
            at("2026-05-13T22:00:00Z"),
            "a day that has just begun counts as the seventh"
        );
        assert!(zone.cut(Bucket::Hour, at("2025-01-01T00:00:00Z"), now, 1000).is_none());
    }

    #[test]
    fn the_first_and_last_bucket_are_cut_at_the_ends_of_the_range() {
        let (zone, now) = (Zone::utc(), at("2026-05-20T10:20:00Z"));
        let parts = |from: &str, to: &str| -> Vec<(String, String, bool)> {
            let cut = zone.cut(Bucket::Week, at(from), at(to), 1000).unwrap();
            let text = |at: Timestamp| at.to_string()[..16].to_owned();
            cut.parts(now).map(|(from, to, partial)| (text(from), text(to), partial)).collect()
        };
        let part = |from: &str, to: &str, partial| (from.to_owned(), to.to_owned(), partial);
        assert_eq!(
            parts("2025-12-31T00:00:00Z", "2026-01-13T06:00:00Z"),
            [
                part("2025-12-31T00:00", "2026-01-05T00:00", true),
                part("2026-01-05T00:00", "2026-01-12T00:00", false),
                part("2026-01-12T00:00", "2026-01-13T06:00", true)
            ]
        );
        assert_eq!(parts("2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"), [part("2026-01-05T00:00", "2026-01-12T00:00", false)]);
        assert_eq!(parts("2026-05-18T00:00:00Z", "2026-05-20T10:30:00Z"), [part("2026-05-18T00:00", "2026-05-20T10:30", true)]);
    }

    #[test]
    fn the_previous_period_begins_as_many_days_earlier() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let before = |span, from: &str, to: &str| zone.begin_before(span, at(from), at(to)).unwrap();
        // Midnight stays midnight across a clock change.
        assert_eq!(before(Some(Span::Week), "2026-03-31T22:00:00Z", "2026-04-07T08:15:00Z"), at("2026-03-24T23:00:00Z"));
        assert_eq!(before(Some(Span::MonthToDate), "2026-04-30T22:00:00Z", "2026-05-20T08:15:00Z"), at("2026-03-31T22:00:00Z"));
        assert_eq!(before(Some(Span::YearToDate), "2025-12-31T23:00:00Z", "2026-05-20T08:15:00Z"), at("2024-12-31T23:00:00Z"));
        assert_eq!(before(Some(Span::Day), "2026-05-19T11:00:00Z", "2026-05-20T10:30:00Z"), at("2026-05-18T11:00:00Z"));
        assert_eq!(before(None, "2026-05-19T11:00:00Z", "2026-05-19T14:00:00Z"), at("2026-05-19T08:00:00Z"));
    }
}
