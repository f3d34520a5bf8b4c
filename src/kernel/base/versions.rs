//! Versions of records. Every change of a record increases its version, and a caller can name the version that it expects.

/// The version that a record must have for a change to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// The caller named no version.
    Unspecified,
    /// The caller accepts any version.
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

/// The record no longer has the version that the caller expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record now has version {current}")]
pub struct Stale {
    pub current: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_expected_version_passes() {
        let expected = ExpectedVersion::OneOf(vec![6, 7]);
        assert_eq!(expected.check(7), Ok(()));
        assert_eq!(expected.check(8), Err(Stale { current: 8 }));
        assert_eq!(ExpectedVersion::Any.check(8), Ok(()));
        assert_eq!(ExpectedVersion::Unspecified.check(8), Ok(()));
    }
}
