//! How the kernel's own types look in the published document and are read from JSON: ids, times, and fields that can be
//! cleared. Values that a schema cannot express are refused here.

use std::borrow::Cow;

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{ParseError, ParseFromJSON, ParseFromParameter, ParseResult, ToJSON, Type},
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kernel::{
    clock::Timestamp,
    id::{Id, Kind},
};

/// Gives a type its name and its schema in the published document. A schema that refers to others registers them.
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
pub(crate) use document_type;

/// Gives closed lists of words (`kernel::vocabulary`) their schemas, and reads and writes them as their names.
macro_rules! word_type {
    ($($type:ty, $name:literal, $description:literal;)*) => {$(
        $crate::kernel::http::wire::document_type!([] $type, $name, ::poem_openapi::registry::MetaSchemaRef::Reference($name.to_owned()), |registry| {
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
pub(crate) use word_type;

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
    |text| text.parse().map_err(|error: crate::kernel::id::IdError| error.to_string())
);

text_type!(
    [] Timestamp,
    "timestamp",
    MetaSchema::new_with_format("string", "date-time"),
    |text| Self::parse(text).ok_or_else(|| "expected a time such as 2026-01-31T09:30:00Z".to_owned())
);

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

/// A field of a change: left as it is when absent, cleared by `null`, else set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

impl<T> Change<T> {
    /// The value after the change.
    pub fn apply(self, current: Option<T>) -> Option<T> {
        match self {
            Self::Keep => current,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }

    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(convert(value)),
        }
    }

    pub fn try_map<U, E>(self, convert: impl FnOnce(T) -> Result<U, E>) -> Result<Change<U>, E> {
        Ok(match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(convert(value)?),
        })
    }
}

/// With `#[serde(default)]` on the field.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}

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
