//! The backups of a device in the last days, as a strip of days.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::record::{Device, size};
use crate::{desk::organizations::counted, moment::day_in_utc, query::segment, refusal::Refusal, visitor::Visitor};

#[derive(Debug, Deserialize)]
pub(super) struct BackupHistory {
    days: Vec<Day>,
}

/// The jobs that started on a day.
#[derive(Debug, Default, Deserialize)]
struct Day {
    start: String,
    succeeded: u64,
    warning: u64,
    failed: u64,
    cancelled: u64,
    running: u64,
    bytes: Option<u64>,
}

/// What a day shows: its class, its sign and its words. A sign says the same as the color.
const OUTCOMES: [(&str, &str, &str); 5] = [
    ("good", "✓", "backed up"),
    ("warn", "!", "backed up with a warning"),
    ("bad", "×", "failed"),
    ("running", "…", "running"),
    ("none", "·", "no backup"),
];

/// The history of a device whose backups the reader may see.
pub(super) async fn history(visitor: &Visitor<'_>, device: &Device) -> Result<Option<BackupHistory>, Refusal> {
    if !visitor.may(Scope::BackupRead) || device.backup.is_none() {
        return Ok(None);
    }
    visitor.read_if_allowed(format!("/api/backup/devices/{}/history", segment(&device.id))).await
}

impl Day {
    /// The best outcome of the day: one restore point is enough.
    fn outcome(&self) -> (&'static str, &'static str, &'static str) {
        let [good, warn, bad, running, none] = OUTCOMES;
        match self {
            Self { succeeded: 1.., .. } => good,
            Self { warning: 1.., .. } => warn,
            Self { running: 1.., .. } => running,
            Self { failed: 1.., .. } | Self { cancelled: 1.., .. } => bad,
            _ => none,
        }
    }

    fn words(&self) -> String {
        let (_, _, outcome) = self.outcome();
        let jobs = self.succeeded + self.warning + self.failed + self.cancelled + self.running;
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let size = self.bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default();
        let jobs = if jobs > 1 { format!(", {}{failed}", counted(jobs, "job", "jobs")) } else { String::new() };
        format!("{}: {outcome}{jobs}{size}", day_in_utc(&self.start))
    }
}

impl BackupHistory {
    pub(super) fn show(&self) -> Markup {
        html! {
            h3 { "The last " (self.days.len()) " days" }
            ol.days {
                @for day in &self.days {
                    @let (class, sign, _) = day.outcome();
                    @let words = day.words();
                    li class=(class) title=(words) { span aria-hidden="true" { (sign) } span.unseen { (words) } }
                }
            }
            p.muted.days-key aria-hidden="true" { @for (class, sign, words) in OUTCOMES { span { b class=(class) { (sign) } " " (words) } } }
            p.muted { "Days in UTC, oldest first." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_shows_its_best_outcome_and_says_it_in_words() {
        let start = "2026-01-31T00:00:00.000Z".to_owned();
        let day =
            |succeeded: u64, warning: u64, failed: u64| Day { start: start.clone(), succeeded, warning, failed, ..Day::default() };
        let words = |day: Day| (day.outcome().0, day.words());
        assert_eq!(words(day(1, 0, 2)), ("good", "31 Jan 2026: backed up, 3 jobs, 2 failed".to_owned()));
        assert_eq!(words(day(0, 1, 0)), ("warn", "31 Jan 2026: backed up with a warning".to_owned()));
        assert_eq!(words(Day { bytes: Some(1_500), ..day(0, 0, 1) }), ("bad", "31 Jan 2026: failed, 1.5 kB".to_owned()));
        assert_eq!(words(day(0, 0, 0)), ("none", "31 Jan 2026: no backup".to_owned()));
        let strip = BackupHistory { days: vec![day(1, 0, 0), day(0, 0, 1)] }.show().into_string();
        assert!(strip.contains("The last 2 days") && strip.contains("<li class=\"bad\" title=\"31 Jan 2026: failed\">"), "{strip}");
    }
}
