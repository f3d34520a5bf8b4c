//! The fields of a key, and the bodies that they ask for.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::{Map, Value};

use tenantd_base::access::Grants;

use super::Key;
use crate::{
    desk::settings::{parts::Limit, scopes},
    form::{Control, Fields, Shown},
};

const ORGANIZATIONS: Limit = Limit {
    decision: "reach",
    member: "organization_ids",
    label: "Records",
    options: ["All records of the tenant", "Only records of some organizations"],
    legend: "Organizations",
    hint: "A limited key can have only scopes over records of organizations, such as tickets, devices and backups.",
};

/// The fields with these scopes for a new key.
pub(super) fn new_fields(chosen: Grants) -> Fields {
    Fields::new(&scopes::fields(chosen).collect::<Vec<_>>())
}

/// The fields with what a key has.
pub(super) fn fields_of(key: &Key) -> Fields {
    let limit = ORGANIZATIONS.fields(key.organization_ids.as_deref());
    let mut fields = Fields::new(&scopes::fields(key.grants()).chain(limit).collect::<Vec<_>>());
    fields.set("name", key.name.clone());
    fields.set("description", key.description.clone().unwrap_or_default());
    fields.set("allowed_ips", key.allowed_ips.as_deref().unwrap_or_default().join(", "));
    fields
}

pub(super) fn show(shown: Shown<'_>, offered: Grants, organizations: &[(String, String)], expiry: &str) -> Markup {
    let networks =
        "The addresses and networks from which the key works, with commas between them, such as 203.0.113.0/24. Empty: any.";
    html! {
        (shown.field("name", "Name", Control::Input("text"), "What people recognize the key by.", true))
        (shown.field("description", "Description", Control::Input("text"), "What the key is for.", false))
        (shown.field("expires_days", "Days until it expires", Control::Input("number"), expiry, false))
        (scopes::picker(shown, offered, "What the key may do. Choose as little as the program needs."))
        (shown.field("allowed_ips", "Networks", Control::Input("text"), networks, false))
        @if !organizations.is_empty() || !shown.fields.all(ORGANIZATIONS.member).is_empty() { (ORGANIZATIONS.show(shown, organizations)) }
    }
}

/// The body that creates a key.
pub(super) fn new_body(fields: &Fields) -> Map<String, Value> {
    let mut body = fields.filled(&["description"]);
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert(scopes::FIELD.to_owned(), fields.all(scopes::FIELD).into());
    let optional =
        [("expires_days", days(fields)), ("allowed_ips", networks(fields)), (ORGANIZATIONS.member, ORGANIZATIONS.value(fields))];
    body.extend(optional.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)));
    body
}

/// The body that changes a key. Scopes, networks and organizations that stay as they are are left out, so that wildcards stay too.
pub(super) fn change_body(key: &Key, fields: &Fields) -> Map<String, Value> {
    let mut body = fields.patch(&["description"]);
    body.insert("name".to_owned(), fields.get("name").into());
    let days = days(fields);
    if !days.is_null() {
        body.insert("expires_days".to_owned(), days);
    }
    let chosen = scopes::chosen(fields);
    if chosen != key.grants() {
        body.insert(scopes::FIELD.to_owned(), scopes::value(chosen));
    }
    let restrictions = [
        ("allowed_ips", networks(fields), Value::from(key.allowed_ips.clone())),
        (ORGANIZATIONS.member, ORGANIZATIONS.value(fields), Value::from(key.organization_ids.clone())),
    ];
    let is_changed = |(_, now, before): &(&str, Value, Value)| members(now) != members(before);
    body.extend(restrictions.into_iter().filter(is_changed).map(|(name, now, _)| (name.to_owned(), now)));
    body
}

/// The members of a list in an order of their own: the boxes of a form have a different order than the record.
fn members(list: &Value) -> Option<BTreeSet<&str>> {
    list.as_array().map(|members| members.iter().filter_map(Value::as_str).collect())
}

/// The days until the key expires; null if the field is empty. The API says what is wrong with text that is no number.
fn days(fields: &Fields) -> Value {
    match fields.get("expires_days") {
        "" => Value::Null,
        text => text.parse::<u32>().map_or_else(|_| text.into(), Value::from),
    }
}

/// The networks; null if there are none.
fn networks(fields: &Fields) -> Value {
    let networks = fields.words("allowed_ips");
    if networks.is_empty() { Value::Null } else { networks.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key() -> Key {
        let (time, person) = ("2026-11-18T10:00:00.000Z", json!({"kind": "user", "id": "usr_1", "name": "Ada"}));
        let record = json!({
            "id": "key_1", "name": "Export", "prefix": "tck_live_1", "last_four": "abcd", "scopes": ["tickets:*"],
            "organization_ids": ["org_2", "org_1"], "status": "active", "owner": person, "created_by": person, "created_at": time,
            "updated_at": time, "expires_at": time, "use_count": 0, "version": 1,
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_form_that_nobody_changed_changes_nothing() {
        let fields = fields_of(&key());
        assert_eq!(Value::Object(change_body(&key(), &fields)), json!({"name": "Export", "description": null}));
        let sorted = Key { organization_ids: Some(vec!["org_1".to_owned(), "org_2".to_owned()]), ..key() };
        assert_eq!(change_body(&sorted, &fields).get("organization_ids"), None, "the order does not matter");
    }

    #[test]
    fn a_changed_form_replaces_scopes_and_restrictions() {
        let mut fields = fields_of(&key());
        for (name, value) in
            [("scopes", "tickets:read"), ("allowed_ips", "10.0.0.0/8, ::1"), ("reach", "all"), ("expires_days", "7")]
        {
            fields.set(name, value);
        }
        let expected = json!({
            "name": "Export", "description": null, "scopes": ["tickets:read"], "allowed_ips": ["10.0.0.0/8", "::1"],
            "organization_ids": null, "expires_days": 7,
        });
        assert_eq!(Value::Object(change_body(&key(), &fields)), expected);
    }

    #[test]
    fn a_new_key_leaves_out_what_is_empty() {
        let pairs =
            [("name", "Export"), ("scopes", "tickets:read"), ("expires_days", "soon"), ("allowed_ips", " "), ("reach", "all")];
        let fields = Fields::new(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let expected = json!({"name": "Export", "scopes": ["tickets:read"], "expires_days": "soon"});
        assert_eq!(Value::Object(new_body(&fields)), expected, "the API says that `soon` is no number");
    }
}
