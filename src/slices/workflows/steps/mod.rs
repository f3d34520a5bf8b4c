//! The types of steps that do something, and the catalogue that they register in. The engine knows none of them by name.
//!
//! **Invariant:** planning and doing are two traits. Whoever holds [`Planners`] can describe, check and plan steps, on a snapshot;
//! there is no way from there to what changes anything or calls out. A dry run holds nothing else.

mod cloud;
mod http_request;
mod inventory;
mod tickets;

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Value, json};

use tenantd_base::{
    access::Grants,
    authority::Authority,
    id::{TenantId, WorkflowId},
};
use tenantd_http::{
    problem::{FieldError, Place},
    schema::BodySchema,
};
use tenantd_store::{
    ReadTx, StoreError, WriteTx,
    events::{Act, Intent},
};

pub use super::definition::{SecretPlace, SecretText};
use super::{error::Fault, language::is_template};

pub use cloud::{ProvisionVm, VerifyProvider, WaitForVm};
pub use http_request::HttpRequest;
pub use inventory::ReportInventory;
pub use tickets::{CommentOnTicket, CreateTicket, UpdateTicket};

/// The code of a step or a run that the tenant has no quota left for.
pub(super) const QUOTA_EXCEEDED: &str = "quota_exceeded";

/// Why a step failed, in the words that its record shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    pub code: String,
    pub message: String,
    /// Whether the same could go well at another time.
    pub retryable: bool,
}

impl StepError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), retryable: false }
    }

    pub fn retryable(code: &str, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(code, message) }
    }
}

/// What a local step can fail with. A failure of the store is not the step's: it is tried again as a whole.
#[derive(Debug)]
pub enum LocalError {
    Step(StepError),
    Store(StoreError),
}

impl From<StoreError> for LocalError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A record that a step has made or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub kind: &'static str,
    pub id: String,
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDone {
    pub output: Value,
    pub effects: Vec<Effect>,
}

/// What a step would come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// `None` when only doing it can tell.
    pub output: Option<Value>,
    pub summary: String,
}

/// For whom and when a step is planned.
#[derive(Debug)]
pub struct Planning {
    pub intent: Intent,
    /// What the step may do.
    pub authority: Authority,
}

/// Describes a type of step and plans a step of it. It sees a snapshot and cannot change anything.
pub trait StepType: Send + Sync + 'static {
    /// Such as `ticket.create`.
    fn name(&self) -> &'static str;
    fn summary(&self) -> &'static str;
    /// The JSON Schema of `with`. References lead into its own `components`.
    fn schema(&self) -> Value;
    /// An example of `with`.
    fn example(&self) -> Value;

    /// What a step of this type takes of whoever it acts for.
    fn scopes(&self) -> Grants;

    /// Whether its steps read what other scopes than those of the type are for, if those whom they act for have them.
    fn reads_more(&self) -> bool {
        false
    }

    /// What a reader must hold to see this output, beside the scopes of the type.
    fn has_read(&self, _output: &Value) -> Grants {
        Grants::NONE
    }

    /// Takes out of `with` what nobody may read in the record of the step.
    fn redact(&self, _with: &mut Value) {}

    /// As [`Self::redact`], for events, which have more readers than workflows.
    fn redact_in_event(&self, with: &mut Value) {
        self.redact(with);
    }

    /// Where in `with` named secrets may stand. A step that does not send to somebody else's server has none.
    fn secret_places(&self) -> &'static [SecretPlace] {
        &[]
    }

    /// Credentials that are written into `with` in clear, in place of a named secret: pointers into it.
    fn literal_credentials(&self, _with: &Value) -> Vec<String> {
        Vec::new()
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError>;
}

/// Changes our own data, in the transaction that keeps its result: exactly once.
pub trait LocalStep: Send + Sync + 'static {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError>;
}

