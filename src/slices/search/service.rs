//! Answers a search: reads the query, asks the index, and shows the hits from their records, as far as the caller may see them.

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
    index::{Best, Counts, Found, Planner, SearchIndex, Sought, View, run},
    model::{FacetCounts, FacetValue, Hit, Kind, Match, MatchKind, Options, Results, Sight},
    query::{Query, Term},
    software::{self, Package},
    sources, text,
};

/// How many values a facet shows, the most frequent first.
const MOST_VALUES: usize = 100;

#[derive(Clone, Debug)]
pub struct Service {
    pub index: SearchIndex,
    store: Store,
}

/// A match of either sort.
enum Matched {
    Record(Found),
    Package(Package),
}

impl Service {
    pub fn new(index: SearchIndex, store: Store) -> Self {
        Self { index, store }
    }

    pub async fn search(&self, sight: Sight, q: String, options: Options) -> Result<Results, SearchError> {
        let query = Query::parse(&q).map_err(SearchError::Invalid)?;
        let (tenant, store) = (sight.tenant_id, self.store.clone());
        let view = self.index.current(tenant).await?;
        let work = move || answer(&store, &view, &sight, &q, &query, &options);
        self.store.lanes().run(tenant, work).await.unwrap_or_else(|error| match error {
            LaneError::Busy => Err(SearchError::Busy),
            LaneError::Panicked(reason) => {
                // Damaged files can make the engine panic. What it read from is built again.
                self.index.rebuild();
                Err(IndexError::Engine(reason).into())
            }
        })
    }
}

/// Asks the index, and then shows what it found from one snapshot of the store.
fn answer(store: &Store, view: &View, sight: &Sight, q: &str, query: &Query, options: &Options) -> Result<Results, SearchError> {
    let view = &view.of(sight.tenant_id)?;
    let planner = Planner::new(view, sight, options)?;
    let plan = planner.plan(query)?;
    // One more than asked for tells whether there are more.
    let mut best = Best::new(options.limit + 1, options.after);
    let mut counts = run(view, &plan, options, &mut best)?;
    let mut all = Best::new(options.limit + 1, options.after);
    for found in best.into_sorted() {
        all.offer(found.place.rank, || found.place.id, || Matched::Record(found.what));
    }
    for package in software::find(view, &planner, query, &plan.sought, sight, options, counts.total > 0)? {
        counts.total += 1;
        *counts.kinds.entry(Kind::Software).or_default() += 1;
        all.offer(package.rank, || package.id, || Matched::Package(package.clone()));
    }
    let mut ranked = all.into_sorted();
    let more = ranked.len() > options.limit;
    ranked.truncate(options.limit);
    let last = ranked.last().filter(|_| more).map(|last| last.place);
    let did_you_mean = did_you_mean(&planner, q, query, &plan.sought, counts.total)?;
    store.read(|tx| {
        let shown = Shown { tx, view, planner: &planner, sight, sought: &plan.sought };
        let mut hits = Vec::with_capacity(ranked.len());
        for matched in ranked {
            hits.extend(match matched.what {
                Matched::Record(found) => shown.record(found)?,
                Matched::Package(package) => shown.package(&package)?,
            });
        }
        let (facets, total) = facets(tx, sight.tenant_id, options, counts)?;
        Ok(Results { hits, total, last, facets, did_you_mean })
    })
}

/// What is needed to show a hit.
struct Shown<'a> {
    tx: &'a ReadTx,
    view: &'a View,
    planner: &'a Planner<'a>,
    sight: &'a Sight,
    sought: &'a [Sought],
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1000.0).round() / 1000.0
}

impl Shown<'_> {
    /// `None` when the record has gone, or out of sight, since it was indexed.
    fn record(&self, found: Found) -> Result<Option<Hit>, SearchError> {
        let tenant = self.sight.tenant_id;
        let Some(source) = sources::of_kind(found.kind) else { return Ok(None) };
        let Some(document) = source.load(self.tx, tenant, found.id)? else { return Ok(None) };
        if !self.sight.covers(document.kind, document.organization_id) {
            return Ok(None);
        }
        let (mut matched_on, highlights) = explain(&document, self.sought);
        let organization = match document.organization_id.filter(|_| document.kind != Kind::Organization) {
            Some(id) => directory::organization(self.tx, tenant, id)?.map(|label| (label.id, label.name)),
            None => None,
        };
        if let Some((_, name)) = &organization {
            matched_on.extend(named(name, self.sought));
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
        let Some((title, publisher, updated_at)) = software::describe(self.tx, self.sight.tenant_id, package)? else {
            return Ok(None);
        };
        let on = if devices == 1 { "on 1 device".to_owned() } else { format!("on {devices} devices") };
        let subtitle = publisher.map_or(on.clone(), |publisher| format!("{publisher} · {on}"));
        let shown = software::document(self.sight.tenant_id, &title, updated_at);
        let (matched_on, highlights) = explain(&shown, self.sought);
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

/// The terms that are the words of the organization's name.
fn named(organization: &str, sought: &[Sought]) -> Vec<Match> {
    let words = text::tokens(organization);
    let names = |term: &&Sought| {
        term.kind == MatchKind::Exact && !term.words.is_empty() && term.words.iter().all(|word| words.contains(word))
    };
    let found = sought.iter().find(names);
    found.map(|_| Match { field: "organization", value: organization.to_owned(), kind: MatchKind::Exact }).into_iter().collect()
}

/// The query with words that are there in place of those that are not.
fn did_you_mean(
    planner: &Planner<'_>,
    q: &str,
    query: &Query,
    sought: &[Sought],
    total: u64,
) -> Result<Option<String>, SearchError> {
    if total > 0 && sought.iter().all(|term| term.kind != MatchKind::Fuzzy) {
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
