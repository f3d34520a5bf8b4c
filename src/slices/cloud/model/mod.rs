//! The domain model of clouds: providers and their credentials, VMs in one form for all kinds, verifications, failures, orders.
//! Types and rules only: no async, no store, no clock.

mod credential;
mod failure;
mod kind;
mod operation;
mod order;
mod provider;
mod verification;
mod vm;

pub(super) use credential::{Credential, read_credential};
pub(super) use failure::{Failure, FailureClass};
pub(super) use kind::{ProviderConfig, ProviderKind, SimulatedFailure};
pub(super) use operation::{
    Leftover, Operation, OperationError, OperationStatus, OperationWork, OrderSpec, Phase, Refreshing, Slot, SlotState, retry_delay,
};
pub(super) use order::{Order, OrderToken};
pub(super) use provider::{Provider, ProviderStatus, StoredCredential, SyncError, SyncGaps, SyncState};
pub(super) use verification::{Capabilities, Check, CheckName, CheckStatus, Outcome, Verification, Warning};
pub(super) use vm::{CloudVm, Size, UnreadField, Vm, VmState, bounded};
