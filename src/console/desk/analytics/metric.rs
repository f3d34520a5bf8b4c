//! What a page knows of a metric from its name: its title, its unit, its area, and whether bars or a line show it best.

use crate::{analytics::SHOWN, chart::number};

const DAY: f64 = 86_400.0;
const HOUR: f64 = 3_600.0;
const MINUTE: f64 = 60.0;

/// The areas with the beginnings of the names of their metrics.
const AREAS: [(&str, &[&str]); 8] = [
    ("Tickets", &["ticket", "first_response", "resolution", "sla", "reopen"]),
    ("Workflows", &["workflow"]),
    ("Devices", &["device", "patch"]),
    ("Clouds", &["vm"]),
    ("Backups", &["backup"]),
    ("API", &["api"]),
    ("Webhooks", &["webhook"]),
    ("Quotas", &["quota"]),
];
const OTHER: &str = "Use";
/// Metrics that are measured from time to time. All others without a unit are counts.
const SAMPLES: [&str; 5] = ["ticket_backlog", "devices", "vms", "active_users", "active_keys"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Percent,
    Seconds,
    Milliseconds,
    Bytes,
}

impl Unit {
    pub(super) fn of(metric: &str) -> Self {
        if metric.ends_with("_percent") {
            Self::Percent
        } else if metric.ends_with("_seconds") {
            Self::Seconds
        } else if metric.ends_with("_ms") {
            Self::Milliseconds
        } else if metric.contains("_bytes") {
            Self::Bytes
        } else {
            Self::Count
        }
    }

    /// What to divide values by, so that the largest is easy to read, and the unit that they have then.
    pub(super) fn scale(self, largest: f64) -> (f64, &'static str) {
        match self {
            Self::Count => (1.0, ""),
            Self::Percent => (1.0, "%"),
            Self::Seconds if largest >= 2.0 * DAY => (DAY, "days"),
            Self::Seconds if largest >= 2.0 * HOUR => (HOUR, "hours"),
            Self::Seconds if largest >= 2.0 * MINUTE => (MINUTE, "minutes"),
            Self::Seconds => (1.0, "seconds"),
            Self::Milliseconds if largest >= 2_000.0 => (1_000.0, "seconds"),
            Self::Milliseconds => (1.0, "ms"),
            Self::Bytes if largest >= 1e9 => (1e9, "GB"),
            Self::Bytes if largest >= 1e6 => (1e6, "MB"),
            Self::Bytes => (1e3, "kB"),
        }
    }

    /// A value with its unit, such as `1.5 hours`.
    pub(super) fn text(self, value: f64) -> String {
        let (divisor, unit) = self.scale(value.abs());
        let text = number(value / divisor);
        if unit.is_empty() { text } else { format!("{text} {unit}") }
    }
}

/// Whether bars show the metric. Bars are for what adds up, lines for shares, times and samples.
pub(super) fn is_counted(metric: &str) -> bool {
    Unit::of(metric) == Unit::Count && !metric.starts_with("quota_") && !SAMPLES.contains(&metric)
}

/// The name of a metric as people read it.
pub(super) fn title(metric: &str) -> String {
    if let Some((_, title)) = SHOWN.iter().find(|(name, _)| *name == metric) {
        return (*title).to_owned();
    }
    let mut parts: Vec<&str> = metric.split('_').collect();
    if matches!(parts.last(), Some(&("percent" | "seconds" | "ms"))) {
        parts.pop();
    }
    let rank = match parts.last().copied() {
        Some("p50") => ", median",
        Some("p90") => ", 90th percentile",
        Some("p95") => ", 95th percentile",
        _ => "",
    };
    if !rank.is_empty() {
        parts.pop();
    }
    let text = parts.iter().map(|part| word(part)).collect::<Vec<_>>().join(" ");
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}{rank}", letters.as_str())
}

fn word(part: &str) -> &str {
    match part {
        "api" => "API",
        "rpo" => "RPO",
        "sla" => "SLA",
        "vm" => "VM",
        "vms" => "VMs",
        other => other,
    }
}

/// The metrics by area, in the order of the areas.
pub(super) fn by_area<'a>(metrics: &[&'a str]) -> Vec<(&'static str, Vec<&'a str>)> {
    let area = |metric: &str| {
        let found = AREAS.iter().find(|(_, beginnings)| beginnings.iter().any(|beginning| metric.starts_with(beginning)));
        found.map_or(OTHER, |(name, _)| *name)
    };
    let names = AREAS.iter().map(|(name, _)| *name).chain([OTHER]);
    let of = |name: &'static str| (name, metrics.iter().copied().filter(|metric| area(metric) == name).collect::<Vec<_>>());
    names.map(of).filter(|(_, metrics)| !metrics.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_named_by_its_words() {
        assert_eq!(title("tickets_created"), "Tickets created");
        assert_eq!(title("resolution_p90_seconds"), "Resolution, 90th percentile");
        assert_eq!(title("vm_provision_success_percent"), "VM provision success");
        assert_eq!(title("vms"), "VMs");
        assert_eq!(title("backup_rpo_breaches"), "Backup RPO breaches");
        assert_eq!(title("stored_bytes"), "Stored bytes");
    }

    #[test]
    fn a_value_has_the_unit_that_is_easy_to_read() {
        assert_eq!(Unit::of("resolution_p90_seconds").text(95_231.5), "26.45 hours");
        assert_eq!(Unit::of("api_request_p95_ms").text(6.848), "6.85 ms");
        assert_eq!(Unit::of("sla_met_percent").text(100.0), "100 %");
        assert_eq!(Unit::of("quota_stored_bytes_limit").text(21_474_836_480.0), "21.47 GB");
        assert_eq!(Unit::of("api_requests").text(28_365.0), "28,365");
    }

    #[test]
    fn bars_are_for_counts() {
        assert!(is_counted("tickets_created") && is_counted("backup_rpo_breaches"));
        assert!(!is_counted("ticket_backlog") && !is_counted("sla_met_percent") && !is_counted("quota_records"));
    }

    #[test]
    fn metrics_are_offered_by_area() {
        let found = by_area(&["vms", "tickets_created", "stored_bytes", "vm_provision_success_percent"]);
        let expected = [
            ("Tickets", vec!["tickets_created"]),
            ("Clouds", vec!["vms", "vm_provision_success_percent"]),
            ("Use", vec!["stored_bytes"]),
        ];
        assert_eq!(found, expected);
    }
}
