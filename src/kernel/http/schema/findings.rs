//! Describes the errors of an input that does not match its schema, with their places and suggestions.

use jsonschema::{
    Validator,
    error::{TypeKind, ValidationError, ValidationErrorKind},
};
use serde_json::{Map, Value};

use tenantd_base::{fault::pointer_part, letters::is_blank, vocabulary::nearest};

use crate::{
    bounded::{NO_CONTROL_CHARACTERS, is_of_visible_texts},
    problem::{FieldError, Findings, MAX_ERRORS, Place},
};

/// The most values of an input that are searched for errors. All errors are created before the first can be read, so a larger input
/// is searched only in part.
const MAX_SEARCHED: usize = 10_000;

/// An error lists the existing names if there are at most this many.
const FEW_NAMES: usize = 24;

/// Names that other APIs use, and our names for the same.
const SYNONYMS: &[(&str, &str)] = &[
    ("assignee", "assignee_id"),
    ("body", "description"),
    ("client_id", "organization_id"),
    ("company", "organization_id"),
    ("company_id", "organization_id"),
    ("count", "limit"),
    ("customer", "organization_id"),
    ("customer_id", "organization_id"),
    ("max_results", "limit"),
    ("name", "subject"),
    ("offset", "cursor"),
    ("order_by", "sort"),
    ("page", "cursor"),
    ("page_size", "limit"),
    ("page_token", "cursor"),
    ("per_page", "limit"),
    ("query", "q"),
    ("search", "q"),
    ("sort_by", "sort"),
    ("state", "status"),
    ("summary", "subject"),
    ("title", "subject"),
];

/// Completes the error of an unknown name with the closest existing name, and with all existing names if they are few.
pub(super) fn unknown(error: FieldError, name: &str, known: &[&str]) -> FieldError {
    let lower = name.to_ascii_lowercase();
    let synonym = SYNONYMS.iter().find(|(other, ours)| *other == lower && known.contains(ours)).map(|(_, ours)| (*ours).to_owned());
    // One form of a body may lack a member that another form has.
    let others = || known.iter().copied().filter(|known| *known != name);
    let error = error.with_suggestion(nearest(name, others()).or(synonym));
    if known.is_empty() || known.len() > FEW_NAMES {
        return error;
    }
    error.with_allowed(known.iter().map(|name| (*name).to_owned()).collect())
}

/// Collects the errors of a value that is not valid.
pub(super) fn collect(validator: &Validator, value: &Value, outer: &[String], place: impl Fn(String) -> Place) -> Findings {
    let mut left = MAX_SEARCHED;
    let part = if exceeds(value, &mut left) { Some(first_values(value, &mut { MAX_SEARCHED })) } else { None };
    let mut errors = Vec::new();
    for error in validator.iter_errors(part.as_ref().unwrap_or(value)) {
        describe(&error, outer, &place, part.is_some(), &mut errors);
        if errors.len() > MAX_ERRORS {
            break;
        }
    }
    if errors.is_empty() {
        let message = "the input is not valid, and too large to locate the error; send less in one request";
        errors.push(FieldError::new(place(String::new()), "not_valid", message));
    }
    bounded(errors, part.is_some())
}

/// `partial` means that only a part of the input was searched.
pub(super) fn bounded(mut errors: Vec<FieldError>, partial: bool) -> Findings {
    let complete = !partial && errors.len() <= MAX_ERRORS;
    errors.truncate(MAX_ERRORS);
    Findings { errors, complete }
}

/// Whether the value holds more values than are left.
fn exceeds(value: &Value, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return true };
    *left = fewer;
    match value {
        Value::Array(items) => items.iter().any(|item| exceeds(item, left)),
        Value::Object(members) => members.values().any(|member| exceeds(member, left)),
        _ => false,
    }
}

