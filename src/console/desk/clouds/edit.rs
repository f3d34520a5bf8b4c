//! Changes and deletes a cloud provider.

use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use tenantd_http::problem::Code;

use super::{
    PATH,
    fields::{Kind, number},
    new::common_inputs,
    record::{Provider, provider},
};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{Deletion, RecordForm, is_correctable, or_none, organization_choices, trail},
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

/// The field that says that the credential is replaced. A browser may fill in the inputs of the credential by itself.
const REPLACE: &str = "replace_credential";

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    let mut fields = Fields::default();
    fields.set("name", provider.name.clone());
    fields.set("organization_id", provider.organization.as_ref().map(|organization| organization.id.clone()).unwrap_or_default());
    fields.set("sync_interval_seconds", provider.sync.interval_seconds.to_string());
    if provider.enabled {
        fields.set("enabled", "yes");
    }
    kind_of(&provider)?.fill(&mut fields, &provider.config);
    page(&visitor, &provider, &fields, None).await
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    let (kind, fields) = (kind_of(&provider)?, visitor.fields());
    match visitor.act(Method::PUT, provider.api(), Some(body(kind, &fields, &provider))).await {
        Ok(_) => Ok(Reply::SeeOther(provider.path())),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, &provider, &fields, Some(&kind.placed(refusal))).await,
        Err(refusal) => Err(refusal),
    }
}

/// The kind of a provider. A kind that this page does not know cannot be edited here.
fn kind_of(provider: &Provider) -> Result<&'static Kind, Refusal> {
    let refuse =
        || Refusal::new(Code::InternalError, "The page does not know this kind of cloud. Use the API to change the provider.");
    Kind::of(&provider.kind).ok_or_else(refuse)
}

/// The whole configuration is replaced, the credential only if the form says so.
fn body(kind: &Kind, fields: &Fields, before: &Provider) -> Value {
    let mut body = fields.patch(&["organization_id"]);
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert("enabled".to_owned(), fields.has("enabled").into());
    body.insert("config".to_owned(), Value::Object(kind.config(fields, &before.config)));
    let interval = fields.get("sync_interval_seconds");
    if !interval.is_empty() {
        body.insert("sync_interval_seconds".to_owned(), number(interval));
    }
    if fields.has(REPLACE) {
        body.insert("credential".to_owned(), Value::Object(kind.credential(fields)));
    }
    Value::Object(body)
}

async fn page(visitor: &Visitor<'_>, provider: &Provider, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let kind = kind_of(provider)?;
    let known = organization_choices(visitor, provider.organization.as_ref()).await?;
    let organizations = or_none("None: several organizations share it", known);
    let form = RecordForm {
        title: format!("Edit {}", provider.name),
        below: "The kind of a provider cannot change.",
        trail: trail(&[(PATH, "Clouds"), (provider.path().as_str(), provider.name.as_str())]),
        action: format!("{}/edit", provider.path()),
        cancel: provider.path(),
        button: "Save",
        version: Some(provider.version),
        curl: curl(
            visitor.visit.base_url,
            "PUT",
            &provider.api(),
            Some(&json!({"name": provider.name, "enabled": provider.enabled})),
        ),
    };
    let fields = kind.without_secrets(fields);
    let shown = Shown { fields: &fields, refusal };
    let inputs = html! {
        (common_inputs(shown, &organizations))
        (kind.config_inputs(shown))
        @if !kind.credential.is_empty() { (credential(kind, shown)) }
    };
    Ok(form.page(visitor, shown, &inputs))
}

fn credential(kind: &Kind, shown: Shown<'_>) -> Markup {
    let replaces = shown.fields.has(REPLACE);
    html! {
        @if replaces && shown.refusal.is_some() { p.note { "Enter the secrets of the credential again. The page does not keep them." } }
        label.check { input type="checkbox" name=(REPLACE) value="yes" checked[replaces] aria-describedby="replace-hint"; " Replace the credential by the one below" }
        p.hint #replace-hint { "Needed also when you change an address or a certificate: tenantd sends a credential only to the target that it was given for." }
        (kind.credential_inputs(shown, true))
    }
}

pub(super) async fn show_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    Ok(deletion(&provider).show(&visitor))
}

pub(super) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    deletion(&provider).act(&visitor).await
}

fn deletion(provider: &Provider) -> Deletion<'_> {
    Deletion {
        name: &provider.name,
        version: provider.version,
        trail: trail(&[(PATH, "Clouds"), (provider.path().as_str(), provider.name.as_str())]),
        path: provider.path(),
        api: provider.api(),
        list: PATH.to_owned(),
        consequence: "Deletes the provider with its credential, and removes its VMs from the list. The VMs in the cloud stay, and continue to cost money. This cannot be undone.",
        heir: "",
        heirs: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Provider {
        serde_json::from_value(json!({
            "id": "prv_1", "name": "Lab", "kind": "hetzner", "enabled": true, "config": {"regions": ["fsn1"]},
            "credential": {"type": "bearer_token", "set_at": "2026-11-19T01:54:06.060Z"}, "status": "verified",
            "sync": {"state": "ok", "vm_count": 3, "interval_seconds": 300},
            "created_at": "2026-11-19T01:54:06.060Z", "updated_at": "2026-11-19T01:54:06.060Z", "version": 2,
        }))
        .unwrap()
    }

    #[test]
    fn the_credential_is_only_replaced_on_request() {
        let mut typed = Fields::default();
        for (name, value) in [("name", "Lab"), ("organization_id", ""), ("regions", "nbg1"), ("api_token", "from-the-browser")] {
            typed.set(name, value);
        }
        let kind = Kind::of("hetzner").unwrap();
        let expected = json!({"name": "Lab", "organization_id": null, "enabled": false, "config": {"regions": ["nbg1"]}});
        assert_eq!(body(kind, &typed, &stored()), expected);
        typed.set(REPLACE, "yes");
        assert_eq!(body(kind, &typed, &stored()).get("credential"), Some(&json!({"api_token": "from-the-browser"})));
    }
}
