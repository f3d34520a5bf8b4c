//! When a delivery is retried: the schedules, their jitter, and the effect of a receiver's `Retry-After`. Pure functions of the
//! given time. **Invariant:** an attempt is never earlier than its base delay.

use std::time::Duration;

use tenantd_base::{clock::Timestamp, entropy::Entropy, vocabulary::vocabulary};

vocabulary! {
    RetrySchedule as variants:
    Standard "standard", Fast "fast", Long "long",
}

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

/// Seconds between attempts: 11 attempts over about 76 hours.
const STANDARD: [u64; 10] = [5, 30, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
/// 9 attempts within 15 minutes.
const FAST: [u64; 8] = [5, 10, 15, 30, 60, 120, 300, 360];
/// 14 attempts over a week.
const LONG: [u64; 13] = [
    5,
    30,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
    24 * HOUR,
    24 * HOUR,
    44 * HOUR,
];

const JITTER_PERCENT: u64 = 15;
/// The longest wait that a receiver can request.
const LONGEST_HINT: Duration = Duration::from_hours(24);

impl RetrySchedule {
    fn delays(self) -> &'static [u64] {
        match self {
            Self::Standard => &STANDARD,
            Self::Fast => &FAST,
            Self::Long => &LONG,
        }
    }

    /// The delay after the attempt with this number (from 1). `None` after the last attempt.
    pub fn delay_after(self, attempt: u32, entropy: &mut Entropy) -> Option<Duration> {
        let base = *self.delays().get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
        let base_millis = base * 1000;
        Some(Duration::from_millis(base_millis + entropy.below(base_millis * JITTER_PERCENT / 100 + 1)))
    }
}

/// The wait that `Retry-After` requests, in seconds or as an HTTP date. `None` if it cannot be parsed or is in the past.
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wanted = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        text.parse().map_or(Duration::MAX, Duration::from_secs)
    } else {
        let date = jiff::fmt::rfc2822::parse(text).ok()?;
        Timestamp::from_millis(date.timestamp().as_millisecond()).since(now)
    };
    (!wanted.is_zero()).then(|| wanted.min(LONGEST_HINT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_never_earlier_than_scheduled() {
        let mut entropy = Entropy::from_seed(7);
        for (schedule, attempts, base_total) in
            [(RetrySchedule::Standard, 11, 272_135), (RetrySchedule::Fast, 9, 900), (RetrySchedule::Long, 14, 603_335)]
        {
            assert_eq!(schedule.delays().len() + 1, attempts);
            let mut total = 0;
            for (place, base) in schedule.delays().iter().enumerate() {
                for _ in 0..200 {
                    let delay = schedule.delay_after(u32::try_from(place).unwrap() + 1, &mut entropy).unwrap();
                    assert!(delay >= Duration::from_secs(*base) && delay <= Duration::from_millis(*base * 1150), "{delay:?}");
                }
                total += base;
            }
            assert_eq!(total, base_total);
            assert_eq!(schedule.delay_after(u32::try_from(attempts).unwrap(), &mut entropy), None);
        }
    }

    #[test]
    fn retry_after_accepts_seconds_and_dates_up_to_a_limit() {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let seconds = |text: &str| retry_after(text, now).map(|hint| hint.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("1000000000000"), Some(86_400));
        assert_eq!(seconds("99999999999999999999999999"), Some(86_400));
        assert_eq!(seconds("Thu, 01 Jan 2026 00:10:00 GMT"), Some(600));
        assert_eq!(seconds("Fri, 01 Jan 2027 00:10:00 GMT"), Some(86_400));
        for nothing in ["0", "", "-5", "soon", "1.5", "Thu, 01 Jan 2025 00:10:00 GMT", "2026-01-01"] {
            assert_eq!(seconds(nothing), None, "{nothing}");
        }
    }
}
