//! Reads a definition from JSON: only its structure ([`outline`]), or with all checks ([`compile`]). The checks cover the schemas,
//! the rules that a schema cannot express, and the programs. Every problem is reported with its pointer; one problem does not hide
//! another.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use tenantd_base::{
    fault::{Fault, pointer_part},
    programs::Budget,
    vocabulary::nearest,
};
use tenantd_store::events::Kinds;

use super::{
    super::{
        language::{self, References},
        steps::{self, Planners},
    },
    Approval, BlockNumber, CONTROL, Concurrency, DEFAULT_TIMEOUT_SECONDS, DEFINITION, Definition, InputSchema,
    MAX_DEFINITION_BYTES, MAX_NESTING, MAX_SCHEDULES, MAX_STEPS, OnConflict, OnTimeout, Program, Retry, Schedule, Step, StepKind,
    StepNumber, Trigger, references, secrets,
};

/// Reads the structure of a stored definition, which was checked before. Takes one pass and ignores its programs.
pub(crate) fn outline(value: &Value, planners: &Planners) -> Definition {
    let mut reader = Reader::new(planners, None);
    reader.definition(value)
}

/// Reads a definition and compiles its programs, or returns everything that is wrong with it.
pub(crate) fn compile(value: &Value, planners: &Planners, kinds: &Kinds, budget: &Budget) -> Result<Program, Vec<Fault>> {
    if value.to_string().len() > MAX_DEFINITION_BYTES {
        return Err(vec![Fault::new("", "too_long", format!("a definition has at most {MAX_DEFINITION_BYTES} bytes"))]);
    }
    let mut reader = Reader::new(planners, Some(Checks { kinds, budget }));
    reader.faults = DEFINITION.1.as_ref().map(|schema| steps::faults(schema, value)).unwrap_or_default();
    let definition = reader.definition(value);
    let schedules = reader.schedules(&definition.triggers, value);
    let inputs = value.get("input_schema").filter(|schema| schema.is_object()).and_then(|schema| {
        let read = InputSchema::new(schema, budget).map_err(|fault| reader.faults.push(fault.below("/input_schema")));
        read.ok()
    });
    let Reader { mentions, mut faults, .. } = reader;
    let reads = references::check(&definition, &mentions, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let weight = definition.weight.saturating_add(inputs.as_ref().map_or(0, InputSchema::weight));
    Ok(Program { definition: Arc::new(definition), inputs, schedules, reads, weight })
}

/// What the checks of a definition need.
#[derive(Clone, Copy)]
struct Checks<'a> {
    kinds: &'a Kinds,
    budget: &'a Budget,
}

/// An expression: its step, its pointer, its references, and whether it has an event of its own.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) step: Option<StepNumber>,
    pub(super) pointer: String,
    pub(super) references: References,
    pub(super) knows_event: bool,
}

struct Reader<'a> {
    planners: &'a Planners,
    /// `None` if only the structure is read.
    checks: Option<Checks<'a>>,
    steps: Vec<Step>,
    blocks: Vec<Vec<StepNumber>>,
    mentions: Vec<Mention>,
    /// Step ids and the pointers where they were defined.
    ids: BTreeMap<String, String>,
    faults: Vec<Fault>,
}

