//! A dry run: plans every step, in execution order, on one snapshot.
//!
//! **Invariant:** nothing here can reach an effect. A dry run has the planners of the steps, a snapshot and values. It has no
//! writer and no network access, and a planner cannot reach the code that applies it. A step is planned with the rights that the
//! workflow's owner and the caller have in common.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    fault::listed,
    programs::Budget,
    vocabulary::vocabulary,
};
use tenantd_store::{
    ReadTx, StoreError,
    steps::{LocalError, Planning},
};

use super::{
    definition::{BlockNumber, Program, Step, StepKind},
    language::{self, Context, ExpressionError},
    model::RunError,
    service::Service,
};

/// The maximum number of planned steps, and of planned items per loop.
const MAX_STEPS: usize = 500;
const MAX_ITEMS: usize = 20;
/// The cost of planning an action. It limits a dry run to about sixty actions.
const PLANNED_ACTION: u64 = 1_000_000;

vocabulary! {
    /// The expected outcome of a step. `Unknown`: it depends on the result of another step.
    Prospect:
    Planned "planned", Skipped "skipped", Unknown "unknown", Failed "failed",
}

/// The expected outcome of one step.
#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    pub(super) path: String,
    pub(super) step_id: String,
    pub(super) type_name: String,
    pub(super) prospect: Prospect,
    pub(super) summary: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) output: Option<Value>,
    pub(super) error: Option<RunError>,
}

/// The expected outcome of a run.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    pub(super) steps: Vec<PlannedStep>,
    pub(super) error: Option<RunError>,
    pub(super) output: Option<Value>,
    /// Whether there were more steps than are shown.
    pub(super) truncated: bool,
}

/// Whether planning continues after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Continuation {
    Continue,
    Stop,
}

pub(super) struct Planner<'a> {
    pub(super) service: &'a Service,
    pub(super) tx: &'a ReadTx,
    pub(super) planning: &'a Planning,
    pub(super) program: &'a Program,
    pub(super) budget: &'a Budget,
}

struct Walk<'a> {
    planner: &'a Planner<'a>,
    names: Map<String, Value>,
    steps: Map<String, Value>,
    unknown: BTreeSet<String>,
    forecast: Forecast,
}

/// What is known about a step before its own part is planned.
enum Ready {
    With(Value),
    Skip,
    Unknown(String),
    Failed(String, ExpressionError),
}

impl Planner<'_> {
    pub(super) fn plan(&self, names: Map<String, Value>) -> Result<Forecast, StoreError> {
        let mut walk = Walk { planner: self, names, steps: Map::new(), unknown: BTreeSet::new(), forecast: Forecast::default() };
        let going = walk.block(self.program.definition.main, "")?;
        if walk.forecast.error.is_some()
            && going == Continuation::Stop
            && let Some(block) = self.program.definition.on_failure
        {
            let error = walk.forecast.error.take();
            let details = error.as_ref().map(|error| json!({"code": error.code, "message": error.message, "step": error.step}));
            if let Some(run) = walk.names.get_mut("run").and_then(Value::as_object_mut) {
                run.insert("error".to_owned(), details.unwrap_or_default());
            }
            walk.block(block, "")?;
            walk.forecast.error = error;
        }
        Ok(walk.forecast)
    }
}

