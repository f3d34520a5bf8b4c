//! Follows the directory: devices and organizations that are created, changed, moved or deleted. Each record is read again, so the
//! number and order of the notifications do not matter.

use tenantd_base::id::{DeviceId, OrganizationId};
use tenantd_directory as directory;
use tenantd_store::{WriteTx, events::Act};

use super::{
    super::{
        error::BackupError,
        model::{Posture, Rollup, Scope, Tally},
        repo::{configs, postures, rollups},
    },
    Service, chain,
};

impl Service {
    /// Updates the posture of a device from the directory.
    pub(crate) fn follow_device(&self, tx: &mut WriteTx, act: &mut Act, id: DeviceId) -> Result<(), BackupError> {
        let known = postures::of_device(tx, act.tenant_id, id)?;
        let Some(device) = directory::device_outline(tx, act.tenant_id, id)? else {
            if let Some(posture) = known {
                let mut left = rollups::get(tx, (posture.tenant_id, posture.organization_id))?;
                left.replace_device(Some(&posture), None, act.now);
                rollups::put(tx, &left)?;
                postures::remove(tx, &posture)?;
            }
            // A timer may have evaluated the device after its removal.
            directory::set_backup(tx, act.tenant_id, id, None)?;
            return Ok(configs::remove(tx, act.tenant_id, Scope::Device(id))?);
        };
        let after = match &known {
            Some(posture) => posture.clone().of(&device),
            None => Posture::new(&device, act.now),
        };
        if known.as_ref() == Some(&after) {
            return Ok(());
        }
        let policy = chain::device_policy(tx, act.tenant_id, after.organization_id, id)?;
        self.settle(tx, act, known, after, &policy, Tally::default())?;
        Ok(())
    }

    /// Updates the sums of an organization from the directory. An organization is deleted only after its devices.
    pub(crate) fn follow_organization(tx: &mut WriteTx, act: &Act, id: OrganizationId) -> Result<(), BackupError> {
        let key = (act.tenant_id, id);
        let known = rollups::find(tx, key)?;
        match (directory::organization(tx, act.tenant_id, id)?, known) {
            (Some(_), None) => rollups::put(tx, &Rollup::new(act.tenant_id, id))?,
            (None, Some(_)) => {
                rollups::remove(tx, key)?;
                configs::remove(tx, act.tenant_id, Scope::Organization(id))?;
            }
            _ => {}
        }
        Ok(())
    }
}
