//! How the kernel's own types look in the published document and are read from JSON: ids, times, and fields that can be
//! cleared. Values that a schema cannot express are refused here.

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseResult, Type},
};
use serde_json::Value;

pub use tenantd_base::document_type;

/// Gives closed lists of words (`tenantd_base::vocabulary`) their schemas, and reads and writes them as their names.
#[macro_export]
macro_rules! word_type {
    ($($type:ty, $name:literal, $description:literal;)*) => {$(
        $crate::wire::document_type!([] $type, $name, ::poem_openapi::registry::MetaSchemaRef::Reference($name.to_owned()), |registry| {
            registry.create_schema::<Self, _>($name.to_owned(), |_| ::poem_openapi::registry::MetaSchema {
                description: Some($description),
                enum_items: Self::ALL.iter().map(|word| ::serde_json::Value::from(word.name())).collect(),
                ..::poem_openapi::registry::MetaSchema::new("string")
            });
        });

        impl ::poem_openapi::types::ParseFromJSON for $type {
            fn parse_from_json(value: Option<::serde_json::Value>) -> ::poem_openapi::types::ParseResult<Self> {
                let value = value.unwrap_or_default();
                let word = value.as_str().and_then(Self::parse);
                word.ok_or_else(|| ::poem_openapi::types::ParseError::expected_type(value))
            }
        }

        impl ::poem_openapi::types::ParseFromParameter for $type {
            fn parse_from_parameter(text: &str) -> ::poem_openapi::types::ParseResult<Self> {
                Self::parse(text).ok_or_else(|| ::poem_openapi::types::ParseError::custom("no such value"))
            }
        }

        impl ::poem_openapi::types::ToJSON for $type {
            fn to_json(&self) -> Option<::serde_json::Value> {
                Some(self.name().into())
            }
        }
    )*};
}
pub use word_type;

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
