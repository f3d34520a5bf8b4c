//! Lists of resources: `filter`, `startIndex` and `count`, from the query or from the body of a search.

use serde_json::{Value, json};

use super::{
    super::{
        error::{Reason, ScimError},
        model::{attribute::Resource, filter::Filter},
    },
    projection::Projection,
};

/// The most resources in one answer.
pub(super) const MAX_COUNT: usize = 200;
/// The number of resources in an answer if the client does not say.
const DEFAULT_COUNT: usize = 100;
/// The most resources that a filter without an index looks at.
pub(super) const MAX_SCAN: usize = 10_000;

#[derive(Clone, Debug)]
pub(super) struct ListRequest {
    pub(super) filter: Option<Filter>,
    /// The number of the first resource; it begins at 1.
    start: usize,
    count: usize,
    pub(super) projection: Projection,
}

impl ListRequest {
    pub(super) fn of_query(resource: Resource, pairs: &[(String, String)]) -> Result<Self, ScimError> {
        for (place, (name, _)) in pairs.iter().enumerate() {
            if pairs.iter().take(place).any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                return Err(ScimError::value("A parameter of the query is given twice."));
            }
        }
        let text = |name: &str| pairs.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
        let number = |name: &str| text(name).map(|text| text.trim().parse::<i64>().map_err(|_| bad_number(name))).transpose();
        let names = |name: &str| -> Vec<String> {
            let text = text(name).unwrap_or_default();
            text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let projection = Projection::new(resource, names("attributes"), names("excludedAttributes"))?;
        Self::new(resource, text("filter"), (number("startIndex")?, number("count")?), text("sortBy").is_some(), projection)
    }

    pub(super) fn of_body(resource: Resource, body: &Value) -> Result<Self, ScimError> {
        let members = body.as_object().ok_or_else(|| ScimError::new(Reason::InvalidSyntax, "The body is not an object."))?;
        let member = |name: &str| members.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let number = |name: &str| member(name).map(|value| value.as_i64().ok_or_else(|| bad_number(name))).transpose();
        let names = |name: &str| -> Result<Vec<String>, ScimError> {
            let Some(value) = member(name) else { return Ok(Vec::new()) };
            let listed = value.as_array().into_iter().flatten();
            let bad = || ScimError::value(format!("{name} must be a list of names."));
            listed.map(|name| name.as_str().map(str::to_owned).ok_or_else(bad)).collect()
        };
        let filter = match member("filter") {
            Some(value) => Some(value.as_str().ok_or_else(|| ScimError::new(Reason::InvalidFilter, "The filter must be a text."))?),
            None => None,
        };
        let projection = Projection::new(resource, names("attributes")?, names("excludedAttributes")?)?;
        let filter = filter.map(str::to_owned);
        Self::new(resource, filter, (number("startIndex")?, number("count")?), member("sortBy").is_some(), projection)
    }

    fn new(
        resource: Resource,
        filter: Option<String>,
        (start, count): (Option<i64>, Option<i64>),
        sorts: bool,
        projection: Projection,
    ) -> Result<Self, ScimError> {
        if sorts {
            return Err(ScimError::value("Sorting is not supported. Omit `sortBy`; resources are in the order of their creation."));
        }
        let filter = filter.map(|text| Filter::parse(resource, &text)).transpose()?;
        let at_least = |number: i64, least: usize| usize::try_from(number).unwrap_or(least).max(least);
        let count = count.map_or(DEFAULT_COUNT, |count| at_least(count, 0).min(MAX_COUNT));
        Ok(Self { filter, start: start.map_or(1, |start| at_least(start, 1)), count, projection })
    }

    pub(super) fn matches(&self, resource: &Value) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(resource))
    }

    /// The part of all matches that the client asks for.
    pub(super) fn page<T>(&self, found: Vec<T>) -> Vec<T> {
        found.into_iter().skip(self.start - 1).take(self.count).collect()
    }

    pub(super) fn answer(&self, total: usize, resources: &[Value]) -> Value {
        json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
            "totalResults": total,
            "startIndex": self.start,
            "itemsPerPage": resources.len(),
            "Resources": resources,
        })
    }
}

fn bad_number(name: &str) -> ScimError {
    ScimError::value(format!("{name} must be a whole number."))
}

/// A filter without an index would look at too many resources.
pub(super) fn too_many() -> ScimError {
    let detail =
        format!("The tenant has more than {MAX_SCAN} of these resources. Filter with eq by userName, externalId or displayName.");
    ScimError::new(Reason::TooMany, detail)
}
