//! Closed lists of words, each an enum with its names. The place of a word may be stored, so words are only ever added at the end.

/// Makes such a list. With `#[derive(Default)]` one word has `#[default]` before it.
#[macro_export]
macro_rules! vocabulary {
    ($(#[$doc:meta])* $type:ident: $($(#[$mark:meta])* $variant:ident $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $type { $($(#[$mark])* $variant),* }

        impl $type {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.name() == name)
            }
        }
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
