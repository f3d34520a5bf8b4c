//! From a query to what the index is asked: what must match, what the caller may see, and in which tier a match ranks.
//!
//! **Invariant:** what the caller may not see decides nothing. Whether a word is there, or rather one with a typo was meant, is asked of
//! the documents within sight.

use std::ops::Bound;

use tantivy::{
    Term as IndexTerm,
    query::{
        BooleanQuery, BoostQuery, ConstScoreQuery, EmptyQuery, InvertedIndexRangeQuery, Occur, PhraseQuery, Query as IndexQuery,
        RangeQuery, TermQuery,
    },
    schema::{Field, IndexRecordOption},
};

use super::{
    super::{
        error::IndexError,
        model::{Attribute, Kind, MatchKind, Mode, Options, Order, Sight},
        query::{Condition, Group, Query, Term},
        text,
    },
    guard::Guarded,
    rank,
    schema::{LONGEST_GRAM, LONGEST_START, Mark, Terms, cut, fields},
    view::View,
    words::{self, Meant},
};
use crate::kernel::{access::Reach, clock::Timestamp, id::OrganizationId};

type Asked = Box<dyn IndexQuery>;

/// How many organizations or people a name in a query stands for.
const MOST_NAMED: usize = 50;
/// The fewest letters with which words outside of names are completed: shorter beginnings have too many ends.
const SHORTEST_BODY_PREFIX: usize = 3;
const NAME_WEIGHT: f32 = 2.0;
/// How much less a match with one typo, or with two, counts.
const TYPO_WEIGHTS: [f32; 3] = [1.0, 0.5, 0.1];

/// A term of the query and how it is looked for.
#[derive(Clone, Debug)]
pub struct Sought {
    /// As it was written.
    pub raw: String,
    pub words: Vec<String>,
    pub kind: MatchKind,
    /// With typos: for each word what it may have meant.
    pub meant: Vec<Vec<Meant>>,
}

/// What to ask the index, and what of it is to be shown.
#[derive(Debug)]
pub struct Plan {
    pub asked: Asked,
    /// The terms that are not negated.
    pub sought: Vec<Sought>,
}

pub struct Planner<'a> {
    view: &'a View,
    sight: &'a Sight,
    options: &'a Options,
    terms: Terms,
    /// What the caller may see and wants to see.
    within: Vec<Asked>,
}

/// What matches a term at all, and in the name.
struct Clause {
    any: Asked,
    in_name: Asked,
}

fn term(term: IndexTerm) -> Asked {
    Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
}

fn all_of(mut queries: Vec<Asked>) -> Asked {
    match queries.len() {
        1 => queries.remove(0),
        _ => Box::new(BooleanQuery::intersection(queries)),
    }
}

fn one_of(mut queries: Vec<Asked>) -> Asked {
    match queries.len() {
        0 => Box::new(EmptyQuery),
        1 => queries.remove(0),
        _ => Box::new(BooleanQuery::union(queries)),
    }
}

fn weighed(query: Asked, weight: f32) -> Asked {
    Box::new(BoostQuery::new(query, weight))
}

/// Decides whether something matches and adds `score`.
fn constant(query: Asked, score: f32) -> Asked {
    Box::new(ConstScoreQuery::new(query, score))
}

/// Terms of a field that begin alike.
fn beginning(field: Field, text: &str) -> Asked {
    let bound = |text: &str| IndexTerm::from_field_text(field, text);
    Box::new(InvertedIndexRangeQuery::new(Bound::Included(bound(text)), Bound::Excluded(bound(&words::successor(text)))))
}

impl<'a> Planner<'a> {
    pub fn new(view: &'a View, sight: &'a Sight, options: &'a Options) -> Self {
        let terms = Terms::new(sight.tenant_id);
        let mut within = Vec::new();
        // Software is not a document of its own.
        let is_kind = |kind: &Kind| *kind != Kind::Software;
        let wanted = |kind: &&Kind| sight.kinds.contains(kind) && (options.kinds.is_empty() || options.kinds.contains(kind));
        let kinds: Vec<&Kind> = Kind::ALL.iter().filter(|kind| is_kind(kind)).filter(wanted).collect();
        if kinds.len() < Kind::ALL.iter().filter(|kind| is_kind(kind)).count() {
            within.push(one_of(kinds.into_iter().map(|kind| term(terms.token(Mark::Kind, kind.name()))).collect()));
        }
        let mut planner = Self { view, sight, options, terms, within };
        planner.within.extend(planner.in_reach());
        planner
    }