fn text_of(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn seconds_of(value: &Value, name: &str) -> Option<Duration> {
    value.get(name).and_then(Value::as_u64).map(Duration::from_secs)
}

impl<'a> Reader<'a> {
    fn new(planners: &'a Planners, checks: Option<Checks<'a>>) -> Self {
        Self {
            planners,
            checks,
            steps: Vec::new(),
            blocks: Vec::new(),
            mentions: Vec::new(),
            ids: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn definition(&mut self, value: &Value) -> Definition {
        let triggers = self.triggers(value.get("triggers"));
        let main = self.block(value.get("steps"), "/steps", &[], 0);
        let on_failure = value.get("on_failure").map(|list| self.block(Some(list), "/on_failure", &[], 0));
        let concurrency = self.concurrency(value.get("concurrency"));
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let timeout = value.get("timeout_seconds").and_then(Value::as_u64).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        Definition {
            key: text("key"),
            name: text("name"),
            enabled: value.get("enabled").and_then(Value::as_bool).unwrap_or(true),
            triggers,
            timeout: Duration::from_secs(timeout),
            concurrency,
            steps: std::mem::take(&mut self.steps).into_iter().map(Arc::new).collect(),
            blocks: std::mem::take(&mut self.blocks),
            main,
            on_failure,
            weight: u32::try_from(4 * value.to_string().len()).unwrap_or(u32::MAX),
        }
    }

    fn schedules(&mut self, triggers: &[Trigger], value: &Value) -> Vec<Schedule> {
        let mut schedules = Vec::new();
        let places = value.get("triggers").and_then(Value::as_array).into_iter().flatten().enumerate();
        let mut places = places.filter(|(_, trigger)| trigger.get("type").and_then(Value::as_str) == Some("schedule"));
        for trigger in triggers {
            let Trigger::Schedule { cron, timezone, run_missed } = trigger else { continue };
            let place = places.next().map(|(place, _)| place).unwrap_or_default();
            if schedules.len() == MAX_SCHEDULES {
                self.fault(format!("/triggers/{place}"), "too_many", format!("a definition has at most {MAX_SCHEDULES} schedules"));
                break;
            }
            match Schedule::new(cron, timezone, *run_missed) {
                Ok(schedule) => schedules.push(schedule),
                Err((field, problem)) => self.fault(format!("/triggers/{place}/{field}"), "wrong_form", problem),
            }
        }
        schedules
    }

    fn fault(&mut self, pointer: impl Into<String>, code: &str, message: impl Into<String>) {
        self.faults.push(Fault::new(pointer, code, message));
    }

    fn triggers(&mut self, list: Option<&Value>) -> Vec<Trigger> {
        let Some(list) = list.and_then(Value::as_array) else { return vec![Trigger::Manual] };
        let mut triggers = Vec::new();
        for (place, trigger) in list.iter().enumerate() {
            let at = format!("/triggers/{place}");
            match trigger.get("type").and_then(Value::as_str) {
                Some("manual") => triggers.push(Trigger::Manual),
                Some("event") => {
                    let kind = text_of(trigger, "event").unwrap_or_default();
                    self.event_kind(&kind, format!("{at}/event"));
                    let condition = text_of(trigger, "condition");
                    self.condition(None, condition.as_deref(), format!("{at}/condition"), true);
                    triggers.push(Trigger::Event { kind, condition });
                }
                Some("schedule") => {
                    let cron = text_of(trigger, "cron").unwrap_or_default();
                    let timezone = text_of(trigger, "timezone").unwrap_or_else(|| "UTC".to_owned());
                    let run_missed = trigger.get("catch_up").and_then(Value::as_str) == Some("run_once");
                    triggers.push(Trigger::Schedule { cron, timezone, run_missed });
                }
                _ => {}
            }
        }
        triggers
    }

    fn event_kind(&mut self, kind: &str, pointer: String) {
        let Some(Checks { kinds, .. }) = self.checks else { return };
        if kind.is_empty() || kinds.iter().any(|known| known.name == kind) {
            return;
        }
        let fault = Fault::new(pointer, "unknown_event", format!("{kind} is not a kind of event"));
        self.faults.push(fault.with_suggestion(nearest(kind, kinds.iter().map(|known| known.name))));
    }

    fn concurrency(&mut self, value: Option<&Value>) -> Option<Concurrency> {
        let value = value?;
        let key = text_of(value, "key")?;
        self.template(None, &Value::String(key.clone()), "/concurrency/key");
        let limit = value.get("limit").and_then(Value::as_u64).unwrap_or(1);
        let on_conflict = match value.get("on_conflict").and_then(Value::as_str) {
            Some("reject") => OnConflict::Reject,
            Some("use_existing") => OnConflict::UseExisting,
            Some("cancel_existing") => OnConflict::CancelExisting,
            _ => OnConflict::Queue,
        };
        Some(Concurrency { key, limit: usize::try_from(limit).unwrap_or(1), on_conflict })
    }

    fn block(&mut self, list: Option<&Value>, at: &str, loops: &[StepNumber], depth: usize) -> BlockNumber {
        let number = self.blocks.len();
        self.blocks.push(Vec::new());
        if depth > MAX_NESTING {
            self.fault(at, "too_deep", format!("steps can be nested at most {MAX_NESTING} levels deep"));
            return BlockNumber::try_from(number).unwrap_or_default();
        }
        let mut inner = Vec::new();
        for (place, step) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
            inner.push(self.step(step, &format!("{at}/{place}"), loops, depth));
            if self.steps.len() == MAX_STEPS + 1 {
                self.fault(at, "too_many", format!("a definition has at most {MAX_STEPS} steps"));
            }
        }
        if let Some(block) = self.blocks.get_mut(number) {
            *block = inner;
        }
        BlockNumber::try_from(number).unwrap_or_default()
    }

    fn step(&mut self, value: &Value, at: &str, loops: &[StepNumber], depth: usize) -> StepNumber {
        let number = StepNumber::try_from(self.steps.len()).unwrap_or(StepNumber::MAX);
        let id = text_of(value, "id").unwrap_or_default();
        let type_name = text_of(value, "type").unwrap_or_default();
        let with = value.get("with").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        if let Some(first) = self.ids.insert(id.clone(), at.to_owned()).filter(|_| !id.is_empty()) {
            self.fault(format!("{at}/id"), "repeated", format!("the step at {first} already has the id {id}"));
        }
        // A step gets its number before the steps inside it.
        self.steps.push(Step {
            id,
            type_name: type_name.clone(),
            kind: StepKind::Action,
            when: text_of(value, "if"),
            with: Value::Null,
            retry: retry(value.get("retry")),
            timeout: seconds_of(value, "timeout_seconds"),
            continues: value.get("on_error").and_then(Value::as_str) == Some("continue"),
            loops: loops.to_vec(),
            number,
            secrets: Vec::new(),
            pointer: at.to_owned(),
        });
        self.condition(Some(number), text_of(value, "if").as_deref(), format!("{at}/if"), false);
        let here = format!("{at}/with");
        if self.checks.is_some() {
            let checked = match CONTROL.get(type_name.as_str()) {
                Some(control) => control.compiled.as_ref().map(|schema| steps::faults(schema, &with)).unwrap_or_default(),
                None => self.planners.check(&type_name, &with),
            };
            self.faults.extend(checked.into_iter().map(|fault| fault.below(&here)));
        }
        let (kind, mut rest) = self.kind(number, &type_name, with, at, loops, depth);
        let places = self.planners.get(&type_name).map(|step| step.secret_places()).unwrap_or_default();
        let taken = secrets::take(&mut rest, places);
        self.template(Some(number), &rest, &here);
        if let Some(step) = self.steps.get_mut(number as usize) {
            (step.kind, step.with, step.secrets) = (kind, rest, taken);
        }
        number
    }

    /// Returns the kind of a step and the rest of its `with`.
    fn kind(
        &mut self,
        number: StepNumber,
        type_name: &str,
        mut with: Value,
        at: &str,
        loops: &[StepNumber],
        depth: usize,
    ) -> (StepKind, Value) {
        let here = format!("{at}/with");
        let taken = |with: &mut Value, name: &str| with.as_object_mut().and_then(|members| members.remove(name));
        let kind = match type_name {
            "if" => {
                let condition = self.taken_condition(number, &mut with, &here, false).unwrap_or_default();
                let then = self.block(taken(&mut with, "then").as_ref(), &format!("{here}/then"), loops, depth + 1);
                let otherwise =
                    taken(&mut with, "else").map(|list| self.block(Some(&list), &format!("{here}/else"), loops, depth + 1));
                StepKind::If { condition, then, otherwise }
            }
            "for_each" => {
                let inner = [loops, &[number]].concat();
                let block = self.block(taken(&mut with, "steps").as_ref(), &format!("{here}/steps"), &inner, depth + 1);
                let max_parallel = taken(&mut with, "max_parallel").and_then(|most| most.as_u64()).unwrap_or(1);
                StepKind::ForEach { block, max_parallel: u32::try_from(max_parallel).unwrap_or(1) }
            }
            "parallel" => {
                let lists = taken(&mut with, "branches");
                let lists = lists.as_ref().and_then(Value::as_array).into_iter().flatten().enumerate();
                let branches = lists
                    .map(|(place, list)| self.block(Some(list), &format!("{here}/branches/{place}"), loops, depth + 1))
                    .collect();
                StepKind::Parallel { branches }
            }
            "wait.duration" => StepKind::WaitDuration,
            "wait.event" => {
                let kind = taken(&mut with, "event").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
                self.event_kind(&kind, format!("{here}/event"));
                StepKind::WaitEvent { kind, condition: self.taken_condition(number, &mut with, &here, true) }
            }
            "approval" => StepKind::Approval(approval(&with)),
            "set" => StepKind::Set,
            "assert" => StepKind::Assert { condition: self.taken_condition(number, &mut with, &here, false).unwrap_or_default() },
            "fail" => StepKind::Fail,
            "return" => StepKind::Return,
            "workflow.call" => StepKind::Call { wait: with.get("wait").and_then(Value::as_bool).unwrap_or(true) },
            other => {
                let planners = self.planners;
                if self.checks.is_some() && !other.is_empty() && planners.get(other).is_none() {
                    self.faults.push(unknown_type(other, planners, format!("{at}/type")));
                }
                StepKind::Action
            }
        };
        (kind, with)
    }

    fn taken_condition(&mut self, number: StepNumber, with: &mut Value, here: &str, knows_event: bool) -> Option<String> {
        let condition = with.as_object_mut().and_then(|members| members.remove("condition"));
        let condition = condition.and_then(|text| text.as_str().map(str::to_owned))?;
        self.condition(Some(number), Some(&condition), format!("{here}/condition"), knows_event);
        Some(condition)
    }

    fn condition(&mut self, step: Option<StepNumber>, text: Option<&str>, pointer: String, knows_event: bool) {
        let (Some(text), Some(Checks { budget, .. })) = (text, self.checks) else { return };
        match language::check(language::condition(text), budget) {
            Ok(references) => self.mentions.push(Mention { step, pointer, references, knows_event }),
            Err(error) => self.fault(pointer, error.code(), error.to_string()),
        }
    }

    /// Checks the templates in all texts of a value.
    fn template(&mut self, step: Option<StepNumber>, value: &Value, at: &str) {
        let Some(Checks { budget, .. }) = self.checks else { return };
        match value {
            Value::String(text) => match language::check_template(text, budget) {
                Ok(references) if references.names.is_empty() => {}
                Ok(references) => {
                    self.mentions.push(Mention { step, pointer: at.to_owned(), references, knows_event: false });
                }
                Err(error) => self.fault(at, error.code(), error.to_string()),
            },
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(place, item)| self.template(step, item, &format!("{at}/{place}")));
            }
            Value::Object(members) => {
                members.iter().for_each(|(name, member)| self.template(step, member, &format!("{at}/{}", pointer_part(name))));
            }
            _ => {}
        }
    }
}

