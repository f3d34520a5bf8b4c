//! Fuzzes expressions and templates by their grammar, including everything that makes them costly. Each is refused, or finishes
//! within its budget with a value of limited size.

use std::sync::LazyLock;

use serde_json::json;

use tenantd_base::entropy::{
    Entropy,
    fuzz::{NUMBERS, each_case, show, text},
};

use super::*;

const PATHS: [&str; 18] = [
    "inputs.text",
    "inputs.words",
    "inputs.map",
    "inputs.deep",
    "inputs.numbers",
    "inputs.numbers[0]",
    "inputs.numbers[-1]",
    "inputs.rows",
    "inputs.rows[0].id",
    "inputs.odd",
    "inputs.missing",
    "inputs['text']",
    "steps.a.output",
    "item",
    "loop",
    "self",
    "nobody",
    "true",
];
const OPERATORS: [&str; 18] =
    ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"];
const CALLS: [&str; 5] = ["range", "dict", "namespace", "inputs.text.upper", "debug"];

/// The named values: a small set, and one as large as a run may have.
static CONTEXTS: LazyLock<[Context; 2]> = LazyLock::new(|| {
    let mut deep = json!("x");
    for level in 0..40 {
        deep = if level % 2 == 0 { json!([deep]) } else { json!({"a": deep}) };
    }
    let of = |text: String, count: usize| {
        let words: Vec<String> = (0..count).map(|place| format!("w{}", place * 7919 % (count + 1))).collect();
        let map: Map<String, Value> = (0..count / 10).map(|place| (format!("k{place}"), json!(place))).collect();
        let numbers = json!([i64::MIN, i64::MAX, u64::MAX, 1e308, -0.0, 5e-324, 0, 1.5]);
        let rows = vec![json!({"id": 1, "name": "a"}); count];
        let odd = "İß\u{202e}\0🔥\"'\\{{}}";
        let inputs = json!({"text": text, "words": words, "map": map, "deep": deep, "numbers": numbers, "rows": rows, "odd": odd});
        let names = json!({"inputs": inputs, "steps": {"a": {"output": {"id": "x"}}}, "item": odd});
        Context::new(names.as_object().unwrap())
    };
    [of("Ada".to_owned(), 20), of("aB ".repeat(20_000), 9_000)]
});

/// An expression. Most are short enough to be evaluated.
pub(crate) fn expression(entropy: &mut Entropy) -> String {
    let mut depth = entropy.place(6);
    loop {
        let made = nested(entropy, depth);
        if made.len() <= MAX_EXPRESSION_BYTES || depth == 0 || entropy.once_in(10) {
            return made;
        }
        depth -= 1;
    }
}

