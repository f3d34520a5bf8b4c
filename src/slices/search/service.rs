//! Answers a search: parses the query, asks the index, and builds the hits from the records that the caller may see.

use std::collections::HashMap;

use tenantd_base::{
    id::{OrganizationId, TenantId},
    programs::LaneError,
};
use tenantd_directory as directory;
use tenantd_store::{ReadTx, Store, StoreError};

use super::{
    error::{IndexError, SearchError},
    explain::explain,
    index::{Best, Counts, Found, Planner, SearchIndex, SearchTerm, View, run},
    model::{FacetCounts, FacetValue, Hit, Kind, Match, MatchKind, Options, Results, Visibility},
    query::{Query, Term},
    software::{self, Package},
    sources, text,
};

/// The maximum number of values per facet, the most frequent first.
const MOST_VALUES: usize = 100;

#[derive(Clone, Debug)]
pub struct Service {
    pub index: SearchIndex,
    store: Store,
}

/// A matched record or package.
enum Matched {
    Record(Found),
    Package(Package),
}

impl Service {
    pub fn new(index: SearchIndex, store: Store) -> Self {
        Self { index, store }
    }

    pub async fn search(&self, visibility: Visibility, q: String, options: Options) -> Result<Results, SearchError> {
        let query = Query::parse(&q).map_err(SearchError::Invalid)?;
        let (tenant, store) = (visibility.tenant_id, self.store.clone());
        let view = self.index.current(tenant).await?;
        let work = move || answer(&store, &view, &visibility, &q, &query, &options);
        self.store.lanes().run(tenant, work).await.unwrap_or_else(|error| match error {
            LaneError::Busy => Err(SearchError::Busy),
            LaneError::Panicked(reason) => {
                // Damaged index files can make the engine panic, so rebuild the index.
                self.index.rebuild();
                Err(IndexError::Engine(reason).into())
            }
        })
    }
}

/// Asks the index, then builds the hits from one snapshot of the store.
fn answer(
    store: &Store,
    view: &View,
    visibility: &Visibility,
    q: &str,
    query: &Query,
    options: &Options,
) -> Result<Results, SearchError> {
    let view = &view.of(visibility.tenant_id)?;
    let planner = Planner::new(view, visibility, options)?;
    let plan = planner.plan(query)?;
    // One hit more than requested shows whether another page follows.
    let mut best = Best::new(options.limit + 1, options.after);
    let mut counts = run(view, &plan, options, &mut best)?;
    let mut all = Best::new(options.limit + 1, options.after);
    for found in best.into_sorted() {
        all.offer(found.place.rank, || found.place.id, || Matched::Record(found.what));
    }
    for package in software::find(view, &planner, query, &plan.search_terms, visibility, options, counts.total > 0)? {
        counts.total += 1;
        *counts.kinds.entry(Kind::Software).or_default() += 1;
        all.offer(package.rank, || package.id, || Matched::Package(package.clone()));
    }
    let mut ranked = all.into_sorted();
    let more = ranked.len() > options.limit;
    ranked.truncate(options.limit);
    let last = ranked.last().filter(|_| more).map(|last| last.place);
    let did_you_mean = did_you_mean(&planner, q, query, &plan.search_terms, counts.total)?;
    store.read(|tx| {
        let shown = Shown { tx, view, planner: &planner, visibility, search_terms: &plan.search_terms };
        let mut hits = Vec::with_capacity(ranked.len());
        for matched in ranked {
            hits.extend(match matched.what {
                Matched::Record(found) => shown.record(found)?,
                Matched::Package(package) => shown.package(&package)?,
            });
        }
        let (facets, total) = facets(tx, visibility.tenant_id, options, counts)?;
        Ok(Results { hits, total, last, facets, did_you_mean })
    })
}

/// The context for building hits.
struct Shown<'a> {
    tx: &'a ReadTx,
    view: &'a View,
    planner: &'a Planner<'a>,
    visibility: &'a Visibility,
    search_terms: &'a [SearchTerm],
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1000.0).round() / 1000.0
}

