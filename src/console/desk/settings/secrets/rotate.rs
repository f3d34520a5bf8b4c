//! Replaces the value of a secret.

use http::Method;
use maud::html;
use serde_json::json;

use super::{NamedSecret, secret, typed_value};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn show_rotation(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    Ok(page(&visitor, &secret(&visitor).await?, None))
}

pub(crate) async fn rotate(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let secret = secret(&visitor).await?;
    let body = json!({"value": typed_value(&visitor.fields())});
    match visitor.act(Method::POST, format!("{}/rotate", secret.api()), Some(body)).await {
        Ok(_) => Ok(Reply::SeeOther(secret.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(page(&visitor, &secret, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, secret: &NamedSecret, refusal: Option<&Refusal>) -> Reply {
    // What was typed is not shown again.
    let fields = Fields::default();
    let target = format!("{}/rotate", secret.api());
    let form = RecordForm {
        title: format!("Replace the value of {}", secret.name),
        below: "Steps that run from now on send the new value. The old value cannot be restored.",
        trail: secret.trail(),
        action: format!("{}/rotate", secret.path()),
        cancel: secret.path(),
        button: "Replace the value",
        version: Some(secret.version),
        curl: curl(visitor.visit.base_url, "POST", &target, Some(&json!({"value": "the-new-value"}))),
    };
    let shown = Shown { fields: &fields, refusal };
    let hint = "Stored exactly as typed, encrypted, and never shown.";
    form.page(visitor, shown, &html! { (shown.field("value", "New value", Control::Text { rows: 3 }, hint, true)) })
}
