//! The kinds of events that the API lists, by area.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use tenantd_base::access::{Scope, TenantKind};

use crate::{components::words, refusal::Refusal, visitor::Visitor};

pub(super) const API: &str = "/api/events/catalog";
/// The areas with names that differ from their word.
const AREAS: [(&str, &str); 21] = [
    ("api_key", "API keys"),
    ("auth", "Sign-in"),
    ("backup", "Backups"),
    ("cloud", "Cloud providers"),
    ("device", "Devices"),
    ("drill", "Restore drills"),
    ("export", "Exports"),
    ("group", "Groups"),
    ("identity_provider", "Identity providers"),
    ("organization", "Organizations"),
    ("quota", "Quotas"),
    ("secret", "Secrets"),
    ("sla", "Service levels"),
    ("snapshot", "Snapshots"),
    ("tenant", "Tenants"),
    ("ticket", "Tickets"),
    ("user", "Users"),
    ("view", "Saved views"),
    ("vm", "Virtual machines"),
    ("webhook", "Webhooks"),
    ("workflow", "Workflows"),
];

#[derive(Debug, Deserialize)]
pub(super) struct Kind {
    #[serde(rename = "type")]
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) required_scopes: Vec<String>,
    /// An example of `data`.
    example: Value,
}

#[derive(Debug, Deserialize)]
struct Catalog {
    data: Vec<Kind>,
}

/// An event in wire order, which is the body of its deliveries.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Event {
    pub(super) id: String,
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    tenant_id: String,
    seq: u64,
    resource: Value,
    actor: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Value>,
    data: Value,
}

impl Event {
    /// The number of bytes on the wire.
    pub(super) fn size(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |bytes| bytes.len())
    }

    /// The event as JSON with line breaks.
    pub(super) fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

pub(super) async fn all(visitor: &Visitor<'_>) -> Result<Vec<Kind>, Refusal> {
    Ok(visitor.read::<Catalog>(API).await?.data)
}

/// The kinds by area, in alphabetical order.
pub(super) fn by_area<'a>(kinds: impl Iterator<Item = &'a Kind>) -> BTreeMap<&'a str, Vec<&'a Kind>> {
    let mut areas: BTreeMap<&str, Vec<&Kind>> = BTreeMap::new();
    for kind in kinds {
        areas.entry(kind.area()).or_default().push(kind);
    }
    areas
}

impl Kind {
    fn area(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// Whether an endpoint of the reader can receive such events. Some are only in the feed of the platform tenant.
    pub(super) fn is_for(&self, visitor: &Visitor<'_>) -> bool {
        let has = |name: &String| Scope::ALL.iter().any(|scope| scope.name() == name && visitor.may(*scope));
        let is_of_platform = self.required_scopes.is_empty() || self.required_scopes.iter().any(|name| name == "platform:read");
        self.required_scopes.iter().all(has) && (!is_of_platform || visitor.reader.tenant_kind == TenantKind::Platform)
    }

    /// Whether the name or the summary has all of these words.
    pub(super) fn matches(&self, text: &str) -> bool {
        let own = format!("{} {}", self.name, self.summary).to_lowercase();
        text.to_lowercase().split_whitespace().all(|word| own.contains(word))
    }

    /// An example of the whole event.
    pub(super) fn example(&self) -> Event {
        let mut about = self.example.as_object().into_iter().flatten();
        let (name, record) = about.rfind(|(name, _)| *name != "changes" && *name != "comment").unzip();
        let member = |name: &str| record.and_then(|record| record.get(name)).cloned();
        Event {
            id: "evt_01kg9pybp0f88rpgmx0nqf2903".to_owned(),
            kind: self.name.clone(),
            timestamp: "2026-01-31T09:30:00.000Z".to_owned(),
            tenant_id: "tnt_01kg9pybp0f88rpgmx0nqf2900".to_owned(),
            seq: 4711,
            resource: json!({"kind": name, "id": member("id"), "version": member("version").unwrap_or_else(|| 1.into())}),
            actor: json!({"kind": "user", "id": "usr_01kg9pybp0f88rpgmx0nqf28r2", "name": "Ada Lovelace"}),
            cause: None,
            data: self.example.clone(),
        }
    }
}

/// The name of an area as people write it.
pub(super) fn area_name(area: &str) -> String {
    AREAS.iter().find(|(known, _)| *known == area).map_or_else(|| words(area), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_words_and_show_a_whole_event() {
        let kind = Kind {
            name: "ticket.commented".to_owned(),
            summary: "A comment was added to a ticket.".to_owned(),
            required_scopes: vec!["tickets:read".to_owned()],
            example: json!({"comment": {"id": "cmt_1"}, "ticket": {"id": "tkt_1", "version": 7}}),
        };
        assert!(kind.matches("Comment added") && kind.matches("") && !kind.matches("ticket closed"));
        let example: Value = serde_json::from_str(&kind.example().pretty()).unwrap();
        assert_eq!(example["resource"], json!({"kind": "ticket", "id": "tkt_1", "version": 7}));
        assert_eq!(by_area([&kind].into_iter()).keys().collect::<Vec<_>>(), ["ticket"].iter().collect::<Vec<_>>());
    }
}
