//! Turns a query into a plan for the index: what must match, what the caller may see, and in which tier a match ranks.
//!
//! **Invariant:** records that the caller may not see have no influence. Only documents that the caller may see decide
//! whether a word exists or is treated as a typo.

use std::{cell::RefCell, collections::HashMap, ops::Bound};

use tantivy::{
    Term as IndexTerm,
    query::{InvertedIndexRangeQuery, PhraseQuery, RangeQuery, TermQuery},
    schema::{Field, IndexRecordOption},
};

use tenantd_base::{access::Reach, clock::Timestamp, id::OrganizationId};

use super::{
    super::{
        error::IndexError,
        model::{Attribute, DocumentKey, Kind, MatchKind, Mode, Options, Order, RecordId, Visibility},
        query::{Condition, Group, Query, Term},
        sources, text,
    },
    clause::{BoxedQuery, Clause},
    rank,
    schema::{LONGEST_GRAM, LONGEST_START, Terms, TokenKind, cut, fields, key_term},
    view::View,
    words::{self, SimilarWord},
};

/// The maximum number of organizations or people that a name in a query can refer to.
const MOST_NAMED: usize = 50;
/// The minimum length of a word beginning that is completed outside of names. Shorter ones have too many completions.
const SHORTEST_BODY_PREFIX: usize = 3;
const NAME_WEIGHT: f32 = 2.0;
/// The weights of matches with zero, one and two typos.
const TYPO_WEIGHTS: [f32; 3] = [1.0, 0.5, 0.1];

/// A term of the query and how it is searched for.
#[derive(Clone, Debug)]
pub struct SearchTerm {
    /// The term as written.
    pub raw: String,
    pub words: Vec<String>,
    pub kind: MatchKind,
    /// For fuzzy terms: the candidates for each word.
    pub candidates: Vec<Vec<SimilarWord>>,
}

/// What to ask the index.
#[derive(Debug)]
pub struct Plan {
    pub matching: Clause,
    /// A score that is added to every match.
    pub lift: f32,
    /// Clauses that raise the rank of a match, and by how much.
    pub tiers: Vec<(BoxedQuery, f32)>,
    /// The terms that are not negated.
    pub search_terms: Vec<SearchTerm>,
}

pub struct Planner<'a> {
    view: &'a View,
    visibility: &'a Visibility,
    options: &'a Options,
    terms: Terms,
    /// What the caller may see and has asked for.
    within: Vec<Clause>,
    /// Similar words, cached for this query: both the search and the correction need them.
    similar: RefCell<HashMap<(String, u8), Vec<SimilarWord>>>,
}

/// The matches of a term, in names and elsewhere.
struct Sides {
    in_name: Clause,
    elsewhere: Clause,
}

impl Sides {
    fn any(self) -> Clause {
        Clause::any([self.in_name, self.elsewhere])
    }
}

/// Terms of a field that begin with a text.
fn beginning(field: Field, text: &str) -> Clause {
    between(field, text, &words::successor(text))
}

/// Terms of a field from the first (inclusive) to the second (exclusive).
fn between(field: Field, first: &str, end: &str) -> Clause {
    let bound = |text: &str| IndexTerm::from_field_text(field, text);
    Clause::Alike(Box::new(InvertedIndexRangeQuery::new(Bound::Included(bound(first)), Bound::Excluded(bound(end)))), 0.0)
}