/// A call to somebody else.
#[derive(Clone, Debug)]
pub struct Call {
    pub tenant_id: TenantId,
    /// Whose step it is.
    pub workflow_id: WorkflowId,
    /// What the step may do.
    pub authority: Authority,
    pub with: Value,
    /// Texts of `with` that name secrets. Placeholders stand in their places.
    pub secrets: Vec<SecretText>,
    /// The same for every attempt of the step, so that the other side can tell a repetition.
    pub idempotency_key: String,
    /// The most that it may take.
    pub timeout: Duration,
}

pub type CallFuture = Pin<Box<dyn Future<Output = Result<StepDone, StepError>> + Send>>;

/// Calls out. What it did is written down afterwards: at least once.
pub trait RemoteStep: Send + Sync + 'static {
    fn call(&self, call: Call) -> CallFuture;
}

#[derive(Clone)]
pub(super) enum Applier {
    Local(Arc<dyn LocalStep>),
    Remote(Arc<dyn RemoteStep>),
}

struct Registered {
    step: Arc<dyn StepType>,
    schema: BodySchema,
}

/// What can be known of the types of steps without doing any.
#[derive(Clone, Default)]
pub(super) struct Planners(Arc<BTreeMap<&'static str, Registered>>);

/// What does them.
#[derive(Clone, Default)]
pub(super) struct Appliers(Arc<BTreeMap<&'static str, Applier>>);

/// Collects the types of steps. The composition root fills it.
#[derive(Clone, Default)]
pub struct StepCatalogue {
    pub(super) planners: Planners,
    pub(super) appliers: Appliers,
}

impl fmt::Debug for StepCatalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.planners.0.keys()).finish()
    }
}

impl fmt::Debug for Planners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl fmt::Debug for Appliers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl StepCatalogue {
    /// Adds a type of step that changes our own data.
    pub fn local(self, step: impl StepType + LocalStep) -> Result<Self, String> {
        let step = Arc::new(step);
        self.add(step.clone(), Applier::Local(step))
    }

    /// Adds a type of step that calls out.
    pub fn remote(self, step: impl StepType + RemoteStep) -> Result<Self, String> {
        let step = Arc::new(step);
        self.add(step.clone(), Applier::Remote(step))
    }

    fn add(mut self, step: Arc<dyn StepType>, applier: Applier) -> Result<Self, String> {
        let name = step.name();
        let schema = compile(&step.schema())?;
        let planners = Arc::get_mut(&mut self.planners.0).ok_or("the catalogue is in use already")?;
        planners.insert(name, Registered { step, schema });
        let appliers = Arc::get_mut(&mut self.appliers.0).ok_or("the catalogue is in use already")?;
        appliers.insert(name, applier);
        Ok(self)
    }
}

/// Compiles a schema that brings its `components` along.
pub(super) fn compile(schema: &Value) -> Result<BodySchema, String> {
    let components = schema.get("components").cloned().unwrap_or_else(|| json!({}));
    BodySchema::new(schema, &components)
}

impl Planners {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn StepType>> {
        self.0.get(name).map(|registered| &registered.step)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn StepType>> {
        self.0.values().map(|registered| &registered.step)
    }

    /// All that is wrong with the `with` of a step of this type.
    pub(super) fn check(&self, name: &str, with: &Value) -> Vec<Fault> {
        self.0.get(name).map(|registered| faults(&registered.schema, with)).unwrap_or_default()
    }
}

impl Appliers {
    pub(super) fn get(&self, name: &str) -> Option<&Applier> {
        self.0.get(name)
    }
}

/// All that is wrong with a value. What a template stands for is not known before it is filled in, and is not judged.
pub(super) fn faults(schema: &BodySchema, value: &Value) -> Vec<Fault> {
    let errors = schema.check(value).err().map(|found| found.errors).unwrap_or_default();
    errors.into_iter().filter_map(|error| fault(error, value)).collect()
}

fn fault(error: FieldError, value: &Value) -> Option<Fault> {
    let Place::Pointer(pointer) = error.place else { return None };
    let at = value.pointer(&pointer).and_then(Value::as_str);
    if at.is_some_and(is_template) {
        return None;
    }
    Some(Fault { pointer, code: error.code, message: error.message, allowed: error.allowed, suggestion: error.suggestion })
}
