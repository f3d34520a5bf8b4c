//! Walks over the words in a tenant's documents: candidates for words with typos, and the names of its software.
//!
//! **Invariant:** a walk starts at the tenant's first term and ends at its last.

use std::{collections::BTreeMap, sync::LazyLock};

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder};
use tantivy::schema::Field;
use tantivy_fst::Automaton;

use super::{
    super::error::IndexError,
    engine_error,
    schema::{Terms, TokenKind, fields},
    view::{Part, View},
};

static ONE_TYPO: LazyLock<LevenshteinAutomatonBuilder> = LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, true));
static TWO_TYPOS: LazyLock<LevenshteinAutomatonBuilder> = LazyLock::new(|| LevenshteinAutomatonBuilder::new(2, true));

/// The maximum number of candidates for a word with typos.
const MAX_SIMILAR_WORDS: usize = 50;

/// A word in the tenant's documents that is similar to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimilarWord {
    pub word: String,
    pub typos: u8,
    /// The number of documents with the word, including old versions.
    pub frequency: u64,
}

/// Accepts the tenant's prefix, and then what the automaton of the word accepts.
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

/// The words that differ from this one by at most `typos` typos, the nearest and most frequent first. Does not include the
/// word itself.
pub fn similar(view: &View, terms: &Terms, in_fields: &[Field], word: &str, typos: u8) -> Result<Vec<SimilarWord>, IndexError> {
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
    let mut similar_words: Vec<SimilarWord> =
        found.into_iter().map(|(word, (typos, frequency))| SimilarWord { word, typos, frequency }).collect();
    similar_words.sort_by(|left, right| left.typos.cmp(&right.typos).then(right.frequency.cmp(&left.frequency)));
    similar_words.truncate(MAX_SIMILAR_WORDS);
    Ok(similar_words)
}

/// The names of software that any device of the tenant has or had, folded and sorted.
pub fn software(view: &View, terms: &Terms) -> Result<Vec<String>, IndexError> {
    let first = terms.token_text(TokenKind::Software, "");
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

/// A text that sorts after every text with this beginning.
pub fn successor(text: &str) -> String {
    format!("{text}{}", char::MAX)
}
