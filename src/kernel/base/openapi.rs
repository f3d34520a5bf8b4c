//! How ids, times and changes of fields look in the published document, and how they are read from JSON and from parameters.

use std::borrow::Cow;

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{ParseError, ParseFromJSON, ParseFromParameter, ParseResult, ToJSON, Type},
};
use serde_json::Value;

use crate::{
    change::Change,
    clock::Timestamp,
    id::{Id, IdError, Kind},
};

/// Gives a type its name and its schema in the published document. A schema that refers to others registers them.
#[macro_export]
macro_rules! document_type {
    ([$($generics:tt)*] $type:ty, $name:expr, $schema_ref:expr, |$registry:ident| $register:expr) => {
        impl<$($generics)*> ::poem_openapi::types::Type for $type {
            const IS_REQUIRED: bool = true;
            type RawValueType = Self;
            type RawElementValueType = Self;

            fn name() -> ::std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schema_ref() -> ::poem_openapi::registry::MetaSchemaRef {
                $schema_ref
            }

            fn register($registry: &mut ::poem_openapi::registry::Registry) {
                $register
            }

            fn as_raw_value(&self) -> Option<&Self> {
                Some(self)
            }

            fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self> + 'a> {
                Box::new(std::iter::once(self))
            }
        }
    };
}

macro_rules! text_type {
    ([$($generics:tt)*] $type:ty, $name:expr, $schema:expr, $parse:expr) => {
        document_type!([$($generics)*] $type, $name, MetaSchemaRef::Inline(Box::new($schema)), |_registry| ());

        impl<$($generics)*> ParseFromJSON for $type {
            fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
                match value {
                    Some(Value::String(text)) => Self::parse_from_parameter(&text),
                    other => Err(ParseError::expected_type(other.unwrap_or_default())),
                }
            }
        }

        impl<$($generics)*> ParseFromParameter for $type {
            fn parse_from_parameter(text: &str) -> ParseResult<Self> {
                let parse: fn(&str) -> Result<Self, String> = $parse;
                parse(text).map_err(ParseError::custom)
            }
        }

        impl<$($generics)*> ToJSON for $type {
            fn to_json(&self) -> Option<Value> {
                Some(Value::String(self.to_string()))
            }
        }
    };
}

text_type!(
    [K: Kind] Id<K>,
    format!("{}_id", K::PREFIX),
    MetaSchema { pattern: Some(Self::pattern()), example: Some(Self::example().into()), ..MetaSchema::new("string") },
    |text| text.parse().map_err(|error: IdError| error.to_string())
);

text_type!(
    [] Timestamp,
    "timestamp",
    MetaSchema::new_with_format("string", "date-time"),
    |text| Self::parse(text).ok_or_else(|| "expected a time such as 2026-01-31T09:30:00Z".to_owned())
);

impl<T: Type> Type for Change<T> {
    const IS_REQUIRED: bool = false;
    type RawValueType = T::RawValueType;
    type RawElementValueType = T::RawElementValueType;

    fn name() -> Cow<'static, str> {
        format!("change_{}", T::name()).into()
    }

    fn schema_ref() -> MetaSchemaRef {
        T::schema_ref().merge(MetaSchema { nullable: true, ..MetaSchema::ANY })
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn as_raw_value(&self) -> Option<&Self::RawValueType> {
        match self {
            Self::Set(value) => value.as_raw_value(),
            Self::Keep | Self::Clear => None,
        }
    }

    fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
        match self {
            Self::Set(value) => value.raw_element_iter(),
            Self::Keep | Self::Clear => Box::new(std::iter::empty()),
        }
    }

    fn is_none(&self) -> bool {
        !matches!(self, Self::Set(_))
    }
}

impl<T: ParseFromJSON> ParseFromJSON for Change<T> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        match value {
            None => Ok(Self::Keep),
            Some(Value::Null) => Ok(Self::Clear),
            value => T::parse_from_json(value).map(Self::Set).map_err(ParseError::propagate),
        }
    }
}

impl<T: ToJSON> ToJSON for Change<T> {
    fn to_json(&self) -> Option<Value> {
        match self {
            Self::Keep => None,
            Self::Clear => Some(Value::Null),
            Self::Set(value) => value.to_json(),
        }
    }
}
