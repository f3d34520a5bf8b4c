//! Texts and lists with a bound in their type. They are for input that is too large to be checked against the published document
//! first and is read straight into its type. The same type writes the bound into the document, so that the two agree.

use std::borrow::Cow;

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef, Registry},
    types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use super::wire::document_type;

/// The pattern of a text without control characters, except tabs and line ends.
pub const NO_CONTROL_CHARACTERS: &str = r"^[^\x00-\x08\x0B-\x1F\x7F-\x9F]*$";

/// Some character that shows something, between others that are not these control characters.
macro_rules! visible {
    ($control:literal) => {
        concat!(
            "^[^",
            $control,
            r"]*[^\s\x00-\x1F\x7F-\x9F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B-\u200F\u2028-\u202E\u2060-\u206F",
            r"\u2800\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB][^",
            $control,
            "]*$"
        )
    };
}

/// The pattern of a text that shows something and has no control characters, except tabs and line ends.
pub const VISIBLE_TEXT: &str = visible!(r"\x00-\x08\x0B\x0C\x0E-\x1F\x7F");

/// The pattern of a [`Text`] that shows something.
pub const VISIBLE_BOUNDED_TEXT: &str = visible!(r"\x00-\x08\x0B-\x1F\x7F-\x9F");

/// Characters that show nothing either. The published patterns leave them out, because dialects of regular expressions write such
/// characters in different ways.
const UNSEEN_ABOVE: &str = "\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}";

/// The pattern of visible texts as tenantd checks it. `None` for other patterns.
pub(crate) fn checked_pattern(published: &str) -> Option<String> {
    [VISIBLE_TEXT, VISIBLE_BOUNDED_TEXT]
        .contains(&published)
        .then(|| published.replacen(r"\uFFFB]", &format!(r"\uFFFB{UNSEEN_ABOVE}]"), 1))
}

/// Whether tenantd checks with this pattern that a text shows something.
pub(crate) fn is_of_visible_texts(checked: &str) -> bool {
    checked.contains(UNSEEN_ABOVE)
}

/// A text of 1 to `MAX` characters without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX: usize>(String);

impl<const MAX: usize> Text<MAX> {
    pub fn parse(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Err("must not be empty; omit it instead".to_owned());
        }
        // A text has at most as many characters as bytes, so the byte length usually decides.
        if text.len() > MAX && text.chars().count() > MAX {
            return Err(format!("must have at most {MAX} characters"));
        }
        if text.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t') {
            return Err("must not contain control characters".to_owned());
        }
        Ok(Self(text))
    }

    /// Wraps a text that is already within its bounds.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// At most `MAX` entries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> List<T, MAX> {
    /// Wraps a list that is already within its bounds.
    pub fn stored(items: Vec<T>) -> Self {
        Self(items)
    }

    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for List<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(deserializer)?;
        if items.len() > MAX {
            return Err(D::Error::custom(format!("must have at most {MAX} entries")));
        }
        Ok(Self(items))
    }
}

document_type!(
    [const MAX: usize] Text<MAX>,
    format!("text_{MAX}"),
    MetaSchemaRef::Inline(Box::new(MetaSchema {
        min_length: Some(1),
        max_length: Some(MAX),
        pattern: Some(NO_CONTROL_CHARACTERS.to_owned()),
        ..MetaSchema::new("string")
    })),
    |_registry| ()
);

impl<const MAX: usize> ParseFromJSON for Text<MAX> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        match value {
            Some(Value::String(text)) => Self::parse(text).map_err(ParseError::custom),
            other => Err(ParseError::expected_type(other.unwrap_or_default())),
        }
    }
}

impl<const MAX: usize> ToJSON for Text<MAX> {
    fn to_json(&self) -> Option<Value> {
        Some(Value::String(self.0.clone()))
    }
}

impl<T: Type, const MAX: usize> Type for List<T, MAX> {
    const IS_REQUIRED: bool = true;
    type RawValueType = Self;
    type RawElementValueType = T::RawValueType;

    fn name() -> Cow<'static, str> {
        format!("list_{MAX}_{}", T::name()).into()
    }

    fn schema_ref() -> MetaSchemaRef {
        let schema = MetaSchema { items: Some(Box::new(T::schema_ref())), max_items: Some(MAX), ..MetaSchema::new("array") };
        MetaSchemaRef::Inline(Box::new(schema))
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn as_raw_value(&self) -> Option<&Self> {
        Some(self)
    }

    fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a T::RawValueType> + 'a> {
        Box::new(self.0.iter().filter_map(Type::as_raw_value))
    }
}

impl<T: ParseFromJSON, const MAX: usize> ParseFromJSON for List<T, MAX> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let items = Vec::<T>::parse_from_json(value).map_err(ParseError::propagate)?;
        if items.len() > MAX {
            return Err(ParseError::custom(format!("must have at most {MAX} entries")));
        }
        Ok(Self(items))
    }
}

impl<T: ToJSON, const MAX: usize> ToJSON for List<T, MAX> {
    fn to_json(&self) -> Option<Value> {
        self.0.to_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_visible_texts_agrees_with_what_is_blank() {
        let validator = |published: &str| {
            let schema = serde_json::json!({"type": "string", "pattern": checked_pattern(published).unwrap()});
            jsonschema::validator_for(&schema).unwrap()
        };
        let (text, bounded) = (validator(VISIBLE_TEXT), validator(VISIBLE_BOUNDED_TEXT));
        for letter in ('\0'..=char::MAX).filter(|letter| tenantd_base::letters::is_unseen(*letter) || *letter < '\u{3000}') {
            let (alone, is_visible) = (Value::String(letter.to_string()), !tenantd_base::letters::is_unseen(letter));
            assert_eq!((text.is_valid(&alone), bounded.is_valid(&alone)), (is_visible, is_visible), "{letter:?}");
            let among = format!("a{letter}b");
            let is_bounded_text = Text::<3>::parse(among.clone()).is_ok();
            assert_eq!(bounded.is_valid(&Value::String(among)), is_bounded_text, "{letter:?}");
        }
    }

    #[test]
    fn a_bound_holds_when_json_is_read() {
        let text = |json: &str| serde_json::from_str::<Text<3>>(json).map(Text::into_string).map_err(|error| error.to_string());
        assert_eq!(text("\"äöü\""), Ok("äöü".to_owned()), "characters are counted, not bytes");
        assert!(text("\"abcd\"").unwrap_err().contains("at most 3 characters"));
        assert!(text("\"\"").unwrap_err().contains("must not be empty"));
        assert!(text("\"a\\u0000\"").unwrap_err().contains("control characters"));
        assert!(text("5").is_err());
        assert!(serde_json::from_str::<List<u8, 2>>("[1,2]").is_ok());
        assert!(serde_json::from_str::<List<u8, 2>>("[1,2,3]").unwrap_err().to_string().contains("at most 2 entries"));
    }
}
