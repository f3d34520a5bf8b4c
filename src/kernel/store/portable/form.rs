//! General limits for every line. A slice checks the meaning of its records. This module refuses what no record contains, and
//! numbers that would overflow when they are used.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum nesting depth of lists and objects.
const DEEPEST: usize = 64;
const LONGEST_TEXT: usize = 1 << 20;
const MOST_ENTRIES: usize = 200_000;
/// The limit for numbers in keys and at the top level of a record: far above any count, and far below the overflow of an
/// addition. Values that users store (custom fields, inputs) are nested deeper.
const LARGEST: u64 = 1 << 62;

/// Refuses a line that tenantd cannot have exported.
pub fn check_form(key: &RawValue, record: &RawValue) -> Result<(), String> {
    for (part, what) in [(key, "key"), (record, "record")] {
        let mut reader = serde_json::Deserializer::from_str(part.get());
        Part { depth: 0 }.deserialize(&mut reader).map_err(|error| {
            let text = error.to_string();
            let text = text.split_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            format!("its {what} {text}")
        })?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Part {
    depth: usize,
}

impl Part {
    fn below<E: Error>(self) -> Result<Self, E> {
        if self.depth >= DEEPEST { Err(E::custom("is nested too deeply")) } else { Ok(Self { depth: self.depth + 1 }) }
    }

    fn number<E: Error>(self, size: u64) -> Result<(), E> {
        // The record itself, and the values directly in it or in its key.
        if self.depth <= 1 && size > LARGEST { Err(E::custom("has a number that is too large")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(number.unsigned_abs())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text.len() > LONGEST_TEXT { Err(E::custom("has a text that is too long")) } else { Ok(()) }
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let (below, mut count) = (self.below()?, 0);
        while entries.next_element_seed(below)?.is_some() {
            count += 1;
            if count > MOST_ENTRIES {
                return Err(A::Error::custom("has a list that is too long"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let (below, mut count) = (self.below()?, 0);
        while members.next_key::<IgnoredAny>()?.is_some() {
            members.next_value_seed(below)?;
            count += 1;
            if count > MOST_ENTRIES {
                return Err(A::Error::custom("has an object that is too long"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(key: &serde_json::Value, record: &serde_json::Value) -> Result<(), String> {
        let raw = |value: &serde_json::Value| serde_json::value::to_raw_value(value).unwrap();
        check_form(&raw(key), &raw(record))
    }

    #[test]
    fn lines_beyond_the_limits_are_refused() {
        assert_eq!(check(&json!([7]), &json!({"version": 1, "inputs": {"any": u64::MAX}, "text": "x"})), Ok(()));
        assert!(check(&json!([7]), &json!({"version": u64::MAX})).unwrap_err().contains("record has a number"));
        assert!(check(&json!([u64::MAX]), &json!({})).unwrap_err().contains("key has a number"));
        assert!(check(&json!([]), &json!({"body": "x".repeat(LONGEST_TEXT + 1)})).unwrap_err().contains("too long"));
        let mut deep = json!(1);
        for _ in 0..70 {
            deep = json!([deep]);
        }
        assert!(check(&json!([]), &deep).unwrap_err().contains("nested too deeply"));
    }
}
