//! Creates, changes and deletes an organization.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{API, Deletion, Organization, PATH, RecordForm, is_correctable, organization, organization_choices, trail};
use crate::{
    components::curl,
    desk::Reply,
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(new_page(&visitor, &Fields::default(), None))
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let body = Value::Object(fields.filled(&["name", "external_id"]));
    match visitor.act(Method::POST, API, Some(body)).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{PATH}/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(new_page(&visitor, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let form = RecordForm {
        title: "New organization".to_owned(),
        below: "A customer, with its contacts, devices and tickets.",
        trail: trail(&[(PATH, "Organizations")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create organization",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&json!({"name": "Acme", "external_id": "crm-1042"}))),
    };
    let shown = Shown { fields, refusal };
    form.page(visitor, shown, &inputs(shown))
}

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    let mut fields = Fields::default();
    fields.set("name", organization.name.clone());
    fields.set("external_id", organization.external_id.clone().unwrap_or_default());
    Ok(edit_page(&visitor, &organization, &fields, None))
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    let fields = visitor.fields();
    let mut body: Map<String, Value> = fields.patch(&["external_id"]);
    body.insert("name".to_owned(), fields.get("name").into());
    match visitor.act(Method::PATCH, organization.api(), Some(Value::Object(body))).await {
        Ok(_) => Ok(Reply::SeeOther(organization.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(edit_page(&visitor, &organization, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn edit_page(visitor: &Visitor<'_>, organization: &Organization, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let form = RecordForm {
        title: format!("Edit {}", organization.name),
        below: "An import that sends these fields replaces them.",
        trail: trail(&[(PATH, "Organizations"), (organization.path().as_str(), organization.name.as_str())]),
        action: format!("{}/edit", organization.path()),
        cancel: organization.path(),
        button: "Save",
        version: Some(organization.version),
        curl: curl(visitor.visit.base_url, "PATCH", &organization.api(), Some(&json!({"name": organization.name}))),
    };
    let shown = Shown { fields, refusal };
    form.page(visitor, shown, &inputs(shown))
}

fn inputs(shown: Shown<'_>) -> Markup {
    html! {
        (shown.field("name", "Name", Control::Input("text"), "", true))
        (shown.field("external_id", "External ID", Control::Input("text"), "The ID of the organization in the system that it comes from.", false))
    }
}

pub(crate) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    Ok(deletion(&visitor, &organization).await?.show(&visitor))
}

pub(crate) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let organization = organization(&visitor).await?;
    deletion(&visitor, &organization).await?.act(&visitor).await
}

async fn deletion<'a>(visitor: &Visitor<'_>, organization: &'a Organization) -> Result<Deletion<'a>, Refusal> {
    let mut heirs = organization_choices(visitor, None).await?;
    heirs.retain(|(id, _)| *id != organization.id);
    Ok(Deletion {
        name: &organization.name,
        version: organization.version,
        trail: trail(&[(PATH, "Organizations"), (organization.path().as_str(), organization.name.as_str())]),
        path: organization.path(),
        api: organization.api(),
        list: PATH.to_owned(),
        consequence: "Deletes the organization. This cannot be undone.",
        heir: "Move its devices, contacts, open tickets and cloud providers to",
        heirs,
    })
}
