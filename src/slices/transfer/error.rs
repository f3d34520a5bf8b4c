//! Why a tenant does not leave or arrive.

use tenantd_base::id::TenantId;
use tenantd_platform::TenantError;
use tenantd_store::{StoreError, portable::PortError};

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("the platform tenant of an installation is its own: it is neither exported nor imported")]
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
    /// The lines up to this one are not those that were signed.
    #[error(
        "line {0}: the signature does not match the lines before it: the file was changed after it was exported. Export the tenant \
         again, or import the file with --accept-unverified, without anything that acts"
    )]
    BadSignature(u64),
    #[error("the signature is missing behind line {0}: export the tenant again")]
    SignatureMissing(u64),
    #[error("a trusted key is 64 hexadecimal digits, as `tenantd public-key` prints it")]
    BadTrustedKey,
    #[error(
        "this is an evaluation tenant of another installation, and an evaluation tenant may connect to this machine: import it with \
         --allow-evaluation if that is what you want"
    )]
    EvaluationNotAllowed,
    #[error("{0} is not the id of a tenant")]
    NoTenantId(TenantId),
    /// What only all records together show.
    #[error("the records of the export do not fit together: {0}")]
    Inconsistent(String),
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
