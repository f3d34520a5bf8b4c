//! Buckets of time in a zone: hours, days, weeks and months as the people there have them. A day in which the clocks change has 23
//! or 25 hours.
//!
//! Figures are kept by quarters of an hour in UTC. **Invariant:** every zone's clock is off UTC by a multiple of a quarter (that has been so
//! since 1972), so a bucket of any zone is a whole number of quarters; Nepal's and the Chathams' days are as right as London's.

use std::time::Duration;

use jiff::{ToSpan, Zoned, civil::Date, tz::TimeZone};

use tenantd_base::{clock::Timestamp, vocabulary::vocabulary};

use super::QUARTER_MILLIS;

vocabulary! {
    /// How much time a figure is about, the least first.
    Bucket:
    Hour "hour", Day "day", Week "week", Month "month",
}

vocabulary! {
    /// How far back figures go: some days or months, or to the beginning of the running month or year.
    Span:
    Day "24h", Week "7d", Month "30d", Quarter "90d", Year "12mo", MonthToDate "mtd", YearToDate "ytd",
}

/// A time zone by its name.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) name: String,
    zone: TimeZone,
}

/// The longest step back or forth to a full hour, in quarters: an hour and the half hour by which Lord Howe's clocks change.
const MOST_QUARTERS: u32 = 8;

