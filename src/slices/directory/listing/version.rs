//! Versions of software are compared as people read them: number by number, so that 10 is more than 9.
//!
//! The parts of a version are what stands between its signs. Each has a number in front, 0 when there is none, and a text behind it. A
//! part that is missing is 0, so 2.0 is the same as 2; and a text makes less of a number, so 2.0-rc1 comes before 2.0. **Boundary:**
//! makers number as they like; this knows none of their habits.

use std::cmp::Ordering;

pub(super) fn compare(left: &str, right: &str) -> Ordering {
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

fn parts(version: &str) -> impl Iterator<Item = &str> {
    let version = version.trim();
    let version = version.strip_prefix(['v', 'V']).unwrap_or(version);
    version.split(|letter: char| !letter.is_alphanumeric()).filter(|part| !part.is_empty())
}

fn compare_parts(left: &str, right: &str) -> Ordering {
    let ((left_number, left_text), (right_number, right_text)) = (split(left), split(right));
    // As many digits as one likes: longer is more, and among the same length the order of texts is that of numbers.
    let numbers = left_number.len().cmp(&right_number.len()).then_with(|| left_number.cmp(right_number));
    numbers.then_with(|| match (left_text.is_empty(), right_text.is_empty()) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => left_text.to_lowercase().cmp(&right_text.to_lowercase()),
    })
}

/// The number in front, without leading zeros, and the text behind it.
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
        ] {
            assert_eq!(compare(left, right), order, "{left} and {right}");
            assert_eq!(compare(right, left), order.reverse(), "{right} and {left}");
        }
    }

    proptest! {
        #[test]
        fn the_order_holds_together(mut versions in proptest::collection::vec("[0-3]{0,2}[.-]?[0-2a]{0,2}", 3)) {
            versions.sort_by(|left, right| compare(left, right));
            prop_assert!(compare(&versions[0], &versions[2]).is_le());
        }
    }
}
