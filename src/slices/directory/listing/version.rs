//! Compares software versions as people read them: number by number, so that 10 is greater than 9.
//!
//! | rule | example |
//! |---|---|
//! | A number followed by a colon is the epoch. It is compared first; it is 0 when absent. | `1:1.0` is greater than `2.0` |
//! | Signs separate the parts. A missing part is 0. | `2.0` equals `2` |
//! | A pre-release word (such as `dev`, `alpha`, `beta`, `rc`) sorts before the number alone. | `2.0-rc1` is less than `2.0` |
//! | Any other text sorts after the number alone, including a single letter. | `1.0.2a` is greater than `1.0.2` |
//! | Numbers in a text are compared as numbers. | `2.0-rc10` is greater than `2.0-rc9` |
//!
//! **Boundary:** vendors use many schemes; this module knows only these rules.

use std::cmp::Ordering;

/// Whether a text can be compared as a version: it starts with a digit, or with `v` and a digit.
pub(super) fn is_version(text: &str) -> bool {
    without_v(text.trim()).starts_with(|letter: char| letter.is_ascii_digit())
}

pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let ((left_epoch, left), (right_epoch, right)) = (epoch(left), epoch(right));
    let epochs = compare_numbers(left_epoch, right_epoch);
    if epochs.is_ne() {
        return epochs;
    }
    let (mut left, mut right) = (parts(left), parts(right));
    loop {
        let (one, other) = (left.next(), right.next());
        if one.is_none() && other.is_none() {
            return Ordering::Equal;
        }
        let order = compare_parts(one.unwrap_or_default(), other.unwrap_or_default());
        if order.is_ne() {
            return order;
        }
    }
}

fn without_v(version: &str) -> &str {
    version.strip_prefix(['v', 'V']).unwrap_or(version)
}

/// Splits off the epoch, without leading zeros.
fn epoch(version: &str) -> (&str, &str) {
    let version = without_v(version.trim());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match version.split_once(':').filter(|(epoch, _)| is_number(epoch)) {
        Some((epoch, version)) => (epoch.trim_start_matches('0'), version),
        None => ("", version),
    }
}

/// Splits a version into parts. A text after a number is also a part: `2.0b1` has the same parts as `2.0-b1`.
fn parts(version: &str) -> impl Iterator<Item = &str> {
    let runs = version.split(|letter: char| !letter.is_alphanumeric());
    let cut = |run: &'_ str| run.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(run.len());
    runs.flat_map(move |run| <[&str; 2]>::from(run.split_at(cut(run)))).filter(|part| !part.is_empty())
}

/// Compares numbers of any length: the longer one is greater, and equal lengths compare as texts.
fn compare_numbers(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

fn compare_parts(left: &str, right: &str) -> Ordering {
    let ((left_number, left_text), (right_number, right_text)) = (split(left), split(right));
    compare_numbers(left_number, right_number).then_with(|| compare_texts(&left_text.to_lowercase(), &right_text.to_lowercase()))
}

/// Compares the texts after a number, in lower case.
fn compare_texts(left: &str, right: &str) -> Ordering {
    let reached = stage(left);
    let order = reached.cmp(&stage(right));
    if order.is_ne() || reached == Stage::Release {
        return order;
    }
    let ((left_word, left), (right_word, right)) = (split_word(left), split_word(right));
    // Pre-release words of the same stage, such as `a` and `alpha`, are equal.
    let words = if reached < Stage::Release { Ordering::Equal } else { left_word.cmp(right_word) };
    words.then_with(|| compare_parts(left, right))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Development,
    Alpha,
    Beta,
    Preview,
    Candidate,
    /// There is no text.
    Release,
    /// Any other text.
    After,
}

fn stage(text: &str) -> Stage {
    let (word, rest) = split_word(text);
    match word {
        "" => Stage::Release,
        "dev" | "snapshot" | "nightly" => Stage::Development,
        "alpha" => Stage::Alpha,
        "beta" => Stage::Beta,
        "pre" | "preview" | "milestone" => Stage::Preview,
        "rc" | "cr" => Stage::Candidate,
        // Before a number, a letter abbreviates a word: `2.0b1`. Alone, it counts releases: `1.0.2b`.
        "a" if !rest.is_empty() => Stage::Alpha,
        "b" if !rest.is_empty() => Stage::Beta,
        "m" if !rest.is_empty() => Stage::Preview,
        "c" if !rest.is_empty() => Stage::Candidate,
        _ => Stage::After,
    }
}

/// The leading letters, and the rest.
fn split_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| letter.is_ascii_digit()).unwrap_or(text.len()))
}

/// The leading number without leading zeros, and the text after it.
fn split(part: &str) -> (&str, &str) {
    let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
    let (number, text) = part.split_at(end);
    (number.trim_start_matches('0'), text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        for (left, order, right) in [
            ("131.0.6778.86", Ordering::Less, "131.0.6778.109"),
            ("9", Ordering::Less, "10"),
            ("2.0", Ordering::Equal, "2"),
            ("v2.1", Ordering::Equal, "2.1"),
            ("24.09", Ordering::Equal, "24.9"),
            ("2.0-rc1", Ordering::Less, "2.0"),
            ("2.0-rc1", Ordering::Less, "2.0-rc2"),
            ("2.0-rc1", Ordering::Greater, "1.9"),
            ("3.0.13a", Ordering::Less, "3.0.13b"),
            ("17.0.2+8", Ordering::Less, "17.0.2+9"),
            ("99999999999999999999999", Ordering::Less, "100000000000000000000000"),
            ("", Ordering::Equal, "0"),
            ("1:1.2.3", Ordering::Greater, "9.9"),
            ("1:1.2.3", Ordering::Less, "2:0.1"),
            ("0:1.2.3", Ordering::Equal, "1.2.3"),
            ("1:1.2.3", Ordering::Equal, "01:1.2.3"),
            ("1.0.2", Ordering::Less, "1.0.2a"),
            ("1.0.2a", Ordering::Less, "1.0.2zh"),
            ("1.0.2zh", Ordering::Less, "1.0.3"),
            ("9.6p1", Ordering::Greater, "9.6"),
            ("2.0a1", Ordering::Less, "2.0b1"),
            ("2.0b1", Ordering::Less, "2.0"),
            ("2.0b1", Ordering::Equal, "2.0-beta1"),
            ("2.0-alpha.1", Ordering::Less, "2.0-beta"),
            ("2.0.dev3", Ordering::Less, "2.0a1"),
            ("2.0-rc9", Ordering::Less, "2.0-rc10"),
            ("1.2.3-4ubuntu5", Ordering::Less, "1.2.3-4ubuntu10"),
        ] {
            assert_eq!(compare(left, right), order, "{left} and {right}");
            assert_eq!(compare(right, left), order.reverse(), "{right} and {left}");
        }
    }

    #[test]
    fn a_version_starts_with_a_number() {
        for version in ["1", "v1.2", "1:2", " 2023.R2", "0"] {
            assert!(is_version(version), "{version}");
        }
        for text in ["abc", "v", "", "latest", "-1", "rc1"] {
            assert!(!is_version(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_transitive(mut versions in proptest::collection::vec("([0-1]:)?[0-3]{0,2}[.-]?[0-2abr]{0,3}", 3)) {
            versions.sort_by(|left, right| compare(left, right));
            prop_assert!(compare(&versions[0], &versions[2]).is_le());
        }
    }
}
