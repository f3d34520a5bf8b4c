//! Creates, changes and deletes a device.

use std::collections::BTreeMap;

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{
    DEVICES_API, PATH,
    filters::{CLASSES, LIFECYCLES},
    record::{Device, device},
};
use crate::{
    components::curl,
    desk::{
        Reply,
        find::find,
        organizations::{
            Deletion, RecordForm, choices, contact_choices, is_correctable, named_choices, or_none, organization_choices, trail,
        },
        records::Named,
        tickets::wrong,
    },
    form::{Control, Fields, Shown},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

/// The choices that a field offers. Beyond them, the name is entered.
const MOST_CHOICES: usize = 200;

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    fields.set("organization_id", visitor.query().first("organization_id"));
    fields.set("class", "workstation");
    fields.set("lifecycle", "active");
    new_page(&visitor, &fields, None).await
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = fields.filled(&["name", "class", "lifecycle", "site"]);
    match find(&visitor, "organizations", fields.get("organization_id"), None).await? {
        Ok(organization) => drop(body.insert("organization_id".to_owned(), organization.id.into())),
        Err(message) => return new_page(&visitor, &fields, Some(&wrong("organization_id", &message))).await,
    }
    body.insert("tags".to_owned(), fields.each_line("tags").into());
    match custom_fields(fields.get("custom_fields")) {
        Ok(custom) => drop(body.insert("custom_fields".to_owned(), json!(custom))),
        Err(refusal) => return new_page(&visitor, &fields, Some(&refusal)).await,
    }
    match visitor.act(Method::POST, DEVICES_API, Some(Value::Object(body))).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{PATH}/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => new_page(&visitor, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let id = fields.get("organization_id");
    let chosen: Option<Named> = match id {
        "" => None,
        id => visitor.read_if_allowed(format!("/api/directory/organizations/{}", segment(id))).await?,
    };
    let organizations = or_none("Choose an organization", organization_choices(visitor, chosen.as_ref()).await?);
    let example = json!({"name": "ACME-PC-7", "organization_id": if id.is_empty() { "org_…" } else { id }, "class": "workstation"});
    let form = RecordForm {
        title: "New device".to_owned(),
        below: "A device without an agent. Agents and imports add the others.",
        trail: trail(&[(PATH, "Devices")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create device",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", DEVICES_API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        @if organizations.len() > MOST_CHOICES {
            (shown.field("organization_id", "Organization", Control::Input("text"), "The whole name or the ID.", true))
        } @else {
            (shown.field("organization_id", "Organization", Control::Choice(&organizations), "", true))
        }
        (inputs(shown))
    };
    Ok(form.page(visitor, shown, &inputs))
}

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    edit_page(&visitor, &device, &values(&device), None).await
}

/// The values of a device as the form shows them.
fn values(device: &Device) -> Fields {
    let custom: Vec<String> = device.custom_fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let mut fields = Fields::default();
    fields.set("name", device.name.clone());
    fields.set("class", device.class.clone());
    fields.set("lifecycle", device.lifecycle.clone());
    fields.set("site", device.site.clone().unwrap_or_default());
    fields.set("owner_id", device.owner.as_ref().map(|owner| owner.id.clone()).unwrap_or_default());
    fields.set("tags", device.tags.join("\n"));
    fields.set("custom_fields", custom.join("\n"));
    fields
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    let fields = visitor.fields();
    let outcome = match patch(&device, &fields) {
        Ok(body) if body.is_empty() => Ok(()),
        Ok(body) => visitor.act(Method::PATCH, device.api(), Some(Value::Object(body))).await.map(drop),
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok(()) => Ok(Reply::SeeOther(device.path())),
        Err(refusal) if is_correctable(&refusal) => edit_page(&visitor, &device, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

/// What the form changes. Fields that are as they were are left out.
fn patch(device: &Device, fields: &Fields) -> Result<Map<String, Value>, Refusal> {
    let shown = values(device);
    let as_shown = |text: &str| text.replace('\r', "");
    let is_changed = |name: &&str| fields.has(name) && as_shown(fields.get(name)) != as_shown(shown.get(name));
    let changed = |names: &[&'static str]| names.iter().copied().filter(is_changed).collect::<Vec<&'static str>>();
    let mut body = fields.filled(&changed(&["name", "class", "lifecycle"]));
    body.extend(fields.patch(&changed(&["site", "owner_id"])));
    if is_changed(&"tags") {
        body.insert("tags".to_owned(), fields.each_line("tags").into());
    }
    if is_changed(&"custom_fields") {
        let custom = changed_fields(device, shown.get("custom_fields"), fields.get("custom_fields"))?;
        body.insert("custom_fields".to_owned(), Value::Object(custom));
    }
    Ok(body)
}

async fn edit_page(visitor: &Visitor<'_>, device: &Device, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let owners = contact_choices(visitor, &device.organization.id, device.owner.as_ref()).await?;
    let owners = or_none("Nobody", owners);
    let form = RecordForm {
        title: format!("Edit {}", device.name),
        below: "A source that sends these fields, such as an agent, replaces them.",
        trail: trail(&[(PATH, "Devices"), (device.path().as_str(), device.name.as_str())]),
        action: format!("{}/edit", device.path()),
        cancel: device.path(),
        button: "Save",
        version: Some(device.version),
        curl: curl(visitor.visit.base_url, "PATCH", &device.api(), Some(&json!({"lifecycle": device.lifecycle}))),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        (inputs(shown))
        (shown.field("owner_id", "Owner", Control::Choice(&owners), "The contact who uses the device.", false))
    };
    Ok(form.page(visitor, shown, &inputs))
}

/// The fields that a new device and a known one have.
fn inputs(shown: Shown<'_>) -> Markup {
    html! {
        (shown.field("name", "Name", Control::Input("text"), "", true))
        (shown.field("class", "Class", Control::Choice(&choices(&CLASSES)), "", true))
        (shown.field("lifecycle", "Lifecycle", Control::Choice(&choices(&LIFECYCLES)), "", true))
        (shown.field("site", "Site", Control::Input("text"), "", false))
        (shown.field("tags", "Tags", Control::Text { rows: 3 }, "One tag on each line.", false))
        (shown.field("custom_fields", "Custom fields", Control::Text { rows: 4 }, "One field on each line, such as rack: B7. Remove a line to remove its field.", false))
    }
}

/// The custom fields of a text with one field on each line.
fn custom_fields(text: &str) -> Result<BTreeMap<String, String>, Refusal> {
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if found.insert(name.trim().to_owned(), value.trim().to_owned()).is_some() {
            return Err(wrong("custom_fields", &format!("Two lines have the name {}.", name.trim())));
        }
    }
    Ok(found)
}

/// The merge patch for the lines that were changed. A line that was not touched leaves its field as it is, whatever it contains.
fn changed_fields(device: &Device, shown: &str, typed: &str) -> Result<Map<String, Value>, Refusal> {
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let (before, after) = (lines(shown), lines(typed));
    let kept: Vec<&String> = after.iter().filter(|line| before.contains(line)).collect();
    let new: Vec<&str> = after.iter().filter(|line| !before.contains(line)).map(String::as_str).collect();
    let removed =
        device.custom_fields.iter().filter(|(name, value)| !kept.contains(&&format!("{name}: {value}").trim().to_owned()));
    let mut patch: Map<String, Value> = removed.map(|(name, _)| (name.clone(), Value::Null)).collect();
    for (name, value) in custom_fields(&new.join("\n"))? {
        let is_kept = device.custom_fields.contains_key(&name) && !patch.contains_key(&name);
        if is_kept {
            return Err(wrong("custom_fields", &format!("Two lines have the name {name}.")));
        }
        patch.insert(name, value.into());
    }
    Ok(patch)
}

pub(crate) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    Ok(deletion(&visitor, &device).await?.show(&visitor))
}

pub(crate) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    deletion(&visitor, &device).await?.act(&visitor).await
}

async fn deletion<'a>(visitor: &Visitor<'_>, device: &'a Device) -> Result<Deletion<'a>, Refusal> {
    let others = format!("{DEVICES_API}?organization_id={}&sort=name&limit=100", segment(&device.organization.id));
    let mut heirs = named_choices(visitor, &others, None).await?;
    heirs.retain(|(id, _)| *id != device.id);
    Ok(Deletion {
        name: &device.name,
        version: device.version,
        trail: trail(&[(PATH, "Devices"), (device.path().as_str(), device.name.as_str())]),
        path: device.path(),
        api: device.api(),
        list: PATH.to_owned(),
        consequence: "Deletes the device. This cannot be undone. An agent that still runs adds it again. Retire a device instead to keep its history.",
        heir: "Replace it in open tickets with",
        heirs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        let record = json!({
            "id": "dev_1", "name": "pc", "class": "server", "lifecycle": "active", "organization": {"id": "org_1", "name": "Acme"},
            "tags": ["a,b", "c"], "custom_fields": {"k:x": "y", "k": "z", "rack": "B7"}, "version": 1, "health": "unknown",
            "agent": {"status": "never"}, "software": [], "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_form_that_nobody_touched_changes_nothing() {
        let device = device();
        assert_eq!(patch(&device, &values(&device)).unwrap(), Map::new());
    }

    #[test]
    fn only_touched_lines_of_custom_fields_are_patched() {
        let device = device();
        let mut sent = values(&device);
        sent.set("custom_fields", "k: z\r\nk:x: y\r\nrack: B8\r\nurl: http://a");
        sent.set("tags", "a,b\r\nnew");
        let expected = json!({"tags": ["a,b", "new"], "custom_fields": {"rack": "B8", "url": "http://a"}});
        assert_eq!(Value::Object(patch(&device, &sent).unwrap()), expected);
        sent.set("custom_fields", "k: z");
        assert_eq!(patch(&device, &sent).unwrap()["custom_fields"], json!({"k:x": null, "rack": null}));
        for twice in ["a: 1\na: 2", "k: z\nk: other"] {
            sent.set("custom_fields", twice);
            assert!(patch(&device, &sent).unwrap_err().about("custom_fields").is_some(), "{twice}");
        }
    }
}
