//! The form for a new ticket.

use http::Method;
use maud::html;
use serde_json::Value;

use super::{API, NEW, PATH, Ticket};
use crate::{
    components::page_head,
    desk::{Content, Reply, organizations::trail, tickets::lines},
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

const PRIORITIES: [(&str, &str); 3] =
    [("low", "Low: it can wait"), ("medium", "Medium: it hinders me"), ("high", "High: I cannot work")];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let mut fields = Fields::default();
    fields.set("priority", "medium");
    Ok(page(&visitor, &fields, None))
}

pub(super) async fn create(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let mut body = fields.filled(&["subject", "priority"]);
    if !fields.get("description").is_empty() {
        body.insert("description".to_owned(), lines(fields.get("description")).into());
    }
    match visitor.act(Method::POST, API, Some(Value::Object(body))).await {
        Ok(answer) => Ok(Reply::SeeOther(parsed::<Ticket>(answer.body)?.path())),
        Err(refusal) if refusal.status.is_client_error() => Ok(page(&visitor, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let shown = Shown { fields, refusal };
    let priorities = PRIORITIES.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let body = html! {
        (trail(&[(PATH, "Your tickets")]))
        (page_head(&html! { "New ticket" }, &html! { "Goes to " (visitor.reader.tenant_name) "." }, &html! {}))
        form.stack method="post" action=(NEW) {
            (visitor.tokens())
            (shown.summary())
            (shown.field("subject", "Subject", Control::Input("text"), "What it is about, in one line.", true))
            (shown.field("description", "Description", Control::Text { rows: 8 }, "What happens, since when, and what you expected.", false))
            (shown.field("priority", "Priority", Control::Choice(&priorities), "", true))
            div.actions { button.primary { "Send" } a.button href=(PATH) { "Cancel" } }
        }
    };
    let content = Content::new("New ticket", body);
    Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    })
}
