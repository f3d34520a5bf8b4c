//! Follows the directory: devices that come, change, move and go, and organizations with them. Each is read anew, so it does not matter
//! how often or in which order it is told.

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
    /// Takes up a device as the directory has it now.
    pub(crate) fn follow_device(&self, tx: &mut WriteTx, act: &mut Act, id: DeviceId) -> Result<(), BackupError> {
        let known = postures::of_device(tx, act.tenant_id, id)?;
        let Some(device) = directory::device_outline(tx, act.tenant_id, id)? else {
            if let Some(posture) = known {
                let mut left = rollups::get(tx, (posture.tenant_id, posture.organization_id))?;
                left.exchange(Some(&posture), None, act.now);
                rollups::put(tx, &left)?;
                postures::remove(tx, &posture)?;
            }
            // A timer may have judged the device after it was removed.
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

    /// Takes up an organization as the directory has it now. It goes only after its devices.
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
