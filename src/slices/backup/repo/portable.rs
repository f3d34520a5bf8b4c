//! What is set for backups, jobs, and how well devices are backed up, as they leave for another installation and arrive there.

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

/// What the sums of an organization and the restore points of a device have at the most, and more.
const MOST_ENTRIES: usize = 1_000;
const MOST_POINTS: usize = 10_000;

/// `settings` are the bounds of the API.
pub(crate) fn portable(settings: impl Fn(&OwnConfig) -> Result<(), String> + Send + Sync + 'static) -> Vec<Box<dyn Portable>> {
    vec![
        Carrier::plain("backup_config", &CONFIGS, move |_, key, record| {
            if configs::scope(key).is_none() {
                return Err(PortError::wrong("its key names no scope"));
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
            if rollup.entries() > MOST_ENTRIES {
                Err(PortError::wrong("it has more entries than days and targets"))
            } else {
                Ok(())
            }
        })
        // The shares of devices are added up as they arrive.
        .kept_by(|tx, key, rollup| Ok(ROLLUPS.put(tx, key, &Rollup { share: Share::default(), ..rollup.clone() })?))
        .boxed(),
        Carrier::plain("backup_posture", &POSTURES, |_, _, posture| {
            if posture.points.len() > MOST_POINTS {
                Err(PortError::wrong("it has more restore points than are kept"))
            } else {
                Ok(())
            }
        })
        .kept_by(|tx, key, posture| {
            let mut rollup = rollups::get(tx, (key.0, key.1))?;
            rollup.share = rollup.share.exchanged(Share::default(), posture.share());
            rollups::put(tx, &rollup)?;
            if directory::device(tx, key.0, key.2)?.is_some() {
                directory::set_backup(tx, key.0, key.2, Some(&posture.backup_state()))?;
            }
            Ok(POSTURES.put(tx, key, posture)?)
        })
        .boxed(),
        Carrier::plain("backup_sweep", &SWEEPS, |_, _, sweep| {
            if sweep.is_of_tenant() { Ok(()) } else { Err(PortError::wrong("it walks over devices of more than one tenant")) }
        })
        .boxed(),
    ]
}
