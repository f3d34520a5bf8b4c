//! What an event of a ticket changed, in words.

use maud::{Markup, html};
use serde_json::Value;

use super::record::{Author, Change, Event, Names, ticket_link};
use crate::{
    components::words,
    moment::{Clock, minutes},
};

/// Says what events changed.
pub(super) struct Teller<'a> {
    pub(super) names: &'a Names,
    pub(super) clock: &'a Clock,
}

impl Teller<'_> {
    /// What the actor of an event did; nothing if the page says it in another way.
    pub(super) fn sentence(&self, event: &Event) -> Option<Markup> {
        let phrases: Vec<Markup> = match event.kind.as_str() {
            // The opening and the comments are entries of their own. The others come with an update that says the same.
            "ticket.created" | "ticket.commented" | "ticket.resolved" | "ticket.closed" | "ticket.reopened" => Vec::new(),
            kind if event.data.changes.is_empty() => {
                vec![html! { (words(kind.rsplit('.').next().unwrap_or(kind)).to_lowercase()) }]
            }
            _ => event.data.changes.iter().filter_map(|(field, change)| self.phrase(field, change, &event.actor)).collect(),
        };
        (!phrases.is_empty()).then(|| joined(&phrases))
    }

    fn phrase(&self, field: &str, change: &Change, actor: &Author) -> Option<Markup> {
        let phrase = match field {
            "first_responded_at" => return None,
            "sla.first_response" => clock_phrase("first response", change),
            "sla.resolution" => clock_phrase("resolution", change),
            "time_spent_minutes" => {
                let count = |value: &Value| value.as_u64().unwrap_or_default();
                html! { "added " (minutes(count(&change.to).saturating_sub(count(&change.from)))) " of work" }
            }
            "description" => html! { "changed the description" },
            "external_refs" => html! { "changed the external references" },
            "resolution" => resolution_phrase(change),
            "assignee_id" => self.assignee_phrase(change, actor),
            "tags" => self.list_phrase("tag", field, change),
            "device_ids" => self.list_phrase("device", field, change),
            "custom_fields" => self.custom_phrase(change),
            _ => self.value_phrase(&name(field), field, &change.from, &change.to),
        };
        Some(phrase)
    }

    fn assignee_phrase(&self, change: &Change, actor: &Author) -> Markup {
        match (change.from.as_str(), change.to.as_str()) {
            (_, Some(to)) if to == actor.id => html! { "took the ticket" },
            (None, Some(to)) => html! { "assigned the ticket to " strong { (self.names.of(to)) } },
            (Some(from), None) => html! { "removed the assignee " strong { (self.names.of(from)) } },
            _ => self.value_phrase("assignee", "assignee_id", &change.from, &change.to),
        }
    }

    /// The members of a list that were added and removed.
    fn list_phrase(&self, singular: &str, field: &str, change: &Change) -> Markup {
        let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (before, after) = (all(&change.from), all(&change.to));
        let part = |verb: &str, these: &[Value], others: &[Value]| {
            let found: Vec<Markup> =
                these.iter().filter(|value| !others.contains(value)).map(|value| self.value(field, value)).collect();
            let plural = if found.len() == 1 { "" } else { "s" };
            (!found.is_empty()).then(|| html! { (verb) " the " (singular) (plural) " " (joined(&found)) })
        };
        let parts: Vec<Markup> = [part("added", &after, &before), part("removed", &before, &after)].into_iter().flatten().collect();
        if parts.is_empty() {
            html! { "changed the order of the " (singular) "s" }
        } else {
            joined(&parts)
        }
    }

    fn custom_phrase(&self, change: &Change) -> Markup {
        let nothing = serde_json::Map::new();
        let (before, after) = (change.from.as_object().unwrap_or(&nothing), change.to.as_object().unwrap_or(&nothing));
        let mut fields: Vec<&String> =
            before.keys().chain(after.keys()).filter(|field| before.get(*field) != after.get(*field)).collect();
        fields.sort();
        fields.dedup();
        let missing = Value::Null;
        let phrase = |field: &&String| {
            let (from, to) = (before.get(*field).unwrap_or(&missing), after.get(*field).unwrap_or(&missing));
            self.value_phrase(&format!("field {field}"), "custom_fields", from, to)
        };
        joined(&fields.iter().map(phrase).collect::<Vec<_>>())
    }

    fn value_phrase(&self, name: &str, field: &str, from: &Value, to: &Value) -> Markup {
        let (old, new) = (self.value(field, from), self.value(field, to));
        match (from.is_null(), to.is_null()) {
            (true, _) => html! { "set the " (name) " to " (new) },
            (false, true) => html! { "removed the " (name) " " (old) },
            (false, false) => html! { "changed the " (name) " from " (old) " to " (new) },
        }
    }

    fn value(&self, field: &str, value: &Value) -> Markup {
        let Some(text) = value.as_str() else { return html! { "“" (value.to_string()) "”" } };
        match field {
            "status" | "type" | "priority" | "source" | "impact" | "urgency" => html! { strong { (words(text)) } },
            "assignee_id" | "contact_id" | "organization_id" => html! { strong { (self.names.of(text)) } },
            "device_ids" => html! { a href={ "/devices/" (text) } { (self.names.of(text)) } },
            "parent" | "merged_into" => ticket_link(text),
            "due_at" => self.clock.absolute(text),
            _ => html! { "“" (text) "”" },
        }
    }
}

