//! Parses tickets from JSON values and shows them as JSON, for workflow steps. The forms are those of the request bodies; a
//! change and a comment name their ticket by `id`.

use poem_openapi::types::ParseFromJSON;
use serde_json::{Value, json};

use tenantd_base::{access::Reach, clock::Timestamp, fault::Fault};
use tenantd_http::openapi;
use tenantd_store::Read;

use super::{
    super::{
        error::TicketError,
        model::{self, TicketRef},
        service::{NewComment, NewTicket, TicketChange},
    },
    bodies::{CreateComment, CreateTicket, UpdateTicket},
    wire::Ticket,
};

fn parse<T: ParseFromJSON>(form: Value) -> Result<T, TicketError> {
    T::parse_from_json(Some(form)).map_err(|error| TicketError::Invalid(vec![Fault::new("", "not_valid", error.into_message())]))
}

/// The schema of a form, with `id` as a required field.
fn with_target(mut schema: Value, name: &str) -> Value {
    if let Some(form) = schema.pointer_mut(&format!("/components/schemas/{name}")).and_then(Value::as_object_mut) {
        let id = json!({"type": "string", "description": "The ticket: its id, `T-1042` or `1042`."});
        if let Some(properties) = form.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("id".to_owned(), id);
        }
        let required = form.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.push(json!("id"));
        }
    }
    schema
}

pub(crate) fn create_schema() -> Value {
    openapi::input_schema::<CreateTicket>()
}

pub(crate) fn change_schema() -> Value {
    with_target(openapi::input_schema::<UpdateTicket>(), "UpdateTicket")
}

pub(crate) fn comment_schema() -> Value {
    with_target(openapi::input_schema::<CreateComment>(), "CreateComment")
}

pub(crate) fn read_new(form: &Value) -> Result<NewTicket, TicketError> {
    parse::<CreateTicket>(form.clone()).map(Into::into)
}

fn target(form: &Value) -> Result<TicketRef, TicketError> {
    let text = form.get("id").and_then(Value::as_str).unwrap_or_default();
    text.parse().map_err(|message| TicketError::Invalid(vec![Fault::new("/id", "wrong_form", message)]))
}

pub(crate) fn read_change(form: &Value) -> Result<(TicketRef, TicketChange), TicketError> {
    let ticket = target(form)?;
    let body: UpdateTicket = parse(form.clone())?;
    Ok((ticket, body.patch.into()))
}

pub(crate) fn read_comment(form: &Value) -> Result<(TicketRef, NewComment), TicketError> {
    let ticket = target(form)?;
    let mut rest = form.clone();
    if let Some(members) = rest.as_object_mut() {
        members.remove("id");
    }
    Ok((ticket, parse::<CreateComment>(rest)?.into()))
}

pub(crate) fn show(tx: &impl Read, ticket: model::Ticket, now: Timestamp) -> Result<Value, TicketError> {
    Ok(serde_json::to_value(Ticket::look_up(tx, &Reach::Everything, ticket, now)?)?)
}
