//! The custom fields of a device on the wire: texts by name. In a change, `null` removes a field.

use std::collections::BTreeMap;

use poem_openapi::{
    registry::{MetaSchema, MetaSchemaRef},
    types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type},
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use tenantd_http::{bounded::Text, wire::document_type};

use super::super::model::MAX_CUSTOM_FIELDS;

type FieldText = Text<1000>;

/// If `NULLS` is true, a value can be null.
#[derive(Clone, Debug, Default)]
pub(super) struct CustomFields<const NULLS: bool>(pub(super) BTreeMap<String, Option<String>>);

impl CustomFields<false> {
    pub(super) fn into_values(self) -> BTreeMap<String, String> {
        self.0.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

fn schema(nulls: bool) -> MetaSchema {
    let inline = |schema: MetaSchema| MetaSchemaRef::Inline(Box::new(schema));
    let value = if nulls {
        let any_of = vec![FieldText::schema_ref(), inline(MetaSchema::new("null"))];
        inline(MetaSchema { any_of, ..MetaSchema::ANY })
    } else {
        FieldText::schema_ref()
    };
    MetaSchema {
        description: Some("Fields that you define: text values by name. A name has 1 to 100 characters."),
        additional_properties: Some(Box::new(value)),
        max_properties: Some(MAX_CUSTOM_FIELDS),
        example: Some(json!({"rack": "B7"})),
        ..MetaSchema::new("object")
    }
}

document_type!(
    [const NULLS: bool] CustomFields<NULLS>,
    "device_custom_fields",
    MetaSchemaRef::Inline(Box::new(schema(NULLS))),
    |_registry| ()
);

impl<const NULLS: bool> ParseFromJSON for CustomFields<NULLS> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        serde_json::from_value(value.unwrap_or_default()).map_err(ParseError::custom)
    }
}

impl<const NULLS: bool> ToJSON for CustomFields<NULLS> {
    fn to_json(&self) -> Option<Value> {
        Some(json!(self.0))
    }
}

impl<'de, const NULLS: bool> Deserialize<'de> for CustomFields<NULLS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, Option<FieldText>>::deserialize(deserializer)?;
        Ok(Self(fields.into_iter().map(|(name, value)| (name, value.map(Text::into_string))).collect()))
    }
}
