//! Exports and imports backup settings, jobs and postures.

use tenantd_directory as directory;
use tenantd_store::portable::{Carrier, PortError, Portable};

use super::{
    super::model::{OwnConfig, Rollup, Share},
    configs::{self, CONFIGS},
    jobs,
    postures::POSTURES,
    rollups::{self, ROLLUPS},
    sweeps::SWEEPS,
};

/// Generous upper limits for the entries in an organization's sums and the restore points of a device.
const MOST_ENTRIES: usize = 1_000;
const MOST_POINTS: usize = 10_000;

/// `settings` checks a record against the limits of the API.
pub(crate) fn portable(settings: impl Fn(&OwnConfig) -> Result<(), String> + Send + Sync + 'static) -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("backup_config", &CONFIGS, move |_, key, record| {
            if configs::scope(key).is_none() {
                return Err(PortError::wrong("key: not a scope"));
            }
            settings(&record.own).map_err(PortError::Wrong)?;
            match record.own.faults().first() {
                Some(fault) => Err(PortError::Wrong(fault.to_string().trim_start_matches('/').to_owned())),
                None => Ok(()),
            }
        })
        .boxed(),
        jobs::portable(),
        Carrier::plain("backup_rollup", &ROLLUPS, |_, _, rollup| {
            if rollup.entries() > MOST_ENTRIES { Err(PortError::wrong("too many entries")) } else { Ok(()) }
        })
        // The shares of devices are added as they arrive.
        .kept_by(|tx, key, rollup| Ok(ROLLUPS.put(tx, key, &Rollup { share: Share::default(), ..rollup.clone() })?))
        .boxed(),
        Carrier::plain("backup_posture", &POSTURES, |_, _, posture| {
            if posture.points.len() > MOST_POINTS { Err(PortError::wrong("points: too many restore points")) } else { Ok(()) }
        })
        .kept_by(|tx, key, posture| {
            let mut rollup = rollups::get(tx, (key.0, key.1))?;
            rollup.share = rollup.share.with_replaced(Share::default(), posture.share());
            rollups::put(tx, &rollup)?;
            if directory::device(tx, key.0, key.2)?.is_some() {
                directory::set_backup(tx, key.0, key.2, Some(&posture.backup_state()))?;
            }
            Ok(POSTURES.put(tx, key, posture)?)
        })
        .boxed(),
        Carrier::plain("backup_sweep", &SWEEPS, |_, _, sweep| {
            if sweep.is_of_tenant() { Ok(()) } else { Err(PortError::wrong("must cover the devices of one tenant only")) }
        })
        .boxed(),
    ]
}