impl<'a> Planner<'a> {
    pub fn new(view: &'a View, visibility: &'a Visibility, options: &'a Options) -> Result<Self, IndexError> {
        let mut planner = Self {
            view,
            visibility,
            options,
            terms: Terms::new(visibility.tenant_id),
            within: Vec::new(),
            similar: RefCell::default(),
        };
        // Software packages are not documents.
        let is_kind = |kind: &Kind| *kind != Kind::Software;
        let wanted = |kind: &&Kind| visibility.kinds.contains(kind) && (options.kinds.is_empty() || options.kinds.contains(kind));
        let kinds: Vec<&Kind> = Kind::ALL.iter().filter(|kind| is_kind(kind)).filter(wanted).collect();
        if kinds.len() < Kind::ALL.iter().filter(|kind| is_kind(kind)).count() {
            let kinds = kinds.into_iter().map(|kind| planner.token(TokenKind::Kind, kind.name()));
            let of_kinds = Clause::any(kinds.collect::<Result<Vec<_>, _>>()?);
            planner.within.push(of_kinds);
        }
        let in_reach = planner.in_reach()?;
        planner.within.extend(in_reach);
        Ok(planner)
    }

    /// Matches a value as a whole.
    fn token(&self, mark: TokenKind, value: &str) -> Result<Clause, IndexError> {
        self.term(self.terms.token(mark, value)).map(|found| found.alike(0.0))
    }

    /// Matches a word in a text.
    fn word(&self, field: Field, word: &str) -> Result<Clause, IndexError> {
        self.term(self.terms.word(field, word))
    }

