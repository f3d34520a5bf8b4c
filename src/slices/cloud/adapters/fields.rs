//! Reads a VM from a response, field by field. A field that cannot be read is left out and noted on the VM, so one odd value costs
//! neither the VM nor the fleet. An entry without a readable id cannot be listed; the page counts it as skipped.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use tenantd_base::clock::Timestamp;

use super::{
    super::model::{CloudVm, Failure, UnreadField},
    FleetPage,
    client::unusable,
};

/// A field of a response. `null` and the empty string count as absent, because providers use both for "none".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Field<T> {
    #[default]
    Absent,
    Read(T),
    Unreadable(String),
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_null() || value.as_str() == Some("") {
            return Ok(Self::Absent);
        }
        Ok(serde_json::from_value(value).map_or_else(|error| Self::Unreadable(error.to_string()), Self::Read))
    }
}

impl<T> Field<T> {
    pub(super) fn value(&self) -> Option<&T> {
        match self {
            Self::Read(value) => Some(value),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }

    /// Replaces an absent field by another field.
    pub(super) fn or(self, other: Self) -> Self {
        if matches!(self, Self::Absent) { other } else { self }
    }

    fn into_result(self) -> Result<Option<T>, String> {
        match self {
            Self::Absent => Ok(None),
            Self::Read(value) => Ok(Some(value)),
            Self::Unreadable(reason) => Err(reason),
        }
    }
}

/// Text that is parsed into another type, such as an address.
impl Field<String> {
    pub(super) fn parse<T>(self, parse: impl FnOnce(&str) -> Option<T>, expected: &str) -> Field<T> {
        match self {
            Self::Absent => Field::Absent,
            Self::Read(text) => {
                parse(&text).map_or_else(|| Field::Unreadable(format!("{text:?} is not a valid {expected}")), Field::Read)
            }
            Self::Unreadable(reason) => Field::Unreadable(reason),
        }
    }
}

impl From<Option<String>> for Field<String> {
    fn from(text: Option<String>) -> Self {
        text.filter(|text| !text.is_empty()).map_or(Self::Absent, Self::Read)
    }
}

/// The fields of one VM that could not be read.
#[derive(Debug, Default)]
pub(super) struct Unread(Vec<UnreadField>);

impl Unread {
    /// Notes that `field` of the VM could not be read from `source` of the response. Only the first reason for a field is kept.
    pub(super) fn note(&mut self, field: &str, source: &str, reason: &str) {
        if !self.0.iter().any(|known| known.field == field) {
            self.0.push(UnreadField::new(field, &format!("{source}: {reason}")));
        }
    }

    /// A field that may be absent.
    pub(super) fn optional<T>(&mut self, field: &str, source: &str, value: Field<T>) -> Option<T> {
        value.into_result().unwrap_or_else(|reason| {
            self.note(field, source, &reason);
            None
        })
    }

    /// A field that must be present.
    pub(super) fn required<T: Default>(&mut self, field: &str, source: &str, value: Field<T>) -> T {
        if matches!(value, Field::Absent) {
            self.note(field, source, "is missing");
        }
        self.optional(field, source, value).unwrap_or_default()
    }

    /// The readable entries of a list.
    pub(super) fn list<T>(&mut self, field: &str, source: &str, list: Field<Vec<Field<T>>>) -> Vec<T> {
        let entries = self.optional(field, source, list).unwrap_or_default();
        entries.into_iter().filter_map(|entry| self.optional(field, source, entry)).collect()
    }

    /// The tags with readable values.
    pub(super) fn tags(&mut self, source: &str, tags: Field<BTreeMap<String, Field<String>>>) -> BTreeMap<String, String> {
        let mut read = BTreeMap::new();
        for (key, value) in self.optional("tags", source, tags).unwrap_or_default() {
            match value.into_result() {
                Ok(value) => drop(read.insert(key, value.unwrap_or_default())),
                Err(reason) => self.note("tags", &format!("{source}.{key}"), &reason),
            }
        }
        read
    }

    pub(super) fn address(&mut self, field: &str, source: &str, text: Field<String>) -> Option<IpAddr> {
        self.optional(field, source, text.parse(|text| text.parse().ok(), "IP address"))
    }

