//! Closed lists of words, each an enum with its names. The place of a word may be stored, so words are only ever added at the end.

/// Makes such a list. Serde writes a word by its name. With `as variants` it writes the name of the variant, such as `InRepair`: files of
/// exported tenants have some words in that form. With `#[derive(Default)]` one word has `#[default]` before it.
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

/// A text that is longer than any name of ours is nobody's typing error.
const MAX_NAME: usize = 128;

/// The entry of `known` that was probably meant.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if given.len() > MAX_NAME {
        return None;
    }
    let closest = known.into_iter().map(|name| (strsim::osa_distance(name, given), name)).min()?;
    let (distance, name) = closest;
    (distance <= 1 + given.chars().count() / 4).then(|| name.to_owned())
}
