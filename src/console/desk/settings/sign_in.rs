//! The sign-in policy: which roles need a second factor, and whether people may have personal API keys.

use http::Method;
use maud::html;
use serde::Deserialize;
use serde_json::json;

use tenantd_base::access::{Role, Scope, TenantKind};

use super::PATH as SETTINGS;
use crate::{
    components::{curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, trail},
    },
    form::{Fields, Shown, VERSION},
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/admin/sign-in-policy";
const PATH: &str = "/settings/sign-in";
const ALLOWED: &str = "allowed";

#[derive(Debug, Deserialize)]
struct Policy {
    second_factor: SecondFactor,
    personal_keys: String,
    version: u64,
}

#[derive(Debug, Deserialize)]
struct SecondFactor {
    required_for: Vec<String>,
    with_sso: bool,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let body = json!({
        "second_factor": {"required_for": fields.all("required_for"), "with_sso": fields.has("with_sso")},
        "personal_keys": if fields.has("personal_keys") { ALLOWED } else { "forbidden" },
    });
    match visitor.act(Method::PUT, API, Some(body)).await {
        Ok(_) => Ok(Reply::SeeOther(format!("{PATH}?saved=true"))),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let policy: Policy = visitor.read(API).await?;
    let is_platform = visitor.reader.tenant_kind == TenantKind::Platform;
    let roles = Role::ALL.iter().filter(|role| (**role == Role::Operator) == is_platform).map(|role| role.name());
    let example = json!({"second_factor": {"required_for": ["admin"]}});
    let (fields, factor) = (Fields::default(), &policy.second_factor);
    let are_allowed = policy.personal_keys == ALLOWED;
    let is_required = |role: &str| factor.required_for.iter().any(|known| known == role);
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (page_head(&html! { "Sign-in policy" }, &html! { "Who needs a second factor, and whether people may have personal API keys. It counts from the next request on." }, &curl(visitor.visit.base_url, "GET", API, None)))
        @if visitor.query().first("saved") == "true" { p.note role="status" { "The policy is saved." } }
        @if visitor.may(Scope::UsersWrite) {
            form.stack method="post" action=(PATH) {
                (visitor.tokens())
                input type="hidden" name=(VERSION) value=(policy.version);
                (Shown { fields: &fields, refusal }.summary())
                fieldset {
                    legend { "People with these roles need a second factor" }
                    @for role in roles {
                        label.check { input type="checkbox" name="required_for" value=(role) checked[is_required(role)]; " " (role) }
                    }
                }
                label.check { input type="checkbox" name="with_sso" value="true" checked[factor.with_sso]; " Also after single sign-on" }
                p.hint { "Otherwise the identity provider decides about further factors." }
                label.check {
                    input type="checkbox" name="personal_keys" value=(ALLOWED) checked[are_allowed];
                    " People may have personal API keys"
                }
                p.hint { "Otherwise nobody creates one, and those that exist do not work." }
                div.actions { button { "Save" } (curl(visitor.visit.base_url, "PUT", API, Some(&example))) }
            }
        } @else {
            p { @if are_allowed { "People may have personal API keys." } @else { "Personal API keys are forbidden." } }
            p { @if factor.required_for.is_empty() { "Nobody needs a second factor." } @else { "Required for: " (factor.required_for.join(", ")) } }
        }
    };
    let content = Content::new("Sign-in policy", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}