fn retry(value: Option<&Value>) -> Option<Retry> {
    let value = value?;
    let attempts = value.get("max_attempts").and_then(Value::as_u64).unwrap_or(1);
    Some(Retry {
        max_attempts: u32::try_from(attempts).unwrap_or(1),
        exponential: value.get("backoff").and_then(Value::as_str) != Some("fixed"),
        initial: seconds_of(value, "initial_seconds").unwrap_or(Duration::from_secs(10)),
        most: seconds_of(value, "max_seconds").unwrap_or(Duration::from_hours(1)),
    })
}

fn approval(with: &Value) -> Approval {
    let roles = with.get("roles").and_then(Value::as_array).into_iter().flatten();
    Approval {
        roles: roles.filter_map(|role| role.as_str().map(str::to_owned)).collect(),
        required: with.get("required").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok()).unwrap_or(1),
        timeout: seconds_of(with, "timeout_seconds"),
        on_timeout: match with.get("on_timeout").and_then(Value::as_str) {
            Some("approve") => OnTimeout::Approve,
            Some("reject") => OnTimeout::Reject,
            _ => OnTimeout::Fail,
        },
        by_requester: with.get("self_approval").and_then(Value::as_bool).unwrap_or(false),
    }
}

fn unknown_type(name: &str, planners: &Planners, pointer: String) -> Fault {
    let known = || planners.iter().map(|step| step.name()).chain(CONTROL.keys().copied());
    let fault = Fault::new(pointer, "unknown_step_type", format!("there is no step type {name}"));
    fault.with_allowed(known()).with_suggestion(nearest(name, known()))
}
