//! Creates and changes an identity provider.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{API, PATH, Provider, SETTINGS, TITLE, provider, rules};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, choices, is_correctable, trail},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

const ROLES: [&str; 3] = ["viewer", "technician", "admin"];
const DEFAULT_SCOPES: &str = "openid, email, profile";
const SECRET: &str = "client_secret";

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    for (name, value) in [("scopes", DEFAULT_SCOPES), ("default_role", "viewer"), ("auto_provision", "false"), ("enabled", "true")]
    {
        fields.set(name, value);
    }
    rules::set_defaults(&mut fields);
    Ok(new_page(&visitor, &fields, None))
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = settings(&fields);
    body.extend(fields.filled(&["name", "issuer", "client_id", SECRET]));
    body.insert("enabled".to_owned(), (fields.get("enabled") == "true").into());
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) => {
            let id = answer.body.get("id").and_then(Value::as_str).unwrap_or_default();
            Ok(Reply::SeeOther(format!("{PATH}/{id}")))
        }
        Err(refusal) if is_correctable(&refusal) => Ok(new_page(&visitor, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

/// The members that a new provider and a known one have.
fn settings(fields: &Fields) -> Map<String, Value> {
    let mut body = fields.filled(&["default_role"]);
    body.insert("domains".to_owned(), fields.words("domains").into());
    body.insert("auto_provision".to_owned(), (fields.get("auto_provision") == "true").into());
    let scopes = fields.words("scopes");
    if !scopes.is_empty() {
        body.insert("scopes".to_owned(), scopes.into());
    }
    body.extend(rules::members(fields));
    body
}

fn new_page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let example = json!({
        "name": "Acme", "issuer": "https://id.acme.com", "client_id": "tenantd", "client_secret": "…", "domains": ["acme.com"]
    });
    let form = RecordForm {
        title: "New identity provider".to_owned(),
        below: "An OpenID Connect provider such as Entra ID, Okta or Keycloak. You need all rights of an administrator.",
        trail: trail(&[(SETTINGS, "Settings"), (PATH, TITLE)]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create provider",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let fields = without_secret(fields);
    let shown = Shown { fields: &fields, refusal };
    let inputs = html! {
        p {
            "Create a client for the authorization code flow at the provider. The next page shows the redirect URI to register there."
        }
        (inputs(shown, "tenantd encrypts it and never shows it.", true))
        (shown.field("enabled", "State", Control::Choice(&states()), "", true))
        (rules::inputs(shown, true))
    };
    form.page(visitor, shown, &inputs)
}

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    let mut fields = Fields::default();
    fields.set("name", provider.name.clone());
    fields.set("issuer", provider.issuer.clone());
    fields.set("client_id", provider.client_id.clone());
    fields.set("domains", provider.domains.join(", "));
    fields.set("scopes", provider.scopes.join(", "));
    fields.set("default_role", provider.default_role.clone());
    fields.set("auto_provision", provider.auto_provision.to_string());
    provider.rules.fill(&mut fields);
    Ok(edit_page(&visitor, &provider, &fields, None))
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let provider = provider(&visitor).await?;
    let fields = visitor.fields();
    let mut body = settings(&fields);
    body.extend(fields.filled(&[SECRET]));
    for name in ["name", "issuer", "client_id"] {
        body.insert(name.to_owned(), fields.get(name).into());
    }
    match visitor.act(Method::PUT, provider.api(), Some(Value::Object(body))).await {
        Ok(_) => Ok(Reply::SeeOther(provider.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(edit_page(&visitor, &provider, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn edit_page(visitor: &Visitor<'_>, provider: &Provider, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let form = RecordForm {
        title: format!("Edit {}", provider.name),
        below: "A new domain needs a proof before people can sign in with it.",
        trail: provider.trail(),
        action: format!("{}/edit", provider.path()),
        cancel: provider.path(),
        button: "Save",
        version: Some(provider.version),
        curl: curl(visitor.visit.base_url, "PUT", &provider.api(), Some(&json!({"domains": provider.domains}))),
    };
    let fields = without_secret(fields);
    let shown = Shown { fields: &fields, refusal };
    let hint = "Leave it empty to keep the stored secret. Enter it again if you change the scheme, host or port of the issuer.";
    let inputs = html! { (inputs(shown, hint, false)) (rules::inputs(shown, false)) };
    form.page(visitor, shown, &inputs)
}

/// A page never contains the secret, not even after a refusal.
fn without_secret(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    fields.set(SECRET, "");
    fields
}

fn states() -> [(String, String); 2] {
    [("true".to_owned(), "Enabled".to_owned()), ("false".to_owned(), "Disabled".to_owned())]
}

fn inputs(shown: Shown<'_>, secret_hint: &str, needs_secret: bool) -> Markup {
    let unknown =
        [("false".to_owned(), "Refuse them".to_owned()), ("true".to_owned(), "Create a user with the role below".to_owned())];
    html! {
        (shown.field("name", "Name", Control::Input("text"), "", true))
        (shown.field("issuer", "Issuer", Control::Input("url"), "Exactly as in the discovery document of the provider, such as https://id.acme.com.", true))
        (shown.field("client_id", "Client ID", Control::Input("text"), "", true))
        (shown.field(SECRET, "Client secret", Control::Input("password"), secret_hint, needs_secret))
        (shown.field("domains", "Domains", Control::Input("text"), "The mail domains whose people sign in through the provider. Separate them with commas.", true))
        (shown.field("auto_provision", "Unknown people", Control::Choice(&unknown), "What happens if somebody without a user signs in.", true))
        (shown.field("default_role", "Role of new users", Control::Choice(&choices(&ROLES)), "", true))
        (shown.field("scopes", "Scopes", Control::Input("text"), "What tenantd requests from the provider. Must contain openid.", false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&str, &str)]) -> Fields {
        Fields::new(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn the_form_becomes_the_members_of_the_body() {
        let fields =
            sent(&[("domains", "acme.com, acme.co.uk"), ("auto_provision", "true"), ("default_role", "viewer"), ("scopes", "")]);
        let body = Value::Object(settings(&fields));
        assert_eq!((&body["domains"], &body["auto_provision"]), (&json!(["acme.com", "acme.co.uk"]), &json!(true)));
        assert_eq!((&body["default_role"], body.get("scopes")), (&json!("viewer"), None));
    }

    #[test]
    fn a_form_that_is_shown_again_does_not_contain_the_secret() {
        let fields = without_secret(&sent(&[("name", "Acme"), (SECRET, "s3cret")]));
        let shown = inputs(Shown { fields: &fields, refusal: None }, "", true).into_string();
        assert!(shown.contains("Acme") && !shown.contains("s3cret"));
    }
}
