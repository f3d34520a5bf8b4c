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
        organizations::{
            Deletion, RecordForm, choices, contact_choices, is_correctable, named_choices, or_none, organization_choices, trail,
        },
    },
    form::{Control, Fields, Shown},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(in crate::desk) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    fields.set("organization_id", visitor.query().first("organization_id"));
    fields.set("class", "workstation");
    fields.set("lifecycle", "active");
    new_page(&visitor, &fields, None).await
}

pub(in crate::desk) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = fields.filled(&["name", "organization_id", "class", "lifecycle", "site"]);
    body.insert("tags".to_owned(), fields.words("tags").into());
    body.insert("custom_fields".to_owned(), json!(custom_fields(fields.get("custom_fields"))));
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
    let organizations = or_none("Choose an organization", organization_choices(visitor, None).await?);
    let example = json!({"name": "ACME-PC-7", "organization_id": fields.get("organization_id"), "class": "workstation"});
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
        (shown.field("organization_id", "Organization", Control::Choice(&organizations), "", true))
        (inputs(shown))
    };
    Ok(form.page(visitor, shown, &inputs))
}

pub(in crate::desk) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    let custom: Vec<String> = device.custom_fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let mut fields = Fields::default();
    fields.set("name", device.name.clone());
    fields.set("class", device.class.clone());
    fields.set("lifecycle", device.lifecycle.clone());
    fields.set("site", device.site.clone().unwrap_or_default());
    fields.set("owner_id", device.owner.as_ref().map(|owner| owner.id.clone()).unwrap_or_default());
    fields.set("tags", device.tags.join(", "));
    fields.set("custom_fields", custom.join("\n"));
    edit_page(&visitor, &device, &fields, None).await
}

pub(in crate::desk) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    let fields = visitor.fields();
    let mut body: Map<String, Value> = fields.filled(&["class", "lifecycle"]);
    body.extend(fields.patch(&["site", "owner_id"]));
    body.insert("name".to_owned(), fields.get("name").into());
    if fields.has("tags") {
        body.insert("tags".to_owned(), fields.words("tags").into());
    }
    if fields.has("custom_fields") {
        let changed = changed_fields(&device.custom_fields, &custom_fields(fields.get("custom_fields")));
        if !changed.is_empty() {
            body.insert("custom_fields".to_owned(), Value::Object(changed));
        }
    }
    match visitor.act(Method::PATCH, device.api(), Some(Value::Object(body))).await {
        Ok(_) => Ok(Reply::SeeOther(device.path())),
        Err(refusal) if is_correctable(&refusal) => edit_page(&visitor, &device, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
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
        (shown.field("tags", "Tags", Control::Input("text"), "Separate tags with commas.", false))
        (shown.field("custom_fields", "Custom fields", Control::Text { rows: 4 }, "One field on each line, such as rack: B7. Remove a line to remove its field.", false))
    }
}

/// The custom fields of a text with one field on each line.
fn custom_fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.trim().to_owned(), value.trim().to_owned())
        })
        .collect()
}

/// The merge patch that makes the custom fields of a device what was typed.
fn changed_fields(known: &BTreeMap<String, String>, typed: &BTreeMap<String, String>) -> Map<String, Value> {
    let removed = known.keys().filter(|name| !typed.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let set = typed.iter().filter(|(name, value)| known.get(*name) != Some(*value));
    removed.chain(set.map(|(name, value)| (name.clone(), Value::from(value.as_str())))).collect()
}

pub(in crate::desk) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let device = device(&visitor).await?;
    Ok(deletion(&visitor, &device).await?.show(&visitor))
}

pub(in crate::desk) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
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

    #[test]
    fn custom_fields_are_patched_by_line() {
        let known = custom_fields("rack: B7\nfloor: 2\nroom: 5");
        let typed = custom_fields("rack: B8\r\n\nroom: 5\nurl: http://a\n");
        assert_eq!(Value::Object(changed_fields(&known, &typed)), json!({"rack": "B8", "floor": null, "url": "http://a"}));
    }
}
