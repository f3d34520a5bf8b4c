//! A new cloud provider: first its kind, then the fields of that kind.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_http::problem::Code;

use super::{
    API, PATH,
    fields::{Kind, number},
};
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::{RecordForm, is_correctable, or_none, organization_choices, trail},
        tickets::wrong,
    },
    form::{Control, Fields, Shown},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// When the API verifies the credential, with its words.
const VERIFY: [(&str, &str); 3] =
    [("sync", "Verify and save in any case"), ("require", "Save only if the credential works"), ("skip", "Save without verifying")];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let name = query.first("kind");
    if name.is_empty() {
        return Ok(choose(&visitor, None));
    }
    let Some(kind) = Kind::of(name) else { return Ok(choose(&visitor, Some(&unknown()))) };
    let mut fields = Fields::default();
    fields.set("organization_id", query.first("organization_id"));
    fields.set("enabled", "yes");
    page(&visitor, kind, &fields, None).await
}

pub(super) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let Some(kind) = Kind::of(fields.get("kind")) else { return Ok(choose(&visitor, Some(&unknown()))) };
    let target = Query::default().with("verify", fields.get("verify")).at(API);
    match visitor.act(Method::POST, target, Some(body(kind, &fields))).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{PATH}/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => page(&visitor, kind, &fields, Some(&kind.placed(refusal))).await,
        Err(refusal) => Err(refusal),
    }
}

fn unknown() -> Refusal {
    wrong("kind", "Choose one of the kinds.")
}

fn body(kind: &Kind, fields: &Fields) -> Value {
    let mut body = fields.filled(&["name", "kind", "organization_id"]);
    body.insert("enabled".to_owned(), fields.has("enabled").into());
    let interval = fields.get("sync_interval_seconds");
    if !interval.is_empty() {
        body.insert("sync_interval_seconds".to_owned(), number(interval));
    }
    let parts = [("config", kind.config(fields, &Map::new())), ("credential", kind.credential(fields))];
    body.extend(parts.into_iter().filter(|(_, part)| !part.is_empty()).map(|(name, part)| (name.to_owned(), Value::Object(part))));
    Value::Object(body)
}

/// The first step: the kind.
fn choose(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Reply {
    let query = visitor.query();
    let mut fields = Fields::default();
    fields.set("kind", query.first("kind"));
    let shown = Shown { fields: &fields, refusal };
    let kinds = or_none("Choose a kind", Kind::choices());
    let hint = "A simulated cloud needs no credential. It is good for trying things out.";
    let kept = query.pairs().filter(|(name, _)| *name != "kind");
    let body = html! {
        (trail(&[(PATH, "Clouds")]))
        (page_head(&html! { "New provider" }, &html! { "First choose what tenantd connects to." }, &html! {}))
        form.stack method="get" action={ (PATH) "/new" } {
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            (shown.summary())
            (shown.field("kind", "Kind of cloud", Control::Choice(&kinds), hint, true))
            div.actions { button.primary { "Continue" } a.button href=(PATH) { "Cancel" } }
        }
    };
    let content = Content::new("New provider", body);
    Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    })
}

/// The second step: everything else.
async fn page(visitor: &Visitor<'_>, kind: &Kind, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let organizations = or_none("None: several organizations share it", organization_choices(visitor, None).await?);
    let mut example = json!({"kind": kind.name, "name": "Production"});
    if let (Some(credential), Some(members)) = (kind.example_credential(), example.as_object_mut()) {
        members.insert("credential".to_owned(), credential);
    }
    let form = RecordForm {
        title: format!("New provider: {}", kind.title),
        below: "tenantd encrypts the credential and never shows it again.",
        trail: trail(&[(PATH, "Clouds"), ("/clouds/new", "Kind")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create provider",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let fields = kind.without_secrets(fields);
    let shown = Shown { fields: &fields, refusal };
    let inputs = html! {
        (advice(refusal, kind))
        input type="hidden" name="kind" value=(kind.name);
        (common_inputs(shown, &organizations))
        (kind.config_inputs(shown))
        (kind.credential_inputs(shown, false))
        (shown.field("verify", "Verification", Control::Choice(&verify_choices()), "A verification takes at most 10 seconds.", true))
    };
    Ok(form.page(visitor, shown, &inputs))
}

fn verify_choices() -> Vec<(String, String)> {
    VERIFY.iter().map(|(value, words)| ((*value).to_owned(), (*words).to_owned())).collect()
}

/// What to do after a refusal, besides correcting fields.
fn advice(refusal: Option<&Refusal>, kind: &Kind) -> Markup {
    let has_secrets = !kind.credential.is_empty();
    html! {
        @if refusal.is_some_and(|refusal| refusal.is(Code::ProviderVerificationFailed)) {
            p.note { "Nothing was saved. To see which check failed and how to fix it, choose “Verify and save in any case”." }
        }
        @if refusal.is_some() && has_secrets { p.note { "Enter the secrets of the credential again. The page does not keep them." } }
    }
}

/// The fields that all kinds have.
pub(super) fn common_inputs(shown: Shown<'_>, organizations: &[(String, String)]) -> Markup {
    html! {
        (shown.field("name", "Name", Control::Input("text"), "", true))
        (shown.field("organization_id", "Organization", Control::Choice(organizations), "The organization that the VMs belong to.", false))
        (shown.field("sync_interval_seconds", "Seconds between two syncs", Control::Input("number"), "60 to 86400. Without it, the default of the installation.", false))
        label.check { input type="checkbox" name="enabled" value="yes" checked[shown.fields.has("enabled")]; " Sync the VMs and accept orders" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_provider_has_only_the_fields_of_its_kind() {
        let typed = [
            ("kind", "hetzner"),
            ("name", " Lab "),
            ("api_token", "t0ken"),
            ("regions", ""),
            ("seed", "7"),
            ("sync_interval_seconds", "60"),
            ("enabled", "yes"),
        ];
        let typed = typed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sent = body(Kind::of("hetzner").unwrap(), &Fields::new(&typed));
        let expected = json!({
            "kind": "hetzner", "name": "Lab", "credential": {"api_token": "t0ken"}, "sync_interval_seconds": 60, "enabled": true,
        });
        assert_eq!(sent, expected);
    }
}
