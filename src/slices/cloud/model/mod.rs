//! What a cloud is to us: providers and their credentials, VMs in one form for all kinds, verifications, failures, orders. Types and
//! rules only: no async, no store, no clock.

mod credential;
mod failure;
mod kind;
mod order;
mod verification;
mod vm;

pub(super) use credential::{Credential, FormFault, read_credential};
pub(super) use failure::{Failure, FailureClass};
pub(super) use kind::{ConfigField, ProviderConfig, ProviderKind, SimulatedFailure};
pub(super) use order::{Order, OrderToken};
pub(super) use verification::{Capabilities, Check, CheckName, CheckStatus, Outcome, Verification, Warning};
pub(super) use vm::{CloudVm, Size, VmState};
