//! Decides which restore points to keep. For each of the newest hours, days, weeks, months and years that have a restore point, up
//! to the configured numbers, the newest restore point stays. Periods are in UTC; weeks start on Monday. The newest restore point
//! overall always stays.

use super::config::Retention;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// The number of months since year 0.
fn month_of(seconds: i64) -> i64 {
    let date = jiff::Timestamp::from_second(seconds).map(|at| jiff::tz::Offset::UTC.to_datetime(at).date());
    date.map_or(0, |date| i64::from(date.year()) * 12 + i64::from(date.month()) - 1)
}

impl Retention {
    /// The maximum age of the oldest restore point in days, with months of 30 days.
    pub fn span_days(self) -> u32 {
        let [hourly, daily, weekly, monthly, yearly] =
            [self.hourly, self.daily, self.weekly, self.monthly, self.yearly].map(u32::from);
        [hourly / 24, daily, weekly * 7, monthly * 30, yearly * 365].into_iter().max().unwrap_or(0)
    }

    /// Returns the points that stay. `points` are seconds since 1970, in order.
    pub fn keep(self, points: &[u32]) -> Vec<u32> {
        let mut left = [self.hourly, self.daily, self.weekly, self.monthly, self.yearly];
        let mut last = [i64::MIN; 5];
        let mut kept: Vec<u32> = Vec::with_capacity(points.len());
        for point in points.iter().rev() {
            let at = i64::from(*point);
            let month = month_of(at);
            // 1970 began on a Thursday.
            let periods = [at / HOUR, at / DAY, (at / DAY + 3) / 7, month, month / 12];
            let mut stays = kept.is_empty();
            for ((left, last), period) in left.iter_mut().zip(&mut last).zip(periods) {
                if *left > 0 && *last != period {
                    *left -= 1;
                    *last = period;
                    stays = true;
                }
            }
            if stays {
                kept.push(*point);
            }
        }
        kept.reverse();
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Retention = Retention { hourly: 0, daily: 0, weekly: 0, monthly: 0, yearly: 0 };

    fn times(texts: &[&str]) -> Vec<u32> {
        texts.iter().map(|text| u32::try_from(text.parse::<jiff::Timestamp>().unwrap().as_second()).unwrap()).collect()
    }

    #[test]
    fn newest_restore_point_of_each_period_is_kept() {
        let points = times(&[
            "2024-06-01T00:00:00Z",
            "2025-12-01T01:00:00Z",
            "2025-12-28T01:00:00Z",
            "2025-12-29T01:00:00Z",
            "2025-12-31T01:00:00Z",
            "2025-12-31T23:00:00Z",
            "2026-01-01T01:00:00Z",
            "2026-01-01T01:30:00Z",
        ]);
        let kept = |retention: Retention| {
            let kept = retention.keep(&points);
            points.iter().enumerate().filter(|(_, point)| kept.contains(point)).map(|(place, _)| place).collect::<Vec<_>>()
        };
        assert_eq!(kept(NONE), [7], "the newest always stays");
        assert_eq!(kept(Retention { hourly: 2, ..NONE }), [5, 7]);
        assert_eq!(kept(Retention { daily: 3, ..NONE }), [3, 5, 7], "a day without a restore point does not count");
        assert_eq!(kept(Retention { weekly: 2, ..NONE }), [2, 7], "Monday is the 29th");
        assert_eq!(kept(Retention { monthly: 3, ..NONE }), [0, 5, 7]);
        assert_eq!(kept(Retention { yearly: 2, ..NONE }), [5, 7]);
        assert_eq!(kept(Retention { hourly: 1, daily: 1, monthly: 2, ..NONE }), [5, 7]);
        assert!(NONE.keep(&[]).is_empty());
    }

    #[test]
    fn keep_is_idempotent() {
        let points: Vec<u32> = (0..200).map(|place| 1_767_225_600 + place * 40_000).collect();
        let retention = Retention { hourly: 5, daily: 7, weekly: 4, monthly: 3, yearly: 1 };
        let kept = retention.keep(&points);
        assert!(kept.len() <= 20);
        assert_eq!(retention.keep(&kept), kept);
    }
}
