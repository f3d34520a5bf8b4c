//! The filters and tests of the language. Filters that can create a value longer than their input are limited here.

use std::io;

use minijinja::{Environment, Error, ErrorKind, Value, filters, tests};

use super::{
    MAX_VALUE_BYTES,
    meter::{self, Cost},
};

pub(super) const TOO_LARGE: &str = "the value is too large";

macro_rules! filters {
    ($($name:literal $cost:ident $function:expr,)*) => {
        pub(super) const FILTERS: &[&str] = &[$($name),*];

        /// Registers each filter twice: unlimited, under a name that no expression can write, and with limits.
        fn add_filters(environment: &mut Environment<'static>) {
            $(
                environment.add_filter(concat!("plain ", $name), $function);
                environment.add_filter($name, meter::bounded(concat!("plain ", $name), Cost::$cost));
            )*
        }
    };
}

filters! {
    "abs" Linear filters::abs,
    "capitalize" Linear filters::capitalize,
    "default" Constant filters::default,
    "first" Constant filters::first,
    "float" Linear filters::float,
    "int" Linear filters::int,
    "items" Linear filters::items,
    "join" Linear join,
    "last" Constant filters::last,
    "length" Constant filters::length,
    "list" Linear filters::list,
    "lower" Linear filters::lower,
    "max" Sorting filters::max,
    "min" Sorting filters::min,
    "replace" Linear replace,
    "reverse" Linear filters::reverse,
    "round" Linear filters::round,
    "sort" Sorting filters::sort,
    "split" Linear filters::split,
    "string" Linear filters::string,
    "sum" Linear filters::sum,
    "times" Linear times,
    "title" Linear filters::title,
    "tojson" Linear to_json,
    "trim" Linear filters::trim,
    "unique" Sorting filters::unique,
    "upper" Linear filters::upper,
}

pub(super) const TESTS: &[&str] = &[
    "defined",
    "undefined",
    "none",
    "string",
    "number",
    "integer",
    "boolean",
    "mapping",
    "sequence",
    "startingwith",
    "endingwith",
    "in",
];

pub(super) fn add(environment: &mut Environment<'static>) {
    add_filters(environment);
    environment.add_test("defined", tests::is_defined);
    environment.add_test("undefined", tests::is_undefined);
    environment.add_test("none", tests::is_none);
    environment.add_test("string", tests::is_string);
    environment.add_test("number", tests::is_number);
    environment.add_test("integer", tests::is_integer);
    environment.add_test("boolean", tests::is_boolean);
    environment.add_test("mapping", tests::is_mapping);
    environment.add_test("sequence", tests::is_sequence);
    environment.add_test("startingwith", tests::is_startingwith);
    environment.add_test("endingwith", tests::is_endingwith);
    environment.add_test("in", tests::is_in);
}

pub(super) fn too_large() -> Error {
    Error::new(ErrorKind::InvalidOperation, TOO_LARGE)
}

fn bounded(text: String) -> Result<String, Error> {
    if text.len() > MAX_VALUE_BYTES { Err(too_large()) } else { Ok(text) }
}

fn times(left: Value, right: Value) -> Result<Value, Error> {
    let wrong = || Error::new(ErrorKind::InvalidOperation, "times needs two numbers");
    if let (Ok(left), Ok(right)) = (i64::try_from(left.clone()), i64::try_from(right.clone())) {
        return left.checked_mul(right).map(Value::from).ok_or_else(wrong);
    }
    match (f64::try_from(left), f64::try_from(right)) {
        (Ok(left), Ok(right)) => Ok(Value::from(left * right)),
        _ => Err(wrong()),
    }
}

fn join(values: Value, separator: Option<String>) -> Result<String, Error> {
    let separator = separator.unwrap_or_default();
    let mut out = String::new();
    for (place, value) in values.try_iter()?.enumerate() {
        if place > 0 {
            out.push_str(&separator);
        }
        out.push_str(&value.to_string());
        if out.len() > MAX_VALUE_BYTES {
            return Err(too_large());
        }
    }
    Ok(out)
}

fn replace(text: String, from: String, to: String) -> Result<String, Error> {
    if from.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "replace needs a text to search for"));
    }
    let growth = text.matches(from.as_str()).count().saturating_mul(to.len());
    if text.len().saturating_add(growth) > 2 * MAX_VALUE_BYTES {
        return Err(too_large());
    }
    bounded(text.replace(&from, &to))
}

fn to_json(value: Value) -> Result<String, Error> {
    let mut out = Bounded::new(MAX_VALUE_BYTES);
    serde_json::to_writer(&mut out, &value).map_err(|_| too_large())?;
    Ok(String::from_utf8_lossy(out.bytes()).into_owned())
}

/// A buffer with a maximum size.
pub(super) struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Bounded {
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.most {
            return Err(io::Error::other(TOO_LARGE));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
