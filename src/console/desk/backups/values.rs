//! The settings as the fields of a form, and the body that a form asks for.

use serde_json::{Map, Number, Value, json};

use super::settings::{ALARMS, KINDS, Minutes, Policy, SETTINGS};
use crate::form::Fields;

/// The most targets that a level can have.
pub(super) const MOST_TARGETS: usize = 16;
/// The field with the names of the settings that the level sets itself.
pub(super) const OWN: &str = "own";
const PERIODS: [&str; 5] = ["hourly", "daily", "weekly", "monthly", "yearly"];

/// The form with the settings that apply. `own` are those that the level sets itself.
pub(super) fn fields(policy: &Policy, own: &Map<String, Value>) -> Fields {
    let mut pairs: Vec<(String, String)> = own.keys().map(|name| (OWN.to_owned(), name.clone())).collect();
    let mut add = |name: &str, value: String| pairs.push((name.to_owned(), value));
    add("enabled", policy.enabled.to_string());
    for kind in &policy.workloads {
        add("workloads", kind.clone());
    }
    let schedule = &policy.schedule;
    add("schedule.kind", schedule.kind.clone());
    add("schedule.every_minutes", optional(schedule.every_minutes));
    add("schedule.cron", schedule.cron.clone().unwrap_or_default());
    add("schedule.timezone", schedule.timezone.clone());
    if let Some(window) = &schedule.window {
        add("schedule.start", window.start.clone());
        add("schedule.end", window.end.clone());
    }
    let kept = &policy.retention;
    for (name, count) in PERIODS.iter().zip([kept.hourly, kept.daily, kept.weekly, kept.monthly, kept.yearly]) {
        add(&format!("retention.{name}"), count.to_string());
    }
    for (name, minutes) in durations("rpo", Some(&policy.objectives.rpo_minutes)) {
        add(&name, minutes);
    }
    for (name, minutes) in durations("rto", policy.objectives.rto_minutes.as_ref()) {
        add(&name, minutes);
    }
    for (place, target) in policy.targets.iter().enumerate() {
        add(&target_field(place, "name"), target.name.clone());
        add(&target_field(place, "kind"), target.kind.clone());
        add(&target_field(place, "immutable_days"), target.immutable_days.to_string());
        if target.offsite {
            add(&target_field(place, "offsite"), "true".to_owned());
        }
    }
    add("encryption", policy.encryption.key_source.clone().unwrap_or_default());
    add("verification", policy.verification.restore_test_every_days.to_string());
    for alarm in &policy.notifications.ticket_on {
        add("notifications.ticket_on", alarm.clone());
    }
    add("notifications.ticket_priority", policy.notifications.ticket_priority.clone());
    if policy.notifications.resolve_on_recovery {
        add("notifications.resolve_on_recovery", "true".to_owned());
    }
    Fields::new(&pairs)
}

fn optional(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn durations(group: &str, minutes: Option<&Minutes>) -> Vec<(String, String)> {
    let Some(minutes) = minutes else { return Vec::new() };
    let values = [minutes.server.to_string(), minutes.workstation.to_string(), optional(minutes.vm)];
    KINDS.iter().zip(values).map(|(kind, value)| (format!("{group}.{kind}"), value)).collect()
}

/// The name of a field of a target.
pub(super) fn target_field(place: usize, name: &str) -> String {
    format!("targets.{place}.{name}")
}

/// What a form asks for: the settings that it sets. All others are inherited.
pub(super) fn body(sent: &Fields) -> Map<String, Value> {
    let own = sent.all(OWN);
    SETTINGS.iter().filter(|(name, _)| own.contains(name)).map(|(name, _)| ((*name).to_owned(), setting(sent, name))).collect()
}

/// The titles of the settings that a form changes without setting them, so that they stay as they are.
pub(super) fn ignored(sent: &Fields, shown: &Fields) -> Vec<&'static str> {
    let own = sent.all(OWN);
    let is_ignored = |name: &str| !own.contains(&name) && setting(sent, name) != setting(shown, name);
    SETTINGS.iter().filter(|(name, _)| is_ignored(name)).map(|(_, title)| *title).collect()
}

