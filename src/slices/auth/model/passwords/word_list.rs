//! Common passwords and words, as the Bloom filter that `generate.py` makes. The script names the lists and their licenses.

use tenantd_base::secrets::digest;

static FILTER: &[u8] = include_bytes!("common.filter");
/// The number of words, in front of the bits.
const HEADER: usize = 8;
const PROBES: u64 = 28;

/// The lengths of the words in the filter.
pub(super) const SHORTEST: usize = 4;
pub(super) const LONGEST: usize = 24;

/// Whether a lowercase word is in the lists. One of about 200 million other texts is reported too: a long password has thousands of
/// stretches that are looked up, and a random one must not be refused.
pub(super) fn holds(word: &str) -> bool {
    let bits = FILTER.get(HEADER..).unwrap_or_default();
    let digest = digest(word.as_bytes());
    let number = |at: usize| digest.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let (first, step, count) = (number(0), number(8) | 1, bits.len() as u64 * 8);
    (0..PROBES).all(|probe| {
        let position = first.wrapping_add(probe.wrapping_mul(step)) % count.max(1);
        let byte = usize::try_from(position / 8).ok().and_then(|at| bits.get(at));
        byte.is_some_and(|byte| byte >> (position % 8) & 1 == 1)
    })
}

#[cfg(test)]
mod tests {
    use tenantd_base::entropy::Entropy;

    use super::*;

    /// Every 25th word of the lists.
    const SAMPLE: &str = include_str!("sample.txt");

    #[test]
    fn the_filter_holds_the_lists_and_no_random_text() {
        let count = u64::from_le_bytes(FILTER[..HEADER].try_into().unwrap());
        assert_eq!((count, FILTER.len()), (100_304, 501_528));
        let sample: Vec<&str> = SAMPLE.split_whitespace().collect();
        assert_eq!(sample.len(), 4013);
        for word in sample {
            assert!(holds(word), "{word}");
            assert!((SHORTEST..=LONGEST).contains(&word.chars().count()), "{word}");
        }
        for word in ["password", "qwertyuiop", "summer", "letmein", "liverpool", "washington"] {
            assert!(holds(word), "{word}");
        }
        let mut entropy = Entropy::from_seed(1);
        let random = |entropy: &mut Entropy| data_encoding::BASE32_DNSCURVE.encode(&entropy.bytes::<10>());
        let wrong = (0..200_000).filter(|_| holds(&random(&mut entropy))).count();
        assert_eq!(wrong, 0, "of 200,000 random texts");
    }
}
