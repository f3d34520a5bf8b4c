//! The vocabularies of tickets, ticket references and custom fields as JSON and as parameters: the model types with their schemas.

use std::{
    collections::BTreeMap,
    fmt::{Display, Formatter},
    str::FromStr,
};

use jiff::civil::Date;
use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseFromParameter, ParseResult, ToJSON},
};
use serde::Serialize;
use serde_json::Value;

use tenantd_base::{id::UserId, vocabulary::vocabulary};
use tenantd_http::wire::{document_type, word_type};
use tenantd_store::Direction;

use super::super::model::{
    FieldValue, Level, MAX_CUSTOM_FIELDS, MAX_FIELD_FLOAT, OnDuplicate, Priority, ResolutionCode, SlaState, Source, Status,
    StatusCategory, TicketRef, TicketType, Visibility,
};

vocabulary! {
    /// The order of comments and events of a ticket.
    NoteOrder:
    Asc "asc", Desc "desc",
}

impl NoteOrder {
    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::Asc => Direction::Forward,
            Self::Desc => Direction::Backward,
        }
    }
}

word_type! {
    NoteOrder, "TicketNoteOrder", "`asc`: the oldest first. `desc`: the newest first.";
    Status, "TicketStatus", "Open: `new`, `open`, `in_progress`. Waiting: `waiting_customer`, `waiting_vendor`, `scheduled`, `on_hold`. Done: `resolved`, `closed`, `cancelled`, `merged`.";
    StatusCategory, "TicketStatusCategory", "The clocks of the service levels run while a ticket is `open` and pause while it is `waiting`.";
    Priority, "TicketPriority", "The most urgent is `critical`.";
    Level, "TicketLevel", "The level of impact or urgency.";
    TicketType, "TicketType", "The type of a ticket.";
    Source, "TicketSource", "Where a ticket comes from.";
    ResolutionCode, "TicketResolutionCode", "How a ticket was resolved.";
    SlaState, "TicketSlaState", "The state of the service levels. `breached` is permanent. `met` means that the ticket was resolved in time. `none` means that it was cancelled or merged.";
    Visibility, "TicketCommentVisibility", "Who can see a comment. The customer sees only `public` comments.";
    OnDuplicate, "TicketOnDuplicate", "What to do if an open ticket has the same `dedup_key`. `comment` adds a comment to that ticket and counts another occurrence. `ignore` leaves it unchanged. `reject` returns a conflict. `create` creates another ticket.";
}

document_type!(
    [] TicketRef,
    "ticket_ref",
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        pattern: Some(Self::pattern()),
        example: Some("T-1042".into()),
        ..MetaSchema::new("string")
    })),
    |_registry| ()
);

/// A value of the assignee filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssigneeFilter {
    /// The signed-in user.
    Me,
    Nobody,
    User(UserId),
}

impl FromStr for AssigneeFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "me" => Ok(Self::Me),
            "none" => Ok(Self::Nobody),
            _ => text.parse().map(Self::User).map_err(|_| "expected a user's id, me or none".to_owned()),
        }
    }
}

impl Display for AssigneeFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Me => f.write_str("me"),
            Self::Nobody => f.write_str("none"),
            Self::User(id) => id.fmt(f),
        }
    }
}

document_type!(
    [] AssigneeFilter,
    "assignee_filter",
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        pattern: Some(format!("^(me|none|{})$", UserId::pattern().trim_matches(['^', '$']))),
        example: Some("none".into()),
        ..MetaSchema::new("string")
    })),
    |_registry| ()
);

/// A calendar day in any time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub(super) struct Day(pub(super) Date);

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "expected a date such as 2026-12-25".to_owned())
    }
}

impl Display for Day {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

document_type!(
    [] Day,
    "day",
    MetaSchemaRef::Inline(Box::new(MetaSchema { example: Some("2026-12-25".into()), ..MetaSchema::new_with_format("string", "date") })),
    |_registry| ()
);

macro_rules! text_type {
    ($($type:ty)*) => {$(
        impl ParseFromJSON for $type {
            fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
                let value = value.unwrap_or_default();
                match value.as_str() {
                    Some(text) => text.parse().map_err(|message: String| ParseError::custom(message)),
                    None => Err(ParseError::expected_type(value)),
                }
            }
        }

        impl ToJSON for $type {
            fn to_json(&self) -> Option<Value> {
                Some(self.to_string().into())
            }
        }
    )*};
}

text_type! { TicketRef AssigneeFilter Day }

impl ParseFromParameter for TicketRef {
    fn parse_from_parameter(text: &str) -> ParseResult<Self> {
        text.parse().map_err(|message: String| ParseError::custom(message))
    }
}

/// Custom fields. With `NULLS`, a field can be null; in a patch, null removes the field.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Fields<const NULLS: bool>(pub(super) BTreeMap<String, Value>);

const MAX_FIELD_LENGTH: usize = 4096;

fn fields_schema(nulls: bool) -> MetaSchema {
    let inline = |schema: MetaSchema| MetaSchemaRef::Inline(Box::new(schema));
    let text = MetaSchema { max_length: Some(MAX_FIELD_LENGTH), ..MetaSchema::new("string") };
    let number = MetaSchema { minimum: Some(-MAX_FIELD_FLOAT), maximum: Some(MAX_FIELD_FLOAT), ..MetaSchema::new("number") };
    let mut any_of = vec![inline(text), inline(number), inline(MetaSchema::new("boolean"))];
    if nulls {
        any_of.push(inline(MetaSchema::new("null")));
    }
    MetaSchema {
        description: Some(
            "Custom fields. Names match `[a-z0-9_]{1,64}`; a value is a text, a number or a boolean. Numbers are between -(2^53 - 1) and \
             2^53 - 1, so that every client reads integers exactly. Fractions have double precision. Send longer numbers as text.",
        ),
        additional_properties: Some(Box::new(inline(MetaSchema { any_of, ..MetaSchema::ANY }))),
        max_properties: Some(MAX_CUSTOM_FIELDS),
        example: Some(serde_json::json!({"rack": "B4", "units": 2})),
        ..MetaSchema::new("object")
    }
}

document_type!(
    [const NULLS: bool] Fields<NULLS>,
    "ticket_custom_fields",
    MetaSchemaRef::Inline(Box::new(fields_schema(NULLS))),
    |_registry| ()
);

impl<const NULLS: bool> ParseFromJSON for Fields<NULLS> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        match value.unwrap_or_default() {
            Value::Object(fields) => Ok(Self(fields.into_iter().collect())),
            other => Err(ParseError::expected_type(other)),
        }
    }
}

impl<const NULLS: bool> ToJSON for Fields<NULLS> {
    fn to_json(&self) -> Option<Value> {
        Some(Value::Object(self.0.clone().into_iter().collect()))
    }
}

impl<const NULLS: bool> Fields<NULLS> {
    /// The fields. A field that is null has no value.
    pub(super) fn values(self) -> BTreeMap<String, Option<FieldValue>> {
        let value = |value: Value| match value {
            Value::String(text) => Some(FieldValue::Text(text)),
            Value::Bool(flag) => Some(FieldValue::Flag(flag)),
            Value::Number(number) => {
                let float = number.as_f64().map(FieldValue::Number);
                number.as_i64().map(FieldValue::Integer).or(float)
            }
            // The schema allows nothing else but null.
            _ => None,
        };
        self.0.into_iter().map(|(name, field)| (name, value(field))).collect()
    }
}
