//! A new secret, and changes of a secret.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{API, NamedSecret, PATH, SETTINGS, WORKFLOWS, secret, typed_value, without_value, workflows};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, trail},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    new_page(&visitor, &Fields::default(), None).await
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = fields.filled(&["description"]);
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert("hosts".to_owned(), fields.words("hosts").into());
    body.insert("value".to_owned(), typed_value(&fields).into());
    let workflows = WORKFLOWS.value(&fields);
    if !workflows.is_null() {
        body.insert(WORKFLOWS.member.to_owned(), workflows);
    }
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{PATH}/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => new_page(&visitor, &without_value(fields), Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let workflows = workflows(visitor).await?;
    let example = json!({"name": "github", "value": "the-value", "hosts": ["api.github.com"]});
    let form = RecordForm {
        title: "New secret".to_owned(),
        below: "A value that workflow steps send to other servers, such as a token.",
        trail: trail(&[(SETTINGS, "Settings"), (PATH, "Secrets")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create secret",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let name = "Letters, digits and underscores. It cannot change later.";
    let value = "Stored exactly as typed, encrypted, and never shown.";
    let inputs = html! {
        (shown.field("name", "Name", Control::Input("text"), name, true))
        (shown.field("value", "Value", Control::Text { rows: 3 }, value, true))
        (common(shown, &workflows))
    };
    Ok(form.page(visitor, shown, &inputs))
}

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let secret = secret(&visitor).await?;
    let mut fields = Fields::new(&WORKFLOWS.fields(secret.workflow_ids.as_deref()));
    fields.set("description", secret.description.clone().unwrap_or_default());
    fields.set("hosts", secret.hosts.join(", "));
    edit_page(&visitor, &secret, &fields, None).await
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let secret = secret(&visitor).await?;
    let fields = visitor.fields();
    match visitor.act(Method::PUT, secret.api(), Some(Value::Object(change_body(&fields)))).await {
        Ok(_) => Ok(Reply::SeeOther(secret.path())),
        Err(refusal) if is_correctable(&refusal) => edit_page(&visitor, &secret, &without_value(fields), Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

/// What the form asks for. Without a value the secret keeps the one that it has.
fn change_body(fields: &Fields) -> Map<String, Value> {
    let mut body = fields.patch(&["description"]);
    body.insert("hosts".to_owned(), fields.words("hosts").into());
    body.insert(WORKFLOWS.member.to_owned(), WORKFLOWS.value(fields));
    let value = typed_value(fields);
    if !value.is_empty() {
        body.insert("value".to_owned(), value.into());
    }
    body
}

async fn edit_page(
    visitor: &Visitor<'_>,
    secret: &NamedSecret,
    fields: &Fields,
    refusal: Option<&Refusal>,
) -> Result<Reply, Refusal> {
    let workflows = workflows(visitor).await?;
    let form = RecordForm {
        title: format!("Edit {}", secret.name),
        below: "The name cannot change: workflow steps use it.",
        trail: secret.trail(),
        action: format!("{}/edit", secret.path()),
        cancel: secret.path(),
        button: "Save",
        version: Some(secret.version),
        curl: curl(visitor.visit.base_url, "PUT", &secret.api(), Some(&json!({"hosts": secret.hosts}))),
    };
    let shown = Shown { fields, refusal };
    let value = "Needed only when you add a server. Empty: the value stays as it is.";
    let inputs = html! {
        (common(shown, &workflows))
        (shown.field("value", "Value", Control::Text { rows: 3 }, value, false))
    };
    Ok(form.page(visitor, shown, &inputs))
}

/// The fields that a new secret and a known one have.
fn common(shown: Shown<'_>, workflows: &[(String, String)]) -> Markup {
    let hosts =
        "The servers to which steps may send the value, with commas between them, such as api.example.com or api.example.com:8443.";
    html! {
        (shown.field("hosts", "Servers", Control::Input("text"), hosts, true))
        (shown.field("description", "Description", Control::Input("text"), "What the secret is for.", false))
        (WORKFLOWS.show(shown, workflows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_keeps_its_value_unless_another_is_typed() {
        let mut fields = Fields::new(&WORKFLOWS.fields(Some(&["wfl_1".to_owned()])));
        fields.set("hosts", "api.example.com, b.example.com");
        fields.set("description", "");
        let kept = json!({"description": null, "hosts": ["api.example.com", "b.example.com"], "workflow_ids": ["wfl_1"]});
        assert_eq!(Value::Object(change_body(&fields)), kept);
        fields.set("value", "next");
        fields.set("reach", "all");
        let changed = change_body(&fields);
        assert_eq!((changed.get("value"), changed.get("workflow_ids")), (Some(&json!("next")), Some(&Value::Null)));
    }
}
