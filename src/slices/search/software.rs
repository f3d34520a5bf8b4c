//! The hit type `software`: packages that are installed on devices. There are no package records: the index knows the package
//! names, and a device that has the package provides the rest. The caller finds a package exactly if one of the devices that
//! they may see has it.

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, TenantId},
    secrets::digest,
};
use tenantd_directory as directory;
use tenantd_store::{ReadTx, StoreError};

use super::{
    error::{IndexError, SearchError},
    index::{ALL_IN_NAME, NAME, Planner, START, SearchTerm, View, by_relevance, software},
    model::{Document, Kind, MatchKind, Options, Order, Visibility},
    query::{Condition, Group, Query, Term},
    text,
};

/// A package that was found.
#[derive(Clone, Debug)]
pub struct Package {
    /// The folded name.
    pub name: String,
    pub id: u128,
    pub rank: u64,
    pub score: f32,
    /// One of the devices that have the package.
    device: DeviceId,
}

/// How well a word matches a name. Lower is better.
type Fit = u8;
const EXACT: Fit = 0;
const PREFIX: Fit = 1;
const WITH_TYPOS: Fit = 2;

fn fit(name: &[&str], word: &str, last_is_prefix: bool, fuzzy: bool) -> Option<Fit> {
    if name.contains(&word) {
        return Some(EXACT);
    }
    if word.chars().count() > 1 && name.iter().any(|other| other.starts_with(word)) {
        return Some(if last_is_prefix { EXACT } else { PREFIX });
    }
    let typos = usize::from(text::typos_allowed(word));
    let near = |other: &&str| strsim::osa_distance(other, word) <= typos;
    (fuzzy && typos > 0 && name.iter().any(near)).then_some(WITH_TYPOS)
}

/// How well a term matches a name. Fields other than `type:software` never match.
fn term_fit(name: &[&str], term: &Term, fuzzy: bool, suggest_last: bool) -> Option<Fit> {
    match term {
        Term::Word { words, .. } => {
            words.iter().map(|word| fit(name, word, suggest_last, fuzzy)).try_fold(EXACT, |worst, fit| Some(worst.max(fit?)))
        }
        Term::Prefix { words } => {
            words.iter().map(|word| fit(name, word, true, false)).try_fold(EXACT, |worst, fit| Some(worst.max(fit?)))
        }
        Term::Phrase { words } => {
            let found = name.windows(words.len().max(1)).any(|window| window.iter().eq(words.iter()));
            found.then_some(EXACT)
        }
        Term::Field(Condition::Kind(Kind::Software)) => Some(EXACT),
        Term::Field(_) => None,
    }
}

fn query_fit(name: &[&str], query: &Query, options: &Options) -> Option<Fit> {
    let last = query.groups.len().saturating_sub(1);
    let suggests = options.mode == super::model::Mode::Suggest;
    let group_fit = |(place, group): (usize, &Group)| {
        let fits = group.any.iter().filter_map(|term| term_fit(name, term, options.fuzzy, suggests && place == last));
        match (group.negated, fits.min()) {
            (true, Some(EXACT)) | (false, None) => None,
            (true, _) => Some(EXACT),
            (false, fit) => fit,
        }
    };
    query.groups.iter().enumerate().map(group_fit).try_fold(EXACT, |worst, fit| Some(worst.max(fit?)))
}

/// Finds the matching packages. A query with a condition that packages do not have, such as a status, finds none.
pub fn find(
    view: &View,
    planner: &Planner<'_>,
    query: &Query,
    search_terms: &[SearchTerm],
    visibility: &Visibility,
    options: &Options,
    found_records: bool,
) -> Result<Vec<Package>, SearchError> {
    let wanted = options.kinds.is_empty() || options.kinds.contains(&Kind::Software);
    if !wanted || !visibility.kinds.contains(&Kind::Software) {
        return Ok(Vec::new());
    }
    let mut fitting: Vec<(Fit, String)> = Vec::new();
    for name in software(view, planner.terms())? {
        let words: Vec<&str> = name.split(' ').collect();
        fitting.extend(query_fit(&words, query, options).map(|fit| (fit, name)));
    }
    // As with records: if there is an exact match, do not return approximate ones.
    let exact = found_records && search_terms.iter().all(|term| matches!(term.kind, MatchKind::Exact | MatchKind::Phrase));
    let best = fitting.iter().map(|(fit, _)| *fit).min().unwrap_or(EXACT);
    let most = if exact { EXACT } else { best };
    let whole = query.plain_words().join(" ");
    let mut packages = Vec::new();
    for (_, name) in fitting.into_iter().filter(|(fit, _)| *fit <= most) {
        let mut device = None;
        view.visit(planner.devices_with(&name)?.as_ref(), |columns, doc| {
            device = Some((columns.id(doc), columns.updated.first(doc).unwrap_or_default()));
            false
        })?;
        let Some((device, updated)) = device else { continue };
        let mut score = ALL_IN_NAME + 1.0;
        if name.starts_with(&whole) {
            score += START;
        }
        if name == whole {
            score += NAME;
        }
        let rank = match options.order {
            Order::Relevance => by_relevance(score, true, updated),
            Order::Recent => updated,
        };
        let id = digest(name.as_bytes()).first_chunk().copied().map_or(0, u128::from_be_bytes);
        packages.push(Package { name, id, rank, score, device: DeviceId::from_bytes(device.to_be_bytes()) });
    }
    Ok(packages)
}

/// The number of devices within reach that have the package.
pub fn count(view: &View, planner: &Planner<'_>, name: &str) -> Result<u64, IndexError> {
    let mut devices = 0;
    view.visit(planner.devices_with(name)?.as_ref(), |_, _| {
        devices += 1;
        true
    })?;
    Ok(devices)
}

/// The name and publisher from the device, and when the device changed. `None` if the device no longer has the package.
pub fn describe(
    tx: &ReadTx,
    tenant: TenantId,
    package: &Package,
) -> Result<Option<(String, Option<String>, Timestamp)>, StoreError> {
    let Some(device) = directory::device_record(tx, tenant, package.device)? else { return Ok(None) };
    let found = device.details.software.into_iter().find(|one| text::whole(&one.name) == package.name);
    Ok(found.map(|one| (one.name, one.publisher, device.updated_at)))
}

/// The package as a document, to explain its matches.
pub fn document(tenant_id: TenantId, name: &str, updated_at: Timestamp) -> Document {
    Document {
        tenant_id,
        kind: Kind::Software,
        id: [0; 16],
        shown_id: name.to_owned(),
        name: name.to_owned(),
        subtitle: None,
        texts: Vec::new(),
        identifiers: Vec::new(),
        attributes: Vec::new(),
        software: Vec::new(),
        organization_id: None,
        state: None,
        updated_at,
    }
}
