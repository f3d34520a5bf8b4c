//! Charges the work of filters to the job's budget. The template engine calls the filters and knows no budget, so the remaining
//! budget is in a thread-local variable during an evaluation.

use std::cell::Cell;

use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Rest, ValueKind, ValueOrKwargs},
};

use tenantd_base::programs::Budget;

use super::filters::too_large;

pub(super) const TOO_MUCH_WORK: &str = "the expression takes too much work";
/// The maximum size of a filter's input and output.
const MAX_ITEMS: u64 = 10_000;
const MAX_BYTES: u64 = 262_144;
/// The cost of an item in addition to its bytes.
const ITEM: u64 = 64;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Evaluates with the remaining budget, and charges the cost of the filters to it.
pub(super) fn metered<T>(budget: &Budget, evaluate: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let before = budget.left();
    LEFT.set(before);
    let result = evaluate();
    let used = before - LEFT.get().min(before);
    match budget.charge(used) {
        Ok(()) => result,
        Err(_) => Err(too_much_work()),
    }
}

fn too_much_work() -> Error {
    Error::new(ErrorKind::InvalidOperation, TOO_MUCH_WORK)
}

fn charge(work: u64) -> Result<(), Error> {
    if let Some(left) = LEFT.get().checked_sub(work) {
        LEFT.set(left);
        Ok(())
    } else {
        LEFT.set(0);
        Err(too_much_work())
    }
}

/// The size of a value, counted up to the limits.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    items: u64,
    bytes: u64,
}

impl Size {
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > super::MAX_DEPTH {
            return Err(too_large());
        }
        self.items += 1;
        self.bytes += value.as_str().map_or(8, |text| text.len() as u64 + 8);
        if self.items > MAX_ITEMS || self.bytes > MAX_BYTES {
            return Err(too_large());
        }
        if matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
            let is_map = value.kind() == ValueKind::Map;
            for inner in value.try_iter()? {
                if is_map {
                    self.add(&value.get_item(&inner)?, depth + 1)?;
                }
                self.add(&inner, depth + 1)?;
            }
        }
        Ok(())
    }

    /// The work of reading all of it this many times.
    fn work(self, passes: u64) -> u64 {
        (self.bytes + self.items * ITEM).saturating_mul(passes)
    }
}

fn measured(value: &Value) -> Result<Size, Error> {
    let mut size = Size::default();
    size.add(value, 0)?;
    charge(size.work(1))?;
    Ok(size)
}

/// How much of its input a filter reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// It uses the value as it is.
    Constant,
    /// It reads the whole value once.
    Linear,
    /// It compares items with each other.
    Sorting,
}

/// Wraps the filter `inner`: limits its operands and its result, and charges its work.
pub(super) fn bounded(inner: &'static str, cost: Cost) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> {
    move |state, arguments| {
        let arguments = arguments.into_values();
        if cost == Cost::Constant {
            charge(ITEM)?;
            return state.apply_filter(inner, &arguments);
        }
        for argument in &arguments {
            let size = measured(argument)?;
            if cost == Cost::Sorting {
                charge(size.work(u64::from(size.items.ilog2()) + 1))?;
            }
        }
        let value = state.apply_filter(inner, &arguments)?;
        measured(&value)?;
        Ok(value)
    }
}