impl Walk<'_> {
    fn context(&self) -> Context {
        let mut names = self.names.clone();
        names.insert("steps".to_owned(), Value::Object(self.steps.clone()));
        Context::new(&names)
    }

    fn block(&mut self, block: BlockNumber, scope: &str) -> Result<Continuation, StoreError> {
        let definition = self.planner.program.definition.as_ref();
        for number in definition.block(block) {
            let Some(step) = definition.step(*number) else { continue };
            if self.forecast.steps.len() >= MAX_STEPS {
                self.forecast.truncated = true;
                return Ok(Continuation::Stop);
            }
            if self.step(step, scope)? == Continuation::Stop {
                return Ok(Continuation::Stop);
            }
        }
        Ok(Continuation::Continue)
    }

    fn show(
        &mut self,
        step: &Step,
        scope: &str,
        prospect: Prospect,
        summary: Option<String>,
        input: Option<Value>,
        output: Option<Value>,
    ) {
        let input = input.map(|mut input| {
            if let Some(known) = self.planner.service.planners.get(&step.type_name) {
                known.redact(&mut input);
            }
            input
        });
        let error = None;
        let (path, step_id, type_name) = (format!("{scope}{}", step.id), step.id.clone(), step.type_name.clone());
        self.forecast.steps.push(PlannedStep { path, step_id, type_name, prospect, summary, input, output, error });
    }

    /// Records the output of a step, or that it is unknown.
    fn note(&mut self, step: &Step, output: Option<Value>) {
        if let Some(output) = output {
            self.unknown.remove(&step.id);
            self.steps.insert(step.id.clone(), json!({"status": "succeeded", "output": output}));
        } else {
            self.unknown.insert(step.id.clone());
            self.steps.insert(step.id.clone(), json!({"status": "succeeded"}));
        }
    }

    fn fail(&mut self, step: &Step, scope: &str, input: Option<Value>, code: &str, message: String) -> Continuation {
        self.show(step, scope, Prospect::Failed, None, input, None);
        let path = format!("{scope}{}", step.id);
        if let Some(shown) = self.forecast.steps.last_mut() {
            shown.error = Some(RunError { code: code.to_owned(), message: message.clone(), step: None });
        }
        self.steps.insert(step.id.clone(), json!({"status": "failed", "error": {"code": code, "message": message}}));
        if step.continues {
            return Continuation::Continue;
        }
        self.forecast.error = Some(RunError { code: code.to_owned(), message, step: Some(path) });
        Continuation::Stop
    }

    /// Describes the unknown steps that a step depends on.
    fn depends(&self, step: &Step) -> Option<String> {
        let definition = self.planner.program.definition.as_ref();
        let ids =
            self.planner.program.reads(step).iter().filter_map(|number| definition.step(*number)).map(|other| other.id.as_str());
        let unknown: Vec<&str> = ids.filter(|id| self.unknown.contains(*id)).collect();
        (!unknown.is_empty()).then(|| format!("depends on the result of {}", unknown.join(", ")))
    }

    fn ready(&self, step: &Step, context: &Context) -> Ready {
        if let Some(condition) = &step.when {
            match (language::holds(condition, context, self.planner.budget), self.depends(step)) {
                (_, Some(why)) => return Ready::Unknown(why),
                (Ok(false), None) => return Ready::Skip,
                (Ok(true), None) => {}
                (Err(error), None) => return Ready::Failed("if".to_owned(), error),
            }
        }
        match (language::render(&step.with, context, self.planner.budget), self.depends(step)) {
            (Ok(with), _) => Ready::With(with),
            (Err(_), Some(why)) => Ready::Unknown(why),
            (Err((at, error)), None) => Ready::Failed(at, error),
        }
    }

    fn step(&mut self, step: &Step, scope: &str) -> Result<Continuation, StoreError> {
        let context = self.context();
        match self.ready(step, &context) {
            Ready::With(with) => self.decide(step, scope, &context, with),
            Ready::Skip => {
                self.show(step, scope, Prospect::Skipped, None, None, None);
                self.steps.insert(step.id.clone(), json!({"status": "skipped"}));
                Ok(Continuation::Continue)
            }
            Ready::Unknown(why) => {
                self.show(step, scope, Prospect::Unknown, Some(why), None, None);
                self.note(step, None);
                Ok(Continuation::Continue)
            }
            Ready::Failed(at, error) => Ok(self.fail(step, scope, None, error.code(), format!("{at}: {error}"))),
        }
    }

    fn decide(&mut self, step: &Step, scope: &str, context: &Context, with: Value) -> Result<Continuation, StoreError> {
        let lacking = self.planner.service.needs_of(step).without(self.planner.planning.authority.scopes());
        if lacking != Grants::NONE {
            let names: Vec<&str> = lacking.iter().map(Scope::name).collect();
            let message = format!("you and the workflow's owner must both have the scopes {}", names.join(", "));
            return Ok(self.fail(step, scope, None, "insufficient_scope", message));
        }
        let planned = |walk: &mut Self, summary: &str, with: Value, output: Option<Value>| {
            walk.show(step, scope, Prospect::Planned, Some(summary.to_owned()), Some(with), output.clone());
            walk.note(step, output);
            Ok(Continuation::Continue)
        };
        match &step.kind {
            StepKind::Action => self.action(step, scope, with),
            StepKind::If { condition, then, otherwise } => self.branch(step, scope, context, condition, *then, *otherwise),
            StepKind::Parallel { branches } => {
                planned(self, "would run its branches in parallel", with, Some(json!({"count": branches.len()})))?;
                for branch in branches {
                    if self.block(*branch, scope)? == Continuation::Stop {
                        return Ok(Continuation::Stop);
                    }
                }
                Ok(Continuation::Continue)
            }
            StepKind::ForEach { block, .. } => self.repeat(step, scope, *block, &with),
            StepKind::WaitDuration => planned(self, "would wait", with, Some(json!({}))),
            StepKind::WaitEvent { kind, .. } => planned(self, &format!("would wait for {kind}"), with, None),
            StepKind::Approval(_) => planned(self, "would wait for an approval", with, Some(json!({"approved": true, "by": []}))),
            StepKind::Set => planned(self, "would compute values", json!({}), Some(with)),
            StepKind::Assert { condition } => {
                match (language::holds(condition, context, self.planner.budget), self.depends(step)) {
                    (_, Some(why)) => {
                        self.show(step, scope, Prospect::Unknown, Some(why), None, None);
                        Ok(Continuation::Continue)
                    }
                    (Ok(true), None) => planned(self, "the condition holds", json!({"condition": condition}), Some(json!({}))),
                    (Ok(false), None) => Ok(self.fail(step, scope, None, "assertion_failed", format!("{condition} does not hold"))),
                    (Err(error), None) => Ok(self.fail(step, scope, None, error.code(), error.to_string())),
                }
            }
            StepKind::Fail => {
                let text = |name: &str| with.get(name).and_then(Value::as_str).map(str::to_owned);
                let (code, message) = (text("code").unwrap_or_else(|| "failed".to_owned()), text("message").unwrap_or_default());
                Ok(self.fail(step, scope, Some(with), &code, message))
            }
            StepKind::Return => {
                let output = with.get("output").cloned().unwrap_or_default();
                planned(self, "would end the run", json!({}), Some(output.clone()))?;
                self.forecast.output = Some(output);
                Ok(Continuation::Stop)
            }
            StepKind::Call { .. } => {
                let key = with.get("workflow_key").and_then(Value::as_str).unwrap_or_default().to_owned();
                planned(self, &format!("would start a run of {key}"), with, None)
            }
        }
    }

    fn action(&mut self, step: &Step, scope: &str, with: Value) -> Result<Continuation, StoreError> {
        let Planner { service, tx, planning, budget, .. } = self.planner;
        let planners = &service.planners;
        // A step may read many records to describe what it would do.
        if budget.charge(PLANNED_ACTION).is_err() {
            self.forecast.truncated = true;
            return Ok(Continuation::Stop);
        }
        let faults = planners.check(&step.type_name, &with);
        if !faults.is_empty() {
            return Ok(self.fail(step, scope, Some(with), "invalid_input", listed(&faults)));
        }
        let Some(known) = planners.get(&step.type_name) else {
            let message = format!("this release has no step type {}", step.type_name);
            return Ok(self.fail(step, scope, None, "unknown_step_type", message));
        };
        match known.plan(tx, planning, &with) {
            Ok(planned) => {
                self.show(step, scope, Prospect::Planned, Some(planned.summary), Some(with), planned.output.clone());
                self.note(step, planned.output);
                Ok(Continuation::Continue)
            }
            Err(LocalError::Store(error)) => Err(error),
            // The record that an earlier step would create does not exist yet, so this step has not failed.
            Err(LocalError::Step(_)) if self.is_about_a_plan(step) => {
                let why = "depends on a record that an earlier step would create".to_owned();
                self.show(step, scope, Prospect::Unknown, Some(why), Some(with), None);
                self.note(step, None);
                Ok(Continuation::Continue)
            }
            Err(LocalError::Step(error)) => Ok(self.fail(step, scope, Some(with), &error.code, error.message)),
        }
    }

    /// Whether the step reads the result of an earlier action.
    fn is_about_a_plan(&self, step: &Step) -> bool {
        let definition = self.planner.program.definition.as_ref();
        let made = |number: &u32| definition.step(*number).is_some_and(|other| matches!(other.kind, StepKind::Action));
        self.planner.program.reads(step).iter().any(made)
    }

    fn branch(
        &mut self,
        step: &Step,
        scope: &str,
        context: &Context,
        condition: &str,
        then: BlockNumber,
        otherwise: Option<BlockNumber>,
    ) -> Result<Continuation, StoreError> {
        if let Some(why) = self.depends(step) {
            // Either branch may run: both are planned, and neither ends the plan.
            self.show(step, scope, Prospect::Unknown, Some(why), None, None);
            for block in std::iter::once(then).chain(otherwise) {
                self.block(block, scope)?;
            }
            self.forecast.error = None;
            return Ok(Continuation::Continue);
        }
        match language::holds(condition, context, self.planner.budget) {
            Err(error) => Ok(self.fail(step, scope, None, error.code(), error.to_string())),
            Ok(holds) => {
                let input = json!({"condition": holds});
                self.show(step, scope, Prospect::Planned, None, Some(input), None);
                self.note(step, Some(json!({"count": 1})));
                match if holds { Some(then) } else { otherwise } {
                    Some(block) => self.block(block, scope),
                    None => Ok(Continuation::Continue),
                }
            }
        }
    }

    fn repeat(&mut self, step: &Step, scope: &str, block: BlockNumber, with: &Value) -> Result<Continuation, StoreError> {
        let Some(items) = with.get("items").and_then(Value::as_array) else {
            return Ok(self.fail(step, scope, Some(with.clone()), "invalid_input", "items must be a list".to_owned()));
        };
        let summary = format!("would run its steps for {} items", items.len());
        self.show(step, scope, Prospect::Planned, Some(summary), Some(with.clone()), None);
        self.forecast.truncated |= items.len() > MAX_ITEMS;
        let outer = (self.names.remove("item"), self.names.remove("item_index"));
        let inner: Vec<String> = self.planner.program.definition.ids_of(block);
        let (mut going, mut outputs) = (Continuation::Continue, Vec::new());
        for (place, item) in items.iter().take(MAX_ITEMS).enumerate() {
            self.names.insert("item".to_owned(), item.clone());
            self.names.insert("item_index".to_owned(), place.into());
            going = self.block(block, &format!("{scope}{}[{place}]/", step.id))?;
            if going == Continuation::Stop {
                break;
            }
            if inner.iter().all(|id| !self.unknown.contains(id)) {
                let known = inner.iter().filter_map(|id| Some((id.clone(), self.steps.get(id)?.get("output")?.clone())));
                outputs.push(Value::Object(known.collect()));
            }
        }
        for (name, value) in [("item", outer.0), ("item_index", outer.1)] {
            match value {
                Some(value) => self.names.insert(name.to_owned(), value),
                None => self.names.remove(name),
            };
        }
        let is_known = outputs.len() == items.len();
        self.note(step, is_known.then(|| json!({"count": items.len(), "outputs": outputs})));
        Ok(going)
    }
}
