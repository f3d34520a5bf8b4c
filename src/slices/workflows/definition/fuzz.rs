//! Fuzzes definitions, input schemas, patterns and schedules by their grammars: each is refused with a pointer, or finishes within
//! its budget.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use tenantd_base::{
    access::Grants,
    clock::Timestamp,
    entropy::{
        Entropy,
        fuzz::{each_case, members, name, number, show, text, value},
    },
    programs::Budget,
};
use tenantd_store::events::{EventKind, Kinds};

use super::{
    super::{
        language::{
            fuzz::{expression, template},
            size_of,
        },
        steps::Planners,
    },
    *,
};

static CREATED: EventKind =
    EventKind { name: "ticket.created", summary: "", subject: "ticket", schema: "Ticket", reads: Grants::NONE, has_changes: false };

const ATOMS: [&str; 24] = [
    "a",
    "b",
    ".",
    "\\d",
    "\\w",
    "\\W",
    "\\s",
    "\\pL",
    "\\p{Greek}",
    "[a-z]",
    "[^\\w]",
    "[a-z&&[^b]]",
    "\\x{10FFFF}",
    "\\b",
    "^",
    "$",
    "(?i)",
    "東",
    "(?=a)",
    "(?<!a)",
    "\\1",
    "[",
    "(",
    "\\",
];
const REPEATS: [&str; 12] = ["*", "+", "?", "*?", "{2}", "{0,9}", "{150}", "{1000}", "{99999}", "{3,1}", "{,}", "**"];

/// A regular expression with large classes, nested repeats, and features that the linear engine does not have.
fn pattern(entropy: &mut Entropy, depth: usize) -> String {
    let Some(below) = depth.checked_sub(1) else {
        // The last six atoms are invalid.
        let known = if entropy.once_in(12) { ATOMS.len() } else { ATOMS.len() - 6 };
        return entropy.pick(&ATOMS[..known]).to_owned();
    };
    match entropy.below(4) {
        0 => format!("({}|{})", pattern(entropy, below), pattern(entropy, below)),
        1 => (0..=entropy.count(9)).map(|_| pattern(entropy, below)).collect(),
        _ => {
            let known = if entropy.once_in(8) { REPEATS.len() } else { 7 };
            format!("({}){}", pattern(entropy, below), entropy.pick(&REPEATS[..known]))
        }
    }
}

const FORMATS: [&str; 12] =
    ["email", "uri", "date-time", "date", "ipv4", "ipv6", "hostname", "uuid", "json-pointer", "idn-email", "regex", "nothing"];
const SIZES: [&str; 10] = [
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
    "minContains",
    "maxContains",
    "multipleOf",
    "maximum",
];
const ONE: [&str; 8] = ["additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"];
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
const NAMED: [&str; 3] = ["dependentSchemas", "patternProperties", "properties"];
const CLOSED: [&str; 7] =
    ["$dynamicRef", "$recursiveRef", "$id", "$anchor", "unevaluatedProperties", "unevaluatedItems", "contentSchema"];

/// The definitions that references of a schema may point to: from this index up to that one.
#[derive(Clone, Copy)]
struct Definitions {
    from: usize,
    until: usize,
}

impl Definitions {
    fn reference(self, entropy: &mut Entropy) -> String {
        match entropy.below(20) {
            0 => entropy.pick(&["#", "#/$defs/", "#/properties/a", "http://127.0.0.1:1/x", "#/$defs/%61", "x"]).to_owned(),
            _ if self.from >= self.until => "#/$defs/n0".to_owned(),
            _ => format!("#/$defs/n{}", self.from + entropy.place(self.until - self.from)),
        }
    }
}

fn schema(entropy: &mut Entropy, depth: usize, definitions: Definitions) -> Value {
    let mut made = Map::new();
    for _ in 0..=entropy.place(3) {
        let inner = |entropy: &mut Entropy| schema(entropy, depth.saturating_sub(1), definitions);
        let kinds = if depth == 0 { 7 } else { 13 };
        let (keyword, given) = match entropy.below(kinds) {
            0 => ("type", json!(entropy.pick(&["object", "string", "array", "number", "integer", "null", "any"]))),
            1 => (entropy.pick(&SIZES), number(entropy)),
            2 => ("format", json!(entropy.pick(&FORMATS))),
            3 => (entropy.pick(&["const", "default", "enum", "examples"]), value(entropy, 3)),
            4 => {
                let depth = entropy.place(4);
                ("pattern", json!(pattern(entropy, depth)))
            }
            5 => ("uniqueItems", json!(!entropy.once_in(4))),
            6 => ("required", (0..entropy.count(40)).map(|_| json!(name(entropy))).collect()),
            7 | 8 => (entropy.pick(&ONE), inner(entropy)),
            9 => {
                let item = inner(entropy);
                (entropy.pick(&LIST), Value::Array(vec![item; entropy.count(300)]))
            }
            10 => {
                let keyword = entropy.pick(&NAMED);
                let key = |entropy: &mut Entropy| if keyword == "patternProperties" { pattern(entropy, 1) } else { name(entropy) };
                let named: Map<String, Value> = (0..entropy.count(20)).map(|_| (key(entropy), inner(entropy))).collect();
                (keyword, Value::Object(named))
            }
            11 if entropy.once_in(30) => (entropy.pick(&CLOSED), inner(entropy)),
            _ => ("$ref", json!(definitions.reference(entropy))),
        };
        made.insert(keyword.to_owned(), given);
    }
    if entropy.once_in(200) { value(entropy, 2) } else { Value::Object(made) }
}

