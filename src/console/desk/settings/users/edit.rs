//! Changes the name, the address, the role and the status of a user.

use http::Method;
use maud::html;
use serde_json::{Map, Value, json};

use super::{ORGANIZATIONS, User, roles, user};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, choices, is_correctable, organization_choices},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

const STATUSES: [&str; 2] = ["active", "disabled"];

pub(crate) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    let limited = user.limits();
    let mut fields = Fields::new(&ORGANIZATIONS.fields(limited.as_deref()));
    fields.set("name", user.name.clone());
    fields.set("email", user.email.clone().unwrap_or_default());
    fields.set("external_id", user.external_id.clone().unwrap_or_default());
    fields.set("role", user.role.clone().unwrap_or_default());
    fields.set("status", user.status.clone());
    page(&visitor, &user, &fields, None).await
}

pub(crate) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let user = user(&visitor).await?;
    let fields = visitor.fields();
    match visitor.act(Method::PUT, user.api(), Some(Value::Object(body(&user, &fields)))).await {
        Ok(_) => Ok(Reply::SeeOther(user.path())),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, &user, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

/// What the form asks for. Only the external ID can be removed.
fn body(user: &User, fields: &Fields) -> Map<String, Value> {
    let mut body = fields.patch(&["external_id"]);
    body.insert("name".to_owned(), fields.get("name").into());
    // A contact can be without an address. The API does not remove one.
    if user.email.is_some() || !fields.get("email").is_empty() {
        body.insert("email".to_owned(), fields.get("email").into());
    }
    body.extend(fields.filled(&["role", "status"]));
    // An administrator who cannot see the organizations gets no field for them.
    if user.is_staff() && fields.has(ORGANIZATIONS.decision) && ORGANIZATIONS.value(fields) != Value::from(user.limits()) {
        body.insert(ORGANIZATIONS.member.to_owned(), ORGANIZATIONS.value(fields));
    }
    body
}

async fn page(visitor: &Visitor<'_>, user: &User, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let roles = if user.is_staff() { roles(visitor, user.role.as_deref()).await? } else { Vec::new() };
    let organizations = if user.is_staff() { organization_choices(visitor, None).await? } else { Vec::new() };
    let statuses = choices(&STATUSES);
    let form = RecordForm {
        title: format!("Edit {}", user.name),
        below: "A different role counts from the next request on.",
        trail: user.trail(),
        action: format!("{}/edit", user.path()),
        cancel: user.path(),
        button: "Save",
        version: Some(user.version),
        curl: curl(visitor.visit.base_url, "PUT", &user.api(), Some(&json!({"name": user.name, "status": user.status}))),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        (shown.field("name", "Full name", Control::Input("text"), "", true))
        (shown.field("email", "Email address", Control::Input("email"), "If it changes, open password links stop working.", user.is_staff()))
        @if user.is_staff() {
            (shown.field("role", "Role", Control::Choice(&roles), "You can give the roles whose rights you have. API keys of the user that have more rights than the role are paused.", true))
            @if !organizations.is_empty() || user.organizations.is_some() { (ORGANIZATIONS.show(shown, &organizations)) }
        }
        (shown.field("status", "Status", Control::Choice(&statuses), "A disabled user cannot sign in. Their sessions end at once.", true))
        (shown.field("external_id", "External ID", Control::Input("text"), "The ID of the person in the system that they come from.", false))
    };
    Ok(form.page(visitor, shown, &inputs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_removes_the_external_id_and_never_the_address() {
        let record = json!({
            "id": "usr_1", "name": "Ada", "kind": "contact", "status": "active", "created_at": "2026-11-18T10:00:00.000Z",
            "updated_at": "2026-11-18T10:00:00.000Z", "version": 1,
        });
        let contact: User = serde_json::from_value(record).unwrap();
        let pairs = [("name", "Ada"), ("email", ""), ("external_id", ""), ("status", "disabled")];
        let fields = Fields::new(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(Value::Object(body(&contact, &fields)), json!({"name": "Ada", "external_id": null, "status": "disabled"}));
        let staff = User { email: Some("ada@acme.example".to_owned()), ..contact };
        assert_eq!(body(&staff, &fields).get("email"), Some(&json!("")), "the API says that the address is missing");
    }
}
