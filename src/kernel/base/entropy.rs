//! Randomness as a value that is passed in.
//!
//! A use case may run more than once, because the store may retry a write after a conflict. It must then draw the same ids and
//! secrets each time. So the edge draws one seed from the operating system, and everything else is derived from it. Only this file
//! may ask the operating system for random bytes.

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
pub mod fuzz;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The start of a stream. The same seed always gives the same stream.
#[derive(Clone, Copy)]
pub struct Seed([u8; 32]);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(…)")
    }
}

impl Seed {
    pub fn from_os() -> Self {
        Self(quick_bytes())
    }

    /// A fixed seed: it gives the same ids and secrets each time. Use it only for evaluation data.
    pub fn known(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn stream(self) -> Entropy {
        Entropy(StdRng::from_seed(self.0))
    }
}

/// A cryptographically secure stream of random bytes.
pub struct Entropy(StdRng);

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy(…)")
    }
}

impl Entropy {
    /// A new stream, seeded by the operating system's generator.
    pub fn from_os() -> Self {
        Seed::from_os().stream()
    }

    /// A stream that is the same for the same seed, for tests and evaluation data.
    pub fn from_seed(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.0.fill_bytes(&mut out);
        out
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A whole number below `bound`, without modulo bias. A bound of zero gives zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let zone = u64::MAX - u64::MAX % bound;
        loop {
            let value = self.next_u64();
            if value < zone {
                return value % bound;
            }
        }
    }
}

/// Random bytes from the thread's generator, which the operating system seeds. Used for seeds and request ids.
#[allow(clippy::disallowed_methods, reason = "the one place that asks the operating system")]
pub fn quick_bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    rand::rng().fill_bytes(&mut out);
    out
}
