//! Converts values between the wire types and the model.

use tenantd_base::{change::Change, clock::Timestamp};
use tenantd_http::{
    bounded::{List, Text},
    wire::{StoredWord, Word},
};

/// Converts a wire value to its model value, or back.
pub(super) trait Mirror<T> {
    fn mirror(self) -> T;
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl Mirror<$type> for $type {
            fn mirror(self) -> $type {
                self
            }
        }
    )*};
}

same!(bool, u32, u64, Timestamp);

impl<T> Mirror<T> for Word<T> {
    fn mirror(self) -> T {
        self.0
    }
}

impl<T: StoredWord> Mirror<Word<T>> for T {
    fn mirror(self) -> Word<T> {
        Word(self)
    }
}

impl<const MAX: usize> Mirror<String> for Text<MAX> {
    fn mirror(self) -> String {
        self.into_string()
    }
}

impl<const MAX: usize> Mirror<Text<MAX>> for String {
    fn mirror(self) -> Text<MAX> {
        Text::stored(self)
    }
}

impl<A: Mirror<B>, B> Mirror<Option<B>> for Option<A> {
    fn mirror(self) -> Option<B> {
        self.map(Mirror::mirror)
    }
}

impl<A: Mirror<B>, B> Mirror<Change<B>> for Change<A> {
    fn mirror(self) -> Change<B> {
        self.map(Mirror::mirror)
    }
}

impl<A: Mirror<B>, B, const MAX: usize> Mirror<Vec<B>> for List<A, MAX> {
    fn mirror(self) -> Vec<B> {
        self.into_vec().into_iter().map(Mirror::mirror).collect()
    }
}

impl<T: Mirror<U>, U, const MAX: usize> Mirror<List<U, MAX>> for Vec<T> {
    fn mirror(self) -> List<U, MAX> {
        List::stored(self.into_iter().map(Mirror::mirror).collect())
    }
}
