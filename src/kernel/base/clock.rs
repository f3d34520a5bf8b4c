//! Time: the timestamps that are stored and sent, and the clock that provides them.
//!
//! Nothing else asks the operating system for the time of day; `.clippy.toml` bans it. Use cases get `now` as an argument, so tests
//! move the clock instead of waiting. Socket timeouts use the monotonic time of tokio.

use std::{
    fmt,
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use tokio::sync::Notify;

/// A point in time in milliseconds since 1970. On the wire it is RFC 3339 in UTC with milliseconds; in a record it is eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The last millisecond of the year 9999, which is the last that RFC 3339 can express.
const LATEST: i64 = 253_402_300_799_999;
/// The first millisecond of year 0000.
const EARLIEST: i64 = -62_167_219_200_000;

impl Timestamp {
    /// No time is later.
    pub const LATEST: Self = Self(LATEST);

    pub const EPOCH: Self = Self(0);

    /// Values outside of the years 0 to 9999 are clamped.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(EARLIEST, LATEST))
    }

    pub fn as_millis(self) -> i64 {
        self.0
    }

    pub fn as_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The time from `earlier` to this one; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub fn plus_days(self, days: u32) -> Self {
        self + Duration::from_secs(u64::from(days) * 86_400)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let parsed: jiff::Timestamp = text.parse().ok()?;
        Some(Self::from_millis(parsed.as_millisecond()))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// The wire format. A list has dozens of timestamps, so they are written without allocating a text.
struct WireText([u8; 24]);

impl WireText {
    fn new(at: Timestamp) -> Option<Self> {
        let at = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::from_millisecond(at.0).ok()?);
        let [year, millis] = [at.year(), at.millisecond()].map(i16::unsigned_abs);
        let [month, day, hour, minute, second] =
            [at.month(), at.day(), at.hour(), at.minute(), at.second()].map(|part| u16::from(part.unsigned_abs()));
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let digits =
            [(year, 0..4), (month, 5..7), (day, 8..10), (hour, 11..13), (minute, 14..16), (second, 17..19), (millis, 20..23)];
        for (mut value, place) in digits {
            for slot in text.get_mut(place)?.iter_mut().rev() {
                *slot += u8::try_from(value % 10).ok()?;
                value /= 10;
            }
        }
        Some(Self(text))
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WireText::new(*self).ok_or(fmt::Error)?.as_str())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_i64(self.0);
        }
        let text = WireText::new(*self).ok_or_else(|| S::Error::custom("the time is out of range"))?;
        serializer.serialize_str(text.as_str())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| D::Error::custom("expected a time such as 2026-01-31T09:30:00.000Z"))
        } else {
            i64::deserialize(deserializer).map(Self::from_millis)
        }
    }
}

/// Provides the time: the system clock in service, a movable clock in tests and evaluation.
#[derive(Clone, Debug)]
pub enum Clock {
    System,
    Movable(Arc<MovableClock>),
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct MovableClock {
    millis: AtomicI64,
    moved: Notify,
}

impl Clock {
    pub fn movable(start: Timestamp) -> Self {
        Self::Movable(Arc::new(MovableClock { millis: AtomicI64::new(start.0), moved: Notify::new() }))
    }

    #[allow(clippy::disallowed_methods, reason = "the one place that asks the operating system")]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()),
            Self::Movable(clock) => Timestamp(clock.millis.load(Ordering::SeqCst)),
        }
    }

    /// Moves a movable clock. The system clock is not affected.
    pub fn advance(&self, span: Duration) {
        if let Self::Movable(clock) = self {
            let target = Timestamp(clock.millis.load(Ordering::SeqCst)) + span;
            clock.millis.store(target.0, Ordering::SeqCst);
            clock.moved.notify_waiters();
        }
    }

    /// Waits for a span of time, even if the wall clock is set meanwhile.
    pub async fn sleep(&self, span: Duration) {
        match self {
            Self::System => tokio::time::sleep(span).await,
            Self::Movable(_) => self.sleep_until(self.now() + span).await,
        }
    }

    /// Waits until the clock shows `deadline` or later.
    pub async fn sleep_until(&self, deadline: Timestamp) {
        loop {
            match self {
                Self::System => {
                    let now = self.now();
                    if now >= deadline {
                        return;
                    }
                    // Waking at least once a minute keeps the promise if the wall clock is set.
                    tokio::time::sleep(deadline.since(now).min(Duration::from_mins(1))).await;
                }
                Self::Movable(clock) => {
                    let moved = clock.moved.notified();
                    if self.now() >= deadline {
                        return;
                    }
                    moved.await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_round_trips_with_milliseconds() {
        let at = Timestamp::from_millis(1_767_225_600_007);
        assert_eq!(at.to_string(), "2026-01-01T00:00:00.007Z");
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        assert_eq!(Timestamp::parse("2026-01-01T01:00:00.007+01:00"), Some(at));
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::parse("2026-13-01T00:00:00Z"), None);
    }

    #[tokio::test]
    async fn a_movable_clock_wakes_its_sleepers() {
        let clock = Clock::movable(Timestamp::EPOCH);
        let sleeper = {
            let clock = clock.clone();
            tokio::spawn(async move { clock.sleep_until(Timestamp::from_millis(5_000)).await })
        };
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        assert!(sleeper.await.is_ok());
    }
}
