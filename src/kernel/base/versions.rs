//! Versions of records: each change of a record makes the next one, and a caller can say which it expects to change.

/// The version that a record must have for a change to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Nothing was said.
    Unspecified,
    /// Any was asked for.
    Any,
    OneOf(Vec<u64>),
}

impl ExpectedVersion {
    pub fn is_given(&self) -> bool {
        *self != Self::Unspecified
    }

    pub fn check(&self, current: u64) -> Result<(), Stale> {
        match self {
            Self::OneOf(versions) if !versions.contains(&current) => Err(Stale { current }),
            _ => Ok(()),
        }
    }
}

/// The record is no longer the one that the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record has version {current} now")]
pub struct Stale {
    pub current: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_to_an_expected_version_only() {
        let expected = ExpectedVersion::OneOf(vec![6, 7]);
        assert_eq!(expected.check(7), Ok(()));
        assert_eq!(expected.check(8), Err(Stale { current: 8 }));
        assert_eq!(ExpectedVersion::Any.check(8), Ok(()));
        assert_eq!(ExpectedVersion::Unspecified.check(8), Ok(()));
    }
}
