//! Adds data that a store of an older release lacks: the backup state of each device, and sums that count devices without any
//! backup separately. Both are derived from the postures.

use tenantd_directory as directory;
use tenantd_store::{Direction, Flow, KeyRange, Progress, StoreError, WriteTx};

use super::{
    super::model::{Rollup, Share},
    postures::POSTURES,
    rollups::{self, ROLLUPS},
    sweeps,
};

/// The number of postures per transaction.
const PART: usize = 2_000;

/// Processes all postures in parts. The progress is stored with the results.
pub(crate) fn derive_states(tx: &mut WriteTx) -> Result<Progress, StoreError> {
    let stored = sweeps::get(tx, sweeps::UPGRADE)?;
    if stored.is_none() {
        reset_shares(tx)?;
    }
    let mut walk = stored.unwrap_or_default();
    let after = walk.organization.zip(walk.device).map(|((tenant, organization), (_, device))| (tenant, organization, device));
    let found = POSTURES.list_after(tx, after.as_ref(), PART)?;
    for (_, posture) in &found {
        directory::set_backup(tx, posture.tenant_id, posture.device_id, Some(&posture.backup_state()))?;
        let mut rollup = rollups::get(tx, (posture.tenant_id, posture.organization_id))?;
        rollup.share = rollup.share.with_replaced(Share::default(), posture.share());
        rollups::put(tx, &rollup)?;
    }
    match found.last() {
        Some((key, _)) if found.len() == PART => {
            (walk.organization, walk.device) = (Some((key.0, key.1)), Some((key.0, key.2)));
            sweeps::put(tx, sweeps::UPGRADE, &walk)?;
            Ok(Progress::More)
        }
        _ => {
            sweeps::end(tx, sweeps::UPGRADE)?;
            Ok(Progress::Done)
        }
    }
}

fn reset_shares(tx: &mut WriteTx) -> Result<(), StoreError> {
    let mut found: Vec<Rollup> = Vec::new();
    ROLLUPS.scan(tx, &KeyRange::ALL, Direction::Forward, |_, rollup| {
        found.push(rollup);
        Ok(Flow::Continue)
    })?;
    for rollup in found {
        rollups::put(tx, &Rollup { share: Share::default(), ..rollup })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tenantd_base::{
        clock::Timestamp,
        id::{DeviceId, OrganizationId, TenantId},
    };
    use tenantd_store::{RedbEngine, Store, WriterSettings};

    use super::{super::postures, *};
    use crate::model::{Posture, Rpo, Standing};

    /// The n-th device. Every third has a restore point; every fifth is not eligible.
    fn posture(number: u16) -> Posture {
        let [high, low] = number.to_be_bytes();
        let mut id = [9; 16];
        (id[0], id[1]) = (high, low);
        let (eligible, has_success) = (!number.is_multiple_of(5), number.is_multiple_of(3));
        let device = directory::Device {
            tenant_id: TenantId::from_bytes([1; 16]),
            id: DeviceId::from_bytes(id),
            organization_id: OrganizationId::from_bytes([u8::try_from(number % 7).unwrap(); 16]),
            ..directory::Device::default()
        };
        let at = Timestamp::from_millis(1_760_000_000_000);
        Posture {
            last_success_at: has_success.then_some(at),
            standing: Standing {
                protected: eligible && has_success,
                rpo: eligible.then_some(Rpo::Ok),
                twice: false,
                missed: false,
            },
            ..Posture::new(&device, at)
        }
    }

    #[test]
    fn states_and_sums_are_derived_once_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let engine = RedbEngine::create(&folder.path().join("store"), 1 << 20).unwrap();
        let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
        let count = u16::try_from(PART).unwrap() * 2 + 10;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let written = store.write(move |tx| {
            for number in 0..count {
                let posture = posture(number);
                postures::put(tx, &posture)?;
                let mut rollup = rollups::get(tx, (posture.tenant_id, posture.organization_id))?;
                // Wrong sums from an older release.
                rollup.share = Share { devices: 1_000_000, ..Share::default() };
                rollups::put(tx, &rollup)?;
            }
            Ok::<_, StoreError>(())
        });
        runtime.block_on(written).unwrap();
        let mut parts = 1;
        while runtime.block_on(store.write(derive_states)).unwrap() == Progress::More {
            parts += 1;
        }
        assert_eq!(parts, 3);
        let (mut expected, mut sums) = (Share::default(), Share::default());
        for posture in (0..count).map(posture) {
            expected = expected.with_replaced(Share::default(), posture.share());
        }
        store
            .read(|tx| {
                assert_eq!(sweeps::first(tx)?, None);
                rollups::scan(tx, TenantId::from_bytes([1; 16]), |rollup| sums = sums.with_replaced(Share::default(), rollup.share))
            })
            .unwrap();
        assert_eq!(sums, expected);
        assert_eq!((sums.devices, sums.rpo_pending > 0), (u64::from(count), true));
    }
}
