//! What workflows can do with the records of a slice: the types of steps that it registers.
//!
//! A slice implements [`StepType`] and either [`LocalStep`] or [`RemoteStep`] for each of its steps, and lists them in `steps()` on its
//! face. The workflows know steps by these traits alone. **Invariant:** planning and doing are separate traits: what can describe, check
//! and plan a step on a snapshot has no way to what changes anything or calls out.

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

/// For a call that only reads our own data.
impl From<LocalError> for StepError {
    fn from(error: LocalError) -> Self {
        match error {
            LocalError::Step(error) => error,
            LocalError::Store(error) => Self::retryable("store_failed", error.to_string()),
        }
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

/// Where in `with` secrets may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// A member whose members are headers: a value is a secret, perhaps behind a fixed text such as `Bearer `.
    Headers(&'static str),
    /// A member in all texts of which secrets may stand.
    Texts(&'static str),
}

/// Describes a type of step and plans a step of it. It sees a snapshot and cannot change anything.
pub trait StepType: fmt::Debug + Send + Sync + 'static {
    /// Such as `ticket.create`.
    fn name(&self) -> &'static str;
    fn summary(&self) -> &'static str;
    /// The JSON Schema of `with`. References lead into its own `components`.
    fn schema(&self) -> Value;
    /// An example of `with`.
    fn example(&self) -> Value;

    /// The rights that a step of this type needs from the person or key that it acts for.
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
pub trait LocalStep: fmt::Debug + Send + Sync + 'static {
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
pub trait RemoteStep: fmt::Debug + Send + Sync + 'static {
    fn call(&self, call: Call) -> CallFuture;
}

/// What does a step.
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
    /// A type of step that changes our own data.
    pub fn local(step: impl StepType + LocalStep) -> Self {
        let step = Arc::new(step);
        Self { step: step.clone(), applier: Applier::Local(step) }
    }

    /// A type of step that calls out.
    pub fn remote(step: impl StepType + RemoteStep) -> Self {
        let step = Arc::new(step);
        Self { step: step.clone(), applier: Applier::Remote(step) }
    }
}
