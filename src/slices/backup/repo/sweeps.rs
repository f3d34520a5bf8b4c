//! Sweeps: pending re-evaluations of many devices after a configuration change, with the progress of each.

use serde::{Deserialize, Serialize};

use tenantd_base::id::{DeviceId, OrganizationId, TenantId};
use tenantd_store::{KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

/// The tenant, and the organization if the sweep covers only its devices. A tenant of zeros stands for all devices of the
/// directory.
pub(crate) type SweepKey = (TenantId, Option<OrganizationId>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sweep {
    /// The last posture that was evaluated.
    pub(crate) after: Option<(OrganizationId, DeviceId)>,
    /// For a sweep over the directory: the last device and organization, and whether all organizations are done.
    pub(crate) device: Option<(TenantId, DeviceId)>,
    pub(crate) organization: Option<(TenantId, OrganizationId)>,
    pub(crate) organizations_done: bool,
}

impl Record for Sweep {
    const VERSION: u8 = 1;
}

impl Sweep {
    /// Whether it covers only devices of its tenant, and not the whole directory.
    pub(super) fn is_of_tenant(self) -> bool {
        self.device.is_none() && self.organization.is_none() && !self.organizations_done
    }
}

pub(crate) static SWEEPS: Table<SweepKey, Sweep> = Table::new(catalog::BACKUP_SWEEPS, &[]);

pub(crate) const DIRECTORY: SweepKey = (TenantId::from_bytes([0; 16]), None);
/// The sweep of `upgrade.rs`, which ends before the server runs.
pub(super) const UPGRADE: SweepKey = (TenantId::from_bytes([0; 16]), Some(OrganizationId::from_bytes([0; 16])));

pub(crate) fn get(tx: &impl Read, key: SweepKey) -> Result<Option<Sweep>, StoreError> {
    SWEEPS.get(tx, &key)
}

/// Starts a sweep, or restarts one in progress.
pub(crate) fn begin(tx: &mut WriteTx, key: SweepKey) -> Result<(), StoreError> {
    SWEEPS.put(tx, &key, &Sweep::default())
}

pub(crate) fn put(tx: &mut WriteTx, key: SweepKey, sweep: &Sweep) -> Result<(), StoreError> {
    SWEEPS.put(tx, &key, sweep)
}

pub(crate) fn end(tx: &mut WriteTx, key: SweepKey) -> Result<(), StoreError> {
    SWEEPS.remove(tx, &key).map(drop)
}

/// Returns any sweep in progress.
pub(crate) fn first(tx: &impl Read) -> Result<Option<(SweepKey, Sweep)>, StoreError> {
    Ok(SWEEPS.list(tx, &KeyRange::ALL, 1)?.pop())
}
