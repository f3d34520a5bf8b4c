//! Letters as people read them: their base letters without case and accents, and the characters that nobody sees.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// Letters without a Unicode decomposition that people often write without their stroke.
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

/// Removes case and accents: `Müller` is `muller`, `Straße` is `strasse`.
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    if text.is_ascii() {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return folded;
    }
    for letter in text.nfkd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase) {
        // Lowercasing can add a combining mark.
        match plain(letter) {
            Some(plain) => folded.push_str(plain),
            None if is_combining_mark(letter) => {}
            None => folded.push(letter),
        }
    }
    folded
}

/// Whether a character takes no space or shows nothing.
pub fn is_unseen(letter: char) -> bool {
    let shows_nothing = matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    letter.is_whitespace() || letter.is_control() || shows_nothing
}

/// Whether nobody sees anything of a text.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_unseen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_lose_their_case_and_accents() {
        for (text, folded) in [("Müller", "muller"), ("STRASSE", "strasse"), ("Straße", "strasse"), ("Łódź", "lodz"), ("İ", "i")]
        {
            assert_eq!(fold(text), folded);
        }
    }

    #[test]
    fn a_text_of_invisible_characters_is_blank() {
        for blank in ["", " ", "\u{200b}\u{2060}", "\u{ad}", "\u{3164}", "\u{2800}", "\u{e0041}", "\u{202e}\u{feff}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for seen in ["a", "\u{200b}a", "é", "\u{1f468}\u{200d}\u{1f469}", "日", "-"] {
            assert!(!is_blank(seen), "{seen:?}");
        }
    }
}
