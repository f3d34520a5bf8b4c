//! What the language evaluates, and what it refuses.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn context(value: Value) -> Context {
    Context::new(value.as_object().unwrap())
}

fn given() -> Context {
    context(json!({
        "inputs": {"name": "Ada", "count": 3, "tags": ["a", "b"], "nothing": null},
        "steps": {"first": {"output": {"id": "tkt_1", "open": true}}},
    }))
}

#[test]
fn a_lone_template_keeps_its_type_and_others_become_text() {
    for (text, value) in [
        ("{{ inputs.count }}", json!(3)),
        ("{{ inputs.count + 1 }}", json!(4)),
        ("{{ inputs.tags }}", json!(["a", "b"])),
        ("{{ steps.first.output }}", json!({"id": "tkt_1", "open": true})),
        ("{{ steps.first.output.open }}", json!(true)),
        ("{{ inputs.nothing }}", json!(null)),
        ("{{ {'a': {'b': inputs.count}} }}", json!({"a": {"b": 3}})),
        (" {{ inputs.count }}", json!(" 3")),
        ("Hello {{ inputs.name | upper }}, {{ inputs.tags | join(', ') }}", json!("Hello ADA, a, b")),
        ("{{ inputs.missing | default('none') }}", json!("none")),
        ("{{ '}}' ~ inputs.name }}", json!("}}Ada")),
        ("no template", json!("no template")),
        ("{{ inputs.count | times(7) }}", json!(21)),
        ("{{ 'x' if inputs.count > 2 else 'y' }}", json!("x")),
    ] {
        assert_eq!(render_text(text, &given(), &Budget::for_tests()), Ok(value), "{text}");
    }
}

#[test]
fn undefined_is_an_error_in_a_value_and_false_in_a_condition() {
    assert_eq!(render_text("{{ inputs.missing }}", &given(), &Budget::for_tests()).unwrap_err().code(), "expression_failed");
    assert_eq!(
        render_text("a {{ inputs.missing.deeper }}", &given(), &Budget::for_tests()).unwrap_err().code(),
        "expression_failed"
    );
    assert_eq!(holds("inputs.missing", &given(), &Budget::for_tests()), Ok(false));
    assert_eq!(holds("{{ inputs.count == 3 and inputs.name is startingwith('A') }}", &given(), &Budget::for_tests()), Ok(true));
    assert_eq!(holds("steps.first.output.id in ['tkt_1']", &given(), &Budget::for_tests()), Ok(true));
}

#[test]
fn check_returns_the_references_of_an_expression() {
    let found = check("steps.first.output.id ~ inputs.name ~ item.x", &Budget::for_tests()).unwrap();
    assert_eq!(found.steps, BTreeSet::from(["first".to_owned()]));
    assert_eq!(found.names, BTreeSet::from(["steps", "inputs", "item"].map(str::to_owned)));
    assert!(!found.any_step && check("steps['first'].output", &Budget::for_tests()).unwrap().any_step);
}

#[test]
fn endless_or_growing_expressions_are_refused_or_stopped() {
    for refused in [
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{{ 'a' * 100000000 }}",
        "{{ [1] * 100000000 }}",
        "{{ inputs.name | indent(99999999) }}",
        "{{ inputs.name is sameas(1) }}",
        "{{ inputs.",
        "{{ }}",
        "{{ 1 +",
    ] {
        assert_eq!(check_template(refused, &Budget::for_tests()).unwrap_err().code(), "expression_invalid", "{refused}");
    }
    let growing = format!("{{{{ inputs.name{} }}}}", " | replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')".repeat(12));
    assert_eq!(render_text(&growing, &given(), &Budget::for_tests()).unwrap_err(), ExpressionError::TooLarge);
    let large = context(json!({"item": "x".repeat(60_000)}));
    assert_eq!(render_text("{{ item ~ item }}", &large, &Budget::for_tests()).unwrap_err(), ExpressionError::TooLarge);
    assert_eq!(render_text("{{ item }}{{ item }}", &large, &Budget::for_tests()).unwrap_err(), ExpressionError::TooLarge);
    assert_eq!(check(&"1+".repeat(600), &Budget::for_tests()).unwrap_err().code(), "expression_invalid");
    let deep = format!("{}1{}", "(".repeat(400), ")".repeat(400));
    assert!(check(&deep, &Budget::for_tests()).is_err());
}