impl Zone {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), zone: TimeZone::get(name).ok()? })
    }

    pub(crate) fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    fn local(&self, at: Timestamp) -> Option<Zoned> {
        Some(jiff::Timestamp::from_millisecond(at.as_millis()).ok()?.to_zoned(self.zone.clone()))
    }

    /// The first moment of a day.
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

    /// The beginning of the bucket that a moment falls into.
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

    /// The beginning of the bucket after the one that begins at `start`.
    pub(crate) fn next(&self, bucket: Bucket, start: Timestamp) -> Option<Timestamp> {
        self.moved(bucket, start, 1)
    }

    /// The beginning of the bucket that comes `count` buckets after the one that begins at `start`, or before it.
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

    /// Where the buckets of a time begin, and where the last one ends: at most `most` buckets, else `None`.
    pub(crate) fn bounds(&self, bucket: Bucket, from: Timestamp, to: Timestamp, most: usize) -> Option<Vec<Timestamp>> {
        let mut bounds = vec![self.floor(bucket, from)?];
        while let Some(last) = bounds.last().copied().filter(|last| *last < to) {
            if bounds.len() > most {
                return None;
            }
            let next = self.next(bucket, last)?;
            if next <= last {
                return None;
            }
            bounds.push(next);
        }
        Some(bounds)
    }

    /// When a span that ends now begins: at the bound of a bucket, so that the bucket that runs is the last of the span.
    pub(crate) fn begin(&self, span: Span, bucket: Bucket, now: Timestamp) -> Option<Timestamp> {
        let date = self.date(now)?;
        let back = match span {
            Span::Day => now - Duration::from_hours(24),
            Span::Week => self.midnight(date.checked_sub(7.days()).ok()?)? + self.time_of_day(now)?,
            Span::Month => self.midnight(date.checked_sub(30.days()).ok()?)? + self.time_of_day(now)?,
            Span::Quarter => self.midnight(date.checked_sub(90.days()).ok()?)? + self.time_of_day(now)?,
            Span::Year => self.midnight(date.checked_sub(12.months()).ok()?)? + self.time_of_day(now)?,
            Span::MonthToDate => return self.midnight(date.first_of_month()),
            Span::YearToDate => return self.midnight(date.first_of_year()),
        };
        // The bucket that runs is one of the span, also at its very beginning.
        let first = self.next(bucket, self.floor(bucket, back)?)?;
        if first <= now { Some(first) } else { self.floor(bucket, now) }
    }

    fn time_of_day(&self, at: Timestamp) -> Option<Duration> {
        Some(at.since(self.midnight(self.date(at)?)?))
    }

    /// When the time before begins that a span is compared with; `None` where that is simply as long.
    pub(crate) fn begin_before(&self, span: Span, from: Timestamp) -> Option<Timestamp> {
        let date = self.date(from)?;
        match span {
            Span::MonthToDate => self.midnight(date.checked_sub(1.months()).ok()?),
            Span::YearToDate => self.midnight(date.checked_sub(1.years()).ok()?),
            _ => None,
        }
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

    fn bounds(zone: &str, bucket: Bucket, from: &str, to: &str) -> Vec<String> {
        let zone = Zone::parse(zone).unwrap();
        zone.bounds(bucket, at(from), at(to), 1000).unwrap().iter().map(|bound| bound.to_string()[..16].to_owned()).collect()
    }

    fn hours_of_day(zone: &str, noon: &str) -> (usize, u64) {
        let zone = Zone::parse(zone).unwrap();
        let start = zone.floor(Bucket::Day, at(noon)).unwrap();
        let end = zone.next(Bucket::Day, start).unwrap();
        (zone.bounds(Bucket::Hour, start, end, 1000).unwrap().len() - 1, end.since(start).as_secs() / 60)
    }

    #[test]
    fn days_in_which_the_clocks_change_have_23_and_25_hours() {
        assert_eq!(hours_of_day("Europe/Berlin", "2026-03-29T12:00:00Z"), (23, 23 * 60));
        assert_eq!(hours_of_day("Europe/Berlin", "2026-10-25T12:00:00Z"), (25, 25 * 60));
        assert_eq!(hours_of_day("Europe/Berlin", "2026-07-01T12:00:00Z"), (24, 24 * 60));
        assert_eq!(hours_of_day("America/New_York", "2026-11-01T17:00:00Z"), (25, 25 * 60));
    }

    #[test]
    fn zones_off_by_half_and_quarter_hours_have_days_of_their_own() {
        assert_eq!(bounds("Asia/Kolkata", Bucket::Day, "2026-05-01T00:00:00Z", "2026-05-01T01:00:00Z")[0], "2026-04-30T18:30");
        assert_eq!(bounds("Asia/Kathmandu", Bucket::Day, "2026-05-01T00:00:00Z", "2026-05-01T01:00:00Z")[0], "2026-04-30T18:15");
        // Lord Howe's clocks change by half an hour: the day has 23 hours and a half, or 24 and a half.
        assert_eq!(hours_of_day("Australia/Lord_Howe", "2026-04-05T03:00:00Z").1, 24 * 60 + 30);
        assert_eq!(hours_of_day("Australia/Lord_Howe", "2026-10-04T03:00:00Z").1, 23 * 60 + 30);
        let hours = bounds("Asia/Kathmandu", Bucket::Hour, "2026-05-01T00:20:00Z", "2026-05-01T02:00:00Z");
        assert_eq!(hours, ["2026-05-01T00:15", "2026-05-01T01:15", "2026-05-01T02:15"]);
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_their_first() {
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
    fn a_span_has_its_number_of_buckets_and_the_one_that_runs_is_the_last() {
        let (zone, now) = (Zone::parse("Europe/Berlin").unwrap(), at("2026-05-20T10:20:00Z"));
        let count = |span, bucket| {
            let from = zone.begin(span, bucket, now).unwrap();
            zone.bounds(bucket, from, now, 1000).unwrap().len() - 1
        };
        assert_eq!(count(Span::Day, Bucket::Hour), 24);
        assert_eq!(count(Span::Week, Bucket::Day), 7);
        assert_eq!(count(Span::Month, Bucket::Day), 30);
        assert_eq!(count(Span::Year, Bucket::Day), 365);
        assert_eq!(count(Span::Year, Bucket::Month), 12);
        assert_eq!(count(Span::Day, Bucket::Month), 1);
        assert_eq!(count(Span::MonthToDate, Bucket::Day), 20);
        let midnight = at("2026-05-19T22:00:00Z");
        let from = zone.begin(Span::Week, Bucket::Day, midnight).unwrap();
        assert_eq!(from, at("2026-05-13T22:00:00Z"), "a day that has just begun is the seventh");
        assert!(zone.bounds(Bucket::Hour, at("2025-01-01T00:00:00Z"), now, 1000).is_none());
    }
}
