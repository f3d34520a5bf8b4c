//! The fields of the form with the settings. Each setting says where it comes from, and whether this level sets it.

use maud::{Markup, html};

use super::{
    scope::{Config, Level},
    settings::{ALARMS, KINDS, SETTINGS, alarm_words, target_kind},
    values::{MOST_TARGETS, OWN, target_field},
};
use crate::{
    desk::{
        organizations::{choices, name_of},
        tickets::PRIORITIES,
    },
    form::{Control, Shown, options},
};

const TARGET_KINDS: [&str; 5] = ["local", "nas", "object", "cloud", "tape"];
const PERIODS: [(&str, &str); 5] = [
    ("retention.hourly", "Hourly"),
    ("retention.daily", "Daily"),
    ("retention.weekly", "Weekly"),
    ("retention.monthly", "Monthly"),
    ("retention.yearly", "Yearly"),
];
/// Empty rows for new targets.
const SPARE_TARGETS: usize = 2;

pub(super) struct Inputs<'a> {
    pub(super) shown: Shown<'a>,
    pub(super) config: &'a Config,
    pub(super) level: &'a Level,
}

impl Inputs<'_> {
    pub(super) fn render(&self) -> Markup {
        html! { @for (name, title) in &SETTINGS { (self.group(name, title)) } }
    }

    fn group(&self, name: &str, title: &str) -> Markup {
        let is_own = self.shown.fields.all(OWN).contains(&name);
        // Settings with one field: the field has the name, and says what is wrong.
        let is_single = matches!(name, "enabled" | "encryption" | "verification");
        let id = (!is_single).then_some(name);
        html! {
            fieldset.setting id=[id] {
                legend { (title) }
                p.hint { (self.level.source(self.config, name)) }
                label.check { input type="checkbox" name=(OWN) value=(name) checked[is_own]; "Set for " (self.level.name()) }
                @if !is_single { (self.problems(name)) }
                (self.fields(name))
            }
        }
    }

    /// All that is wrong with a setting of several fields.
    fn problems(&self, name: &str) -> Markup {
        let errors = self.shown.refusal.map(|refusal| refusal.errors.as_slice()).unwrap_or_default();
        let wrong = errors.iter().filter_map(|error| Some((inside(error.pointer.as_deref()?, name)?, &error.message)));
        html! {
            @for (place, message) in wrong { p.problem { @if !place.is_empty() { (place) ": " } (message) } }
        }
    }

    fn fields(&self, name: &str) -> Markup {
        match name {
            "enabled" => self.enabled(),
            "workloads" => self.checks("workloads", KINDS.map(|kind| (kind, name_of(kind)))),
            "schedule" => self.schedule(),
            "objectives" => self.objectives(),
            "retention" => html! { div.filter-fields { @for (name, label) in PERIODS { (self.number(name, label, true)) } } },
            "targets" => self.targets(),
            "encryption" => self.encryption(),
            "verification" => self.number("verification", "Restore test at least every … days", true),
            "notifications" => self.notifications(),
            _ => html! {},
        }
    }

    fn number(&self, name: &str, label: &str, required: bool) -> Markup {
        self.shown.field(name, label, Control::Input("number"), "", required)
    }

    fn checks<const N: usize>(&self, name: &str, values: [(&str, String); N]) -> Markup {
        let chosen = self.shown.fields.all(name);
        html! {
            @for (value, words) in &values {
                label.check { input type="checkbox" name=(name) value=(value) checked[chosen.contains(value)]; (words) }
            }
        }
    }

    fn enabled(&self) -> Markup {
        let values = [("true", "Devices must be backed up"), ("false", "Off: no device must be backed up")];
        let values = values.map(|(value, words)| (value.to_owned(), words.to_owned()));
        self.shown.field("enabled", "Backups", Control::Choice(&values), "", true)
    }

    fn schedule(&self) -> Markup {
        let kinds = [("interval", "At an interval"), ("cron", "At fixed times (cron)")];
        let kinds = kinds.map(|(value, words)| (value.to_owned(), words.to_owned()));
        let text = |name: &str, label: &str, hint: &str| self.shown.field(name, label, Control::Input("text"), hint, false);
        let time = |name: &str, label: &str| self.shown.field(name, label, Control::Input("time"), "", false);
        html! {
            div.filter-fields {
                (self.shown.field("schedule.kind", "Backups are due", Control::Choice(&kinds), "", true))
                (self.number("schedule.every_minutes", "Interval in minutes", false))
                (text("schedule.cron", "Cron expression", "Only for fixed times, such as 0 1 * * 1-5."))
                (self.shown.field("schedule.timezone", "Time zone", Control::Input("text"), "Such as Europe/Berlin.", true))
                (time("schedule.start", "Jobs start from"))
                (time("schedule.end", "Jobs start until"))
            }
        }
    }

    fn objectives(&self) -> Markup {
        html! {
            p { strong { "Newest restore point at most … minutes old" } }
            div.filter-fields {
                (self.number("rpo.server", "Servers", true))
                (self.number("rpo.workstation", "Workstations", true))
                (self.number("rpo.vm", "Virtual machines, as servers if empty", false))
            }
            p { strong { "Restored within … minutes" } }
            div.filter-fields {
                (self.number("rto.server", "Servers: restore", false))
                (self.number("rto.workstation", "Workstations: restore", false))
                (self.number("rto.vm", "Virtual machines: restore", false))
            }
        }
    }

    fn encryption(&self) -> Markup {
        let values = [
            ("", "Not encrypted"),
            ("platform", "Encrypted, the platform holds the keys"),
            ("customer", "Encrypted, the customer holds the keys"),
        ];
        let values = values.map(|(value, words)| (value.to_owned(), words.to_owned()));
        self.shown.field("encryption", "Stored restore points", Control::Choice(&values), "", false)
    }

    fn notifications(&self) -> Markup {
        let resolve = [("true", "Resolve the ticket when its cause is gone".to_owned())];
        html! {
            p.hint { "Open a ticket for:" }
            (self.checks("notifications.ticket_on", ALARMS.map(|alarm| (alarm, alarm_words(alarm).to_owned()))))
            (self.shown.field("notifications.ticket_priority", "Priority of these tickets", Control::Choice(&choices(&PRIORITIES)), "", true))
            (self.checks("notifications.resolve_on_recovery", resolve))
        }
    }

    fn targets(&self) -> Markup {
        let is_used = |place: &usize| self.shown.fields.has(&target_field(*place, "kind"));
        let used = (0..MOST_TARGETS).filter(is_used).count();
        let named = (0..MOST_TARGETS).filter(|place| !self.shown.fields.get(&target_field(*place, "name")).is_empty()).count();
        let rows = used.max(named + SPARE_TARGETS).min(MOST_TARGETS);
        html! {
            p.hint { "Remove a target by clearing its name." }
            @for place in 0..rows { (self.target(place)) }
        }
    }

    fn target(&self, place: usize) -> Markup {
        let kinds = TARGET_KINDS.map(|kind| (kind.to_owned(), target_kind(kind)));
        let value = |name: &str| self.shown.fields.get(&target_field(place, name));
        html! {
            div.filter-fields role="group" aria-label={ "Target " (place + 1) } {
                label { "Name" input type="text" name=(target_field(place, "name")) value=(value("name")) maxlength="100"; }
                label { "Kind" select name=(target_field(place, "kind")) { (options(&kinds, value("kind"))) } }
                label { "Locked for days" input type="number" name=(target_field(place, "immutable_days")) value=(value("immutable_days")) min="0"; }
                label.check { input type="checkbox" name=(target_field(place, "offsite")) value="true" checked[value("offsite") == "true"]; "Offsite" }
            }
        }
    }
}

/// The place of an error inside a setting, in words: `targets 2, name`.
fn inside(pointer: &str, setting: &str) -> Option<String> {
    let rest = pointer.strip_prefix('/')?.strip_prefix(setting)?;
    if rest.is_empty() {
        return Some(String::new());
    }
    let parts = rest.strip_prefix('/')?.split('/');
    let word = |part: &str| part.parse::<usize>().map_or_else(|_| part.replace('_', " "), |place| format!("number {}", place + 1));
    Some(parts.map(word).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_which_field_of_a_setting_it_is_about() {
        assert_eq!(inside("/targets/1/name", "targets").as_deref(), Some("number 2, name"));
        assert_eq!(inside("/objectives/rpo_minutes/server", "objectives").as_deref(), Some("rpo minutes, server"));
        assert_eq!(inside("/retention", "retention").as_deref(), Some(""));
        assert_eq!(inside("/retention", "ret"), None);
        assert_eq!(inside("/targets/1", "schedule"), None);
    }
}