impl Shown<'_> {
    /// `None` if the record was removed, or left the caller's reach, after it was indexed.
    fn record(&self, found: Found) -> Result<Option<Hit>, SearchError> {
        let tenant = self.visibility.tenant_id;
        let Some(source) = sources::of_kind(found.kind) else { return Ok(None) };
        let Some(document) = source.load(self.tx, tenant, found.id)? else { return Ok(None) };
        if !self.visibility.covers(document.kind, document.organization_id) {
            return Ok(None);
        }
        let (mut matched_on, highlights) = explain(&document, self.search_terms);
        let organization = match document.organization_id.filter(|_| document.kind != Kind::Organization) {
            Some(id) => directory::organization(self.tx, tenant, id)?.map(|label| (label.id, label.name)),
            None => None,
        };
        if let Some((_, name)) = &organization {
            matched_on.extend(named(name, self.search_terms));
        }
        Ok(Some(Hit {
            kind: document.kind,
            id: document.shown_id,
            title: document.name,
            subtitle: document.subtitle,
            organization,
            state: document.state,
            score: rounded(found.score),
            matched_on,
            highlights,
            updated_at: document.updated_at,
        }))
    }

    fn package(&self, package: &Package) -> Result<Option<Hit>, SearchError> {
        let devices = software::count(self.view, self.planner, &package.name)?;
        let Some((title, publisher, updated_at)) = software::describe(self.tx, self.visibility.tenant_id, package)? else {
            return Ok(None);
        };
        let on = if devices == 1 { "on 1 device".to_owned() } else { format!("on {devices} devices") };
        let subtitle = publisher.map_or(on.clone(), |publisher| format!("{publisher} · {on}"));
        let shown = software::document(self.visibility.tenant_id, &title, updated_at);
        let (matched_on, highlights) = explain(&shown, self.search_terms);
        Ok(Some(Hit {
            kind: Kind::Software,
            id: title.clone(),
            title,
            subtitle: Some(subtitle),
            organization: None,
            state: None,
            score: rounded(package.score),
            matched_on,
            highlights,
            updated_at,
        }))
    }
}

/// A match for the organization's name, if a term consists of its words.
fn named(organization: &str, search_terms: &[SearchTerm]) -> Vec<Match> {
    let words = text::tokens(organization);
    let names = |term: &&SearchTerm| {
        term.kind == MatchKind::Exact && !term.words.is_empty() && term.words.iter().all(|word| words.contains(word))
    };
    let found = search_terms.iter().find(names);
    found.map(|_| Match { field: "organization", value: organization.to_owned(), kind: MatchKind::Exact }).into_iter().collect()
}

/// The query with missing words replaced by similar ones that exist.
fn did_you_mean(
    planner: &Planner<'_>,
    q: &str,
    query: &Query,
    search_terms: &[SearchTerm],
    total: u64,
) -> Result<Option<String>, SearchError> {
    if total > 0 && search_terms.iter().all(|term| term.kind != MatchKind::Fuzzy) {
        return Ok(None);
    }
    let terms = query.groups.iter().filter(|group| !group.negated).flat_map(|group| &group.any);
    let words = terms.filter_map(|term| match term {
        Term::Word { words, .. } | Term::Phrase { words } => Some(words),
        Term::Prefix { .. } | Term::Field(_) => None,
    });
    let mut corrections: HashMap<&str, String> = HashMap::new();
    for word in words.flatten() {
        if let Some(better) = planner.correction(word)? {
            corrections.insert(word, better);
        }
    }
    if corrections.is_empty() {
        return Ok(None);
    }
    let (mut corrected, mut at) = (String::new(), 0);
    for word in text::words(q) {
        if let Some(better) = corrections.get(word.text.as_str()) {
            corrected.push_str(q.get(at..word.start).unwrap_or_default());
            corrected.push_str(better);
            at = word.end;
        }
    }
    corrected.push_str(q.get(at..).unwrap_or_default());
    Ok(Some(corrected))
}

fn values<T>(
    counted: HashMap<T, u64>,
    mut value: impl FnMut(T) -> Result<FacetValue, StoreError>,
) -> Result<Vec<FacetValue>, StoreError> {
    let mut counted: Vec<(T, u64)> = counted.into_iter().collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted.truncate(MOST_VALUES);
    let mut values = Vec::with_capacity(counted.len());
    for (one, count) in counted {
        values.push(FacetValue { count, ..value(one)? });
    }
    values.sort_by(|left, right| right.count.cmp(&left.count).then_with(|| left.value.cmp(&right.value)));
    Ok(values)
}

fn facets(tx: &ReadTx, tenant: TenantId, options: &Options, counts: Counts) -> Result<(FacetCounts, u64), SearchError> {
    let plain = |value: &str| Ok(FacetValue { value: value.to_owned(), label: None, count: 0 });
    let named = |id: OrganizationId| {
        let label = directory::organization(tx, tenant, id)?.map(|organization| organization.name);
        Ok(FacetValue { value: id.to_string(), label, count: 0 })
    };
    let wanted = options.facets;
    let counted = FacetCounts {
        kind: wanted.kind.then(|| values(counts.kinds, |kind| plain(kind.name()))).transpose()?,
        organization: wanted.organization.then(|| values(counts.organizations, named)).transpose()?,
        state: wanted.state.then(|| values(counts.states, |state| plain(state.name()))).transpose()?,
    };
    Ok((counted, counts.total))
}
