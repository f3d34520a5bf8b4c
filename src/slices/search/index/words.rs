//! Walks over the words that a tenant's documents have: those that a word with typos may have meant, and the names of its software.
//!
//! **Invariant:** a walk begins at the tenant's first term and ends with its last.

use std::{collections::BTreeMap, sync::LazyLock};

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder};
use tantivy::schema::Field;
use tantivy_fst::Automaton;

use super::{
    super::error::IndexError,
    engine_error,
    schema::{Mark, Terms, fields},
    view::{Part, View},
};

static ONE_TYPO: LazyLock<LevenshteinAutomatonBuilder> = LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, true));
static TWO_TYPOS: LazyLock<LevenshteinAutomatonBuilder> = LazyLock::new(|| LevenshteinAutomatonBuilder::new(2, true));

/// The most words that one with typos stands for.
const MOST_MEANT: usize = 50;

/// A word of the tenant's documents that is near another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    pub word: String,
    pub typos: u8,
    /// In how many documents it is, old versions included.
    pub frequency: u64,
}

/// Accepts the tenant's prefix and then what the automaton of the word accepts.
struct InTenant<'a> {
    prefix: &'a [u8],
    word: &'a DFA,
}

#[derive(Clone, Copy)]
enum State {
    Prefix(usize),
    Word(u32),
    Failed,
}

impl Automaton for InTenant<'_> {
    type State = State;

    fn start(&self) -> State {
        if self.prefix.is_empty() { State::Word(self.word.initial_state()) } else { State::Prefix(0) }
    }

    fn is_match(&self, state: &State) -> bool {
        matches!(state, State::Word(word) if matches!(self.word.distance(*word), Distance::Exact(_)))
    }

    fn can_match(&self, state: &State) -> bool {
        match state {
            State::Prefix(_) => true,
            State::Word(word) => *word != levenshtein_automata::SINK_STATE,
            State::Failed => false,
        }
    }

    fn accept(&self, state: &State, byte: u8) -> State {
        match *state {
            State::Prefix(at) if self.prefix.get(at) == Some(&byte) && at + 1 == self.prefix.len() => {
                State::Word(self.word.initial_state())
            }
            State::Prefix(at) if self.prefix.get(at) == Some(&byte) => State::Prefix(at + 1),
            State::Prefix(_) | State::Failed => State::Failed,
            State::Word(word) => State::Word(self.word.transition(word, byte)),
        }
    }
}

/// The words that differ from this one by at most so many typos, the nearest and most frequent first. The word itself is not among them.
pub fn similar(view: &View, terms: &Terms, in_fields: &[Field], word: &str, typos: u8) -> Result<Vec<Meant>, IndexError> {
    let builder = match typos {
        0 => return Ok(Vec::new()),
        1 => &ONE_TYPO,
        _ => &TWO_TYPOS,
    };
    let dfa = builder.build_dfa(word);
    let mut found: BTreeMap<String, (u8, u64)> = BTreeMap::new();
    for (segment, _) in view.parts.iter().flat_map(Part::segments) {
        for field in in_fields {
            let index = segment.inverted_index(*field).map_err(engine_error)?;
            let automaton = InTenant { prefix: terms.prefix.as_bytes(), word: &dfa };
            let mut stream = index.terms().search(automaton).into_stream()?;
            while stream.advance() {
                let Some(text) = stream.key().get(terms.prefix.len()..).and_then(|key| std::str::from_utf8(key).ok()) else {
                    continue;
                };
                let Distance::Exact(distance) = dfa.eval(text) else { continue };
                if distance > 0 {
                    let entry = found.entry(text.to_owned()).or_insert((distance, 0));
                    entry.1 += u64::from(stream.value().doc_freq);
                }
            }
        }
    }
    let mut meant: Vec<Meant> = found.into_iter().map(|(word, (typos, frequency))| Meant { word, typos, frequency }).collect();
    meant.sort_by(|left, right| left.typos.cmp(&right.typos).then(right.frequency.cmp(&left.frequency)));
    meant.truncate(MOST_MEANT);
    Ok(meant)
}

/// The names of software that any device of the tenant has or had, folded, in order.
pub fn software(view: &View, terms: &Terms) -> Result<Vec<String>, IndexError> {
    let first = terms.token_text(Mark::Software, "");
    let mut names = Vec::new();
    for (segment, _) in view.parts.iter().flat_map(Part::segments) {
        let index = segment.inverted_index(fields().tokens).map_err(engine_error)?;
        let end = successor(&first);
        let mut stream = index.terms().range().ge(first.as_bytes()).lt(end.as_bytes()).into_stream()?;
        while stream.advance() {
            let name = stream.key().get(first.len()..).and_then(|key| std::str::from_utf8(key).ok());
            names.extend(name.map(str::to_owned));
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// A text behind all that begin with this one.
pub fn successor(text: &str) -> String {
    format!("{text}{}", char::MAX)
}
