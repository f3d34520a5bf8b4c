//! What can go wrong with clouds, beside what goes wrong in them (`model/failure.rs`).

use tenantd_base::{
    fault::{Fault, listed},
    secrets::SealError,
    versions::Stale,
};
use tenantd_store::StoreError;

use super::model::Verification;

#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("there is no such provider")]
    NoProvider,
    #[error("there is no such VM")]
    NoVm,
    #[error("there is no such operation")]
    NoOperation,
    #[error("another provider has this name already")]
    NameTaken,
    #[error("the tenant has {most} providers already")]
    LimitReached { most: usize },
    #[error("VMs are being created there")]
    InUse,
    #[error("the provider is disabled")]
    Disabled,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
    /// The address policy does not let the target in this field be reached.
    #[error("the target in {0} is not allowed")]
    Blocked(&'static str),
    #[error("the provider could not be verified")]
    NotVerified(Box<VerificationResult>),
    #[error(transparent)]
    Stale(#[from] Stale),
    #[error("an event could not be written: {0}")]
    Event(#[from] serde_json::Error),
    #[error(transparent)]
    Sealing(#[from] SealError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of a verification, for whoever has to show it.
#[derive(Clone, Debug)]
pub struct VerificationResult(pub(super) Verification);