    /// What belongs to the organizations that the caller reaches and asks for; `None`: everything does.
    fn in_reach(&self) -> Option<Asked> {
        let organization = |id: &OrganizationId| term(self.terms.organization(*id));
        match (&self.sight.reach, self.options.organization_id) {
            (Reach::Everything, None) => None,
            (reach, Some(id)) if reach.covers(Some(id)) => Some(organization(&id)),
            (_, Some(_)) => Some(Box::new(EmptyQuery)),
            (Reach::Organizations(ids), None) => Some(one_of(ids.iter().map(organization).collect())),
        }
    }

    /// The documents within sight that match.
    fn seen(&self, query: Asked) -> Asked {
        let filters = self.within.iter().map(|filter| filter.box_clone());
        all_of([query].into_iter().chain(filters).collect())
    }

    fn is_seen(&self, query: Asked) -> Result<bool, IndexError> {
        self.view.any(self.seen(query).as_ref())
    }

    /// Software, as devices within reach have it.
    pub fn devices_with(&self, software: &str) -> Asked {
        let found = [Some(term(self.terms.token(Mark::Software, software))), self.in_reach()];
        all_of(found.into_iter().flatten().collect())
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn plan(&self, query: &Query) -> Result<Plan, IndexError> {
        let mut parts: Vec<(Occur, Asked)> = Vec::new();
        let (mut sought, mut in_name) = (Vec::new(), Vec::new());
        let last = query.groups.len().saturating_sub(1);
        for (place, group) in query.groups.iter().enumerate() {
            let (any, name) = self.group(query, group, place == last, &mut sought)?;
            in_name.extend(name.filter(|_| !group.negated));
            parts.push(if group.negated { (Occur::MustNot, Box::new(Guarded(any))) } else { (Occur::Must, any) });
        }
        if query.groups.iter().all(|group| group.negated) {
            parts.push((Occur::Must, constant(term(self.terms.token(Mark::All, "")), 0.0)));
        }
        let matching: Asked = weighed(Box::new(BooleanQuery::new(parts)), rank::TEXT_WEIGHT);
        let mut parts = vec![(Occur::Must, matching)];
        parts.extend(self.within.iter().map(|filter| (Occur::Must, constant(filter.box_clone(), 0.0))));
        if self.options.order == Order::Relevance {
            parts.extend(self.tiers(query, in_name).into_iter().map(|tier| (Occur::Should, tier)));
        }
        Ok(Plan { asked: Box::new(BooleanQuery::new(parts)), sought })
    }

    /// What lifts a match above others.
    fn tiers(&self, query: &Query, in_name: Vec<Asked>) -> Vec<Asked> {
        let mut tiers = Vec::new();
        let raws = query.groups.iter().filter(|group| !group.negated).flat_map(|group| &group.any).filter_map(|term| match term {
            Term::Word { raw, .. } => Some(text::identifier(raw)),
            _ => None,
        });
        let identifiers: Vec<Asked> = raws.map(|identifier| self.identified(&identifier)).collect();
        if !identifiers.is_empty() {
            tiers.push(constant(one_of(identifiers), rank::IDENTIFIER));
        }
        if in_name.is_empty() {
            return tiers;
        }
        let all = all_of(in_name);
        if query.is_plain() {
            let whole = query.plain_words().join(" ");
            let start = term(self.terms.token(Mark::Start, cut(&whole, LONGEST_START)));
            tiers.push(constant(term(self.terms.token(Mark::Name, &whole)), rank::NAME));
            tiers.push(constant(all_of(vec![all.box_clone(), start]), rank::START));
        }
        tiers.push(constant(all, rank::ALL_IN_NAME));
        tiers
    }

    fn identified(&self, identifier: &str) -> Asked {
        term(self.terms.token(Mark::Identifier, identifier))
    }

    fn group(
        &self,
        query: &Query,
        group: &Group,
        is_last: bool,
        sought: &mut Vec<Sought>,
    ) -> Result<(Asked, Option<Asked>), IndexError> {
        let (mut any, mut in_name) = (Vec::new(), Vec::new());
        for term in &group.any {
            if let Term::Field(condition) = term {
                any.push(constant(self.condition(condition)?, 0.0));
                continue;
            }
            // Alone, the name of an organization means the organization and not all that belongs to it.
            let of_organizations = query.groups.len() > 1;
            let found = self.seek(term, is_last && !group.negated, of_organizations)?;
            let clause = self.clause(&found, of_organizations)?;
            any.push(clause.any);
            in_name.push(clause.in_name);
            if !group.negated {
                sought.push(found);
            }
        }
        Ok((one_of(any), (!in_name.is_empty()).then(|| one_of(in_name))))
    }

    /// Chooses how a term is looked for: as it is; else as the beginning of a word; else with typos.
    fn seek(&self, term: &Term, is_last: bool, of_organizations: bool) -> Result<Sought, IndexError> {
        let sought =
            |raw: &str, words: &[String], kind| Sought { raw: raw.to_owned(), words: words.to_vec(), kind, meant: Vec::new() };
        let (raw, words) = match term {
            Term::Word { raw, words } => (raw, words),
            Term::Prefix { words } => return Ok(sought(&words.join(" "), words, MatchKind::Prefix)),
            Term::Phrase { words } => return Ok(sought(&words.join(" "), words, MatchKind::Phrase)),
            Term::Field(_) => return Ok(sought("", &[], MatchKind::Exact)),
        };
        let exact = sought(raw, words, MatchKind::Exact);
        let begun = sought(raw, words, MatchKind::Prefix);
        if is_last && self.options.mode == Mode::Suggest {
            if self.is_seen(self.clause(&begun, false)?.any)? {
                return Ok(begun);
            }
        } else if self.is_seen(self.clause(&exact, of_organizations)?.any)? {
            return Ok(exact);
        } else if words.last().is_some_and(|word| word.chars().count() > 1) && self.is_seen(self.clause(&begun, false)?.any)? {
            return Ok(begun);
        }
        if !self.options.fuzzy || identified_only(raw) {
            return Ok(exact);
        }
        let mut meant = Vec::new();
        for word in words {
            meant.push(self.meant(word, text::typos_allowed(word))?);
        }
        let fuzzy = Sought { kind: MatchKind::Fuzzy, meant, ..exact.clone() };
        Ok(if self.is_seen(self.clause(&fuzzy, false)?.any)? { fuzzy } else { exact })
    }

    /// What a word may have meant: itself, and its neighbours.
    fn meant(&self, word: &str, typos: u8) -> Result<Vec<Meant>, IndexError> {
        let mut meant = words::similar(self.view, &self.terms, &self.text_fields(), word, typos)?;
        meant.insert(0, Meant { word: word.to_owned(), typos: 0, frequency: 0 });
        Ok(meant)
    }

    /// The nearest word that the caller can find something by, if this one finds nothing.
    pub fn correction(&self, word: &str) -> Result<Option<String>, IndexError> {
        if self.is_seen(self.in_text(word))? {
            return Ok(None);
        }
        let typos =
            if word.chars().count() < 4 || word.chars().any(char::is_numeric) { 0 } else { text::typos_allowed(word).max(1) };
        for candidate in words::similar(self.view, &self.terms, &self.text_fields(), word, typos)? {
            if self.is_seen(self.in_text(&candidate.word))? {
                return Ok(Some(candidate.word));
            }
        }
        Ok(None)
    }

    fn text_fields(&self) -> Vec<Field> {
        match self.options.mode {
            Mode::Full => vec![fields().name, fields().body],
            Mode::Suggest => vec![fields().name],
        }
    }

    fn in_text(&self, word: &str) -> Asked {
        one_of(self.text_fields().into_iter().map(|field| term(self.terms.word(field, word))).collect())
    }

    fn clause(&self, sought: &Sought, of_organizations: bool) -> Result<Clause, IndexError> {
        let Sought { raw, words, kind, meant } = sought;
        let (name, body) = (fields().name, fields().body);
        let in_body = self.options.mode == Mode::Full;
        let side_by_side = |field: Field| -> Asked {
            let mut found: Vec<IndexTerm> = words.iter().map(|word| self.terms.word(field, word)).collect();
            if found.len() == 1 { term(found.remove(0)) } else { Box::new(PhraseQuery::new(found)) }
        };
        match kind {
            MatchKind::Exact | MatchKind::Phrase => {
                let mut any = vec![weighed(side_by_side(name), NAME_WEIGHT)];
                if in_body {
                    any.push(side_by_side(body));
                }
                if *kind == MatchKind::Exact {
                    any.push(constant(self.identified(&text::identifier(raw)), 1.0));
                    if of_organizations && in_body {
                        any.extend(self.of_organizations_named(words)?);
                    }
                }
                Ok(Clause { any: one_of(any), in_name: side_by_side(name) })
            }
            MatchKind::Prefix => Ok(self.begun(raw, words, in_body)),
            MatchKind::Fuzzy => {
                let with_typos = |field: Field, weight: f32| -> Asked {
                    let each = meant.iter().map(|meant| {
                        let weight = |typos: u8| weight * TYPO_WEIGHTS.get(usize::from(typos)).copied().unwrap_or_default();
                        one_of(
                            meant
                                .iter()
                                .map(|meant| weighed(term(self.terms.word(field, &meant.word)), weight(meant.typos)))
                                .collect(),
                        )
                    });
                    all_of(each.collect())
                };
                let in_name = with_typos(name, NAME_WEIGHT);
                let mut any = vec![in_name.box_clone()];
                if in_body {
                    any.push(with_typos(body, 1.0));
                }
                Ok(Clause { any: one_of(any), in_name })
            }
        }
    }

    /// The last word goes on; those before it are whole.
    fn begun(&self, raw: &str, words: &[String], in_body: bool) -> Clause {
        let Some((last, before)) = words.split_last() else {
            return Clause { any: Box::new(EmptyQuery), in_name: Box::new(EmptyQuery) };
        };
        let whole = |field: Field| before.iter().map(move |word| term(self.terms.word(field, word)));
        let end = if last.chars().count() <= LONGEST_GRAM {
            term(self.terms.token(Mark::Gram, last))
        } else {
            beginning(fields().name, &format!("{}{last}", self.terms.prefix))
        };
        let in_name = all_of(whole(fields().name).chain([constant(end, 1.0)]).collect());
        let mut any = vec![in_name.box_clone(), constant(self.identified(&text::identifier(raw)), 1.0)];
        if in_body && last.chars().count() >= SHORTEST_BODY_PREFIX {
            let end = beginning(fields().body, &format!("{}{last}", self.terms.prefix));
            any.push(all_of(whole(fields().body).chain([constant(end, 0.5)]).collect()));
        }
        Clause { any: one_of(any), in_name }
    }

    /// What belongs to an organization that has these words in its name: `acme printer` finds the printers of Acme.
    fn of_organizations_named(&self, words: &[String]) -> Result<Option<Asked>, IndexError> {
        let named = words.iter().map(|word| term(self.terms.word(fields().name, word)));
        let kind = term(self.terms.token(Mark::Kind, Kind::Organization.name()));
        let ids = self.view.ids(all_of(named.chain([kind]).chain(self.in_reach()).collect()).as_ref(), MOST_NAMED)?;
        let belongs = |id: u128| term(self.terms.organization(OrganizationId::from_bytes(id.to_be_bytes())));
        let of: Vec<Asked> = ids.into_iter().map(belongs).collect();
        Ok((!of.is_empty()).then(|| constant(one_of(of), 0.1)))
    }

    fn condition(&self, condition: &Condition) -> Result<Asked, IndexError> {
        let token = |mark: Mark, value: &str| term(self.terms.token(mark, value));
        Ok(match condition {
            Condition::Kind(kind) => token(Mark::Kind, kind.name()),
            Condition::State(state) => token(Mark::State, state.name()),
            Condition::Organization(name) => {
                let ids = self.named(Kind::Organization, name)?;
                let organization = |id: u128| term(self.terms.organization(OrganizationId::from_bytes(id.to_be_bytes())));
                one_of(ids.into_iter().map(organization).collect())
            }
            Condition::Attribute { attribute: Attribute::Assignee, value, .. } => {
                let ids = self.named(Kind::User, value)?;
                let assignee = |id: u128| {
                    let id = crate::kernel::id::UserId::from_bytes(id.to_be_bytes());
                    token(Mark::Attribute(Attribute::Assignee), &id.to_string())
                };
                one_of(ids.into_iter().map(assignee).collect())
            }
            Condition::Attribute { attribute, value, prefix: true } => {
                beginning(fields().tokens, &self.terms.token_text(Mark::Attribute(*attribute), value))
            }
            Condition::Attribute { attribute, value, prefix: false } => token(Mark::Attribute(*attribute), value),
            Condition::Updated { from, until } => {
                let time =
                    |at: Timestamp| IndexTerm::from_field_u64(fields().updated, u64::try_from(at.as_millis()).unwrap_or_default());
                let from =
                    from.map_or(Bound::Included(IndexTerm::from_field_u64(fields().updated, 0)), |at| Bound::Included(time(at)));
                let until = until.map_or(Bound::Unbounded, |at| Bound::Excluded(time(at)));
                Box::new(RangeQuery::new(from, until))
            }
        })
    }

    /// The records of a type that a name, the beginning of one, or an identifier stands for.
    fn named(&self, kind: Kind, name: &str) -> Result<Vec<u128>, IndexError> {
        let name = name.trim_end_matches('*');
        let words = text::tokens(name);
        let mut ways = vec![self.identified(&text::identifier(name))];
        if !words.is_empty() {
            ways.push(self.begun(name, &words, false).in_name);
        }
        let kind = term(self.terms.token(Mark::Kind, kind.name()));
        // Names of people stand in what they are assigned to: whoever sees that may ask by them.
        self.view.ids(all_of(vec![kind, one_of(ways)]).as_ref(), MOST_NAMED)
    }
}

/// Whether a text can only be an identifier, which is right or wrong.
fn identified_only(raw: &str) -> bool {
    raw.contains('@') || text::ip(raw).is_some() || text::mac(raw).is_some()
}
