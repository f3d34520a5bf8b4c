//! The form for the details of a ticket, and the merge patch that it asks for.

use jiff::{civil::DateTime, tz::TimeZone};
use maud::{Markup, html};
use serde_json::{Map, Number, Value};

use tenantd_base::clock::Timestamp;

use super::{
    KINDS,
    forms::{Panel, lines, wrong},
    one::View,
    people::{contact_field, or_none},
    queue::PRIORITIES,
    record::Ticket,
};
use crate::{
    components::words,
    form::{Control, Fields, VERSION},
    moment::Clock,
    refusal::Refusal,
};

/// Fields that always have a value.
const REQUIRED: [&str; 3] = ["subject", "priority", "type"];
/// Fields that can be empty.
const OPTIONAL: [&str; 6] = ["description", "queue", "category", "contact_id", "assignee_id", "parent"];
/// The form of a time in a field, without a zone.
const LOCAL_TIME: &str = "%Y-%m-%dT%H:%M";

/// The values of a ticket as the form shows them.
fn values(ticket: &Ticket, clock: &Clock) -> Fields {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let due = ticket.due_at.as_deref().and_then(Timestamp::parse).map(|at| clock.day(at, LOCAL_TIME));
    let rows = [
        ("subject", ticket.subject.clone()),
        ("priority", ticket.priority.clone()),
        ("type", ticket.kind.clone()),
        ("description", text(&ticket.description)),
        ("queue", text(&ticket.queue)),
        ("category", text(&ticket.category)),
        ("contact_id", ticket.contact.as_ref().map(|contact| contact.id.clone()).unwrap_or_default()),
        ("assignee_id", ticket.assignee.as_ref().map(|assignee| assignee.id.clone()).unwrap_or_default()),
        ("parent", ticket.parent.as_ref().map(|parent| parent.reference.clone()).unwrap_or_default()),
        ("tags", ticket.tags.join("\n")),
        ("due_at", due.unwrap_or_default()),
    ];
    let mut fields = Fields::default();
    for (name, value) in rows {
        fields.set(name, value);
    }
    for (name, value) in &ticket.custom_fields {
        fields.set(&custom_name(name), plain(value));
    }
    fields
}

/// The name of the form's field for a custom field.
fn custom_name(name: &str) -> String {
    format!("custom_fields.{name}")
}

/// A custom field as text.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// What the form changes. Fields that are as they were are left out.
pub(super) fn patch(sent: &Fields, ticket: &Ticket, clock: &Clock) -> Result<Map<String, Value>, Refusal> {
    let shown = values(ticket, clock);
    // A field of one line drops line breaks and surrounding spaces by itself.
    let as_shown = |name: &str, text: &str| match name {
        "description" | "tags" => lines(text).trim().to_owned(),
        _ => text.replace(['\r', '\n'], "").trim().to_owned(),
    };
    let is_changed = |name: &str| sent.has(name) && as_shown(name, sent.get(name)) != as_shown(name, shown.get(name));
    let mut patch = Map::new();
    for name in REQUIRED.into_iter().chain(OPTIONAL).filter(|name| is_changed(name)) {
        let text = lines(sent.get(name));
        let value = if text.is_empty() && OPTIONAL.contains(&name) { Value::Null } else { Value::String(text) };
        patch.insert(name.to_owned(), value);
    }
    if is_changed("tags") {
        patch.insert("tags".to_owned(), sent.each_line("tags").into());
    }
    if is_changed("due_at") {
        patch.insert("due_at".to_owned(), due(sent.get("due_at"), &clock.zone)?);
    }
    if sent.get("new_field").is_empty() && !sent.get("new_value").is_empty() {
        return Err(wrong("new_field", "Enter the name of the new field."));
    }
    let custom = custom_fields(sent, ticket, is_changed);
    if !custom.is_empty() {
        patch.insert("custom_fields".to_owned(), Value::Object(custom));
    }
    Ok(patch)
}

/// A time in the reader's zone as the API takes it.
fn due(text: &str, zone: &TimeZone) -> Result<Value, Refusal> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let at = text.parse::<DateTime>().ok().and_then(|local| local.to_zoned(zone.clone()).ok());
    at.map(|at| at.timestamp().to_string().into())
        .ok_or_else(|| wrong("due_at", "Enter a date and a time, such as 2026-11-18T14:05."))
}

fn custom_fields(sent: &Fields, ticket: &Ticket, is_changed: impl Fn(&str) -> bool) -> Map<String, Value> {
    let mut custom = Map::new();
    for (name, value) in &ticket.custom_fields {
        let field = custom_name(name);
        if is_changed(&field) {
            custom.insert(name.clone(), typed(value, sent.get(&field)));
        }
    }
    if !sent.get("new_field").is_empty() {
        custom.insert(sent.get("new_field").to_owned(), sent.get("new_value").into());
    }
    custom
}

