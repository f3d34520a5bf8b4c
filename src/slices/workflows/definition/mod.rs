//! A definition, read once into a form that runs can be driven by: a flat list of steps, and blocks of them that branches and
//! loops enter. No store, no clock.
//!
//! There are two readings. [`outline`] takes the structure alone, in one pass over the JSON; the writer uses it. [`compile`] also checks
//! and compiles the programs that the tenant wrote (schema, expressions, times) and gives a [`Program`]; only a worker can do that.
//!
//! **Invariant:** the same definition gives the same numbers of steps and blocks, because runs that have begun hold them.

mod control;
mod inputs;
mod read;
mod references;
mod schedule;
mod schema;
mod secrets;

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use tenantd_base::{clock::Timestamp, secrets::SecretText};

pub(super) use control::{CONTROL, DEFINITION};
pub(super) use inputs::InputSchema;
pub(super) use read::{compile, outline};
pub(super) use schedule::{GRACE, Schedule};
pub(super) use secrets::is_bare_reference;

/// The place of a step among all steps of the definition.
pub(super) type StepNumber = u32;
/// The place of a list of steps among all lists.
pub(super) type BlockNumber = u32;

pub(super) const DEFAULT_TIMEOUT_SECONDS: u64 = 86_400;
pub(super) const MAX_DEFINITION_BYTES: usize = 131_072;
const MAX_STEPS: usize = 200;
const MAX_NESTING: usize = 6;
const MAX_SCHEDULES: usize = 10;

#[derive(Clone, Debug)]
pub(super) enum Trigger {
    Manual,
    Event { kind: String, condition: Option<String> },
    Schedule { cron: String, timezone: String, run_missed: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnConflict {
    Queue,
    Reject,
    UseExisting,
    CancelExisting,
}

#[derive(Clone, Debug)]
pub(super) struct Concurrency {
    /// A template.
    pub(super) key: String,
    pub(super) limit: usize,
    pub(super) on_conflict: OnConflict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) max_attempts: u32,
    pub(super) exponential: bool,
    pub(super) initial: Duration,
    pub(super) most: Duration,
}

impl Retry {
    /// How long to wait after so many attempts.
    pub(super) fn delay(&self, attempts: u32) -> Duration {
        let doubled = if self.exponential { 1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX) } else { 1 };
        self.initial.saturating_mul(doubled).min(self.most)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnTimeout {
    Fail,
    Reject,
    Approve,
}

#[derive(Clone, Debug)]
pub(super) struct Approval {
    pub(super) roles: Vec<String>,
    pub(super) required: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) on_timeout: OnTimeout,
    /// Whether whoever asked for the run may approve it.
    pub(super) by_requester: bool,
}

/// What a step is.
#[derive(Clone, Debug)]
pub(super) enum StepKind {
    /// Of a type that the catalogue has.
    Action,
    If {
        condition: String,
        then: BlockNumber,
        otherwise: Option<BlockNumber>,
    },
    ForEach {
        block: BlockNumber,
        max_parallel: u32,
    },
    Parallel {
        branches: Vec<BlockNumber>,
    },
    WaitDuration,
    WaitEvent {
        kind: String,
        condition: Option<String>,
    },
    Approval(Approval),
    Set,
    Assert {
        condition: String,
    },
    Fail,
    Return,
    Call {
        wait: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) type_name: String,
    pub(super) kind: StepKind,
    pub(super) when: Option<String>,
    /// With its templates, and without the steps and conditions that are in `kind`.
    pub(super) with: Value,
    pub(super) retry: Option<Retry>,
    pub(super) timeout: Option<Duration>,
    pub(super) continues: bool,
    /// The loops that it is in, the outermost first.
    pub(super) loops: Vec<StepNumber>,
    pub(super) number: StepNumber,
    /// Texts of `with` that name secrets. In `with` placeholders stand for them.
    pub(super) secrets: Vec<SecretText>,
    /// Where it is in the definition.
    pub(super) pointer: String,
}

#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) enabled: bool,
    pub(super) triggers: Vec<Trigger>,
    pub(super) timeout: Duration,
    pub(super) concurrency: Option<Concurrency>,
    pub(super) steps: Vec<Arc<Step>>,
    pub(super) blocks: Vec<Vec<StepNumber>>,
    pub(super) main: BlockNumber,
    pub(super) on_failure: Option<BlockNumber>,
    /// About what it holds in memory.
    pub(super) weight: u32,
}

impl Definition {
    pub(super) fn step(&self, number: StepNumber) -> Option<&Arc<Step>> {
        self.steps.get(number as usize)
    }

    pub(super) fn block(&self, number: BlockNumber) -> &[StepNumber] {
        self.blocks.get(number as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// The ids of the steps of a list.
    pub(super) fn ids_of(&self, number: BlockNumber) -> Vec<String> {
        self.block(number).iter().filter_map(|number| self.step(*number)).map(|step| step.id.clone()).collect()
    }

    pub(super) fn is_manual(&self) -> bool {
        self.triggers.iter().any(|trigger| matches!(trigger, Trigger::Manual))
    }

    /// The kinds of events that start a run.
    pub(super) fn events(&self) -> Vec<String> {
        let kind = |trigger: &Trigger| match trigger {
            Trigger::Event { kind, .. } => Some(kind.clone()),
            _ => None,
        };
        let mut kinds: Vec<String> = self.triggers.iter().filter_map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The names of the secrets that its steps send, and where.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (&str, String)> {
        self.steps.iter().flat_map(|step| {
            step.secrets.iter().flat_map(|text| text.names().map(|name| (name, format!("{}/with{}", step.pointer, text.pointer))))
        })
    }

    /// The keys of the workflows that it calls, as far as they are written down, and where.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.steps.iter().filter(|step| matches!(step.kind, StepKind::Call { .. })).filter_map(|step| {
            let key = step.with.get("workflow_key").and_then(Value::as_str)?;
            (!super::language::is_template(key)).then_some((key, step.pointer.as_str()))
        })
    }
}

/// A definition with its programs, checked and compiled.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) definition: Arc<Definition>,
    pub(super) inputs: Option<InputSchema>,
    pub(super) schedules: Vec<Schedule>,
    /// For each step, the steps whose results its expressions read.
    reads: Vec<Vec<StepNumber>>,
    /// About what it holds in memory.
    pub(super) weight: u32,
}

impl Program {
    pub(super) fn reads(&self, step: &Step) -> &[StepNumber] {
        self.reads.get(step.number as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// The next time that a schedule starts a run.
    pub(super) fn next_fire(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedules.iter().filter_map(|schedule| schedule.next(after)).min()
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