    fn term(&self, term: IndexTerm) -> Result<Clause, IndexError> {
        if !self.view.has(&term)? {
            return Ok(Clause::Nothing);
        }
        Ok(Clause::Weighed(Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))))
    }

    fn organization(&self, id: OrganizationId) -> Result<Clause, IndexError> {
        self.token(TokenKind::Organization, &id.to_string())
    }

    fn identified(&self, identifier: &str) -> Result<Clause, IndexError> {
        let known_by = self.token(TokenKind::Identifier, identifier)?;
        let Some((kind, id)) = sources::named_by(identifier) else { return Ok(known_by) };
        Ok(Clause::any([known_by, self.record(kind, id)?]))
    }

    /// Matches identifiers in another spelling or by the beginning of an address: serial numbers without dashes, phone
    /// numbers by their digits, networks, and beginnings of hardware addresses.
    fn identified_loosely(&self, raw: &str) -> Result<Clause, IndexError> {
        let mut ways = Vec::new();
        if let Some(compact) = text::compact(raw) {
            ways.push(self.token(TokenKind::Compact, &compact)?);
        }
        if let Some(phone) = text::phone(raw) {
            ways.push(self.token(TokenKind::Phone, &phone.digits)?);
            // One of the two numbers can be in national form.
            ways.push(self.token(TokenKind::NationalPhone, &phone.digits)?);
            ways.extend(phone.national.map(|digits| self.token(TokenKind::Phone, &digits)).transpose()?);
        }
        if let Some((first, last)) = text::network(raw) {
            ways.push(self.in_network(&first, &last));
        }
        if let Some(digits) = text::mac_beginning(raw) {
            ways.push(beginning(fields().tokens, &self.terms.token_text(TokenKind::Attribute(Attribute::Mac), &digits)));
        }
        Ok(Clause::any(ways))
    }

    fn in_network(&self, first: &str, last: &str) -> Clause {
        let text = |address: &str| self.terms.token_text(TokenKind::Attribute(Attribute::Address), address);
        between(fields().tokens, &text(first), &words::successor(&text(last)))
    }

    /// The record of this tenant with this id.
    fn record(&self, kind: Kind, id: RecordId) -> Result<Clause, IndexError> {
        let named = self.term(key_term(&DocumentKey { tenant_id: self.visibility.tenant_id, kind, id }))?.alike(0.0);
        // Keys are terms without a tenant prefix.
        Ok(Clause::all([named, self.token(TokenKind::All, "")?]))
    }

    fn one_of(&self, organizations: impl IntoIterator<Item = OrganizationId>) -> Result<Clause, IndexError> {
        let found = organizations.into_iter().map(|id| self.organization(id));
        Ok(Clause::any(found.collect::<Result<Vec<_>, _>>()?))
    }

    /// Limits matches to the organizations that the caller may see and has asked for. `None` means no limit.
    fn in_reach(&self) -> Result<Option<Clause>, IndexError> {
        match (&self.visibility.reach, self.options.organization_id) {
            (Reach::Everything, None) => Ok(None),
            (reach, Some(id)) if reach.covers(Some(id)) => self.organization(id).map(Some),
            (_, Some(_)) => Ok(Some(Clause::Nothing)),
            (Reach::Organizations(ids), None) => self.one_of(ids.iter().copied()).map(Some),
        }
    }

    fn is_seen(&self, clause: Clause) -> Result<bool, IndexError> {
        let seen = Clause::all([clause].into_iter().chain(self.within.iter().cloned()));
        if seen.is_nothing() { Ok(false) } else { self.view.any(seen.matches().as_ref()) }
    }

    /// The devices within reach that have a software package.
    pub fn devices_with(&self, software: &str) -> Result<BoxedQuery, IndexError> {
        let devices = self.token(TokenKind::Software, software)?;
        Ok(Clause::all([devices].into_iter().chain(self.in_reach()?)).matches())
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn plan(&self, query: &Query) -> Result<Plan, IndexError> {
        let (mut matching, mut excluded, mut in_name, mut search_terms) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut elsewhere = false;
        let last = query.groups.len().saturating_sub(1);
        for (place, group) in query.groups.iter().enumerate() {
            let (sides, fields) = self.group(group, place == last, &mut search_terms)?;
            if group.negated {
                excluded.push(Clause::any([sides.any(), fields]));
                continue;
            }
            let has_text = group.any.iter().any(|term| !matches!(term, Term::Field(_)));
            elsewhere |= has_text && !(sides.elsewhere.is_nothing() && fields.is_nothing());
            in_name.extend(has_text.then(|| sides.in_name.clone()));
            matching.push(Clause::any([sides.any(), fields]));
        }
        if matching.is_empty() {
            matching.push(self.token(TokenKind::All, "")?);
        }
        let within = self.within.iter().cloned();
        let matching = Clause::all(matching.into_iter().chain(within)).without(excluded);
        let ranked = self.options.order == Order::Relevance;
        // If there are matches only in names, every match has all words in its name.
        let lift = if ranked && !elsewhere && !in_name.is_empty() { rank::ALL_IN_NAME } else { 0.0 };
        let tiers = if ranked { self.tiers(query, in_name, elsewhere)? } else { Vec::new() };
        let tiers = tiers.into_iter().filter(|(tier, _)| !tier.is_nothing()).map(|(tier, score)| (tier.matches(), score)).collect();
        Ok(Plan { matching, lift, tiers, search_terms })
    }

    /// The clauses that raise the rank of a match.
    fn tiers(&self, query: &Query, in_name: Vec<Clause>, elsewhere: bool) -> Result<Vec<(Clause, f32)>, IndexError> {
        let mut tiers = Vec::new();
        let raws = query.groups.iter().filter(|group| !group.negated).flat_map(|group| &group.any).filter_map(|term| match term {
            Term::Word { raw, .. } => Some(raw),
            _ => None,
        });
        let mut identifiers = Vec::new();
        for raw in raws {
            identifiers.push(self.identified(&text::identifier(raw))?);
            identifiers.push(self.identified_loosely(raw)?);
        }
        tiers.push((Clause::any(identifiers), rank::IDENTIFIER));
        if in_name.is_empty() {
            return Ok(tiers);
        }
        let all = elsewhere.then(|| Clause::all(in_name));
        if query.is_plain() {
            let whole = query.plain_words().join(" ");
            let start = self.token(TokenKind::Start, cut(&whole, LONGEST_START))?;
            tiers.push((self.token(TokenKind::Name, &whole)?, rank::NAME));
            tiers.push((Clause::all([start].into_iter().chain(all.clone())), rank::START));
        }
        tiers.extend(all.map(|all| (all, rank::ALL_IN_NAME)));
        Ok(tiers)
    }

    /// The matches of a group: by text, and by field.
    fn group(&self, group: &Group, is_last: bool, search_terms: &mut Vec<SearchTerm>) -> Result<(Sides, Clause), IndexError> {
        let (mut in_name, mut elsewhere, mut by_field) = (Vec::new(), Vec::new(), Vec::new());
        for term in &group.any {
            if let Term::Field(condition) = term {
                by_field.push(self.condition(condition)?.alike(0.0));
                continue;
            }
            let found = self.seek(term, is_last && !group.negated)?;
            let sides = self.sides(&found)?;
            in_name.push(sides.in_name);
            elsewhere.push(sides.elsewhere);
            if !group.negated {
                search_terms.push(found);
            }
        }
        Ok((Sides { in_name: Clause::any(in_name), elsewhere: Clause::any(elsewhere) }, Clause::any(by_field)))
    }

    /// Chooses how to search for a term: exactly, else as the beginning of a word, else with typos.
    fn seek(&self, term: &Term, is_last: bool) -> Result<SearchTerm, IndexError> {
        let new_term = |raw: &str, words: &[String], kind| SearchTerm {
            raw: raw.to_owned(),
            words: words.to_vec(),
            kind,
            candidates: Vec::new(),
        };
        let (raw, words) = match term {
            Term::Word { raw, words } => (raw, words),
            Term::Prefix { words } => return Ok(new_term(&words.join(" "), words, MatchKind::Prefix)),
            Term::Phrase { words } => return Ok(new_term(&words.join(" "), words, MatchKind::Phrase)),
            Term::Field(_) => return Ok(new_term("", &[], MatchKind::Exact)),
        };
        let exact = new_term(raw, words, MatchKind::Exact);
        let by_prefix = new_term(raw, words, MatchKind::Prefix);
        if is_last && self.options.mode == Mode::Suggest {
            if self.is_seen(self.sides(&by_prefix)?.any())? {
                return Ok(by_prefix);
            }
        } else if self.is_seen(self.sides(&exact)?.any())? {
            return Ok(exact);
        } else if words.last().is_some_and(|word| word.chars().count() > 1) && self.is_seen(self.sides(&by_prefix)?.any())? {
            return Ok(by_prefix);
        }
        if !self.options.fuzzy || identified_only(raw) {
            return Ok(exact);
        }
        let mut candidates = Vec::new();
        for word in words {
            candidates.push(self.candidates(word, text::typos_allowed(word))?);
        }
        let fuzzy = SearchTerm { kind: MatchKind::Fuzzy, candidates, ..exact.clone() };
        Ok(if self.is_seen(self.sides(&fuzzy)?.any())? { fuzzy } else { exact })
    }

    /// The candidates for a word: the word itself and similar words.
    fn candidates(&self, word: &str, typos: u8) -> Result<Vec<SimilarWord>, IndexError> {
        let mut candidates = self.similar(word, typos)?;
        candidates.insert(0, SimilarWord { word: word.to_owned(), typos: 0, frequency: 0 });
        Ok(candidates)
    }

    fn similar(&self, word: &str, typos: u8) -> Result<Vec<SimilarWord>, IndexError> {
        let asked = (word.to_owned(), typos);
        if let Some(known) = self.similar.borrow().get(&asked) {
            return Ok(known.clone());
        }
        let found = words::similar(self.view, &self.terms, &self.text_fields(), word, typos)?;
        self.similar.borrow_mut().insert(asked, found.clone());
        Ok(found)
    }

    /// The most similar word that finds something the caller may see, if this word finds nothing.
    pub fn correction(&self, word: &str) -> Result<Option<String>, IndexError> {
        if self.is_seen(self.in_text(word)?)? {
            return Ok(None);
        }
        let typos =
            if word.chars().count() < 4 || word.chars().any(char::is_numeric) { 0 } else { text::typos_allowed(word).max(1) };
        for candidate in self.similar(word, typos)? {
            if self.is_seen(self.in_text(&candidate.word)?)? {
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

    fn in_text(&self, word: &str) -> Result<Clause, IndexError> {
        let found = self.text_fields().into_iter().map(|field| self.word(field, word));
        Ok(Clause::any(found.collect::<Result<Vec<_>, _>>()?))
    }

    /// The matches of a term. They do not depend on other terms, so adding a term never adds matches.
    fn sides(&self, term: &SearchTerm) -> Result<Sides, IndexError> {
        let SearchTerm { raw, words, kind, candidates } = term;
        let in_body = self.options.mode == Mode::Full;
        match kind {
            MatchKind::Exact | MatchKind::Phrase => {
                let in_name = self.side_by_side(fields().name, words)?.times(NAME_WEIGHT);
                let mut elsewhere = Vec::new();
                if in_body {
                    elsewhere.push(self.side_by_side(fields().body, words)?);
                }
                if *kind == MatchKind::Exact {
                    elsewhere.push(self.identified(&text::identifier(raw))?.alike(1.0));
                    elsewhere.push(self.identified_loosely(raw)?.alike(1.0));
                    if in_body {
                        elsewhere.push(self.of_organizations_named(words)?);
                    }
                }
                Ok(Sides { in_name, elsewhere: Clause::any(elsewhere) })
            }
            MatchKind::Prefix => self.by_prefix(raw, words, in_body),
            MatchKind::Fuzzy => {
                let in_name = self.with_typos(fields().name, candidates)?.times(NAME_WEIGHT);
                let elsewhere = if in_body { self.with_typos(fields().body, candidates)? } else { Clause::Nothing };
                Ok(Sides { in_name, elsewhere })
            }
        }
    }

    /// Matches words that follow each other.
    fn side_by_side(&self, field: Field, words: &[String]) -> Result<Clause, IndexError> {
        let each = words.iter().map(|word| self.word(field, word)).collect::<Result<Vec<_>, _>>()?;
        if words.len() < 2 || each.iter().any(Clause::is_nothing) {
            return Ok(Clause::all(each));
        }
        let found = words.iter().map(|word| self.terms.word(field, word)).collect();
        Ok(Clause::Weighed(Box::new(PhraseQuery::new(found))))
    }

    /// Matches all words, each with its candidates.
    fn with_typos(&self, field: Field, candidates: &[Vec<SimilarWord>]) -> Result<Clause, IndexError> {
        let each = candidates.iter().map(|candidates| {
            let found = candidates.iter().map(|candidate| {
                let weight = TYPO_WEIGHTS.get(usize::from(candidate.typos)).copied().unwrap_or_default();
                self.word(field, &candidate.word).map(|found| found.times(weight))
            });
            Ok(Clause::any(found.collect::<Result<Vec<_>, IndexError>>()?))
        });
        Ok(Clause::all(each.collect::<Result<Vec<_>, IndexError>>()?))
    }

    /// Matches the beginning of the last word, and all other words in full.
    fn by_prefix(&self, raw: &str, words: &[String], in_body: bool) -> Result<Sides, IndexError> {
        let Some((last, before)) = words.split_last() else {
            return Ok(Sides { in_name: Clause::Nothing, elsewhere: Clause::Nothing });
        };
        let with_end = |field: Field, end: Clause| {
            let whole = before.iter().map(|word| self.word(field, word));
            Ok::<_, IndexError>(Clause::all(whole.chain([Ok(end)]).collect::<Result<Vec<_>, _>>()?))
        };
        let end = if last.chars().count() <= LONGEST_GRAM {
            self.token(TokenKind::Gram, last)?
        } else {
            beginning(fields().name, &format!("{}{last}", self.terms.prefix))
        };
        let in_name = with_end(fields().name, end.alike(1.0))?;
        let mut elsewhere = Clause::any([self.identified(&text::identifier(raw))?, self.identified_loosely(raw)?]).alike(1.0);
        if in_body && last.chars().count() >= SHORTEST_BODY_PREFIX {
            let end = beginning(fields().body, &format!("{}{last}", self.terms.prefix));
            elsewhere = Clause::any([elsewhere, with_end(fields().body, end.alike(0.5))?]);
        }
        Ok(Sides { in_name, elsewhere })
    }

    /// Matches everything that belongs to an organization with these words in its name: `acme printer` finds the printers of Acme.
    fn of_organizations_named(&self, words: &[String]) -> Result<Clause, IndexError> {
        let mut named = words.iter().map(|word| self.word(fields().name, word)).collect::<Result<Vec<_>, _>>()?;
        named.push(self.token(TokenKind::Kind, Kind::Organization.name())?);
        named.extend(self.in_reach()?);
        let ids = self.ids(Clause::all(named))?;
        Ok(self.one_of(ids.into_iter().map(|id| OrganizationId::from_bytes(id.to_be_bytes())))?.alike(0.1))
    }

    fn ids(&self, clause: Clause) -> Result<Vec<u128>, IndexError> {
        if clause.is_nothing() { Ok(Vec::new()) } else { self.view.ids(clause.matches().as_ref(), MOST_NAMED) }
    }

    fn condition(&self, condition: &Condition) -> Result<Clause, IndexError> {
        match condition {
            Condition::Kind(kind) => self.token(TokenKind::Kind, kind.name()),
            Condition::State(state) => self.token(TokenKind::State, state.name()),
            Condition::Organization(name) => {
                let ids = self.named(Kind::Organization, name)?;
                self.one_of(ids.into_iter().map(|id| OrganizationId::from_bytes(id.to_be_bytes())))
            }
            Condition::Attribute { attribute: Attribute::Assignee, value, .. } => {
                let ids = self.named(Kind::User, value)?.into_iter();
                let assigned = ids.map(|id| {
                    let id = tenantd_base::id::UserId::from_bytes(id.to_be_bytes());
                    self.token(TokenKind::Attribute(Attribute::Assignee), &id.to_string())
                });
                Ok(Clause::any(assigned.collect::<Result<Vec<_>, _>>()?))
            }
            Condition::Network { first, last } => Ok(self.in_network(first, last)),
            Condition::Attribute { attribute, value, prefix: true } => {
                Ok(beginning(fields().tokens, &self.terms.token_text(TokenKind::Attribute(*attribute), value)))
            }
            Condition::Attribute { attribute, value, prefix: false } => self.token(TokenKind::Attribute(*attribute), value),
            Condition::Updated { from, until } => {
                let time =
                    |at: Timestamp| IndexTerm::from_field_u64(fields().updated, u64::try_from(at.as_millis()).unwrap_or_default());
                let from =
                    from.map_or(Bound::Included(IndexTerm::from_field_u64(fields().updated, 0)), |at| Bound::Included(time(at)));
                let until = until.map_or(Bound::Unbounded, |at| Bound::Excluded(time(at)));
                // Times are terms without a tenant prefix.
                Ok(Clause::all([Clause::Alike(Box::new(RangeQuery::new(from, until)), 0.0), self.token(TokenKind::All, "")?]))
            }
        }
    }

    /// The records of a type that a name, the beginning of a name, or an identifier refers to.
    fn named(&self, kind: Kind, name: &str) -> Result<Vec<u128>, IndexError> {
        let name = name.trim_end_matches('*');
        let mut ways = vec![self.identified(&text::identifier(name))?];
        ways.push(self.by_prefix(name, &text::tokens(name), false)?.in_name);
        let kind = self.token(TokenKind::Kind, kind.name())?;
        // Records show the names of the people they are assigned to, so anyone who sees the record may search by the name.
        self.ids(Clause::all([kind, Clause::any(ways)]))
    }
}

/// Whether a text can only be an identifier, so that typos make no sense.
fn identified_only(raw: &str) -> bool {
    let is_address = text::ip(raw).is_some() || text::mac(raw).is_some() || text::network(raw).is_some();
    raw.contains('@') || is_address || text::phone(raw).is_some()
}
