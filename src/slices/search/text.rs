//! Normalizes text: words without case and accents, and identifiers in one spelling. The functions are pure. Documents and
//! queries use the same functions, so they always agree.

use std::net::IpAddr;

use unicode_normalization::char::is_combining_mark;

pub use tenantd_base::letters::fold;

/// The maximum length of a word. The rest is ignored.
pub const LONGEST_WORD: usize = 64;

/// A word and its byte range in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub start: usize,
    pub end: usize,
    pub text: String,
}

/// Scripts without spaces between words, and pictographs: each character is a word.
fn stands_alone(letter: char) -> bool {
    matches!(letter,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2ffff}' | '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Splits a text into words, in order.
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut start = None;
    let mut close = |start: &mut Option<usize>, end: usize| {
        let Some(from) = start.take() else { return };
        let Some(raw) = text.get(from..end) else { return };
        let word = if raw.is_ascii() {
            fold(raw.get(..LONGEST_WORD).unwrap_or(raw))
        } else {
            // The decomposition of a letter can contain characters that are not letters.
            fold(raw).chars().filter(|letter| letter.is_alphanumeric()).take(LONGEST_WORD).collect()
        };
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

/// The words of a text, without their positions.
pub fn tokens(text: &str) -> Vec<String> {
    words(text).into_iter().map(|word| word.text).collect()
}

/// A normalized name for whole-name comparison: its words, separated by single spaces.
pub fn whole(text: &str) -> String {
    tokens(text).join(" ")
}

/// Parses a hardware address in any spelling into twelve digits: `00:1A:2B:3C:4D:5E`, `00-1a-…`, `001a.2b3c.4d5e`,
/// `001a2b-3c4d5e`, `001A2B3C4D5E`.
pub fn mac(text: &str) -> Option<String> {
    mac_digits(text).filter(|digits| digits.len() == MAC_DIGITS)
}

/// Parses the beginning of a hardware address with at least two groups: `ac:cc:8e` becomes `accc8e`.
pub fn mac_beginning(text: &str) -> Option<String> {
    mac_digits(text).filter(|digits| digits.len() < MAC_DIGITS && text.len() > digits.len())
}

const MAC_DIGITS: usize = 12;

/// The digits of a hardware address or of its beginning. All groups have the same length and the same separator.
fn mac_digits(text: &str) -> Option<String> {
    const SIGNS: [char; 3] = [':', '-', '.'];
    let groups: Vec<&str> = text.split(SIGNS).collect();
    let mut signs = text.chars().filter(|letter| SIGNS.contains(letter));
    let first = signs.next();
    let is_uniform = signs.all(|sign| Some(sign) == first);
    let length = groups.first().map_or(0, |group| group.len());
    let is_shaped = matches!(length, 2 | 4 | 6 | MAC_DIGITS) && groups.iter().all(|group| group.len() == length);
    let digits: String = groups.concat().to_ascii_lowercase();
    let is_hex = digits.len() <= MAC_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_uniform && is_shaped && is_hex).then_some(digits)
}

/// An address in a form that sorts like the address itself.
pub fn sortable(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("4{:08x}", u32::from(address)),
        IpAddr::V6(address) => format!("6{:032x}", u128::from(address)),
    }
}

/// The first and the last address of a network in [sortable] form. Accepts `10.3.0.0/16`, `2001:db8::/32`, or the beginning
/// of an IPv4 address such as `10.3` or `10.3.`.
pub fn network(text: &str) -> Option<(String, String)> {
    let Some((address, length)) = text.split_once('/') else { return address_beginning(text) };
    let address: IpAddr = address.parse().ok()?;
    let length: u32 = length.parse().ok().filter(|_| length.bytes().all(|byte| byte.is_ascii_digit()))?;
    match address {
        IpAddr::V4(address) => {
            let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
            let first = u32::from(address) & !hosts;
            (length <= 32).then(|| (sortable(IpAddr::V4(first.into())), sortable(IpAddr::V4((first | hosts).into()))))
        }
        IpAddr::V6(address) => {
            let hosts = u128::MAX.checked_shr(length).unwrap_or(0);
            let first = u128::from(address) & !hosts;
            (length <= 128).then(|| (format!("6{first:032x}"), format!("6{:032x}", first | hosts)))
        }
    }
}

