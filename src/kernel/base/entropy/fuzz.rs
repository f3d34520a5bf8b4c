//! Hostile programs that are generated from a seed, for tests of everything that evaluates programs of tenants.
//!
//! A case is a number, and the same number always generates the same program. A failure names the case to repeat.
//! `TENANTD_FUZZ_CASES` sets the number of cases per language, and `TENANTD_FUZZ_FIRST` the first one. With one case, the program
//! is printed.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use super::Entropy;

/// Processor time that no case should need. A case beyond it was not stopped by its budget.
const LONGEST: Duration = Duration::from_mins(1);

/// The processor time of this thread, so that a busy machine does not make a case slower.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Prints a program if it is the only case.
pub fn show(program: &impl std::fmt::Display) {
    if setting("TENANTD_FUZZ_CASES") == Some(1) {
        println!("{program}");
    }
}

/// Runs the cases of a language. `run` generates a program, evaluates it, and returns whether it was accepted.
pub fn each_case(language: &str, usual: u64, run: impl Fn(&mut Entropy) -> bool) {
    let (first, cases) = (setting("TENANTD_FUZZ_FIRST").unwrap_or(0), setting("TENANTD_FUZZ_CASES").unwrap_or(usual));
    let (mut accepted, mut slowest) = (0, (Duration::ZERO, 0));
    for case in first..first + cases {
        let begin = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut Entropy::from_seed(case))));
        slowest = slowest.max((processor_time().saturating_sub(begin), case));
        let Ok(was_accepted) = outcome else {
            panic!("{language}: case {case} failed; repeat it with TENANTD_FUZZ_FIRST={case} TENANTD_FUZZ_CASES=1")
        };
        accepted += u64::from(was_accepted);
    }
    println!("{language}: {cases} cases, {accepted} accepted, the slowest (case {}) took {:?}", slowest.1, slowest.0);
    assert!(slowest.0 < LONGEST, "{language}: case {} took {:?}", slowest.1, slowest.0);
    if cases >= usual {
        assert!(
            accepted > cases / 100 && accepted < cases,
            "{language}: {accepted} of {cases} cases are accepted: they test one side only"
        );
    }
}

impl Entropy {
    /// Picks one of the values.
    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.place(among.len())]
    }

    /// A number below `bound`.
    pub fn place(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap()
    }

    /// Returns true once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A number that is usually small, and sometimes up to `most`.
    pub fn count(&mut self, most: usize) -> usize {
        let bound = if self.once_in(12) { most } else { most.min(4) };
        self.place(bound + 1)
    }
}

/// Pieces of text that break parsers: special characters of all languages here, letters that change their length with case,
/// characters without width, and characters outside of the first plane.
const PIECES: [&str; 40] = [
    "a", "b", "name", "0", "9", " ", "", "\"", "'", "\\", "/", "~", "~1", "#", "$", "%", "*", ".", ",", ":", "-", "(", ")", "[",
    "{{", "}}", "{%", "\0", "\n", "\r\n", "\t", "\u{1b}", "\u{202e}", "\u{feff}", "\u{200d}", "İ", "ß", "é", "東", "🔥",
];

pub fn text(entropy: &mut Entropy) -> String {
    if entropy.once_in(20) {
        let (piece, times) = (entropy.pick(&PIECES), entropy.place(300));
        return piece.repeat(times);
    }
    (0..entropy.place(6)).map(|_| entropy.pick(&PIECES)).collect()
}

/// Numbers at the limits of number types, and beyond.
pub const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "-1",
    "7",
    "100",
    "65536",
    "-0.0",
    "0.1",
    "1e308",
    "5e-324",
    "-9223372036854775808",
    "9223372036854775807",
    "18446744073709551615",
    "170141183460469231731687303715884105728",
    "99999999999999999999999999999999999999999",
];

pub fn number(entropy: &mut Entropy) -> Value {
    serde_json::from_str(entropy.pick(&NUMBERS)).unwrap()
}

/// Any JSON: often small, sometimes deep or wide.
pub fn value(entropy: &mut Entropy, depth: usize) -> Value {
    let kinds = if depth == 0 { 5 } else { 8 };
    match entropy.below(kinds) {
        0 => Value::Null,
        1 => json!(entropy.once_in(2)),
        2 => number(entropy),
        3 | 4 => Value::String(text(entropy)),
        5 => {
            let item = value(entropy, depth - 1);
            Value::Array(vec![item; entropy.count(60)])
        }
        6 => (0..entropy.count(12)).map(|_| value(entropy, depth - 1)).collect(),
        _ => Value::Object(members(entropy, depth - 1)),
    }
}

pub fn members(entropy: &mut Entropy, depth: usize) -> Map<String, Value> {
    (0..entropy.count(12)).map(|_| (name(entropy), value(entropy, depth))).collect()
}

/// The name of a member. It is often one of a few, so that programs and values match.
pub fn name(entropy: &mut Entropy) -> String {
    if entropy.once_in(6) { text(entropy) } else { entropy.pick(&["a", "b", "c", "name", "x"]).to_owned() }
}
