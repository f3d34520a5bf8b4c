//! A definition in the form that the engine uses: a flat list of steps, and blocks of steps that branches and loops enter. No
//! store, no clock.
//!
//! There are two ways to read one. [`outline`] reads only the structure, in one pass over the JSON; the writer uses it. [`compile`]
//! also checks and compiles the tenant's programs (schema, expressions, schedules) and returns a [`Program`]; only a worker can do
//! that.
//!
//! **Invariant:** the same definition always yields the same step and block numbers, because unfinished runs store them.

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

pub(super) use control::{CONTROL, DEFINITION, faults_of_new};
pub(super) use inputs::InputSchema;
pub(super) use read::{compile, outline};
pub(super) use schedule::{GRACE, Schedule};
pub(super) use secrets::is_bare_reference;

/// The position of a step among all steps of the definition.
pub(super) type StepNumber = u32;
/// The position of a block among all blocks.
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
    /// The wait after this number of attempts.
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
    /// Whether the people who requested the run may approve it.
    pub(super) by_requester: bool,
}

/// The kind of a step.
#[derive(Clone, Debug)]
pub(super) enum StepKind {
    /// A type from the catalog.
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
    /// With its templates, but without the steps and conditions that are in `kind`.
    pub(super) with: Value,
    pub(super) retry: Option<Retry>,
    pub(super) timeout: Option<Duration>,
    pub(super) continues: bool,
    /// The loops that contain the step, outermost first.
    pub(super) loops: Vec<StepNumber>,
    pub(super) number: StepNumber,
    /// Texts of `with` that name secrets. `with` has placeholders in their place.
    pub(super) secrets: Vec<SecretText>,
    /// The JSON pointer of the step in the definition.
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
    /// The approximate memory size.
    pub(super) weight: u32,
}

impl Definition {
    pub(super) fn step(&self, number: StepNumber) -> Option<&Arc<Step>> {
        self.steps.get(number as usize)
    }

    pub(super) fn block(&self, number: BlockNumber) -> &[StepNumber] {
        self.blocks.get(number as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// The ids of the steps in a block.
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

    /// The names of the secrets that its steps send, and their pointers.
    pub(super) fn secrets(&self) -> impl Iterator<Item = (&str, String)> {
        self.steps.iter().flat_map(|step| {
            step.secrets.iter().flat_map(|text| text.names().map(|name| (name, format!("{}/with{}", step.pointer, text.pointer))))
        })
    }

    /// The keys of the workflows that it calls, except keys from templates, and the pointers of the steps.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.steps.iter().filter(|step| matches!(step.kind, StepKind::Call { .. })).filter_map(|step| {
            let key = step.with.get("workflow_key").and_then(Value::as_str)?;
            (!super::language::is_template(key)).then_some((key, step.pointer.as_str()))
        })
    }
}

/// A definition with its checked and compiled programs.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) definition: Arc<Definition>,
    pub(super) inputs: Option<InputSchema>,
    pub(super) schedules: Vec<Schedule>,
    /// For each step, the steps whose results its expressions read.
    reads: Vec<Vec<StepNumber>>,
    /// The approximate memory size.
    pub(super) weight: u32,
}

impl Program {
    pub(super) fn reads(&self, step: &Step) -> &[StepNumber] {
        self.reads.get(step.number as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// The next scheduled start.
    pub(super) fn next_fire(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedules.iter().filter_map(|schedule| schedule.next(after)).min()
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
