//! Text as the index and the queries see it: words without case and accents, and identifiers in one spelling. Pure functions; the same
//! ones make documents and read queries, so that both agree.

use std::net::IpAddr;

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// The most letters of a word that count.
pub const LONGEST_WORD: usize = 64;

/// A word, and where it stands in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub start: usize,
    pub end: usize,
    pub text: String,
}

/// Letters that have no decomposition but are commonly written without their stroke.
fn plain(letter: char) -> Option<&'static str> {
    Some(match letter {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ł' => "l",
        'þ' => "th",
        'ı' => "i",
        _ => return None,
    })
}

/// Without case and accents.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    if text.is_ascii() {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return folded;
    }
    for letter in text.nfkd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase) {
        // The lower case of a letter can bring a mark of its own.
        match plain(letter) {
            Some(plain) => folded.push_str(plain),
            None if is_combining_mark(letter) => {}
            None => folded.push(letter),
        }
    }
    folded
}

/// Scripts without spaces between words, and pictures: each sign is a word of its own.
fn stands_alone(letter: char) -> bool {
    matches!(letter,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2ffff}' | '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// The words of a text, in order.
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut start = None;
    let mut close = |start: &mut Option<usize>, end: usize| {
        let Some(from) = start.take() else { return };
        let Some(raw) = text.get(from..end) else { return };
        let mut word = fold(raw);
        if raw.is_ascii() {
            word.truncate(LONGEST_WORD);
        } else {
            // What a letter is made of need not be letters.
            word = word.chars().filter(|letter| letter.is_alphanumeric()).take(LONGEST_WORD).collect();
        }
        if !word.is_empty() {
            found.push(Word { start: from, end, text: word });
        }
    };
    let mut alone = Vec::new();
    for (at, letter) in text.char_indices() {
        if stands_alone(letter) {
            close(&mut start, at);
            alone.push(Word { start: at, end: at + letter.len_utf8(), text: fold(letter.encode_utf8(&mut [0; 4])) });
        } else if letter.is_alphanumeric() || (start.is_some() && is_combining_mark(letter)) {
            start.get_or_insert(at);
        } else {
            close(&mut start, at);
        }
    }
    close(&mut start, text.len());
    if !alone.is_empty() {
        found.extend(alone.into_iter().filter(|word| !word.text.is_empty()));
        found.sort_by_key(|word| word.start);
    }
    found
}

/// The texts of the words alone.
pub fn tokens(text: &str) -> Vec<String> {
    words(text).into_iter().map(|word| word.text).collect()
}

/// A name as whole names are compared: its words with one space between them.
pub fn whole(text: &str) -> String {
    tokens(text).join(" ")
}

/// A hardware address in any spelling as twelve digits: `00:1A:2B:3C:4D:5E`, `00-1a-…`, `001a.2b3c.4d5e`, `001A2B3C4D5E`.
pub fn mac(text: &str) -> Option<String> {
    let groups: Vec<&str> = text.split([':', '-', '.']).collect();
    let mut separators = text.chars().filter(|letter| matches!(letter, ':' | '-' | '.'));
    let first = separators.next();
    let uniform = separators.all(|separator| Some(separator) == first);
    let shaped = match (groups.len(), first) {
        (6, Some(':' | '-')) => groups.iter().all(|group| group.len() == 2),
        (3, Some('.')) => groups.iter().all(|group| group.len() == 4),
        (1, None) => text.len() == 12,
        _ => false,
    };
    let digits: String = groups.concat().to_ascii_lowercase();
    (uniform && shaped && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digits)
}

pub fn ip(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string())
}

/// The one spelling under which an identifier is kept and looked up.
pub fn identifier(text: &str) -> String {
    let text = text.trim();
    ip(text).or_else(|| mac(text)).unwrap_or_else(|| fold(text).split_whitespace().collect())
}

/// How many typos a word may have: none in short ones, and none where there are digits, for those are numbers and names of things.
pub fn typos_allowed(word: &str) -> u8 {
    if word.chars().any(|letter| letter.is_numeric() || stands_alone(letter)) {
        return 0;
    }
    match word.chars().count() {
        0..=4 => 0,
        5..=8 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_neither_case_nor_accents() {
        assert_eq!(tokens("Drücker: ÉCOLE défaut, e\u{301}t\u{e9} #42"), ["drucker", "ecole", "defaut", "ete", "42"]);
        assert_eq!(tokens("Straße Łódź Ærø"), ["strasse", "lodz", "aero"]);
        assert_eq!(tokens("  ,;  "), Vec::<String>::new());
    }

    #[test]
    fn words_know_where_they_stand() {
        let text = "Ä b🔥c";
        let spans: Vec<&str> = words(text).iter().map(|word| &text[word.start..word.end]).collect();
        assert_eq!(spans, ["Ä", "b", "🔥", "c"]);
    }

    #[test]
    fn signs_of_scripts_without_spaces_are_words() {
        assert_eq!(tokens("東京 Büro"), ["東", "京", "buro"]);
        assert_eq!(tokens("שלום עולם"), ["שלום", "עולם"]);
    }

    #[test]
    fn hardware_addresses_have_one_form() {
        for spelling in ["00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e", "001A2B3C4D5E"] {
            assert_eq!(identifier(spelling), "001a2b3c4d5e", "{spelling}");
        }
        for other in ["00:1A:2B:3C:4D", "00:1A-2B:3C:4D:5E", "zz:1a:2b:3c:4d:5e", "001a.2b3c.4d5", ""] {
            assert_eq!(mac(other), None, "{other}");
        }
    }

    #[test]
    fn addresses_have_one_form() {
        assert_eq!(identifier("2001:DB8:0:0::1"), "2001:db8::1");
        assert_eq!(identifier("[2001:db8::1]"), "2001:db8::1");
        assert_eq!(identifier("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(identifier(" Ada@Example.COM "), "ada@example.com");
    }

    #[test]
    fn short_words_and_numbers_have_no_typos() {
        let allowed = |word| typos_allowed(word);
        assert_eq!(
            [allowed("disk"), allowed("mouse"), allowed("keyboard"), allowed("workstation"), allowed("srv00123")],
            [0, 1, 1, 2, 0]
        );
    }
}
