//! A new user who signs in.

use http::Method;
use maud::html;
use serde_json::{Value, json};

use super::{API, ORGANIZATIONS, PATH, SETTINGS, actions::link_page, roles};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, or_none, organization_choices, trail},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

pub(crate) async fn new(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, &Fields::default(), None).await
}

pub(crate) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = fields.filled(&["email", "role", "external_id"]);
    body.insert("name".to_owned(), fields.get("name").into());
    body.insert("kind".to_owned(), "staff".into());
    let limit = ORGANIZATIONS.value(&fields);
    if fields.has(ORGANIZATIONS.decision) && !limit.is_null() {
        body.insert(ORGANIZATIONS.member.to_owned(), limit);
    }
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) => Ok(link_page(&visitor, &parsed(answer.body)?, "User created")),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let roles = or_none("Choose a role", roles(visitor, None).await?);
    let organizations = organization_choices(visitor, None).await?;
    let example = json!({"name": "Ada Lovelace", "email": "ada@example.com", "role": "technician"});
    let form = RecordForm {
        title: "New user".to_owned(),
        below: "A person who signs in. The next page has a link with which they set their password.",
        trail: trail(&[(SETTINGS, "Settings"), (PATH, "Users")]),
        action: format!("{PATH}/new"),
        cancel: PATH.to_owned(),
        button: "Create user",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", API, Some(&example)),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        (shown.field("name", "Full name", Control::Input("text"), "", true))
        (shown.field("email", "Email address", Control::Input("email"), "The person signs in with it.", true))
        (shown.field("role", "Role", Control::Choice(&roles), "You can give the roles whose rights you have.", true))
        @if !organizations.is_empty() { (ORGANIZATIONS.show(shown, &organizations)) }
        (shown.field("external_id", "External ID", Control::Input("text"), "The ID of the person in the system that they come from.", false))
    };
    Ok(form.page(visitor, shown, &inputs))
}
