//! Closed lists of words. Each is an enum with names. The position of a word may be stored, so new words are only added at the end.

/// Declares such a list. Serde writes a word by its name. With `as variants` it writes the name of the variant, such as `InRepair`,
/// because files of exported tenants have some words in that form. With `#[derive(Default)]` one word has `#[default]` before it.
#[macro_export]
macro_rules! vocabulary {
    (@ $(#[$meta:meta])* $type:ident: $($(#[$word_meta:meta])* $variant:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub enum $type { $($(#[$word_meta])* $variant),* }

        impl $type {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.name() == name)
            }
        }
    };
    ($(#[$meta:meta])* $type:ident as variants: $($words:tt)*) => {
        $crate::vocabulary! { @ $(#[$meta])* $type: $($words)* }
    };
    ($(#[$meta:meta])* $type:ident: $($(#[$word_meta:meta])* $variant:ident $name:literal,)*) => {
        $crate::vocabulary! { @ $(#[$meta])* $type: $($(#[$word_meta])* #[serde(rename = $name)] $variant $name,)* }
    };
}

pub use crate::vocabulary;

/// A longer text is not a misspelled name.
const MAX_NAME: usize = 128;

/// The entry of `known` that was probably meant: either a typing error away, or the only entry that extends or shortens `given`.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if given.len() > MAX_NAME {
        return None;
    }
    let given = given.to_lowercase();
    let known: Vec<&str> = known.into_iter().collect();
    let distance = |name: &str| strsim::osa_distance(&name.to_lowercase(), &given);
    let closest = known.iter().map(|name| (distance(name), *name)).min();
    // One error is allowed in up to seven letters, and two in up to eleven. A short word is close to too many others.
    let is_close = |(distance, name): &(usize, &str)| {
        let letters = given.chars().count().min(name.chars().count());
        *distance == 0 || (letters > 2 && *distance <= (letters / 4).max(1))
    };
    if let Some((_, name)) = closest.filter(is_close) {
        return Some(name.to_owned());
    }
    let is_part = |name: &&&str| {
        let name = name.to_lowercase();
        given.len().min(name.len()) > 2 && (name.starts_with(&given) || given.starts_with(&name))
    };
    let mut parts = known.iter().filter(is_part);
    parts.next().filter(|_| parts.next().is_none()).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_close_word_is_suggested() {
        let known = ["tag", "limit", "priority", "organization_id", "status", "sort"];
        for (given, meant) in [
            ("prioritty", Some("priority")),
            ("Priority", Some("priority")),
            ("statsu", Some("status")),
            ("tags", Some("tag")),
            ("organization", Some("organization_id")),
            ("page", None),
            ("s", None),
            ("customer", None),
            ("colour", None),
        ] {
            assert_eq!(nearest(given, known).as_deref(), meant, "{given}");
        }
    }
}