fn address_beginning(text: &str) -> Option<(String, String)> {
    let bare = text.strip_suffix('.').unwrap_or(text);
    let octets: Vec<u8> = bare.split('.').map(|octet| octet.parse().ok()).collect::<Option<_>>()?;
    // A single number counts as an address only if a dot follows it.
    let fewest = if text.ends_with('.') { 1 } else { 2 };
    if !(fewest..=3).contains(&octets.len()) {
        return None;
    }
    let fill = |rest: u8| {
        let mut whole = [rest; 4];
        whole.iter_mut().zip(&octets).for_each(|(place, octet)| *place = *octet);
        sortable(IpAddr::from(whole))
    };
    Some((fill(0), fill(255)))
}

/// An identifier without its separators, if it has enough letters and digits.
pub fn compact(text: &str) -> Option<String> {
    let compact: String = fold(text).chars().filter(|letter| letter.is_alphanumeric()).collect();
    (compact.chars().count() >= SHORTEST_COMPACT).then_some(compact)
}

/// A serial number without its separators. Keeps a `*` at the end.
pub fn serial(text: &str) -> String {
    fold(text).chars().filter(|letter| letter.is_alphanumeric() || *letter == '*').collect()
}

const SHORTEST_COMPACT: usize = 5;

/// The minimum and the maximum number of digits in a phone number.
const SHORTEST_PHONE: usize = 7;
const LONGEST_PHONE: usize = 15;

/// A phone number in the forms in which it is compared.
///
/// `044 123 45 67` is the national form of `+41 44 123 45 67`. So numbers are compared without leading zeros, and a number in
/// international form, which begins with `+` or `00`, is also compared without its country code. Two international numbers are
/// equal only if their country codes are. A number with fewer than seven digits is not a phone number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phone {
    pub digits: String,
    /// The digits after the country code, if the number is in international form.
    pub national: Option<String>,
}

/// Whether a piece of text can be part of a phone number. Dates and addresses are not.
pub fn is_phone_part(text: &str) -> bool {
    let bare = text.trim_matches(['(', ')', '.']);
    let host = bare.split('/').next().unwrap_or(bare);
    let is_mac = bare.len() > MAC_DIGITS && mac(bare).is_some();
    text.chars().any(|letter| letter.is_ascii_digit())
        && text.chars().all(is_phone_sign)
        && !(is_date(bare) || is_mac || ip(host).is_some())
}

fn is_phone_sign(letter: char) -> bool {
    letter.is_ascii_digit() || matches!(letter, '+' | '-' | '/' | '(' | ')' | '.')
}

/// Whether a text is a day such as `2026-11-18`, `18.11.2026` or `11/18/2026`.
fn is_date(text: &str) -> bool {
    let is_split_by = |sign: char| {
        let parts: Vec<&str> = text.split(sign).collect();
        let [first, second, third] = parts.as_slice() else { return false };
        let is_year = |part: &str| part.len() == 4 && (part.starts_with("19") || part.starts_with("20"));
        let is_day = |part: &str| part.len() <= 2 && part.parse().is_ok_and(|day: u8| (1..=31).contains(&day));
        is_day(second) && (is_year(first) && is_day(third) || is_day(first) && is_year(third))
    };
    ['-', '.', '/'].into_iter().any(is_split_by)
}

/// The length of the country code at the beginning of an international number. No code is the beginning of another one.
fn country_code_length(digits: &str) -> usize {
    match digits.as_bytes() {
        [b'1' | b'7', ..] => 1,
        [b'2', b'0' | b'7', ..]
        | [b'3', b'0'..=b'4' | b'6' | b'9', ..]
        | [b'4', b'0' | b'1' | b'3'..=b'9', ..]
        | [b'5', b'1'..=b'8', ..]
        | [b'6', b'0'..=b'6', ..]
        | [b'8', b'1' | b'2' | b'4' | b'6', ..]
        | [b'9', b'0'..=b'5' | b'8', ..] => 2,
        _ => 3,
    }
}

