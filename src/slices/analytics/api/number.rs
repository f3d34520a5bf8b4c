//! Numbers in a report. Whole numbers are written without a decimal point, because typed clients parse `34.0` and `34` as
//! different types.

use poem_openapi::types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type};
use serde::{Serialize, Serializer};
use serde_json::{Value, value};

use tenantd_http::wire::document_type;

/// 2^53: floating point represents every whole number up to this one exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl Number {
    pub(super) fn to_value(self) -> Value {
        if self.0.fract() == 0.0 && self.0.abs() <= MAX_EXACT {
            #[allow(clippy::cast_possible_truncation, reason = "whole and exact, as checked above")]
            return Value::from(self.0 as i64);
        }
        value::Number::from_f64(self.0).map_or(Value::Null, Value::Number)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

document_type!([] Number, "number_double", <f64 as Type>::schema_ref(), |registry| <f64 as Type>::register(registry));

impl ToJSON for Number {
    fn to_json(&self) -> Option<Value> {
        Some(self.to_value())
    }
}

impl ParseFromJSON for Number {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        f64::parse_from_json(value).map(Self).map_err(ParseError::propagate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_has_no_decimal_point() {
        let written = |number: f64| serde_json::to_string(&Number(number)).unwrap();
        assert_eq!(
            [34.0, 0.0, -2.0, 10.938, 99.5, 4e15].map(written),
            ["34", "0", "-2", "10.938", "99.5", "4000000000000000"].map(str::to_owned)
        );
    }
}
