//! Explains why a record was found: the texts that match, and excerpts of them with the matches marked. Reads the record
//! itself, so the explanation shows its current state. **Invariant:** text is escaped for HTML before a mark is inserted.

use std::ops::Range;

use super::{
    index::SearchTerm,
    model::{Document, Match, MatchKind},
    text::{self, Word},
};

/// The maximum number of reasons for a hit.
const MOST_MATCHES: usize = 10;
/// The length of a highlight in characters, and how many of them may come before the first match.
const SHOWN: usize = 160;
const LEAD: usize = 40;
const MOST_HIGHLIGHTS: usize = 3;

/// The byte ranges in which a term occurs in a text.
fn places(words: &[Word], term: &SearchTerm) -> Vec<Range<usize>> {
    let single =
        |matches: &dyn Fn(&str) -> bool| words.iter().filter(|word| matches(&word.text)).map(|word| word.start..word.end).collect();
    match term.kind {
        MatchKind::Exact | MatchKind::Phrase => {
            let run = term.words.len();
            let same = |window: &&[Word]| window.iter().map(|word| &word.text).eq(&term.words);
            let span = |window: &[Word]| Some(window.first()?.start..window.last()?.end);
            words.windows(run.max(1)).filter(same).filter_map(span).collect()
        }
        MatchKind::Prefix => single(&|word| {
            term.words
                .split_last()
                .is_some_and(|(last, before)| word.starts_with(last.as_str()) || before.iter().any(|whole| whole == word))
        }),
        MatchKind::Fuzzy => single(&|word| term.candidates.iter().flatten().any(|candidate| candidate.word == word)),
    }
}

/// How an identifier in the query matches a value: exactly, in any spelling, or as the beginning of an address.
fn named(raw: &str, identifier: &str, value: &str) -> Option<MatchKind> {
    let normal = text::identifier(value);
    let is_same = normal == identifier || text::compact(raw).is_some_and(|compact| text::compact(value) == Some(compact));
    if is_same {
        return Some(MatchKind::Exact);
    }
    let is_within =
        |(first, last): (String, String)| normal.parse().is_ok_and(|address| (first..=last).contains(&text::sortable(address)));
    let begins_mac = |digits: String| text::mac(value).is_some_and(|mac| mac.starts_with(&digits));
    let is_part = text::network(raw).is_some_and(is_within) || text::mac_beginning(raw).is_some_and(begins_mac);
    is_part.then_some(MatchKind::Prefix)
}

/// Returns the reasons, and the highlights by field.
pub fn explain(document: &Document, terms: &[SearchTerm]) -> (Vec<Match>, Vec<(&'static str, String)>) {
    let mut matches: Vec<Match> = Vec::new();
    let mut add = |found: Match| {
        if matches.len() < MOST_MATCHES && !matches.contains(&found) {
            matches.push(found);
        }
    };
    for term in terms.iter().filter(|term| term.kind != MatchKind::Phrase) {
        let identifier = text::identifier(&term.raw);
        if identifier == document.shown_id {
            add(Match { field: "id", value: document.shown_id.clone(), kind: MatchKind::Exact });
        }
        for (field, value) in &document.identifiers {
            if let Some(kind) = named(&term.raw, &identifier, value) {
                add(Match { field, value: value.clone(), kind });
            }
        }
    }
    let mut highlights = Vec::new();
    let name = [("name", &document.name)];
    let others = document.texts.iter().chain(&document.identifiers).map(|(field, value)| (*field, value));
    for (field, value) in name.into_iter().chain(others) {
        let words = text::words(value);
        let mut marked = Vec::new();
        for term in terms {
            let found = places(&words, term);
            if let Some(value) = found.first().and_then(|place| value.get(place.clone())) {
                add(Match { field, value: value.to_owned(), kind: term.kind });
            }
            marked.extend(found);
        }
        let is_new = highlights.iter().all(|(shown, _)| *shown != field);
        if !marked.is_empty() && is_new && highlights.len() < MOST_HIGHLIGHTS {
            highlights.push((field, highlight(value, marked)));
        }
    }
    (matches, highlights)
}

/// An excerpt around the first match, with every match in it marked.
fn highlight(text: &str, mut places: Vec<Range<usize>>) -> String {
    places.sort_by_key(|place| (place.start, place.end));
    let first = places.first().map_or(0, |place| place.start);
    let before = text.get(..first).unwrap_or_default();
    let from = before.char_indices().rev().nth(LEAD).map_or(0, |(at, _)| at);
    let rest = text.get(from..).unwrap_or_default();
    let until = rest.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| from + at);
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    let mut at = from;
    for place in places {
        if place.start < at || place.end > until {
            continue;
        }
        push_escaped(&mut shown, text.get(at..place.start).unwrap_or_default());
        shown.push_str("<mark>");
        push_escaped(&mut shown, text.get(place.clone()).unwrap_or_default());
        shown.push_str("</mark>");
        at = place.end;
    }
    push_escaped(&mut shown, text.get(at..until).unwrap_or_default());
    if until < text.len() {
        shown.push('…');
    }
    shown
}

fn push_escaped(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(raw: &str, kind: MatchKind) -> SearchTerm {
        SearchTerm { raw: raw.to_owned(), words: text::tokens(raw), kind, candidates: Vec::new() }
    }

    #[test]
    fn markup_in_text_is_escaped() {
        let text = "<b>Drücker</b> & \"drucker\"";
        let marked = highlight(text, places(&text::words(text), &term("drucker", MatchKind::Exact)));
        assert_eq!(marked, "&lt;b&gt;<mark>Drücker</mark>&lt;/b&gt; &amp; &quot;<mark>drucker</mark>&quot;");
    }

    #[test]
    fn a_long_text_is_cut_around_its_first_match() {
        let text = format!("{} needle {}", "é".repeat(300), "x ".repeat(300));
        let marked = highlight(&text, places(&text::words(&text), &term("needle", MatchKind::Exact)));
        assert!(marked.starts_with('…') && marked.ends_with('…') && marked.contains("<mark>needle</mark>"), "{marked}");
        assert!(marked.chars().count() < SHOWN + 30);
    }

    #[test]
    fn a_phrase_gets_one_mark() {
        let text = "the paper tray is out of paper";
        let found = places(&text::words(text), &term("out of paper", MatchKind::Phrase));
        assert_eq!(found.first(), Some(&(18..30)));
        assert_eq!(places(&text::words(text), &term("tra", MatchKind::Prefix)).first(), Some(&(10..14)));
    }
}
