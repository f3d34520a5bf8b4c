//! A new role, and changes of a role.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_base::access::{Grants, Role as BuiltIn};

use super::{API, PATH, Role, SETTINGS, role};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, trail},
        settings::scopes,
    },
    form::{Control, Fields, Shown},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let asked = scopes::asked(&visitor.query(), offered(&visitor));
    Ok(new_page(&visitor, &Fields::new(&scopes::fields(asked).collect::<Vec<_>>()), None))
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = fields.filled(&["description"]);
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert(scopes::FIELD.to_owned(), fields.all(scopes::FIELD).into());
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{PATH}/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(new_page(&visitor, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

/// The scopes that the reader can put into a role.
fn offered(visitor: &Visitor<'_>) -> Grants {
    visitor.reader.grants.intersection(BuiltIn::Admin.grants())
}

fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let example = json!({"name": "Dispatcher", "scopes": ["tickets:*", "directory:read"]});
    let form = RecordForm {
        title: "New role".to_owned(),
        below: "A set of scopes to give to users.",
        trail: trail(&[(SETTINGS, "Settings"), (PATH, "Roles")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create role",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    form.page(visitor, shown, &inputs(visitor, shown))
}

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let role = role(&visitor).await?;
    let mut fields = Fields::new(&scopes::fields(role.grants()).collect::<Vec<_>>());
    fields.set("name", role.name.clone());
    fields.set("description", role.description.clone().unwrap_or_default());
    Ok(edit_page(&visitor, &role, &fields, None))
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let role = role(&visitor).await?;
    let fields = visitor.fields();
    match visitor.act(Method::PATCH, role.api(), Some(Value::Object(change_body(&role, &fields)))).await {
        Ok(_) => Ok(Reply::SeeOther(role.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(edit_page(&visitor, &role, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

/// What the form asks for. Scopes that stay as they are are left out, so that wildcards stay too.
fn change_body(role: &Role, fields: &Fields) -> Map<String, Value> {
    let mut body = fields.patch(&["description"]);
    body.insert("name".to_owned(), fields.get("name").into());
    let chosen = scopes::chosen(fields);
    if chosen != role.grants() {
        body.insert(scopes::FIELD.to_owned(), scopes::value(chosen));
    }
    body
}

fn edit_page(visitor: &Visitor<'_>, role: &Role, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let form = RecordForm {
        title: format!("Edit {}", role.name),
        below: "Different scopes count for all members from their next request on.",
        trail: role.trail(),
        action: format!("{}/edit", role.path()),
        cancel: role.path(),
        button: "Save",
        version: Some(role.version),
        curl: curl(visitor.visit.base_url, "PATCH", &role.api(), Some(&json!({"scopes": role.scopes}))),
    };
    let shown = Shown { fields, refusal };
    form.page(visitor, shown, &inputs(visitor, shown))
}

fn inputs(visitor: &Visitor<'_>, shown: Shown<'_>) -> Markup {
    // A role may have scopes that the reader does not have. They stay unless the reader removes them.
    let offered = offered(visitor).union(scopes::chosen(shown.fields));
    let path = Query::default().at(&format!("{PATH}/new"));
    let is_new = !shown.fields.has("name") && shown.refusal.is_none();
    html! {
        @if is_new {
            p.hint { "Begin with a set of scopes:" }
            (scopes::presets(&path, scopes::chosen(shown.fields), offered))
        }
        (shown.field("name", "Name", Control::Input("text"), "What people recognize the role by.", true))
        (shown.field("description", "Description", Control::Input("text"), "What the role is for.", false))
        (scopes::picker(shown, offered, "What people with this role may do."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_form_keeps_wildcards_unless_scopes_change() {
        let record = json!({
            "id": "rol_1", "name": "Dispatcher", "scopes": ["tickets:*"], "granted_scopes": ["tickets:read", "tickets:write"],
            "created_at": "2026-11-18T10:00:00.000Z", "updated_at": "2026-11-18T10:00:00.000Z", "version": 1,
        });
        let role: Role = serde_json::from_value(record).unwrap();
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Value::Object(change_body(&role, &Fields::new(&pairs)))
        };
        let kept = [("name", "Desk"), ("description", ""), ("scopes", "tickets:write"), ("scopes", "tickets:read")];
        assert_eq!(of(&kept), json!({"name": "Desk", "description": null}));
        assert_eq!(of(&[("name", "Desk"), ("scopes", "tickets:read")])["scopes"], json!(["tickets:read"]));
    }
}
