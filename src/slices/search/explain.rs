//! Why a record was found: the texts of it that match, and pieces of them with the matches marked. Works on the record itself, so that
//! it shows what is there now. **Invariant:** text is escaped for HTML before a mark is put into it.

use std::ops::Range;

use super::{
    index::Sought,
    model::{Document, Match, MatchKind},
    text::{self, Word},
};

/// The most reasons that are given.
const MOST_MATCHES: usize = 10;
/// How much text a highlight shows, in letters, and how much of it may stand before the first match.
const SHOWN: usize = 160;
const LEAD: usize = 40;
const MOST_HIGHLIGHTS: usize = 3;

/// Where a term is in a text, as ranges of bytes.
fn places(words: &[Word], sought: &Sought) -> Vec<Range<usize>> {
    let single =
        |matches: &dyn Fn(&str) -> bool| words.iter().filter(|word| matches(&word.text)).map(|word| word.start..word.end).collect();
    match sought.kind {
        MatchKind::Exact | MatchKind::Phrase => {
            let run = sought.words.len();
            let same = |window: &&[Word]| window.iter().map(|word| &word.text).eq(&sought.words);
            let span = |window: &[Word]| Some(window.first()?.start..window.last()?.end);
            words.windows(run.max(1)).filter(same).filter_map(span).collect()
        }
        MatchKind::Prefix => single(&|word| {
            sought
                .words
                .split_last()
                .is_some_and(|(last, before)| word.starts_with(last.as_str()) || before.iter().any(|whole| whole == word))
        }),
        MatchKind::Fuzzy => single(&|word| sought.meant.iter().flatten().any(|meant| meant.word == word)),
    }
}

/// Whether a text names an identifier, in whatever spelling, or a part of it that addresses begin with.
fn named(raw: &str, identifier: &str, value: &str) -> Option<MatchKind> {
    let normal = text::identifier(value);
    let is_same = normal == identifier || text::compact(raw).is_some_and(|compact| text::compact(value) == Some(compact));
    if is_same {
        return Some(MatchKind::Exact);
    }
    let is_within =
        |(first, last): (String, String)| normal.parse().is_ok_and(|address| (first..=last).contains(&text::sortable(address)));
    let is_begun = |digits: String| text::mac(value).is_some_and(|mac| mac.starts_with(&digits));
    let is_part = text::network(raw).is_some_and(is_within) || text::mac_beginning(raw).is_some_and(is_begun);
    is_part.then_some(MatchKind::Prefix)
}

/// The reasons, and the highlights by field.
pub fn explain(document: &Document, sought: &[Sought]) -> (Vec<Match>, Vec<(&'static str, String)>) {
    let mut matches: Vec<Match> = Vec::new();
    let mut add = |found: Match| {
        if matches.len() < MOST_MATCHES && !matches.contains(&found) {
            matches.push(found);
        }
    };
    for term in sought.iter().filter(|term| term.kind != MatchKind::Phrase) {
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
        for term in sought {
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

/// A piece of the text around the first match, with all matches in it marked.
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

    fn sought(raw: &str, kind: MatchKind) -> Sought {
        Sought { raw: raw.to_owned(), words: text::tokens(raw), kind, meant: Vec::new() }
    }

    #[test]
    fn markup_in_a_text_is_escaped_and_only_ours_remains() {
        let text = "<b>Drücker</b> & \"drucker\"";
        let marked = highlight(text, places(&text::words(text), &sought("drucker", MatchKind::Exact)));
        assert_eq!(marked, "&lt;b&gt;<mark>Drücker</mark>&lt;/b&gt; &amp; &quot;<mark>drucker</mark>&quot;");
    }

    #[test]
    fn a_long_text_is_shown_around_its_first_match() {
        let text = format!("{} needle {}", "é".repeat(300), "x ".repeat(300));
        let marked = highlight(&text, places(&text::words(&text), &sought("needle", MatchKind::Exact)));
        assert!(marked.starts_with('…') && marked.ends_with('…') && marked.contains("<mark>needle</mark>"), "{marked}");
        assert!(marked.chars().count() < SHOWN + 30);
    }

    #[test]
    fn phrases_are_marked_as_one() {
        let text = "the paper tray is out of paper";
        let found = places(&text::words(text), &sought("out of paper", MatchKind::Phrase));
        assert_eq!(found.first(), Some(&(18..30)));
        assert_eq!(places(&text::words(text), &sought("tra", MatchKind::Prefix)).first(), Some(&(10..14)));
    }
}
