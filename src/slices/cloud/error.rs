//! The errors of this slice. For failures of the clouds themselves see `model/failure.rs`.

use tenantd_base::{
    fault::{Fault, listed},
    secrets::SealError,
    versions::Stale,
};
use tenantd_store::StoreError;

use super::model::Verification;

#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("the provider was not found")]
    NoProvider,
    #[error("the VM was not found")]
    NoVm,
    #[error("the operation was not found")]
    NoOperation,
    #[error("another provider already has this name")]
    NameTaken,
    #[error("the tenant already has {most} providers, which is the limit")]
    LimitReached { most: usize },
    #[error("VMs are being created at this provider")]
    InUse,
    #[error("the provider is disabled")]
    Disabled,
    #[error("the input is not valid: {}", listed(.0))]
    Invalid(Vec<Fault>),
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

impl CloudError {
    /// Fails if there are faults.
    pub(super) fn ensure_none(faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self::Invalid(faults)) }
    }
}

/// The result of a failed verification, for the error response.
#[derive(Clone, Debug)]
pub struct VerificationResult(pub(super) Verification);