/// The value of a setting from the fields of a form.
fn setting(sent: &Fields, name: &str) -> Value {
    match name {
        "enabled" => json!(sent.get("enabled") == "true"),
        "workloads" => listed(sent, "workloads", &KINDS),
        "schedule" => schedule(sent),
        "retention" => members(sent, "retention", &PERIODS),
        "objectives" => objectives(sent),
        "targets" => Value::Array((0..MOST_TARGETS).filter_map(|place| target(sent, place)).collect()),
        "encryption" => match sent.get("encryption") {
            "" => json!({"at_rest": false}),
            source => json!({"at_rest": true, "key_source": source}),
        },
        "verification" => json!({"restore_test_every_days": number(sent.get("verification"))}),
        "notifications" => json!({
            "ticket_on": listed(sent, "notifications.ticket_on", &ALARMS),
            "ticket_priority": sent.get("notifications.ticket_priority"),
            "resolve_on_recovery": sent.get("notifications.resolve_on_recovery") == "true",
        }),
        _ => Value::Null,
    }
}

/// The chosen values in the order of the form, so that another order is no change.
fn listed(sent: &Fields, name: &str, known: &[&str]) -> Value {
    let mut values = sent.all(name);
    values.sort_by_key(|value| known.iter().position(|known| known == value));
    json!(values)
}

fn schedule(sent: &Fields) -> Value {
    let kind = sent.get("schedule.kind");
    let mut schedule = Map::new();
    schedule.insert("kind".to_owned(), kind.into());
    schedule.insert("timezone".to_owned(), sent.get("schedule.timezone").into());
    if kind == "cron" {
        schedule.insert("cron".to_owned(), sent.get("schedule.cron").into());
    } else {
        schedule.insert("every_minutes".to_owned(), number(sent.get("schedule.every_minutes")));
    }
    let (start, end) = (sent.get("schedule.start"), sent.get("schedule.end"));
    if !start.is_empty() || !end.is_empty() {
        schedule.insert("window".to_owned(), json!({"start": start, "end": end}));
    }
    Value::Object(schedule)
}

fn objectives(sent: &Fields) -> Value {
    let mut objectives = Map::new();
    objectives.insert("rpo_minutes".to_owned(), members(sent, "rpo", &KINDS));
    let restore = members(sent, "rto", &KINDS);
    if restore.as_object().is_some_and(|members| !members.is_empty()) {
        objectives.insert("rto_minutes".to_owned(), restore);
    }
    Value::Object(objectives)
}

fn target(sent: &Fields, place: usize) -> Option<Value> {
    let field = |name: &str| sent.get(&target_field(place, name));
    let name = Some(field("name")).filter(|name| !name.is_empty())?;
    let days = Some(field("immutable_days")).filter(|days| !days.is_empty()).unwrap_or("0");
    Some(json!({"name": name, "kind": field("kind"), "offsite": field("offsite") == "true", "immutable_days": number(days)}))
}

/// An object from the fields of a group that are not empty.
fn members(sent: &Fields, group: &str, names: &[&str]) -> Value {
    let value = |name: &&str| Some(sent.get(&format!("{group}.{name}"))).filter(|text| !text.is_empty()).map(number);
    names.iter().filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect::<Map<String, Value>>().into()
}

/// A number; text that is none stays text, so that the API says what is wrong with it.
fn number(text: &str) -> Value {
    serde_json::from_str::<Number>(text).map_or_else(|_| text.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::{super::settings::example, *};

    fn shown(own: &Value) -> Fields {
        let policy: Policy = serde_json::from_value(example()).unwrap();
        fields(&policy, own.as_object().unwrap())
    }

    #[test]
    fn a_form_that_is_sent_as_it_was_shown_changes_nothing() {
        let own = example();
        assert_eq!(Value::Object(body(&shown(&own))), own);
        assert_eq!(Value::Object(body(&shown(&json!({})))), json!({}), "what is inherited stays inherited");
    }

    #[test]
    fn a_change_of_an_inherited_setting_is_noticed() {
        let before = shown(&json!({}));
        let mut sent = before.clone();
        assert!(ignored(&sent, &before).is_empty());
        sent.set("rpo.server", "60");
        assert_eq!(ignored(&sent, &before), ["Objectives"]);
        sent.set(OWN, "objectives");
        assert!(ignored(&sent, &before).is_empty());
        assert_eq!(Value::Object(body(&sent)), json!({"objectives": {"rpo_minutes": {"server": 60, "workstation": 4320}}}));
    }

    #[test]
    fn a_target_without_a_name_is_removed_and_text_stays_text() {
        let mut sent = shown(&example());
        sent.set("targets.0.name", "");
        sent.set("targets.1.name", "Disk");
        sent.set("targets.1.kind", "local");
        sent.set("verification", "soon");
        let body = body(&sent);
        assert_eq!(body["targets"], json!([{"name": "Disk", "kind": "local", "offsite": false, "immutable_days": 0}]));
        assert_eq!(body["verification"], json!({"restore_test_every_days": "soon"}));
    }
}
