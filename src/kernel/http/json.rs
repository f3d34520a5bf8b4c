//! Reads JSON strictly. Input that `serde_json` would accept without the caller noticing a mistake is an error here. A repeated
//! member is refused, because the last one would win silently. Nesting beyond the limit is refused as well; the limit must stay
//! below the 128 of `serde_json`. JSON has one kind of number: `1.0` is read as the whole number 1, as JSON Schema counts it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// 2^53: every whole number below it is exact as floating point.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Parses all of `bytes` as one JSON value. The error is shown to the caller.
pub fn parse(bytes: &[u8], max_depth: usize) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth_left: max_depth }.deserialize(&mut deserializer).map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict {
    depth_left: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1).ok_or_else(|| E::custom("the value is nested too deeply"))?;
        Ok(Self { depth_left })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if value.fract() == 0.0 && value.abs() < MAX_EXACT {
            #[allow(clippy::cast_possible_truncation, reason = "whole and below 2^53, as checked above")]
            return Ok(Value::Number((value as i64).into()));
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(inner)?;
            if object.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("the member {name:?} is given twice")));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn valid_json_is_read_like_serde_json_does() {
        for text in ["null", "true", "-5", "18446744073709551615", "1.5", "\"a\\u00e9\"", "[1,[2]]", "{\"a\":{\"b\":[]}}"] {
            assert_eq!(parse(text.as_bytes(), 8), serde_json::from_str(text).map_err(|error| error.to_string()), "{text}");
        }
        assert_eq!(parse(b" {\"a\" : 1} ", 8), Ok(json!({"a": 1})));
    }

    #[test]
    fn whole_numbers_are_read_as_integers() {
        assert_eq!(parse(b"[1.0, -2e3, -0.0, 0.5, 1e300]", 8), Ok(json!([1, -2000, 0, 0.5, 1e300])));
    }

    #[test]
    fn mistakes_that_serde_json_accepts_are_refused() {
        for text in ["", "{", "{\"a\":1,\"a\":2}", "[[[[1]]]]", "1 2", "{\"a\":1}x", "nul", "\"\u{1}\"", "01", "1e999"] {
            assert!(parse(text.as_bytes(), 3).is_err(), "{text}");
        }
        assert!(parse(&[b'"', 0xff, b'"'], 3).is_err());
        let bomb = "[".repeat(1_000_000);
        assert!(parse(bomb.as_bytes(), 64).unwrap_err().contains("nested too deeply"));
    }
}