/// The first values of the input, as many as are left.
fn first_values(value: &Value, left: &mut usize) -> Value {
    *left = left.saturating_sub(1);
    match value {
        Value::Array(items) => {
            let mut kept = Vec::new();
            for item in items {
                if *left == 0 {
                    break;
                }
                kept.push(first_values(item, left));
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, member) in members {
                if *left == 0 {
                    break;
                }
                kept.insert(name.clone(), first_values(member, left));
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// Whether the error may exist only because a part of the input was cut off.
fn is_by_omission(kind: &ValidationErrorKind) -> bool {
    use ValidationErrorKind::{Contains, MinItems, MinProperties, Required};
    matches!(kind, Required { .. } | MinItems { .. } | MinProperties { .. } | Contains)
}

fn describe(
    error: &ValidationError<'_>,
    outer: &[String],
    place: &impl Fn(String) -> Place,
    partial: bool,
    out: &mut Vec<FieldError>,
) {
    if out.len() > MAX_ERRORS || (partial && is_by_omission(error.kind())) {
        return;
    }
    let pointer = error.instance_path().to_string();
    let here = || place(pointer.clone());
    let member = |name: &str| place(format!("{pointer}/{}", pointer_part(name)));
    let simple = |code: &str, message: String| FieldError::new(here(), code, message);
    if let ValidationErrorKind::AnyOf { context } = error.kind() {
        // The caller probably meant the form that has the type of the value, the fewest unknown members, and then the fewest
        // errors.
        let is_other_type = |errors: &[ValidationError<'_>]| {
            let here = |found: &ValidationError<'_>| found.instance_path() == error.instance_path();
            errors.iter().any(|found| matches!(found.kind(), ValidationErrorKind::Type { .. }) && here(found))
        };
        let strange = |error: &ValidationError<'_>| match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => unexpected.len(),
            _ => 0,
        };
        let meant =
            context.iter().min_by_key(|errors| (is_other_type(errors), errors.iter().map(strange).sum::<usize>(), errors.len()));
        meant.into_iter().flatten().for_each(|error| describe(error, outer, place, partial, out));
        return;
    }
    let described = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            FieldError::new(member(name), "required", format!("{name} is required"))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = outer.iter().map(String::as_str).filter(|_| pointer.is_empty());
            let known: Vec<&str> = known.collect();
            let room = (MAX_ERRORS + 1).saturating_sub(out.len());
            out.extend(unexpected.iter().filter(|_| matches!(here(), Place::Pointer(_))).take(room).map(|name| {
                let error = FieldError::new(member(name), "unknown_field", format!("the field {name} does not exist here"));
                unknown(error, name, &known)
            }));
            return;
        }
        ValidationErrorKind::Enum { options } => {
            let allowed: Vec<String> = options.as_array().into_iter().flatten().map(plain).collect();
            let given = error.instance().as_str().unwrap_or_default().to_owned();
            let suggestion = nearest(&given, allowed.iter().map(String::as_str));
            simple("not_allowed", format!("must be one of {}", allowed.join(", ")))
                .with_allowed(allowed)
                .with_suggestion(suggestion)
        }
        ValidationErrorKind::Type { kind } => simple("wrong_type", format!("must be {}", type_words(kind))),
        ValidationErrorKind::MinLength { limit: 1 } => simple("too_short", "must not be empty".to_owned()),
        ValidationErrorKind::MinLength { limit } => simple("too_short", format!("must have at least {limit} characters")),
        ValidationErrorKind::MaxLength { limit } => simple("too_long", format!("must have at most {limit} characters")),
        ValidationErrorKind::MinItems { limit } => simple("too_few", format!("must have at least {limit} entries")),
        ValidationErrorKind::MaxItems { limit } => simple("too_many", format!("must have at most {limit} entries")),
        ValidationErrorKind::Minimum { limit } => simple("too_small", format!("must be at least {}", plain(limit))),
        ValidationErrorKind::Maximum { limit } => simple("too_large", format!("must be at most {}", plain(limit))),
        ValidationErrorKind::UniqueItems => simple("repeated", "must not contain the same entry twice".to_owned()),
        ValidationErrorKind::Pattern { pattern } if pattern == NO_CONTROL_CHARACTERS => {
            simple("wrong_form", "must not contain control characters".to_owned())
        }
        // The error that the text is too short is reported already.
        ValidationErrorKind::Pattern { pattern } if is_of_visible_texts(pattern) && error.instance().as_str() == Some("") => return,
        ValidationErrorKind::Pattern { pattern } if is_of_visible_texts(pattern) => {
            let is_blank = error.instance().as_str().is_some_and(is_blank);
            simple("wrong_form", if is_blank { "must not be blank" } else { "must not contain control characters" }.to_owned())
        }
        ValidationErrorKind::Pattern { pattern } => simple("wrong_form", format!("must match {pattern}")),
        ValidationErrorKind::Format { format } => simple("wrong_form", format!("must be {}", format_words(format))),
        other => simple("not_valid", format!("is not valid ({})", other.keyword())),
    };
    out.push(described);
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // Bounds are stored as floating point. A whole number is shown without a fraction.
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn type_words(kind: &TypeKind) -> String {
    let words = |name: &str| match name {
        "string" => "a text".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        "null" => "null".to_owned(),
        other => other.to_owned(),
    };
    match kind {
        TypeKind::Single(kind) => words(&kind.to_string()),
        TypeKind::Multiple(kinds) => kinds.iter().map(|kind| words(&kind.to_string())).collect::<Vec<_>>().join(" or "),
    }
}

fn format_words(format: &str) -> String {
    match format {
        "date" => "a date such as 2026-01-31".to_owned(),
        "date-time" => "a time such as 2026-01-31T09:30:00Z".to_owned(),
        "email" => "an e-mail address".to_owned(),
        "uri" => "an absolute URL".to_owned(),
        other => format!("of the form {other}"),
    }
}
