//! The language of conditions and `{{ … }}` templates: expressions over values, and nothing else. It has no statements, no loops,
//! no user-defined functions, and no access to anything but the given values.
//!
//! **Invariant:** every expression ends soon. Its text, its instructions, the work of its operators and filters, and every value
//! that it creates are bounded. The multiplication operator is refused, because it would repeat texts; `times` multiplies numbers.
//! Everything that evaluates takes the [`Budget`] of a worker.

mod filters;
mod meter;
mod scan;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::LazyLock,
};

use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};

use tenantd_base::{
    fault::pointer_part,
    programs::{Budget, Exhausted},
};

pub(super) use scan::{Piece, is_template, pieces};

/// The longest expression, in bytes.
pub(super) const MAX_EXPRESSION_BYTES: usize = 1_000;
/// The longest text with templates, and the maximum number of templates in it.
pub(super) const MAX_TEMPLATE_BYTES: usize = 65_536;
const MAX_EXPRESSIONS: usize = 50;
/// The maximum size of a value that an expression creates, as JSON.
pub(super) const MAX_VALUE_BYTES: usize = 65_536;
/// How often one expression may concatenate values.
const MAX_JOINS: usize = 16;
const FUEL: u64 = 10_000;
const MAX_DEPTH: usize = 32;
const PANICKED: &str = "the expression cannot be evaluated";

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_DEPTH);
    filters::add(&mut environment);
    environment
});

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpressionError {
    #[error("{0}")]
    Syntax(String),
    #[error("the expression takes too much work")]
    OutOfFuel,
    #[error("the value is larger than 64 KiB")]
    TooLarge,
    #[error("{0}")]
    Failed(String),
}

impl ExpressionError {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "expression_invalid",
            Self::OutOfFuel => "expression_too_long",
            Self::TooLarge => "value_too_large",
            Self::Failed(_) => "expression_failed",
        }
    }
}

impl From<Exhausted> for ExpressionError {
    fn from(_: Exhausted) -> Self {
        Self::OutOfFuel
    }
}

/// The named values, converted once for all expressions of a step.
#[derive(Clone, Debug)]
pub(super) struct Context {
    values: minijinja::Value,
    /// The approximate size of the values.
    bytes: u64,
}

impl Context {
    pub(super) fn new(names: &Map<String, Value>) -> Self {
        let bytes = names.iter().map(|(name, value)| name.len() as u64 + size_of(value)).sum();
        Self { values: minijinja::Value::from(minijinja::value::Serde(names)), bytes }
    }
}

/// The approximate size of a value as JSON, in bytes.
pub(super) fn size_of(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() as u64 + 2,
        Value::Array(items) => items.iter().map(|item| size_of(item) + 1).sum::<u64>() + 2,
        Value::Object(members) => members.iter().map(|(name, member)| name.len() as u64 + size_of(member) + 4).sum::<u64>() + 2,
    }
}

/// What an expression refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    /// The first names of paths, such as `inputs`.
    pub(super) names: BTreeSet<String>,
    /// The steps whose results it reads.
    pub(super) steps: BTreeSet<String>,
    /// Whether it reads `steps` without naming one.
    pub(super) any_step: bool,
}

impl References {
    pub(super) fn merge(&mut self, other: Self) {
        self.names.extend(other.names);
        self.steps.extend(other.steps);
        self.any_step |= other.any_step;
    }
}

/// The expression of a condition, which may be written with or without template braces.
pub(super) fn condition(text: &str) -> &str {
    let trimmed = text.trim();
    trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(trimmed).trim()
}

/// Parses an expression without evaluating it.
pub(super) fn check(expression: &str, budget: &Budget) -> Result<References, ExpressionError> {
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(ExpressionError::Syntax(format!("an expression can have at most {MAX_EXPRESSION_BYTES} bytes")));
    }
    scan::check_words(expression).map_err(ExpressionError::Syntax)?;
    if scan::joins(expression) > MAX_JOINS {
        return Err(ExpressionError::Syntax(format!("an expression can use ~ and + at most {MAX_JOINS} times")));
    }
    budget.charge(expression.len() as u64 * 64)?;
    let compiled = caught(|| ENVIRONMENT.compile_expression(expression).map_err(explained))?;
    let mut references = References::default();
    for path in compiled.undeclared_variables(true) {
        let mut parts = path.split('.');
        let name = parts.next().unwrap_or_default();
        if name == "steps" {
            match parts.next() {
                Some(step) => drop(references.steps.insert(step.to_owned())),
                None => references.any_step = true,
            }
        }
        references.names.insert(name.to_owned());
    }
    Ok(references)
}

/// Parses all expressions of a text.
pub(super) fn check_template(text: &str, budget: &Budget) -> Result<References, ExpressionError> {
    let mut references = References::default();
    if !is_template(text) {
        return Ok(references);
    }
    if text.len() > MAX_TEMPLATE_BYTES {
        return Err(ExpressionError::Syntax(format!("a text with templates can have at most {MAX_TEMPLATE_BYTES} bytes")));
    }
    let mut count = 0;
    for piece in pieces(text).map_err(ExpressionError::Syntax)? {
        if let Piece::Expression(expression) = piece {
            count += 1;
            references.merge(check(expression, budget)?);
        }
    }
    if count > MAX_EXPRESSIONS {
        return Err(ExpressionError::Syntax(format!("a text can have at most {MAX_EXPRESSIONS} expressions")));
    }
    Ok(references)
}

