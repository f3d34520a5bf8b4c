//! What the language says, and what it refuses.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn context(value: Value) -> Context {
    Context(value.as_object().unwrap().clone())
}

fn given() -> Context {
    context(json!({
        "inputs": {"name": "Ada", "count": 3, "tags": ["a", "b"], "nothing": null},
        "steps": {"first": {"output": {"id": "tkt_1", "open": true}}},
    }))
}

#[test]
fn a_template_alone_keeps_the_type_and_one_in_a_text_is_text() {
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
        assert_eq!(render_text(text, &given()), Ok(value), "{text}");
    }
}

#[test]
fn what_is_not_defined_is_an_error_in_a_value_and_false_in_a_condition() {
    assert_eq!(render_text("{{ inputs.missing }}", &given()).unwrap_err().code(), "expression_failed");
    assert_eq!(render_text("a {{ inputs.missing.deeper }}", &given()).unwrap_err().code(), "expression_failed");
    assert_eq!(holds("inputs.missing", &given()), Ok(false));
    assert_eq!(holds("{{ inputs.count == 3 and inputs.name is startingwith('A') }}", &given()), Ok(true));
    assert_eq!(holds("steps.first.output.id in ['tkt_1']", &given()), Ok(true));
}

#[test]
fn expressions_say_what_they_refer_to() {
    let found = check("steps.first.output.id ~ inputs.name ~ item.x").unwrap();
    assert_eq!(found.steps, BTreeSet::from(["first".to_owned()]));
    assert_eq!(found.names, BTreeSet::from(["steps", "inputs", "item"].map(str::to_owned)));
    assert!(!found.any_step && check("steps['first'].output").unwrap().any_step);
}

#[test]
fn what_does_not_end_or_grows_is_refused_or_stopped() {
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
        assert_eq!(check_template(refused).unwrap_err().code(), "expression_invalid", "{refused}");
    }
    let growing = format!("{{{{ inputs.name{} }}}}", " | replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')".repeat(12));
    assert_eq!(render_text(&growing, &given()).unwrap_err(), ExpressionError::TooLarge);
    let large = context(json!({"item": "x".repeat(60_000)}));
    assert_eq!(render_text("{{ item ~ item }}", &large).unwrap_err(), ExpressionError::TooLarge);
    assert_eq!(render_text("{{ item }}{{ item }}", &large).unwrap_err(), ExpressionError::TooLarge);
    assert_eq!(check(&"1+".repeat(600)).unwrap_err().code(), "expression_invalid");
    let deep = format!("{}1{}", "(".repeat(400), ")".repeat(400));
    assert!(check(&deep).is_err());
}

#[test]
fn a_failure_is_told_with_its_place() {
    let (at, error) = render(&json!({"a": ["x", {"b/c": "{{ nobody }}"}]}), &given()).unwrap_err();
    assert_eq!((at.as_str(), error.code()), ("/a/1/b~1c", "expression_failed"));
}

proptest! {
    #[test]
    fn any_text_is_rendered_or_told_what_is_wrong_with_it(text in "\\PC{0,120}") {
        drop(check_template(&text));
        drop(render_text(&text, &given()));
    }

    #[test]
    fn any_mix_of_words_and_signs_is_too(parts in proptest::collection::vec(0_usize..WORDS.len(), 0..24)) {
        let text = format!("{{{{ {} }}}}", parts.iter().map(|part| WORDS[*part]).collect::<Vec<_>>().join(" "));
        drop(check_template(&text));
        drop(render_text(&text, &given()));
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
