//! The settings of backups, and how a page says them.

use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    components::{facts, words},
    desk::organizations::{counted, name_of},
    moment,
};

/// The settings in the order of the page: their names in the API and their titles.
pub(super) const SETTINGS: [(&str, &str); 9] = [
    ("enabled", "Backups"),
    ("workloads", "Kinds of devices"),
    ("schedule", "Schedule"),
    ("objectives", "Objectives"),
    ("retention", "Retention"),
    ("targets", "Targets"),
    ("encryption", "Encryption"),
    ("verification", "Restore tests"),
    ("notifications", "Tickets"),
];

/// The kinds of devices, in the order of the form.
pub(super) const KINDS: [&str; 3] = ["server", "workstation", "vm"];
/// The conditions for which tenantd opens a ticket.
pub(super) const ALARMS: [&str; 3] = ["failed", "missed", "rpo_breach"];

/// The settings that apply to a level.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Policy {
    pub(super) enabled: bool,
    pub(super) workloads: Vec<String>,
    pub(super) schedule: Schedule,
    pub(super) retention: Retention,
    pub(super) objectives: Objectives,
    pub(super) targets: Vec<Target>,
    pub(super) encryption: Encryption,
    pub(super) verification: Verification,
    pub(super) notifications: Notifications,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Schedule {
    pub(super) kind: String,
    pub(super) every_minutes: Option<u64>,
    pub(super) cron: Option<String>,
    pub(super) timezone: String,
    pub(super) window: Option<Window>,
}

