//! What clients ask for and get.

use std::collections::BTreeMap;

use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::OrganizationId};
use tenantd_directory::OrganizationReference;
use tenantd_http::{page::Page, wire::word_type};

use super::super::model::{self, Kind, MatchKind, Mode, Order};

word_type! {
    Kind, "SearchType";
    Mode, "SearchMode", "`full` searches everything. `suggest` is for while somebody types: it searches names and identifiers, and the last word may be\nunfinished.";
    Order, "SearchSort";
    MatchKind, "SearchMatchKind";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum Fuzzy {
    Auto,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enum)]
#[oai(rename_all = "snake_case")]
pub(super) enum SearchFacet {
    Type,
    Organization,
    Status,
}

#[derive(Debug, Object)]
pub(super) struct SearchParameters {
    /// What to search for. Terms are AND-ed. `"a phrase"`; `one OR other`; `-without`; `begin*`; `field:value` with the fields `type`,
    /// `org`, `status`, `os`, `ip`, `mac`, `serial`, `tag`, `assignee`, `priority`, `number` and `updated` (`updated:>2026-01-31`).
    /// `ip` also takes a network (`ip:10.3.0.0/16`) and the beginning of an address (`ip:10.3`). Serial, phone and hardware numbers are
    /// found in every spelling. The name of an organization also finds what belongs to it.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) q: String,
    /// Hits of these types only.
    #[oai(validator(min_items = 1, max_items = 8))]
    pub(super) types: Option<Vec<Kind>>,
    /// Hits that belong to this organization only.
    pub(super) organization_id: Option<OrganizationId>,
    /// How many hits to return; 20 when absent.
    #[oai(validator(minimum(value = "1"), maximum(value = "100")))]
    pub(super) limit: Option<u32>,
    /// Where to continue: `next_cursor` of the page before, with the same parameters.
    pub(super) cursor: Option<String>,
    /// `full` when absent.
    pub(super) mode: Option<Mode>,
    /// Whether a word that nothing has may be one with a typo: one in words of 5 to 8 letters, two in longer ones, none in words with
    /// digits. `auto` when absent.
    pub(super) fuzzy: Option<Fuzzy>,
    /// Also count all hits by these.
    #[oai(validator(min_items = 1, max_items = 3))]
    pub(super) facets: Option<Vec<SearchFacet>>,
    /// `relevance` when absent; `recent` puts what changed last first.
    pub(super) sort: Option<Order>,
}

/// Why something was found.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SearchMatch {
    /// The field of the record, such as `name`, `serial` or `description`.
    pub(super) field: String,
    /// What stands there.
    pub(super) value: String,
    pub(super) kind: MatchKind,
}

/// Something that was found.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct SearchHit {
    /// The type of the record.
    #[serde(rename = "type")]
    #[oai(rename = "type")]
    pub(super) kind: Kind,
    /// The record's id; of software its name, which the asset inventory filters by.
    pub(super) id: String,
    /// The name of the hit.
    pub(super) title: String,
    /// More about the hit, in a line.
    pub(super) subtitle: Option<String>,
    pub(super) organization: Option<OrganizationReference>,
    /// Of tickets their status, of devices their lifecycle, of users `active` or `disabled`, of workflows `enabled`, `disabled` or
    /// `archived`.
    pub(super) status: Option<String>,
    /// How well it fits. Comparable within one answer only.
    pub(super) score: f64,
    pub(super) matched_on: Vec<SearchMatch>,
    /// Texts of the record by field, as HTML: what matched is in `<mark>`, everything else is escaped.
    pub(super) highlights: Option<BTreeMap<String, String>>,
    pub(super) updated_at: Timestamp,
}

impl From<model::Hit> for SearchHit {
    fn from(hit: model::Hit) -> Self {
        let highlights: BTreeMap<String, String> =
            hit.highlights.into_iter().map(|(field, text)| (field.to_owned(), text)).collect();
        let shown = |found: model::Match| SearchMatch { field: found.field.to_owned(), value: found.value, kind: found.kind };
        Self {
            kind: hit.kind,
            id: hit.id,
            title: hit.title,
            subtitle: hit.subtitle,
            organization: hit.organization.map(|(id, name)| OrganizationReference { id, name }),
            status: hit.state.map(|state| state.name().to_owned()),
            score: hit.score,
            matched_on: hit.matched_on.into_iter().map(shown).collect(),
            highlights: (!highlights.is_empty()).then_some(highlights),
            updated_at: hit.updated_at,
        }
    }
}

/// A value and how many of all hits have it.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SearchFacetValue {
    /// A type, the id of an organization, or a status.
    pub(super) value: String,
    /// The name of the organization.
    pub(super) label: Option<String>,
    pub(super) count: u64,
}

/// Counts of all hits, by the facets that were asked for: at most 100 values each, the most frequent first.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SearchFacets {
    #[serde(rename = "type")]
    #[oai(rename = "type")]
    pub(super) kind: Option<Vec<SearchFacetValue>>,
    pub(super) organization: Option<Vec<SearchFacetValue>>,
    pub(super) status: Option<Vec<SearchFacetValue>>,
}

impl SearchFacets {
    pub(super) fn new(counts: model::FacetCounts) -> Option<Self> {
        let shown = |values: Vec<model::FacetValue>| {
            values.into_iter().map(|one| SearchFacetValue { value: one.value, label: one.label, count: one.count }).collect()
        };
        let model::FacetCounts { kind, organization, state } = counts;
        let asked = kind.is_some() || organization.is_some() || state.is_some();
        asked.then(|| Self { kind: kind.map(shown), organization: organization.map(shown), status: state.map(shown) })
    }
}

/// A page of hits.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct SearchResults {
    pub(super) data: Vec<SearchHit>,
    /// `total` is the exact number of all hits.
    pub(super) page: Page,
    pub(super) facets: Option<SearchFacets>,
    /// The query with words that can be found, when some of it cannot, or was found with typos only.
    pub(super) did_you_mean: Option<String>,
}