/// Work that the instruction count does not include: each expression is refused or stopped, and none creates a large value in
/// between.
#[test]
fn the_work_of_operators_and_filters_is_bounded() {
    let text = "ab".repeat(30_000);
    let words = vec!["word"; 9_000];
    let hostile = context(json!({"inputs": {"x": text, "words": words, "map": {"k": vec![text.clone(); 2]}}}));
    let concatenated = vec!["inputs.x"; 17].join("~");
    let grown = format!("({concatenated})");
    let long = |filter: &str, times: usize| format!("inputs.x{}", format!("|{filter}").repeat(times));
    for expression in [
        format!("({concatenated}~inputs.x)|length"),
        format!("({})|split('a')|sort|list|length", vec!["inputs.x"; 16].join("~")),
        format!("{grown}|upper|lower|length"),
        "inputs.x|split('a')|length".to_owned(),
        "inputs.x|list|length".to_owned(),
        "(inputs.words + inputs.words)|sort|length".to_owned(),
        "[inputs.map, inputs.map, inputs.map]|tojson".to_owned(),
        "[inputs.words, inputs.words]|list|sort|length".to_owned(),
        "inputs.x|replace('a', inputs.x)".to_owned(),
        "inputs.words|join(inputs.x)".to_owned(),
    ] {
        let budget = Budget::for_tests();
        let error = evaluate(&expression, &hostile, &budget).unwrap_err();
        assert!(matches!(error, ExpressionError::TooLarge | ExpressionError::OutOfFuel), "{expression}: {error:?}");
    }
    // The budget allows a single evaluation, but not many.
    for expression in [long("upper", 100), "inputs.x == inputs.x ~ ''".to_owned(), "inputs.words|sort|unique|max".to_owned()] {
        let budget = Budget::for_tests();
        let last = (0..10_000).find_map(|_| evaluate(&expression, &hostile, &budget).err());
        assert_eq!(last, Some(ExpressionError::OutOfFuel), "{expression}");
    }
}

#[test]
fn filters_of_constant_cost_accept_large_values() {
    let large = context(json!({"inputs": {"rows": vec![json!({"id": 1}); 30_000]}}));
    for (expression, value) in [("inputs.rows|length", json!(30_000)), ("(inputs.rows|first).id", json!(1))] {
        assert_eq!(evaluate(expression, &large, &Budget::for_tests()), Ok(value), "{expression}");
    }
}

#[test]
fn a_slice_has_a_positive_step() {
    for (expression, value) in [
        ("inputs.name[1:]", json!("da")),
        ("inputs.name[::2]", json!("Aa")),
        ("inputs.tags[0:2:1]", json!(["a", "b"])),
        ("{'a': inputs.name[:1]}['a']", json!("A")),
        ("inputs.name|reverse", json!("adA")),
        ("'[::-1]'", json!("[::-1]")),
    ] {
        assert!(check(expression, &Budget::for_tests()).is_ok(), "{expression}");
        assert_eq!(evaluate(expression, &given(), &Budget::for_tests()), Ok(value), "{expression}");
    }
    // The template engine panics on the first two.
    for expression in
        ["''[::-1]", "[][::-1]", "inputs.name[2:0:-1]", "inputs.name[::inputs.count]", "inputs.name[::0]", "a[b[::-1]]"]
    {
        assert_eq!(check(expression, &Budget::for_tests()).unwrap_err().code(), "expression_invalid", "{expression}");
    }
}

#[test]
fn a_panic_of_the_template_engine_fails_the_expression() {
    let failed = caught::<()>(|| panic!("on purpose"));
    assert_eq!(failed.unwrap_err().code(), "expression_failed");
}

#[test]
fn a_plain_filter_cannot_be_named() {
    for expression in ["inputs.name|plain upper", "inputs.name|'plain upper'", "inputs.name|plain\u{a0}upper"] {
        assert!(check(expression, &Budget::for_tests()).is_err(), "{expression}");
    }
}

#[test]
fn a_failure_has_its_pointer() {
    let (at, error) = render(&json!({"a": ["x", {"b/c": "{{ nobody }}"}]}), &given(), &Budget::for_tests()).unwrap_err();
    assert_eq!((at.as_str(), error.code()), ("/a/1/b~1c", "expression_failed"));
}

proptest! {
    #[test]
    fn any_text_is_rendered_or_refused(text in "\\PC{0,120}") {
        drop(check_template(&text, &Budget::for_tests()));
        drop(render_text(&text, &given(), &Budget::for_tests()));
    }

    #[test]
    fn any_mix_of_words_and_signs_is_rendered_or_refused(parts in proptest::collection::vec(0_usize..WORDS.len(), 0..24)) {
        let text = format!("{{{{ {} }}}}", parts.iter().map(|part| WORDS[*part]).collect::<Vec<_>>().join(" "));
        drop(check_template(&text, &Budget::for_tests()));
        drop(render_text(&text, &given(), &Budget::for_tests()));
    }
}

const WORDS: [&str; 32] = [
    "inputs",
    ".name",
    ".count",
    ".tags",
    "[0]",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ":",
    ",",
    "|",
    "join",
    "upper",
    "times",
    "9999999999",
    "-1",
    "1.5",
    "'",
    "'a'",
    "~",
    "+",
    "*",
    "//",
    "**",
    "if",
    "else",
    "not in",
    "is defined",
    "range(9)",
];