/// Reads a text that consists of a phone number only.
pub fn phone(text: &str) -> Option<Phone> {
    if !text.split_whitespace().all(is_phone_part) {
        return None;
    }
    // `+41 (0)44 123 45 67` contains the zero of the national form.
    let text = text.replace("(0)", "");
    let start = text.trim_start_matches(['(', ' ']);
    let is_international = start.starts_with('+') || start.starts_with("00");
    let all: String = text.chars().filter(char::is_ascii_digit).collect();
    let digits = all.trim_start_matches('0');
    // One leading zero counts as a digit of the number.
    if all.len() < SHORTEST_PHONE || !(SHORTEST_PHONE - 1..=LONGEST_PHONE).contains(&digits.len()) {
        return None;
    }
    let national = digits.get(country_code_length(digits)..).map(|rest| rest.trim_start_matches('0').to_owned());
    let national = national.filter(|rest| is_international && rest.len() >= SHORTEST_PHONE);
    Some(Phone { digits: digits.to_owned(), national })
}

/// Possible phone numbers in a text: groups of digits and separators with only spaces between them.
pub fn phones(text: &str) -> Vec<Phone> {
    let mut found = Vec::new();
    for stretch in text.split(|letter: char| !(letter.is_alphanumeric() || letter.is_whitespace() || is_phone_sign(letter))) {
        let mut parts: Vec<&str> = Vec::new();
        // The empty part ends the last number.
        for part in stretch.split_whitespace().chain([""]) {
            let is_part = is_phone_part(part);
            if !is_part || part.starts_with('+') {
                found.extend(phone_of(&parts));
                parts.clear();
            }
            if is_part {
                parts.push(part);
            }
        }
    }
    found
}

/// The number that the parts are. In `room 12 044 123 45 67`, another number comes before it.
fn phone_of(parts: &[&str]) -> Vec<Phone> {
    let begins = |part: &&str| part.starts_with(['+', '0', '(']);
    let start = parts.iter().position(begins).filter(|start| *start > 0);
    let marked = start.and_then(|start| parts.get(start..)).and_then(|parts| phone(&parts.join(" ")));
    let whole = if parts.is_empty() { None } else { phone(&parts.join(" ")) };
    whole.into_iter().chain(marked).collect()
}

pub fn ip(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string())
}

/// The canonical spelling under which an identifier is stored and looked up.
pub fn identifier(text: &str) -> String {
    let text = text.trim();
    ip(text).or_else(|| mac(text)).unwrap_or_else(|| fold(text).split_whitespace().collect())
}