/// A schema with definitions that mostly refer only to later ones, so that they multiply without a cycle.
fn whole_schema(entropy: &mut Entropy) -> Value {
    let (count, depth, has_circles) = (entropy.count(30), entropy.place(5), entropy.once_in(10));
    let mut root = schema(entropy, depth, Definitions { from: 0, until: count });
    let defined = |entropy: &mut Entropy, place: usize| {
        let from = if has_circles { 0 } else { place + 1 };
        let depth = entropy.place(3);
        (format!("n{place}"), schema(entropy, depth, Definitions { from, until: count }))
    };
    let definitions: Map<String, Value> = (0..count).map(|place| defined(entropy, place)).collect();
    if let Some(root) = root.as_object_mut().filter(|_| count > 0) {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    root
}

/// Inputs with the members that schemas name, or as large as inputs may be.
fn inputs(entropy: &mut Entropy) -> Value {
    match entropy.below(30) {
        0 => (0..entropy.place(4_990)).map(|place| json!([place])).collect(),
        1 => json!({"a": (0..entropy.place(2_000)).map(|place| json!({"a": place})).collect::<Vec<_>>()}),
        2 => json!({"a": "aB1 ".repeat(entropy.place(15_000)), "name": "a".repeat(entropy.place(60_000))}),
        _ => Value::Object(members(entropy, 3)),
    }
}

#[test]
fn a_hostile_schema_is_refused_or_stays_within_its_budget() {
    each_case("schemas", 2_000, |entropy| {
        let made = whole_schema(entropy);
        show(&made);
        let budget = Budget::for_tests();
        let Ok(schema) = InputSchema::new(&made, &budget) else { return false };
        for _ in 0..3 {
            let given = inputs(entropy);
            let most = size_of(&given) + 2 * size_of(&made);
            if let Ok(completed) = schema.complete(given, &budget) {
                assert!(size_of(&completed) <= most, "the inputs are larger than the given ones with all defaults");
            }
        }
        true
    });
}

#[test]
fn a_hostile_pattern_is_refused_or_stays_within_its_budget() {
    each_case("patterns", 1_000, |entropy| {
        let depth = entropy.place(5);
        let made = pattern(entropy, depth);
        show(&made);
        let budget = Budget::for_tests();
        let Ok(schema) = InputSchema::new(&json!({"properties": {"a": {"pattern": made}}}), &budget) else { return false };
        drop(schema.complete(json!({"a": "aB1 東\u{202e}".repeat(entropy.place(6_000))}), &budget));
        true
    });
}

const NAMES: [&str; 8] = ["MON", "FRI", "JAN", "L", "W", "?", "X", "MON-FRI"];
const ZONES: [&str; 6] = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Mars/Base", ""];

/// A field of a schedule. With `tame`, its numbers are within the allowed range.
fn field(entropy: &mut Entropy, (least, most): (usize, usize), tame: bool) -> String {
    let number = |entropy: &mut Entropy| match entropy.below(10) {
        0 if !tame => entropy.place(100_000),
        _ => least + entropy.place(most - least + 1),
    };
    let kinds = if tame { 10 } else { 14 };
    let item = |entropy: &mut Entropy| match entropy.below(kinds) {
        0..=4 => "*".to_owned(),
        5 | 6 => number(entropy).to_string(),
        7 => {
            let (one, other) = (number(entropy), number(entropy));
            if tame { format!("{}-{}", one.min(other), one.max(other)) } else { format!("{one}-{other}") }
        }
        8 => format!("*/{}", number(entropy).max(usize::from(tame))),
        9 if tame => format!("{least}-{most}/{}", number(entropy).max(1)),
        9 => format!("{}/{}", number(entropy), number(entropy)),
        10 => format!("{}{}", number(entropy), entropy.pick(&["L", "W", "#1", "#5", "#9", "LW"])),
        11 | 12 => entropy.pick(&NAMES).to_owned(),
        _ => text(entropy),
    };
    if entropy.once_in(40) {
        return vec![item(entropy); 1 + entropy.place(2_000)].join(",");
    }
    if tame {
        let numbers: Vec<String> = (0..=entropy.count(2)).map(|_| number(entropy).to_string()).collect();
        return if entropy.once_in(3) { numbers.join(",") } else { item(entropy) };
    }
    (0..=entropy.count(2)).map(|_| item(entropy)).collect::<Vec<_>>().join(",")
}

fn cron(entropy: &mut Entropy) -> String {
    let tame = entropy.once_in(2);
    let ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    let mut fields: Vec<String> = ranges.into_iter().map(|range| field(entropy, range, tame)).collect();
    if entropy.once_in(20) {
        fields.push(field(entropy, (0, 59), tame));
    }
    fields.join(if entropy.once_in(30) { "\t" } else { " " })
}

#[test]
fn a_hostile_schedule_is_refused_or_goes_forward() {
    each_case("schedules", 1_000, |entropy| {
        let (made, zone) = (cron(entropy), entropy.pick(&ZONES));
        show(&made);
        let Ok(schedule) = Schedule::new(&made, zone, false) else { return false };
        let mut at = Timestamp::from_millis(i64::try_from(entropy.below(4_000_000_000_000)).unwrap());
        for _ in 0..3 {
            let Some(next) = schedule.next(at) else { break };
            assert!(next > at, "{made}");
            at = next;
        }
        true
    });
}

/// A condition. Most are simple, because a refused one hides the others.
fn condition(entropy: &mut Entropy) -> String {
    if entropy.once_in(12) {
        expression(entropy)
    } else {
        entropy.pick(&["inputs.a", "inputs.a == 1", "inputs.b|length > 2"]).to_owned()
    }
}

fn filled(entropy: &mut Entropy) -> String {
    if entropy.once_in(12) { template(entropy) } else { format!("{{{{ {} }}}}", condition(entropy)) }
}

fn steps(entropy: &mut Entropy, depth: usize) -> Value {
    (0..=entropy.count(if depth == 0 { 2 } else { 6 })).map(|_| step(entropy, depth)).collect()
}

fn step(entropy: &mut Entropy, depth: usize) -> Value {
    let kinds = if depth == 0 { 6 } else { 9 };
    let below = depth.saturating_sub(1);
    let (kind, with) = match entropy.below(kinds) {
        0 | 1 => ("set", json!({"value": filled(entropy)})),
        2 => ("assert", json!({"condition": condition(entropy), "message": filled(entropy)})),
        3 => ("wait.duration", json!({"seconds": number(entropy)})),
        4 => ("wait.event", json!({"event": "ticket.created", "condition": condition(entropy)})),
        5 => (entropy.pick(&["return", "fail", "approval", "workflow.call", "nothing"]), value(entropy, 2)),
        6 => ("if", json!({"condition": condition(entropy), "then": steps(entropy, below), "else": steps(entropy, below)})),
        7 => ("for_each", json!({"items": filled(entropy), "steps": steps(entropy, below)})),
        _ => ("parallel", json!({"branches": [steps(entropy, below), steps(entropy, below)]})),
    };
    let mut id = String::new();
    write!(id, "s{}", entropy.below(1_000_000)).unwrap();
    let mut step = json!({"id": id, "type": kind, "with": with});
    if entropy.once_in(5) {
        step["if"] = json!(condition(entropy));
    }
    if entropy.once_in(20) {
        step[name(entropy)] = value(entropy, 2);
    }
    step
}

#[test]
fn a_hostile_definition_is_refused_with_places_or_compiled() {
    let kinds = Kinds::new([&CREATED]);
    each_case("definitions", 1_000, |entropy| {
        let depth = entropy.place(4);
        let mut made = json!({"key": "x", "name": "X", "steps": steps(entropy, depth)});
        if entropy.once_in(3) {
            let schedule = json!({"type": "schedule", "cron": cron(entropy), "timezone": entropy.pick(&ZONES)});
            let event = json!({"type": "event", "event": "ticket.created", "condition": condition(entropy)});
            made["triggers"] = Value::Array(vec![event, schedule]);
        }
        if entropy.once_in(3) {
            made["input_schema"] = whole_schema(entropy);
        }
        if entropy.once_in(4) {
            made["concurrency"] = json!({"key": filled(entropy), "limit": number(entropy)});
        }
        if entropy.once_in(60) {
            made = value(entropy, 4);
        }
        show(&made);
        // The writer reads the outline of any stored definition.
        drop(outline(&made, &Planners::default()));
        match compile(&made, &Planners::default(), &kinds, &Budget::for_tests()) {
            Ok(program) => {
                assert!(program.definition.steps.len() <= made.to_string().len());
                true
            }
            Err(faults) => {
                assert!(
                    !faults.is_empty()
                        && faults.iter().all(|fault| matches!(fault.place.to_string().chars().next(), None | Some('/')))
                );
                false
            }
        }
    });
}
