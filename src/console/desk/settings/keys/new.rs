//! A new key, and changes of a key.

use http::Method;
use maud::html;
use serde_json::{Value, json};

use super::{API, Key, PATH, SETTINGS, created, inputs, key};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, organization_choices, trail},
        settings::scopes,
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = inputs::new_fields(scopes::asked(&visitor.query(), visitor.reader.grants));
    new_page(&visitor, &fields, None).await
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    match visitor.act(Method::POST, API, Some(Value::Object(inputs::new_body(&fields)))).await {
        Ok(answer) => created::page(&visitor, answer.body, "Key created"),
        Err(refusal) if is_correctable(&refusal) => new_page(&visitor, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let organizations = organization_choices(visitor, None).await?;
    let (path, held) = (format!("{PATH}/new"), visitor.reader.grants);
    let example = json!({"name": "Nightly export", "scopes": ["tickets:read", "directory:read"], "expires_days": 90});
    let form = RecordForm {
        title: "New API key".to_owned(),
        below: "For one program. The next page shows the key, once.",
        trail: trail(&[(SETTINGS, "Settings"), (PATH, "API keys")]),
        action: path.clone(),
        cancel: PATH.to_owned(),
        button: "Create key",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let expiry = "Empty: the default of the operator, at first 90. The key never outlives your own credential.";
    let body = html! {
        p.hint { "Begin with a set of scopes:" }
        (scopes::presets(&path, scopes::chosen(fields), held))
        (inputs::show(shown, held, &organizations, expiry))
    };
    Ok(form.page(visitor, shown, &body))
}

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    edit_page(&visitor, &key, &inputs::fields_of(&key), None).await
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let key = key(&visitor).await?;
    let fields = visitor.fields();
    match visitor.act(Method::PUT, key.api(), Some(Value::Object(inputs::change_body(&key, &fields)))).await {
        Ok(_) => Ok(Reply::SeeOther(key.path())),
        Err(refusal) if is_correctable(&refusal) => edit_page(&visitor, &key, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn edit_page(visitor: &Visitor<'_>, key: &Key, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let organizations = organization_choices(visitor, None).await?;
    let example = json!({"name": key.name, "expires_days": 90});
    let form = RecordForm {
        title: format!("Edit {}", key.name),
        below: "The changes count from the next request on. The key itself stays the same.",
        trail: key.trail(),
        action: format!("{}/edit", key.path()),
        cancel: key.path(),
        button: "Save",
        version: Some(key.version),
        curl: curl(visitor.visit.base_url, "PUT", &key.api(), Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let until = visitor.clock.exact_text(&key.expires_at).unwrap_or_default();
    let expiry = format!("From now. Empty: it stays at {until}. An expired key works again.");
    let offered = visitor.reader.grants.union(key.grants());
    Ok(form.page(visitor, shown, &inputs::show(shown, offered, &organizations, &expiry)))
}
