//! The backup data that depends on an organization or a device that is about to be deleted: its own settings, and the restore
//! points of a device in use. This data cannot move to another record; the log reader removes it with the record.

use tenantd_base::{
    access::{Reach, Scope as AccessScope},
    id::{DeviceId, TenantId},
};
use tenantd_directory::{self as directory, Dependent, Dependents, DirectoryError, Lifecycle, Subject};
use tenantd_store::{Read, ReadTx, StoreError, WriteTx, events::Act};

use super::{
    Backups,
    model::Scope,
    repo::{configs, postures},
};

fn found(tx: &impl Read, tenant: TenantId, subject: Subject) -> Result<Vec<Dependent>, StoreError> {
    let (scope, device) = match subject {
        Subject::Organization(id) => (Scope::Organization(id), None),
        Subject::Device(id) => (Scope::Device(id), Some(id)),
        Subject::Contact(_) => return Ok(Vec::new()),
    };
    let settings = u64::from(configs::get(tx, tenant, scope)?.is_some());
    let points = match device {
        Some(id) if is_in_use(tx, tenant, id)? => postures::of_device(tx, tenant, id)?.map_or(0, |posture| posture.points.len()),
        _ => 0,
    };
    let counted =
        [Dependent { name: "backup_settings", count: settings }, Dependent { name: "restore_points", count: points as u64 }];
    Ok(counted.into_iter().filter(|dependent| dependent.count > 0).collect())
}

/// Reads the directory, because a posture learns of a device change only when the log is read.
fn is_in_use(tx: &impl Read, tenant: TenantId, id: DeviceId) -> Result<bool, StoreError> {
    let device = directory::device_outline(tx, tenant, id)?;
    Ok(device.is_some_and(|device| matches!(device.lifecycle, Lifecycle::Active | Lifecycle::InRepair)))
}

impl Dependents for Backups {
    fn scopes(&self) -> (AccessScope, AccessScope) {
        (AccessScope::BackupRead, AccessScope::BackupWrite)
    }

    fn count(&self, tx: &ReadTx, tenant: TenantId, _reach: &Reach, subject: Subject) -> Result<Vec<Dependent>, StoreError> {
        found(tx, tenant, subject)
    }

    fn remains(&self, tx: &WriteTx, act: &Act, subject: Subject, reassigned: bool) -> Result<bool, StoreError> {
        Ok(!reassigned && !found(tx, act.tenant_id, subject)?.is_empty())
    }

    fn reassign(&self, _tx: &mut WriteTx, _act: &mut Act, _from: Subject, _to: Subject) -> Result<u64, DirectoryError> {
        Ok(0)
    }
}