    /// The creation time of the VM, from a text.
    pub(super) fn launched_at(&mut self, source: &str, text: Field<String>) -> Option<Timestamp> {
        self.optional("launched_at", source, text.parse(Timestamp::parse, "time"))
    }

    pub(super) fn into_fields(self) -> Vec<UnreadField> {
        self.0
    }
}

/// The id of a VM. A VM without one cannot be listed.
pub(super) fn id<T: ToString>(source: &str, value: Field<T>) -> Result<String, Unidentified> {
    match value.into_result() {
        Ok(Some(id)) => Ok(id.to_string()),
        Ok(None) => Err(Unidentified(format!("an entry has no {source}"))),
        Err(reason) => Err(Unidentified(format!("{source} of an entry: {reason}"))),
    }
}

/// An entry without a readable id.
#[derive(Debug)]
pub(super) struct Unidentified(pub(super) String);

impl From<Unidentified> for Failure {
    fn from(Unidentified(reason): Unidentified) -> Self {
        unusable(&reason)
    }
}

impl FleetPage {
    /// Reads the entries and counts the unreadable ones as skipped.
    pub(super) fn read<T>(
        entries: impl IntoIterator<Item = Field<T>>,
        into_vm: impl Fn(T) -> Result<CloudVm, Unidentified>,
    ) -> Self {
        let mut page = Self::default();
        for entry in entries {
            let entry = entry.into_result().map_err(|reason| Unidentified(format!("an entry: {reason}")));
            let entry = entry.and_then(|entry| entry.ok_or_else(|| Unidentified("an entry is empty".to_owned())));
            match entry.and_then(&into_vm) {
                Ok(vm) => page.vms.push(vm),
                Err(Unidentified(reason)) => page.skip(&reason),
            }
        }
        page
    }

    pub(super) fn and_next(mut self, next: Option<String>) -> Self {
        self.next = next;
        self
    }

    pub(super) fn keep(mut self, wanted: impl Fn(&CloudVm) -> bool) -> Self {
        self.vms.retain(wanted);
        self
    }

    /// The VM that a search found. An unidentified entry may be that VM, so the search then fails instead of returning `None`.
    pub(super) fn only(self) -> Result<Option<CloudVm>, Failure> {
        match (self.vms.into_iter().next(), self.skipped.into_iter().next()) {
            (None, Some(reason)) => Err(unusable(&reason)),
            (found, _) => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_absent_read_or_unreadable() {
        let read = |value: Value| serde_json::from_value::<Field<IpAddr>>(value).unwrap();
        assert_eq!((read(json!(null)), read(json!(""))), (Field::Absent, Field::Absent));
        assert_eq!(read(json!("10.0.0.1")), Field::Read("10.0.0.1".parse().unwrap()));
        assert!(matches!(read(json!("nowhere")), Field::Unreadable(_)));
        assert!(matches!(read(json!({"a": 1})), Field::Unreadable(_)));
    }

    #[test]
    fn the_first_reason_for_a_field_is_kept_and_bounded() {
        let mut unread = Unread::default();
        let list: Field<Vec<Field<u32>>> = serde_json::from_value(json!([1, "x".repeat(1000), {}, 4])).unwrap();
        assert_eq!(unread.list("tags", "labels", list), [1, 4]);
        assert_eq!(unread.required("name", "name", Field::<String>::Absent), "");
        let fields = unread.into_fields();
        assert_eq!(fields.iter().map(|field| field.field.as_str()).collect::<Vec<_>>(), ["tags", "name"]);
        assert!(
            fields[0].reason.starts_with("labels: invalid type") && fields[0].reason.chars().count() <= UnreadField::MAX_REASON
        );
    }

    #[test]
    fn a_search_with_an_unidentified_entry_fails() {
        let page = FleetPage::read([Field::<u32>::Unreadable("odd".to_owned())], |_| Err(Unidentified(String::new())));
        assert_eq!(page.only().unwrap_err().code, "unexpected_answer");
        assert_eq!(FleetPage::default().only(), Ok(None));
    }
}
