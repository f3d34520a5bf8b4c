//! How the kernel's own types look in the published document and are read from JSON: ids, times, and fields that can be
//! cleared. Values that a schema cannot express are refused here.

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseResult, Type},
};
use serde_json::Value;

pub use tenantd_base::{
    document_type,
    openapi::{StoredWord, Word},
    word_type,
};

/// A body in one of two forms: one record, or several at once. The two are told apart by a member that only the second has.
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