/// A text as a value of the type that the field has; null if it is empty.
fn typed(old: &Value, text: &str) -> Value {
    match (old, text) {
        (_, "") => Value::Null,
        (Value::Number(_), _) => serde_json::from_str::<Number>(text).map_or_else(|_| Value::from(text), Value::Number),
        (Value::Bool(_), "true" | "yes") => Value::Bool(true),
        (Value::Bool(_), "false" | "no") => Value::Bool(false),
        _ => Value::from(text),
    }
}

impl View<'_> {
    pub(super) fn edit(&self) -> Markup {
        let start = values(self.ticket, self.visitor.clock);
        let form = self.form(Panel::Details, &start);
        let choices = |values: &[&str]| values.iter().map(|value| ((*value).to_owned(), words(value))).collect::<Vec<_>>();
        let (priorities, kinds) = (choices(&PRIORITIES), choices(&KINDS));
        let people = or_none("Nobody", self.people);
        html! {
            details.edit open[self.is_open(Panel::Details)] {
                summary.button { "Edit" }
                form method="post" action=(self.path("/edit")) {
                    (self.visitor.tokens())
                    input type="hidden" name=(VERSION) value={ "v" (self.ticket.version) };
                    (form.summary())
                    (form.field("subject", "Subject", Control::Input("text"), "", true))
                    (form.field("assignee_id", "Assignee", Control::Choice(&people), "", false))
                    (form.field("priority", "Priority", Control::Choice(&priorities), "", true))
                    (form.field("type", "Type", Control::Choice(&kinds), "", true))
                    @if let Some(contacts) = self.contacts {
                        (contact_field(&form, contacts, ""))
                    }
                    (form.field("queue", "Queue", Control::Input("text"), "", false))
                    (form.field("category", "Category", Control::Input("text"), "", false))
                    (form.field("due_at", "Due", Control::Input("datetime-local"), "In your time zone.", false))
                    (form.field("tags", "Tags", Control::Text { rows: 3 }, "One tag on each line.", false))
                    (form.field("parent", "Parent ticket", Control::Input("text"), "The number of the ticket that this one is a part of.", false))
                    (form.field("description", "Description", Control::Text { rows: 6 }, "", false))
                    fieldset #custom_fields {
                        legend { "Custom fields" }
                        @for name in self.ticket.custom_fields.keys() {
                            (form.field(&custom_name(name), &words(name), Control::Input("text"), "", false))
                        }
                        (form.field("new_field", "Name of a new field", Control::Input("text"), "Lowercase letters, digits and underscores.", false))
                        (form.field("new_value", "Value of the new field", Control::Input("text"), "", false))
                    }
                    div.actions { button.primary { "Save" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ticket() -> Ticket {
        let record = json!({
            "id": "tkt_1", "ref": "T-1", "subject": "Printer", "description": "a\r\nb", "type": "incident", "status": "new", "status_category": "open",
            "priority": "low", "source": "api", "organization": {"id": "org_1", "name": "Acme"}, "devices": [], "tags": ["a", "b"],
            "custom_fields": {"units": 2, "vip": true}, "external_refs": [], "occurrences": 1, "sla": {"state": "none"},
            "time_spent_minutes": 0, "due_at": "2026-11-18T12:00:30.000Z", "created_at": "2026-11-18T10:00:00.000Z",
            "updated_at": "2026-11-18T10:00:00.000Z", "created_by": {"kind": "user", "id": "usr_1", "name": "Ada"}, "version": 1,
            "allowed_transitions": [],
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn only_changed_fields_are_in_the_patch() {
        let now = Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap();
        let clock = Clock { now, zone: tenantd_base::zones::find("Europe/Berlin").unwrap() };
        let ticket = ticket();
        let mut sent = values(&ticket, &clock);
        assert_eq!(sent.get("due_at"), "2026-11-18T13:00");
        sent.set("description", "a\nb");
        assert_eq!(patch(&sent, &ticket, &clock).unwrap(), Map::new());
        for (name, value) in [
            ("due_at", "2026-12-01T09:30"),
            ("tags", "b"),
            ("queue", "Mail"),
            ("custom_fields.units", "3"),
            ("custom_fields.vip", ""),
        ] {
            sent.set(name, value);
        }
        let expected =
            json!({"due_at": "2026-12-01T08:30:00Z", "tags": ["b"], "queue": "Mail", "custom_fields": {"units": 3, "vip": null}});
        assert_eq!(Value::Object(patch(&sent, &ticket, &clock).unwrap()), expected);
        sent.set("new_value", "5");
        assert!(patch(&sent, &ticket, &clock).unwrap_err().about("new_field").is_some(), "a value without a name is not dropped");
        sent.set("due_at", "tomorrow");
        assert!(patch(&sent, &ticket, &clock).unwrap_err().about("due_at").is_some());
    }
}
