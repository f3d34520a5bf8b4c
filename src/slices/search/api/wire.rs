//! Parameters and answers of the search.

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
    Mode, "SearchMode", "`full` searches all text. `suggest` is for search as you type: it searches names and identifiers only, and the last word may\nbe incomplete.";
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
    /// The query. All terms must match. The syntax: `"a phrase"`; `one OR other`; `-without`; `begin*`; `field:value` with
    /// the fields `type`, `org`, `status`, `os`, `ip`, `mac`, `serial`, `tag`, `assignee`, `priority`, `number` and `updated`
    /// (`updated:>2026-01-31`). `ip` also takes a network (`ip:10.3.0.0/16`) or the beginning of an address (`ip:10.3`).
    /// Serial numbers, phone numbers and hardware addresses match in any spelling. The name of an organization also finds the
    /// records that belong to it.
    #[oai(validator(min_length = 1, max_length = 200))]
    pub(super) q: String,
    /// Returns only hits of these types. All types when absent.
    #[oai(validator(min_items = 1, max_items = 8))]
    pub(super) types: Option<Vec<Kind>>,
    /// Returns only hits that belong to this organization.
    pub(super) organization_id: Option<OrganizationId>,
    /// The maximum number of hits to return. Defaults to 20.
    #[oai(validator(minimum(value = "1"), maximum(value = "100")))]
    pub(super) limit: Option<u32>,
    /// Where to continue: the `next_cursor` of the previous page. Send the same other parameters.
    pub(super) cursor: Option<String>,
    /// How to search. Defaults to `full`.
    pub(super) mode: Option<Mode>,
    /// Whether words that are not found are also tried with typos: `auto` (the default) or `off`. Words of 5 to 8 letters may
    /// have one typo, longer words two, and words with digits none.
    pub(super) fuzzy: Option<Fuzzy>,
    /// Also counts all hits by these properties.
    #[oai(validator(min_items = 1, max_items = 3))]
    pub(super) facets: Option<Vec<SearchFacet>>,
    /// The order of the hits: `relevance` (the default), or `recent` for the most recently changed first.
    pub(super) sort: Option<Order>,
}

/// Why a record was found.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SearchMatch {
    /// The field of the record that matched, such as `name`, `serial` or `description`.
    pub(super) field: String,
    /// The text that matched.
    pub(super) value: String,
    /// How the query matched the text.
    pub(super) kind: MatchKind,
}

/// A record that matches the query.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct SearchHit {
    /// The type of the record.
    #[serde(rename = "type")]
    #[oai(rename = "type")]
    pub(super) kind: Kind,
    /// The id of the record. For software: the package name, which you can use to filter the asset inventory.
    pub(super) id: String,
    /// The name of the record.
    pub(super) title: String,
    /// One line with more information about the record.
    pub(super) subtitle: Option<String>,
    pub(super) organization: Option<OrganizationReference>,
    /// The state of the record. For tickets: the status. For devices: the lifecycle. For users: `active` or `disabled`. For
    /// workflows: `enabled`, `disabled` or `archived`.
    pub(super) status: Option<String>,
    /// How well the record matches. You can compare scores only within one response.
    pub(super) score: f64,
    /// The matches that explain why the record was found.
    pub(super) matched_on: Vec<SearchMatch>,
    /// Excerpts of the record by field, as HTML. Matches are in `<mark>`; everything else is escaped.
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

/// A value and the number of hits that have it.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct SearchFacetValue {
    /// A type, the id of an organization, or a status.
    pub(super) value: String,
    /// The name of the organization. Absent for other facets.
    pub(super) label: Option<String>,
    pub(super) count: u64,
}

/// Counts of all hits, by the requested facets. Each facet has at most 100 values, the most frequent first.
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
    /// The pagination data. `total` is the exact number of all hits.
    pub(super) page: Page,
    pub(super) facets: Option<SearchFacets>,
    /// A corrected query, if a word of the query was not found or was found only with typos.
    pub(super) did_you_mean: Option<String>,
}