/// The hours in which jobs start.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Window {
    pub(super) start: String,
    pub(super) end: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Retention {
    pub(super) hourly: u64,
    pub(super) daily: u64,
    pub(super) weekly: u64,
    pub(super) monthly: u64,
    pub(super) yearly: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Objectives {
    pub(super) rpo_minutes: Minutes,
    pub(super) rto_minutes: Option<Minutes>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Minutes {
    pub(super) server: u64,
    pub(super) workstation: u64,
    pub(super) vm: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) offsite: bool,
    pub(super) immutable_days: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Encryption {
    pub(super) at_rest: bool,
    pub(super) key_source: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Verification {
    pub(super) restore_test_every_days: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Notifications {
    pub(super) ticket_on: Vec<String>,
    pub(super) ticket_priority: String,
    pub(super) resolve_on_recovery: bool,
}

impl Policy {
    /// A setting in words, a line for each part.
    pub(super) fn text(&self, setting: &str) -> Vec<String> {
        match setting {
            "enabled" => vec![(if self.enabled { "Devices must be backed up" } else { "Off" }).to_owned()],
            "workloads" => vec![listed(&self.workloads)],
            "schedule" => self.schedule.text(),
            "objectives" => self.objectives.text(),
            "retention" => vec![self.retention.text()],
            "targets" if self.targets.is_empty() => vec!["None".to_owned()],
            "targets" => self.targets.iter().map(Target::text).collect(),
            "encryption" => vec![self.encryption.text()],
            "verification" => vec![format!("Every {}", counted(self.verification.restore_test_every_days, "day", "days"))],
            "notifications" => self.notifications.text(),
            _ => Vec::new(),
        }
    }
}

/// Values of the API as people read them, such as `Server, Workstation`.
fn listed(values: &[String]) -> String {
    values.iter().map(|value| name_of(value)).collect::<Vec<_>>().join(", ")
}

impl Schedule {
    fn text(&self) -> Vec<String> {
        let rhythm = match (&self.cron, self.every_minutes) {
            (Some(cron), _) => format!("Cron {cron}, {}", self.timezone),
            (None, Some(minutes)) => format!("Every {}, {}", moment::minutes(minutes), self.timezone),
            (None, None) => self.timezone.clone(),
        };
        let window = self.window.as_ref().map(|window| format!("Jobs start from {} to {}", window.start, window.end));
        [rhythm].into_iter().chain(window).collect()
    }
}

impl Retention {
    fn text(&self) -> String {
        let kept = [
            (self.hourly, "hourly"),
            (self.daily, "daily"),
            (self.weekly, "weekly"),
            (self.monthly, "monthly"),
            (self.yearly, "yearly"),
        ];
        let kept: Vec<String> =
            kept.iter().filter(|(count, _)| *count > 0).map(|(count, period)| format!("{count} {period}")).collect();
        if kept.is_empty() { "Only the newest restore point".to_owned() } else { kept.join(", ") }
    }
}

impl Objectives {
    fn text(&self) -> Vec<String> {
        let line = |name: &str, minutes: &Minutes| format!("{name}: {}", minutes.text());
        let restore = self.rto_minutes.as_ref().map(|minutes| line("Restore within", minutes));
        [line("Restore point at most", &self.rpo_minutes)].into_iter().chain(restore).collect()
    }
}

impl Minutes {
    fn text(&self) -> String {
        let vm = self.vm.map(|minutes| format!(", VMs {}", moment::minutes(minutes))).unwrap_or_default();
        format!("servers {}, workstations {}{vm}", moment::minutes(self.server), moment::minutes(self.workstation))
    }
}

impl Target {
    fn text(&self) -> String {
        let place = if self.offsite { "offsite" } else { "on site" };
        let lock = match self.immutable_days {
            0 => "no lock".to_owned(),
            days => format!("locked for {}", counted(days, "day", "days")),
        };
        format!("{} ({}, {place}, {lock})", self.name, target_kind(&self.kind))
    }
}

/// The kind of a target as people write it.
pub(super) fn target_kind(kind: &str) -> String {
    match kind {
        "nas" => "NAS".to_owned(),
        "object" => "Object storage".to_owned(),
        other => words(other),
    }
}

impl Encryption {
    fn text(&self) -> String {
        match (self.at_rest, self.key_source.as_deref()) {
            (false, _) => "Not encrypted".to_owned(),
            (true, Some("customer")) => "Encrypted, the customer holds the keys".to_owned(),
            (true, _) => "Encrypted, the platform holds the keys".to_owned(),
        }
    }
}

impl Notifications {
    fn text(&self) -> Vec<String> {
        if self.ticket_on.is_empty() {
            return vec!["None".to_owned()];
        }
        let conditions: Vec<&str> = self.ticket_on.iter().map(|alarm| alarm_words(alarm)).collect();
        let end = if self.resolve_on_recovery { "Resolved when the cause is gone" } else { "Resolved by hand" };
        vec![format!("{}, priority {}", conditions.join(", "), self.ticket_priority), end.to_owned()]
    }
}

/// One of [`ALARMS`] in words.
pub(super) fn alarm_words(alarm: &str) -> &str {
    match alarm {
        "failed" => "Backup failed",
        "missed" => "Backup missed",
        "rpo_breach" => "Restore point too old",
        other => other,
    }
}

/// The lines of a setting.
pub(super) fn lines(lines: &[String]) -> Markup {
    html! { @for (place, line) in lines.iter().enumerate() { @if place > 0 { br; } (line) } }
}

/// The settings that apply, without where they come from.
pub(super) fn list(policy: &Policy) -> Markup {
    let row = |(name, title): &(&'static str, &'static str)| (*title, Some(lines(&policy.text(name))));
    facts(&SETTINGS.iter().map(row).collect::<Vec<_>>())
}

/// Settings for tests.
#[cfg(test)]
pub(super) fn example() -> serde_json::Value {
    serde_json::json!({
        "enabled": true,
        "workloads": ["server", "vm"],
        "schedule": {"kind": "interval", "every_minutes": 1440, "timezone": "Europe/Berlin"},
        "retention": {"hourly": 0, "daily": 14, "weekly": 5, "monthly": 12, "yearly": 0},
        "objectives": {"rpo_minutes": {"server": 2160, "workstation": 4320}},
        "targets": [{"name": "Vault", "kind": "object", "offsite": true, "immutable_days": 30}],
        "encryption": {"at_rest": true, "key_source": "customer"},
        "verification": {"restore_test_every_days": 30},
        "notifications": {"ticket_on": ["failed", "rpo_breach"], "ticket_priority": "high", "resolve_on_recovery": true}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_said_in_words() {
        let policy: Policy = serde_json::from_value(example()).unwrap();
        assert_eq!(policy.text("workloads"), ["Server, Virtual machine"]);
        assert_eq!(policy.text("schedule"), ["Every 24 h, Europe/Berlin"]);
        assert_eq!(policy.text("retention"), ["14 daily, 5 weekly, 12 monthly"]);
        assert_eq!(policy.text("objectives"), ["Restore point at most: servers 36 h, workstations 72 h"]);
        assert_eq!(policy.text("targets"), ["Vault (Object storage, offsite, locked for 30 days)"]);
        assert_eq!(policy.text("encryption"), ["Encrypted, the customer holds the keys"]);
        assert_eq!(
            policy.text("notifications"),
            ["Backup failed, Restore point too old, priority high", "Resolved when the cause is gone"]
        );
        assert!(SETTINGS.iter().all(|(name, _)| !policy.text(name).is_empty()));
    }
}