/// A panic of the template engine fails the expression, not the job that evaluates it.
fn caught<T>(work: impl FnOnce() -> Result<T, ExpressionError>) -> Result<T, ExpressionError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(ExpressionError::Failed(PANICKED.to_owned())))
}

/// The value of an expression, as a value of the template engine.
fn value_of(expression: &str, context: &Context, budget: &Budget) -> Result<minijinja::Value, ExpressionError> {
    scan::check_words(expression).map_err(ExpressionError::Syntax)?;
    // Stored versions may predate this limit.
    if scan::joins(expression) > MAX_JOINS {
        return Err(ExpressionError::TooLarge);
    }
    // An operator may read all of its operands, which the instruction count does not include.
    budget.charge(expression.len() as u64 * 64 + scan::signs(expression) * context.bytes)?;
    let compiled = ENVIRONMENT.compile_expression(expression).map_err(explained)?;
    meter::metered(budget, || compiled.eval(context.values.clone())).map_err(explained)
}

pub(super) fn evaluate(expression: &str, context: &Context, budget: &Budget) -> Result<Value, ExpressionError> {
    caught(|| evaluate_now(expression, context, budget))
}

/// Serialization can evaluate too, because some values are computed while they are written.
fn evaluate_now(expression: &str, context: &Context, budget: &Budget) -> Result<Value, ExpressionError> {
    let value = value_of(expression, context, budget)?;
    if value.is_undefined() {
        return Err(ExpressionError::Failed(format!("{expression} is not defined; use the filter `default` to give it a value")));
    }
    let mut out = filters::Bounded::new(MAX_VALUE_BYTES);
    serde_json::to_writer(&mut out, &value)
        .map_err(|error| if error.is_io() { ExpressionError::TooLarge } else { ExpressionError::Failed(error.to_string()) })?;
    budget.charge(out.bytes().len() as u64)?;
    serde_json::from_slice(out.bytes()).map_err(|error| ExpressionError::Failed(error.to_string()))
}

/// Whether a condition holds. Undefined, empty and zero values count as false.
pub(super) fn holds(text: &str, context: &Context, budget: &Budget) -> Result<bool, ExpressionError> {
    caught(|| Ok(value_of(condition(text), context, budget)?.is_true()))
}

/// Fills in the templates of a text. A text that consists of one template keeps the type of its value.
pub(super) fn render_text(text: &str, context: &Context, budget: &Budget) -> Result<Value, ExpressionError> {
    if !is_template(text) {
        return Ok(Value::String(text.to_owned()));
    }
    let pieces = pieces(text).map_err(ExpressionError::Syntax)?;
    if let [Piece::Expression(only)] = pieces.as_slice() {
        return evaluate(only, context, budget);
    }
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Expression(expression) => match evaluate(expression, context, budget)? {
                Value::String(text) => out.push_str(&text),
                Value::Null => {}
                other => out.push_str(&other.to_string()),
            },
        }
        if out.len() > MAX_VALUE_BYTES {
            return Err(ExpressionError::TooLarge);
        }
    }
    Ok(Value::String(out))
}

/// Fills in the templates of all texts in a value. An error contains the pointer of the text.
pub(super) fn render(value: &Value, context: &Context, budget: &Budget) -> Result<Value, (String, ExpressionError)> {
    match value {
        Value::String(text) => render_text(text, context, budget).map_err(|error| (String::new(), error)),
        Value::Array(items) => {
            let item = |(place, item): (usize, &Value)| {
                render(item, context, budget).map_err(|(at, error)| (format!("/{place}{at}"), error))
            };
            items.iter().enumerate().map(item).collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| {
                let rendered =
                    render(member, context, budget).map_err(|(at, error)| (format!("/{}{at}", pointer_part(name)), error))?;
                Ok((name.clone(), rendered))
            };
            members.iter().map(member).collect::<Result<_, _>>().map(Value::Object)
        }
        other => Ok(other.clone()),
    }
}

fn explained(error: minijinja::Error) -> ExpressionError {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    match error.kind() {
        ErrorKind::OutOfFuel => ExpressionError::OutOfFuel,
        ErrorKind::SyntaxError | ErrorKind::BadEscape => ExpressionError::Syntax(format!("{}{detail}", error.kind())),
        _ if error.detail() == Some(filters::TOO_LARGE) => ExpressionError::TooLarge,
        _ if error.detail() == Some(meter::TOO_MUCH_WORK) => ExpressionError::OutOfFuel,
        kind => ExpressionError::Failed(format!("{kind}{detail}")),
    }
}

#[cfg(test)]
pub(super) mod fuzz;
#[cfg(test)]
mod tests;
