//! The types of workflow steps that a slice registers: what workflows can do with its records.
//!
//! A slice implements [`StepType`] and either [`LocalStep`] or [`RemoteStep`] for each of its steps, and lists them in `steps()`
//! in its interface. Workflows know steps only through these traits. **Invariant:** planning and executing are separate traits.
//! Code that describes, checks or plans a step on a snapshot cannot change anything or call out.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::Value;

use tenantd_base::{
    access::Grants,
    authority::Authority,
    id::{TenantId, WorkflowId},
    secrets::SecretText,
};

use crate::{
    ReadTx, StoreError, WriteTx,
    events::{Act, Intent},
};

/// Why a step failed, as its record shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    pub code: String,
    pub message: String,
    /// Whether the same step could succeed later.
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

/// The error of a local step. A store error is not the step's own failure: the whole step is retried.
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

/// For a remote step that only reads tenantd's own data.
impl From<LocalError> for StepError {
    fn from(error: LocalError) -> Self {
        match error {
            LocalError::Step(error) => error,
            LocalError::Store(error) => Self::retryable("store_failed", error.to_string()),
        }
    }
}

/// A record that a step created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub kind: &'static str,
    pub id: String,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDone {
    pub output: Value,
    pub effects: Vec<Effect>,
}

/// The expected result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// `None` if only executing the step shows the output.
    pub output: Option<Value>,
    pub summary: String,
}

/// For whom and when a step is planned.
#[derive(Debug)]
pub struct Planning {
    pub intent: Intent,
    /// The permissions of the step.
    pub authority: Authority,
}

/// Where `with` may contain secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// A member whose members are headers. A header value may be a secret after a fixed text such as `Bearer `.
    Headers(&'static str),
    /// A member whose texts, at any depth, may contain secrets.
    Texts(&'static str),
}

/// Describes a type of step and plans a step of it. It sees a snapshot and cannot change anything.
pub trait StepType: fmt::Debug + Send + Sync + 'static {
    /// For example `ticket.create`.
    fn name(&self) -> &'static str;
    fn summary(&self) -> &'static str;
    /// The JSON Schema of `with`. References point into its own `components`.
    fn schema(&self) -> Value;
    /// An example of `with`.
    fn example(&self) -> Value;

    /// The scopes that a step of this type needs from the person or key that it acts for.
    fn scopes(&self) -> Grants;

    /// Whether its steps also return data that needs scopes beyond those of the type, if the person or key they act for has them.
    fn reads_more(&self) -> bool {
        false
    }

    /// The scopes that a reader needs to see this output, in addition to the scopes of the type.
    fn has_read(&self, _output: &Value) -> Grants {
        Grants::NONE
    }

    /// Removes secrets from `with` before it is stored in the record of the step.
    fn redact(&self, _with: &mut Value) {}

    /// Like [`Self::redact`], for events, which have more readers than workflows.
    fn redact_in_event(&self, with: &mut Value) {
        self.redact(with);
    }

    /// Where `with` may contain named secrets. Empty for a step that does not send data to another server.
    fn secret_places(&self) -> &'static [SecretPlace] {
        &[]
    }

    /// JSON pointers to the credentials that `with` contains in clear text instead of as named secrets.
    fn literal_credentials(&self, _with: &Value) -> Vec<String> {
        Vec::new()
    }

    fn plan(&self, tx: &ReadTx, planning: &Planning, with: &Value) -> Result<Planned, LocalError>;
}

/// Changes tenantd's own data exactly once, in the transaction that stores the result.
pub trait LocalStep: fmt::Debug + Send + Sync + 'static {
    fn apply(&self, tx: &mut WriteTx, act: &mut Act, with: &Value) -> Result<StepDone, LocalError>;
}

/// A call to another server.
#[derive(Clone, Debug)]
pub struct Call {
    pub tenant_id: TenantId,
    /// The workflow of the step.
    pub workflow_id: WorkflowId,
    /// The permissions of the step.
    pub authority: Authority,
    pub with: Value,
    /// The texts of `with` that name secrets. `with` contains placeholders in their place.
    pub secrets: Vec<SecretText>,
    /// The same for every attempt of the step, so that the other server can detect a repetition.
    pub idempotency_key: String,
    /// The maximum duration of the call.
    pub timeout: Duration,
}

pub type CallFuture = Pin<Box<dyn Future<Output = Result<StepDone, StepError>> + Send>>;

/// Calls another server. The result is recorded afterwards, so a call happens at least once.
pub trait RemoteStep: fmt::Debug + Send + Sync + 'static {
    fn call(&self, call: Call) -> CallFuture;
}

/// Executes a step.
#[derive(Clone, Debug)]
pub enum Applier {
    Local(Arc<dyn LocalStep>),
    Remote(Arc<dyn RemoteStep>),
}

/// A type of step as its slice registers it.
#[derive(Clone, Debug)]
pub struct StepEntry {
    pub step: Arc<dyn StepType>,
    pub applier: Applier,
}

impl StepEntry {
    /// A type of step that changes tenantd's own data.
    pub fn local(step: impl StepType + LocalStep) -> Self {
        let step = Arc::new(step);
        Self { step: step.clone(), applier: Applier::Local(step) }
    }

    /// A type of step that calls another server.
    pub fn remote(step: impl StepType + RemoteStep) -> Self {
        let step = Arc::new(step);
        Self { step: step.clone(), applier: Applier::Remote(step) }
    }
}
