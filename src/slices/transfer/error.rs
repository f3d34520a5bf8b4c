//! The errors of exports and imports.

use tenantd_base::id::TenantId;
use tenantd_platform::TenantError;
use tenantd_store::{StoreError, portable::PortError};

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("the platform tenant belongs to its installation: it cannot be exported or imported")]
    PlatformTenant,
    /// The tenant's events come faster than they are processed.
    #[error("the tenant changes too fast for an export: suspend it and export it again")]
    Unsettled,
    #[error("this is not an export of a tenant: {0}")]
    NotAnExport(String),
    #[error("the export has format version {0}, which this release does not support: import it with a newer release")]
    NewerFormat(u64),
    #[error("the secrets in this export are sealed: pass the file with the passphrase with --passphrase-file")]
    PassphraseNeeded,
    #[error("the key must have 64 hexadecimal digits, and the salt 32")]
    BadKey,
    #[error(
        "the export is not signed. Export the tenant again with a release that signs exports, or import the file with \
         --accept-unverified: then its API keys, passwords, identity providers, workflows, webhooks and clouds arrive switched off"
    )]
    Unsigned,
    #[error(
        "the export is signed by an installation that this one does not know (key id {0}). Ask its operator for the key that `tenantd \
         public-key` prints there, and name it with --trusted-key; or import the file with --accept-unverified: then its API keys, \
         passwords, identity providers, workflows, webhooks and clouds arrive switched off"
    )]
    UnknownSigner(String),
    /// The signature does not match the lines up to this one.
    #[error(
        "line {0}: the signature does not match the lines before it: the file was changed after it was exported. Export the tenant \
         again, or import the file with --accept-unverified, without anything that acts"
    )]
    BadSignature(u64),
    #[error("the signature is missing after line {0}: export the tenant again")]
    SignatureMissing(u64),
    #[error("a trusted key must have 64 hexadecimal digits, as printed by `tenantd public-key`")]
    BadTrustedKey,
    #[error(
        "this is an evaluation tenant of another installation, and an evaluation tenant may connect to this machine: import it with \
         --allow-evaluation if that is what you want"
    )]
    EvaluationNotAllowed,
    #[error("{0} is not the id of a tenant")]
    NoTenantId(TenantId),
    /// An error that shows only when all records are considered together.
    #[error("the records of the export are inconsistent: {0}")]
    Inconsistent(String),
    /// A line is invalid.
    #[error("line {number}: {reason}")]
    Line { number: u64, reason: String },
    #[error("the file is cut off after line {0}")]
    CutOff(u64),
    #[error("{0} already exists in this installation")]
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
