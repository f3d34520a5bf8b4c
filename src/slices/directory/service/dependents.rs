//! Records of other slices that refer to directory records. The directory does not know these slices: each slice registers itself.

use tenantd_base::{
    access::{Reach, Scope},
    id::{DeviceId, OrganizationId, TenantId, UserId},
};
use tenantd_store::{ReadTx, StoreError, WriteTx, events::Act};

use super::super::error::DirectoryError;

/// A directory record to which others refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Organization(OrganizationId),
    Contact(UserId),
    Device(DeviceId),
}

/// Records of one kind that refer to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// The name of this kind in errors.
    pub name: &'static str,
    pub count: u64,
}

/// Finds the records of a slice that refer to directory records.
pub trait Dependents: std::fmt::Debug + Send + Sync + 'static {
    /// The scopes to read and to write these records. A caller needs the first to see them, and the second to move them.
    fn scopes(&self) -> (Scope, Scope);

    /// Counts the records within reach that refer to the subject, exactly. Kinds without such records are left out.
    fn count(&self, tx: &ReadTx, tenant: TenantId, reach: &Reach, subject: Subject) -> Result<Vec<Dependent>, StoreError>;

    /// Whether any record refers to the subject, in the transaction that removes it. Must be bounded work. After a reassignment,
    /// only records that can move count.
    fn remains(&self, tx: &WriteTx, act: &Act, subject: Subject, reassigned: bool) -> Result<bool, StoreError>;

    /// Moves some of the records to another subject of the same kind. Returns 0 when none is left to move.
    fn reassign(&self, tx: &mut WriteTx, act: &mut Act, from: Subject, to: Subject) -> Result<u64, DirectoryError>;
}
