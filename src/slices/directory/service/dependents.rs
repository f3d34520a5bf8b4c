//! What other slices keep that refers to records of the directory. The directory does not know them: each slice registers.

use tenantd_base::{
    access::{Reach, Scope},
    id::{DeviceId, OrganizationId, TenantId, UserId},
};
use tenantd_store::{ReadTx, StoreError, WriteTx, events::Act};

use super::super::error::DirectoryError;

/// A record of the directory that others refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Organization(OrganizationId),
    Contact(UserId),
    Device(DeviceId),
}

/// Records of one kind that refer to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// What they are, as an error names them.
    pub name: &'static str,
    pub count: u64,
}

/// Knows what a slice keeps of the directory's records.
pub trait Dependents: std::fmt::Debug + Send + Sync + 'static {
    /// The scopes that read and write them: without the first, nobody learns of them, and without the second nobody moves them.
    fn scopes(&self) -> (Scope, Scope);

    /// What refers to the subject within reach, exactly. Kinds with none are left out.
    fn count(&self, tx: &ReadTx, tenant: TenantId, reach: &Reach, subject: Subject) -> Result<Vec<Dependent>, StoreError>;

    /// Whether anything refers to the subject, in the transaction that removes it: bounded work. After a reassignment only what can be moved
    /// counts.
    fn remains(&self, tx: &WriteTx, act: &Act, subject: Subject, reassigned: bool) -> Result<bool, StoreError>;

    /// Moves some of what refers to a subject to another of its kind. 0 when nothing is left that can be moved.
    fn reassign(&self, tx: &mut WriteTx, act: &mut Act, from: Subject, to: Subject) -> Result<u64, DirectoryError>;
}
