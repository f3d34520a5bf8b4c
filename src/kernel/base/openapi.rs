//! The schemas of ids, times, words and field changes in the published document, and their parsing from JSON and parameters.

use std::{
    borrow::Cow,
    fmt::{self, Formatter},
    marker::PhantomData,
};

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{ParseError, ParseFromJSON, ParseFromParameter, ParseResult, ToJSON, Type},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{EnumAccess, Error, VariantAccess, Visitor},
};
use serde_json::Value;

use crate::{
    access::{NotARole, Role, StaffRole, TenantKind},
    change::Change,
    clock::Timestamp,
    id::{Id, IdError, Kind, RoleId},
    quotas::Quota,
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

/// Gives closed lists of words ([`crate::vocabulary`]) their schemas, and reads and writes them by name. Serde writes the types
/// after `stored:` under other names, so on the wire they are a [`Word`].
#[macro_export]
macro_rules! word_type {
    (@ [$($generics:tt)*] $type:ty, $name:expr, $description:expr) => {
        $crate::document_type!([$($generics)*] $type, $name, ::poem_openapi::registry::MetaSchemaRef::Reference($name.to_owned()), |registry| {
            registry.create_schema::<Self, _>($name.to_owned(), |_| ::poem_openapi::registry::MetaSchema {
                description: $description,
                enum_items: Self::NAMES.iter().map(|name| ::serde_json::Value::from(*name)).collect(),
                ..::poem_openapi::registry::MetaSchema::new("string")
            });
        });

        impl<$($generics)*> ::poem_openapi::types::ParseFromJSON for $type {
            fn parse_from_json(value: Option<::serde_json::Value>) -> ::poem_openapi::types::ParseResult<Self> {
                let value = value.unwrap_or_default();
                let word = value.as_str().and_then(Self::parse);
                word.ok_or_else(|| ::poem_openapi::types::ParseError::expected_type(value))
            }
        }

        impl<$($generics)*> ::poem_openapi::types::ParseFromParameter for $type {
            fn parse_from_parameter(text: &str) -> ::poem_openapi::types::ParseResult<Self> {
                Self::parse(text).ok_or_else(|| ::poem_openapi::types::ParseError::custom("no such value"))
            }
        }

        impl<$($generics)*> ::poem_openapi::types::ToJSON for $type {
            fn to_json(&self) -> Option<::serde_json::Value> {
                Some(self.name().into())
            }
        }
    };
    (stored: $($type:ty, $name:literal $(, $description:literal)?;)*) => {$(
        impl $crate::openapi::StoredWord for $type {
            const SCHEMA: &'static str = $name;
            const DESCRIPTION: Option<&'static str> = [$($description)?].first().copied();
            const NAMES: &'static [&'static str] = <$type>::NAMES;

            fn name(self) -> &'static str {
                <$type>::name(self)
            }

            fn parse(name: &str) -> Option<Self> {
                <$type>::parse(name)
            }
        }

        impl From<$crate::openapi::Word<$type>> for $type {
            fn from(word: $crate::openapi::Word<$type>) -> Self {
                word.0
            }
        }
    )*};
    ($($type:ty, $name:literal $(, $description:literal)?;)*) => {
        $($crate::word_type!(@ [] $type, $name, [$($description)?].first().copied());)*
    };
}

word_type! {
    Role, "Role", "The role of a user. It decides what the user may do.";
    TenantKind, "Kind";
    Quota, "QuotaName", "The name of a quota, which limits what a tenant uses.";
}

/// A word that serde writes under another name than the wire. `word_type!` implements this trait.
pub trait StoredWord: Copy + Send + Sync {
    const SCHEMA: &'static str;
    const DESCRIPTION: Option<&'static str>;
    const NAMES: &'static [&'static str];

    fn name(self) -> &'static str;
    fn parse(name: &str) -> Option<Self>;
}

/// A stored word on the wire. Serde writes it by its wire name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Word<T>(pub T);

impl<T: StoredWord> Word<T> {
    const NAMES: &'static [&'static str] = T::NAMES;

    pub fn name(self) -> &'static str {
        self.0.name()
    }

    fn parse(name: &str) -> Option<Self> {
        T::parse(name).map(Self)
    }
}

word_type!(@ [T: StoredWord] Word<T>, T::SCHEMA, T::DESCRIPTION);

impl<T> From<T> for Word<T> {
    fn from(word: T) -> Self {
        Self(word)
    }
}

impl<T: StoredWord> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Reads a word like a derived `Deserialize`, with the same messages.
struct WordVisitor<T>(PhantomData<T>);

impl<'de, T: StoredWord> Visitor<'de> for WordVisitor<T> {
    type Value = Word<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "enum {}", T::SCHEMA)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Word<T>, A::Error> {
        let (name, variant) = data.variant::<String>()?;
        let word = Word::parse(&name).ok_or_else(|| A::Error::unknown_variant(&name, T::NAMES))?;
        variant.unit_variant()?;
        Ok(word)
    }
}

impl<'de, T: StoredWord> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum(T::SCHEMA, T::NAMES, WordVisitor(PhantomData))
    }
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
    [] StaffRole,
    "staff_role",
    MetaSchema {
        pattern: Some(format!("^({}|{})$", Role::NAMES.join("|"), RoleId::pattern().trim_matches(['^', '$']))),
        example: Some(Role::Technician.name().into()),
        ..MetaSchema::new("string")
    },
    |text| text.parse().map_err(|error: NotARole| error.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::vocabulary;

    vocabulary! {
        StoredRole as variants:
        Admin "admin", Technician "technician", Viewer "viewer", Operator "operator",
    }

    word_type! {
        stored: StoredRole, "StoredRole";
    }

    #[test]
    fn a_stored_word_uses_its_wire_name_in_json() {
        let word = Word(StoredRole::Admin);
        assert_eq!(serde_json::to_value(StoredRole::Admin).unwrap(), "Admin");
        assert_eq!(serde_json::to_value(word).unwrap(), "admin");
        assert_eq!(word.to_json(), Some("admin".into()));
        assert_eq!(serde_json::from_str::<Word<StoredRole>>("\"admin\"").unwrap(), word);
        assert_eq!(Word::<StoredRole>::parse_from_json(Some("Admin".into())).ok(), None);
    }

    #[test]
    fn a_stored_word_is_refused_like_a_derived_one() {
        for wrong in ["\"Admin\"", "5", "null", "{\"other\": null}", "{\"admin\": 1}"] {
            let message =
                |error: serde_json::Error| (error.to_string().split(" at line ").next().map(str::to_owned), error.is_data());
            let derived = message(serde_json::from_str::<Role>(wrong).unwrap_err());
            assert_eq!(message(serde_json::from_str::<Word<StoredRole>>(wrong).unwrap_err()), derived, "{wrong}");
        }
    }
}
