//! Splits a password into the parts that an attacker guesses: common words, words of the context, sequences, repetitions and years. Of
//! all ways to split it, the cheapest counts.
//!
//! The work is bounded: a password has at most 256 characters, and a word at most 24.

use super::word_list;

/// Which text a word of the context comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContextSource {
    Product,
    Tenant,
    PersonName,
    PersonEmail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Context(ContextSource),
    CommonWord,
    Sequence,
    Repetition,
    Year,
    Separator,
    OtherCharacter,
}

impl Part {
    /// What the part adds to the strength of the password. An unpredictable character adds one point.
    fn points(self) -> u32 {
        match self {
            Self::Separator => 0,
            Self::Context(_) | Self::Sequence | Self::Repetition | Self::Year | Self::OtherCharacter => 1,
            Self::CommonWord => 3,
        }
    }
}

/// Rows and columns of keyboards, each read as a ring in both directions.
const KEYBOARD: [&str; 12] = [
    "1234567890",
    "!@#$%^&*()",
    "qwertyuiop",
    "asdfghjkl",
    "zxcvbnm",
    "qwertzuiop",
    "yxcvbnm",
    "azertyuiop",
    "qsdfghjklm",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p",
    "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0",
];
const SAME: u32 = 1;
const UP: u32 = 1 << 1;
const DOWN: u32 = 1 << 2;
const FIRST_ROW: u32 = 3;
/// The shortest sequence: of letters or digits in order, and of keys next to each other.
const SHORTEST_RUN: usize = 3;
const SHORTEST_KEYS: usize = 4;
const SHORTEST_REPETITION: usize = 3;

/// How a character follows another: one bit for each kind of sequence.
fn step(from: char, to: char) -> u32 {
    let (one, next) = (u32::from(from), u32::from(to));
    let mut kinds = 0;
    if one == next {
        kinds |= SAME;
    }
    if from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric() {
        kinds |= if one + 1 == next { UP } else { 0 } | if next + 1 == one { DOWN } else { 0 };
    }
    for (row, keys) in (FIRST_ROW..).step_by(2).zip(KEYBOARD) {
        if let (Some(at), Some(then)) = (keys.find(from), keys.find(to)) {
            let is_next = |before: usize, after: usize| (before + 1) % keys.len() == after;
            kinds |= u32::from(is_next(at, then)) << row | u32::from(is_next(then, at)) << (row + 1);
        }
    }
    kinds
}

/// The password in the spellings that are looked up: lowercase, and with digits and signs read as the letters that they resemble.
struct Spellings([Vec<char>; 3]);

impl Spellings {
    fn of(password: &str) -> Self {
        let lower: Vec<char> = password.chars().map(|letter| letter.to_lowercase().next().unwrap_or(letter)).collect();
        let read = |one: char| move |letter: &char| letter_like(*letter, one);
        let (with_i, with_l) = (lower.iter().map(read('i')).collect(), lower.iter().map(read('l')).collect());
        Self([lower, with_i, with_l])
    }

    fn lower(&self) -> &[char] {
        &self.0[0]
    }

    /// Whether one of the spellings of a stretch fulfils a condition.
    fn any(&self, from: usize, to: usize, is_known: impl Fn(&[char]) -> bool) -> bool {
        let Some(lower) = self.lower().get(from..to) else { return false };
        let others = self.0.iter().skip(1).filter_map(|spelling| spelling.get(from..to));
        is_known(lower) || others.filter(|spelling| *spelling != lower).any(is_known)
    }
}

fn letter_like(letter: char, one: char) -> char {
    match letter {
        '@' | '4' => 'a',
        '3' => 'e',
        '0' => 'o',
        '1' | '!' => one,
        '$' | '5' => 's',
        '7' => 't',
        _ => letter,
    }
}

fn is_year(stretch: &[char]) -> bool {
    matches!(stretch, ['1', '9', rest @ ..] | ['2', '0', rest @ ..] if rest.len() == 2 && rest.iter().all(char::is_ascii_digit))
}

/// The points of the cheapest way to split a password, and its parts.
pub(super) fn split(password: &str, context: &[(Vec<char>, ContextSource)]) -> (u32, Vec<Part>) {
    let spellings = Spellings::of(password);
    let length = spellings.lower().len();
    let repeated = repetitions(spellings.lower());
    let steps: Vec<u32> =
        spellings.lower().windows(2).map(|pair| if let [one, next] = pair { step(*one, *next) } else { 0 }).collect();
    // For each end: the points up to there, where the last part begins, and what it is.
    let mut best: Vec<(u32, usize, Part)> = vec![(0, 0, Part::Separator)];
    for end in 1..=length {
        let last = spellings.lower().get(end - 1).copied().unwrap_or_default();
        let is_separator = last.is_whitespace() || matches!(last, '-' | '_' | '.');
        let mut cheapest = (u32::MAX, 0, Part::OtherCharacter);
        let mut offer = |begin: usize, part: Part| {
            let points = best.get(begin).map_or(u32::MAX, |(points, ..)| points.saturating_add(part.points()));
            if points < cheapest.0 {
                cheapest = (points, begin, part);
            }
        };
        offer(end - 1, if is_separator { Part::Separator } else { Part::OtherCharacter });
        for (word, source) in context {
            if let Some(begin) = end.checked_sub(word.len()).filter(|begin| spellings.any(*begin, end, |found| found == word)) {
                offer(begin, Part::Context(*source));
            }
        }
        for size in word_list::SHORTEST..=word_list::LONGEST.min(end) {
            let is_common = |found: &[char]| word_list::holds(&found.iter().collect::<String>());
            if spellings.any(end - size, end, is_common) {
                offer(end - size, Part::CommonWord);
            }
        }
        if let Some(begin) = end.checked_sub(4).filter(|begin| spellings.lower().get(*begin..end).is_some_and(is_year)) {
            offer(begin, Part::Year);
        }
        let mut kinds = u32::MAX;
        for size in 2..=end {
            kinds &= steps.get(end - size).copied().unwrap_or_default();
            let is_run = kinds & (SAME | UP | DOWN) != 0 && size >= SHORTEST_RUN;
            if is_run || (kinds != 0 && size >= SHORTEST_KEYS) {
                offer(end - size, Part::Sequence);
            }
            if kinds == 0 {
                break;
            }
        }
        for size in SHORTEST_REPETITION..=repeated.get(end).copied().unwrap_or_default() {
            offer(end - size, Part::Repetition);
        }
        best.push(cheapest);
    }
    let (mut parts, mut end) = (Vec::new(), length);
    while let Some((_, begin, part)) = best.get(end).filter(|_| end > 0) {
        parts.push(*part);
        end = *begin;
    }
    parts.reverse();
    (best.last().map_or(0, |(points, ..)| *points), parts)
}

/// For each end, the length of the longest stretch up to there that also ends somewhere before.
fn repetitions(text: &[char]) -> Vec<usize> {
    let (mut longest, mut before) = (vec![0], vec![0; text.len() + 1]);
    for (end, last) in text.iter().enumerate() {
        let mut row = vec![0; text.len() + 1];
        for (at, _) in text.iter().enumerate().take(end).filter(|(_, letter)| *letter == last) {
            if let (Some(now), Some(earlier)) = (row.get_mut(at + 1), before.get(at)) {
                *now = earlier + 1;
            }
        }
        longest.push(row.iter().copied().max().unwrap_or_default());
        before = row;
    }
    longest
}
