//! Why a tenant does not leave or arrive.

use crate::{
    kernel::{id::TenantId, portable::PortError, store::StoreError},
    slices::platform::TenantError,
};

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("the platform's own tenant cannot leave its installation")]
    PlatformTenant,
    /// The tenant's events come faster than they are dealt with.
    #[error("the tenant changes too fast to be exported as it is: suspend it, and export it again")]
    Unsettled,
    #[error("this is no export of a tenant: {0}")]
    NotAnExport(String),
    #[error("the export is of format version {0}, which this release does not know: import it with a newer one")]
    NewerFormat(u64),
    #[error("the secrets in this export are sealed: name the file with the passphrase by --passphrase-file")]
    PassphraseNeeded,
    #[error("the key is not 64 hexadecimal digits, or the salt is not 32")]
    BadKey,
    /// Something is wrong with a line.
    #[error("line {number}: {reason}")]
    Line { number: u64, reason: String },
    #[error("the file is cut off after line {0}")]
    CutOff(u64),
    #[error("{0} is in this installation already")]
    Exists(TenantId),
    #[error("another tenant is being imported")]
    Busy,
    #[error(transparent)]
    Tenant(#[from] TenantError),
    #[error("{0}")]
    Portable(#[from] PortError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