fn nested(entropy: &mut Entropy, depth: usize) -> String {
    let Some(below) = depth.checked_sub(1) else { return atom(entropy) };
    match entropy.below(13) {
        0 | 1 => format!("({} {} {})", nested(entropy, below), entropy.pick(&OPERATORS), nested(entropy, below)),
        2 => {
            let (part, operator) = (nested(entropy, below), format!(" {} ", entropy.pick(&OPERATORS)));
            vec![part; 1 + entropy.count(40)].join(&operator)
        }
        3 | 4 => format!("{}|{}", nested(entropy, below), filter(entropy, below)),
        5 => {
            let (part, filter) = (nested(entropy, below), format!("|{}", filter(entropy, 0)));
            part + &filter.repeat(1 + entropy.count(120))
        }
        6 => {
            let not = if entropy.once_in(3) { "not " } else { "" };
            let test = if entropy.once_in(9) { "sameas" } else { entropy.pick(filters::TESTS) };
            format!("({} is {not}{test}{})", nested(entropy, below), arguments(entropy, below))
        }
        7 => format!("({} if {} else {})", nested(entropy, below), nested(entropy, below), nested(entropy, below)),
        8 => {
            let items: Vec<String> = (0..entropy.count(30)).map(|_| nested(entropy, below)).collect();
            format!("[{}]", items.join(", "))
        }
        9 => {
            let members: Vec<String> =
                (0..entropy.count(10)).map(|_| format!("{}: {}", atom(entropy), nested(entropy, below))).collect();
            format!("{{{}}}", members.join(", "))
        }
        10 => {
            let (of, from) = (nested(entropy, below), nested(entropy, 0));
            match entropy.below(4) {
                0 => format!("{of}[{from}]"),
                1 => format!("{of}[{from}:{}:{}]", atom(entropy), atom(entropy)),
                2 => format!("{of}[::{}]", entropy.pick(&["-1", "2", "", "99999999", "0"])),
                _ => format!("{of}.a.b"),
            }
        }
        11 => format!("{}{}", entropy.pick(&CALLS), arguments(entropy, below)),
        _ => {
            let (open, close) = entropy.pick(&[("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("{'a':", "}"), ("(", "")]);
            let times = entropy.count(450);
            format!("{}{}{}", open.repeat(times), nested(entropy, below), close.repeat(times))
        }
    }
}

fn filter(entropy: &mut Entropy, depth: usize) -> String {
    let name = if entropy.once_in(15) { "indent" } else { entropy.pick(filters::FILTERS) };
    if entropy.once_in(2) { name.to_owned() } else { format!("{name}{}", arguments(entropy, depth)) }
}

fn arguments(entropy: &mut Entropy, depth: usize) -> String {
    let given: Vec<String> = (0..entropy.count(6)).map(|_| nested(entropy, depth.min(1))).collect();
    format!("({})", given.join(", "))
}

fn atom(entropy: &mut Entropy) -> String {
    match entropy.below(5) {
        0 => entropy.pick(&NUMBERS).to_owned(),
        1 => format!("'{}'", text(entropy)),
        2 => format!("\"{}\"", text(entropy).replace(['"', '\\'], "")),
        _ => entropy.pick(&PATHS).to_owned(),
    }
}

/// A text with templates.
pub(crate) fn template(entropy: &mut Entropy) -> String {
    let piece = |entropy: &mut Entropy| match entropy.below(6) {
        0 => text(entropy),
        1 => format!("{{{{{}", expression(entropy)),
        _ => format!("{{{{ {} }}}}", expression(entropy)),
    };
    if entropy.once_in(30) {
        let piece = piece(entropy);
        return piece.repeat(entropy.count(60));
    }
    (0..=entropy.count(3)).map(|_| piece(entropy)).collect()
}

#[test]
fn a_hostile_expression_is_refused_or_stays_within_its_budget() {
    each_case("expressions", 2_000, |entropy| {
        let (made, context) = (expression(entropy), &CONTEXTS[usize::from(entropy.once_in(4))]);
        let budget = Budget::for_tests();
        show(&made);
        // A refused expression is never evaluated.
        if let Err(error) = check(&made, &budget) {
            assert_no_panic(&error, &made);
            return false;
        }
        assert!(made.len() <= MAX_EXPRESSION_BYTES);
        let held = holds(&made, context, &budget);
        match evaluate(&made, context, &budget) {
            Ok(value) => {
                assert!(value.to_string().len() <= MAX_VALUE_BYTES, "{made} creates a large value");
                true
            }
            Err(error) => {
                assert_no_panic(&error, &made);
                held.is_ok()
            }
        }
    });
}

fn assert_no_panic(error: &ExpressionError, made: &str) {
    assert_ne!(*error, ExpressionError::Failed(PANICKED.to_owned()), "{made}");
}

#[test]
fn a_hostile_template_is_refused_or_stays_within_its_budget() {
    each_case("templates", 1_000, |entropy| {
        let (made, context) = (template(entropy), &CONTEXTS[usize::from(entropy.once_in(4))]);
        let budget = Budget::for_tests();
        show(&made);
        if let Err(error) = check_template(&made, &budget) {
            assert_no_panic(&error, &made);
            return false;
        }
        match render(&json!({"a": [made.clone()]}), context, &budget) {
            Ok(value) => {
                let given = if is_template(&made) { 0 } else { made.len() };
                assert!(size_of(&value) <= (2 * MAX_VALUE_BYTES + given) as u64, "{made} creates a large value");
                true
            }
            Err((_, error)) => {
                assert_no_panic(&error, &made);
                false
            }
        }
    });
}