/// How many typos a word may have: none in short words, and none in words with digits, because those are numbers or product names.
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
    fn words_lose_case_and_accents() {
        assert_eq!(tokens("Drücker: ÉCOLE défaut, e\u{301}t\u{e9} #42"), ["drucker", "ecole", "defaut", "ete", "42"]);
        assert_eq!(tokens("Straße Łódź Ærø"), ["strasse", "lodz", "aero"]);
        assert_eq!(tokens("  ,;  "), Vec::<String>::new());
    }

    #[test]
    fn words_have_their_position() {
        let text = "Ä b🔥c";
        let spans: Vec<&str> = words(text).iter().map(|word| &text[word.start..word.end]).collect();
        assert_eq!(spans, ["Ä", "b", "🔥", "c"]);
    }

    #[test]
    fn characters_of_scripts_without_spaces_are_words() {
        assert_eq!(tokens("東京 Büro"), ["東", "京", "buro"]);
        assert_eq!(tokens("שלום עולם"), ["שלום", "עולם"]);
    }

    #[test]
    fn hardware_addresses_are_normalized() {
        for spelling in ["00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e", "001A2B3C4D5E"] {
            assert_eq!(identifier(spelling), "001a2b3c4d5e", "{spelling}");
        }
        for spelling in ["AC:CC:8E:3D:E7:27", "accc-8e3d-e727", "accc8e-3de727", "ac.cc.8e.3d.e7.27"] {
            assert_eq!(identifier(spelling), "accc8e3de727", "{spelling}");
        }
        for other in ["00:1A:2B:3C:4D", "00:1A-2B:3C:4D:5E", "zz:1a:2b:3c:4d:5e", "001a.2b3c.4d5", ""] {
            assert_eq!(mac(other), None, "{other}");
        }
        assert_eq!(mac_beginning("AC:CC:8e").as_deref(), Some("accc8e"));
        assert_eq!((mac_beginning("accc8e"), mac_beginning("org:ac")), (None, None));
    }

    #[test]
    fn a_network_has_a_first_and_a_last_address() {
        let between = |network: &str, address: &str| {
            let (first, last) = super::network(network).unwrap_or_else(|| panic!("{network}"));
            (first..=last).contains(&sortable(address.parse().unwrap()))
        };
        for (network, inside, outside) in [
            ("10.99.88.0/24", "10.99.88.255", "10.99.89.0"),
            ("10.99.88.17/28", "10.99.88.31", "10.99.88.15"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.8"),
            ("10.3", "10.3.255.0", "10.30.0.0"),
            ("10.3.", "10.3.0.0", "10.31.0.0"),
            ("10.", "10.255.255.255", "100.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "ffff::1", "10.0.0.1"),
        ] {
            assert!(between(network, inside), "{network} contains {inside}");
            assert!(!between(network, outside), "{network} does not contain {outside}");
        }
        for other in ["10", "10.3.1.1", "10.300", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "a.b", ""] {
            assert_eq!(super::network(other), None, "{other}");
        }
    }

    #[test]
    fn phone_numbers_are_normalized() {
        for spelling in ["+49 30 123-4567", "+49 (30) 1234567", "+49.30.123.4567", "49301234567"] {
            let found = phones(&format!("Call {spelling}, please"));
            assert_eq!(found.iter().map(|one| one.digits.as_str()).collect::<Vec<_>>(), ["49301234567"], "{spelling}");
        }
        let forms = |text: &str| phone(text).map(|one| (one.digits, one.national));
        let form = |digits: &str, national: Option<&str>| Some((digits.to_owned(), national.map(str::to_owned)));
        for national in ["044 123 45 67", "0441234567", "(044) 123-45-67", "44 123 45 67", "044.123.45.67"] {
            assert_eq!(forms(national), form("441234567", None), "{national}");
        }
        for international in ["+41 44 123 45 67", "+41441234567", "0041 44 123 45 67", "+41 (0)44 123 45 67", "(+41) 44 1234567"] {
            assert_eq!(forms(international), form("41441234567", Some("441234567")), "{international}");
        }
        assert_eq!(forms("+1 212 555 0123"), form("12125550123", Some("2125550123")));
        assert_eq!(forms("+353 1 234 5678"), form("35312345678", Some("12345678")));
        let marked = phones("Room 12 044 123 45 67").pop().map(|one| one.digits);
        assert_eq!(marked.as_deref(), Some("441234567"));
        assert_eq!(phones("+41 44 123 45 67 +41 44 123 45 68").len(), 2);
    }

    #[test]
    fn dates_addresses_and_identifiers_are_not_phone_numbers() {
        for text in [
            "T-1042, 2 of 17, 12345",
            "due 2026-11-18 or 18.11.2026 or 11/18/2026.",
            "2026-11-18 10:30:00",
            "2026-11-18T10:30:00Z",
            "192.168.100.200 and 192.168.100.0/24",
            "00-11-22-33-44-55",
            "INC0012345678, SN-0012345678",
            "000000000",
            "1234567890123456",
            "",
        ] {
            assert_eq!(phones(text), Vec::new(), "{text}");
        }
        for text in ["2026-11-18", "192.168.100.200", "2026-11-18 12 34 567", ""] {
            assert_eq!(phone(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_normalized() {
        assert_eq!(identifier("2001:DB8:0:0::1"), "2001:db8::1");
        assert_eq!(identifier("[2001:db8::1]"), "2001:db8::1");
        assert_eq!(identifier("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(identifier(" Ada@Example.COM "), "ada@example.com");
    }

    #[test]
    fn short_words_and_numbers_allow_no_typos() {
        let allowed = |word| typos_allowed(word);
        assert_eq!(
            [allowed("disk"), allowed("mouse"), allowed("keyboard"), allowed("workstation"), allowed("srv00123")],
            [0, 1, 1, 2, 0]
        );
    }
}
