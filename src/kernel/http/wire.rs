//! How the types of the kernel appear in the published document and are parsed from JSON: ids, times, and fields that can be
//! cleared. Values that a schema cannot exclude are refused here.

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type},
};
use serde::Serialize;
use serde_json::Value;

pub use tenantd_base::{
    document_type,
    openapi::{StoredWord, Word},
    word_type,
};

/// A body in one of two forms: one record, or several at once. A member that only the second form has distinguishes them.
#[derive(Clone, Debug)]
pub enum OneOrMany<O, M> {
    One(O),
    Many(M),
}

/// The second form of a body.
pub trait Many {
    /// The member that the form for one record does not have.
    const MEMBER: &'static str;
}

/// The member that replaces an item that the edge has refused. No client can send it, because no schema has it.
pub(crate) const REFUSED: &str = "$refused";

/// One of several records in a body whose member `atomic` is false. The edge checks each record separately and lets the request
/// pass.
#[derive(Clone, Debug)]
pub enum Item<T> {
    Valid(T),
    /// The problem of this record: `code`, `detail` and `errors`, as a request for this record alone would return it.
    Refused(Value),
}

impl<T> Item<T> {
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Item<U> {
        match self {
            Self::Valid(record) => Item::Valid(map(record)),
            Self::Refused(problem) => Item::Refused(problem),
        }
    }
}

document_type!([T: Type] Item<T>, T::name(), T::schema_ref(), |registry| T::register(registry));

impl<T: ToJSON> ToJSON for Item<T> {
    fn to_json(&self) -> Option<Value> {
        match self {
            Self::Valid(record) => record.to_json(),
            Self::Refused(problem) => Some(problem.clone()),
        }
    }
}

impl<T: ParseFromJSON> ParseFromJSON for Item<T> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let mut value = value.unwrap_or_default();
        match value.get_mut(REFUSED) {
            Some(problem) => Ok(Self::Refused(problem.take())),
            None => T::parse_from_json(Some(value)).map(Self::Valid).map_err(ParseError::propagate),
        }
    }
}

/// Why one of several records failed, as returned by [`crate::problem::Problem::of_item`].
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ItemProblem(pub Value);

document_type!([] ItemProblem, "ItemProblem", MetaSchemaRef::Reference("ItemProblem".to_owned()), |registry| {
    // The document's own schema replaces this one (`openapi/responses.rs`).
    registry.create_schema::<Self, _>("ItemProblem".to_owned(), |_| MetaSchema::new("object"));
});

impl ToJSON for ItemProblem {
    fn to_json(&self) -> Option<Value> {
        Some(self.0.clone())
    }
}

impl ParseFromJSON for ItemProblem {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        Ok(Self(value.unwrap_or_default()))
    }
}

document_type!(
    [O: Type, M: Type] OneOrMany<O, M>,
    format!("{}_or_{}", O::name(), M::name()),
    MetaSchemaRef::Inline(Box::new(MetaSchema { any_of: vec![O::schema_ref(), M::schema_ref()], ..MetaSchema::ANY })),
    |registry| {
        O::register(registry);
        M::register(registry);
    }
);

impl<O: ParseFromJSON, M: ParseFromJSON + Many> ParseFromJSON for OneOrMany<O, M> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let value = value.unwrap_or_default();
        if value.get(M::MEMBER).is_some() {
            M::parse_from_json(Some(value)).map(Self::Many).map_err(ParseError::propagate)
        } else {
            O::parse_from_json(Some(value)).map(Self::One).map_err(ParseError::propagate)
        }
    }
}