/// The name of a field in a sentence.
fn name(field: &str) -> String {
    match field {
        "merged_into" => "ticket to merge into".to_owned(),
        "dedup_key" => "deduplication key".to_owned(),
        "due_at" => "due time".to_owned(),
        _ => field.strip_suffix("_id").unwrap_or(field).replace('_', " "),
    }
}

fn clock_phrase(target: &str, change: &Change) -> Markup {
    match change.to.as_str() {
        Some("at_risk") => html! { "75 % of the time for the " (target) " has passed" },
        Some("breached") => html! { "the time for the " (target) " has run out" },
        _ => html! { "changed the service level of the " (target) },
    }
}

fn resolution_phrase(change: &Change) -> Markup {
    let member = |name: &str| change.to.get(name).and_then(Value::as_str).unwrap_or_default();
    if change.to.is_null() {
        return html! { "removed the resolution" };
    }
    html! { "gave the resolution " strong { (words(member("code"))) } ": “" (member("summary")) "”" }
}

/// Phrases with commas, and `and` before the last.
fn joined(phrases: &[Markup]) -> Markup {
    html! {
        @for (place, phrase) in phrases.iter().enumerate() {
            @if place > 0 { @if place + 1 == phrases.len() { " and " } @else { ", " } }
            (phrase)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sentence(kind: &str, changes: &Value) -> String {
        let mut names = Names::default();
        let snapshot = json!({"assignee": {"id": "usr_1", "name": "Ada"}, "devices": [{"id": "dev_1", "name": "srv-1"}]});
        names.learn(&serde_json::from_value(snapshot).unwrap());
        let now = tenantd_base::clock::Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap();
        let clock = Clock { now, zone: jiff::tz::TimeZone::UTC };
        let actor = json!({"kind": "user", "id": "usr_2", "name": "Bo"});
        let event = json!({"type": kind, "timestamp": "2026-11-18T11:00:00.000Z", "actor": actor, "data": {"changes": changes}});
        let event: Event = serde_json::from_value(event).unwrap();
        let told = Teller { names: &names, clock: &clock }.sentence(&event);
        told.map(Markup::into_string).unwrap_or_default().replace("<strong>", "").replace("</strong>", "")
    }

    #[test]
    fn changes_are_told_in_words() {
        let told = |changes: &Value| sentence("ticket.updated", changes);
        assert_eq!(told(&json!({"status": {"from": "new", "to": "in_progress"}})), "changed the status from New to In progress");
        assert_eq!(told(&json!({"assignee_id": {"from": null, "to": "usr_1"}})), "assigned the ticket to Ada");
        assert_eq!(told(&json!({"assignee_id": {"from": "usr_1", "to": "usr_2"}})), "took the ticket");
        assert_eq!(told(&json!({"time_spent_minutes": {"from": 10, "to": 80}})), "added 1 h 10 min of work");
        assert_eq!(
            told(&json!({"device_ids": {"from": [], "to": ["dev_1"]}, "queue": {"from": "Mail", "to": null}})),
            "added the device <a href=\"/devices/dev_1\">srv-1</a> and removed the queue “Mail”"
        );
        assert_eq!(
            told(&json!({"custom_fields": {"from": {"a": 1}, "to": {"a": 2, "b": "<i>"}}})),
            "changed the field a from “1” to “2” and set the field b to “&lt;i&gt;”"
        );
        assert_eq!(sentence("ticket.resolved", &json!({})), "");
    }
}
