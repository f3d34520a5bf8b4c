//! The store's format has a number. A newer release migrates an older store in bounded steps. Each step is a durable transaction
//! that also records its progress, so a crash between steps resumes. An older release refuses a newer store.

use super::{
    Installation, ReadTx, Store, StoreError, WriteTx,
    catalog::{self, TableName},
    installation,
};

/// The format that this release writes.
pub const FORMAT: u32 = 9;

/// Indexes that were added or changed after their records existed, with the format since which they are filled.
const LATER_INDEXES: &[(TableName, u32)] = &[
    (catalog::TENANTS_BY_EXPIRY, 3),
    (catalog::API_KEYS_BY_OWNER, 4),
    (catalog::USERS_BY_LOGIN, 5),
    (catalog::TICKETS_BY_FACET, 9),
];

/// The format since which the usage of tenants is exact. The migration to it counts everything again.
const COUNTED_SINCE: u32 = 6;

/// Migrates a store from one format to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub from: u32,
    /// Does a bounded part of the work and returns whether it is finished. Runs again to continue.
    pub advance: fn(&mut WriteTx) -> Result<Progress, StoreError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// The formats that a store of format `found` migrates through. Empty if it already has the format of this release.
pub fn migration_path(found: u32, steps: &[Step]) -> Result<Vec<u32>, StoreError> {
    let target = FORMAT.max(steps.iter().map(|step| step.from + 1).max().unwrap_or(FORMAT));
    if found > target {
        return Err(installation::newer_format(found, None));
    }
    match (found..target).find(|format| !steps.iter().any(|step| step.from == *format)) {
        None => Ok((found + 1..=target).collect()),
        Some(gap) => {
            let problem = format!("this release cannot migrate from format {gap}; upgrade through the releases in between");
            Err(StoreError::Installation(problem))
        }
    }
}

/// Whether an index is not filled yet. A store that this release has not migrated is not damaged because entries are missing.
pub(super) fn needs_fill(tx: &ReadTx, index: TableName) -> Result<bool, StoreError> {
    match LATER_INDEXES.iter().find(|(later, _)| *later == index) {
        Some((_, since)) => Ok(Installation::read(tx)?.format < *since),
        None => Ok(false),
    }
}

/// Whether the usage of tenants must be counted again. Until then it may differ from their rows.
pub(super) fn needs_recount(tx: &ReadTx) -> Result<bool, StoreError> {
    Ok(Installation::find(tx)?.is_some_and(|installation| installation.format < COUNTED_SINCE))
}

pub(super) async fn run(store: &Store, steps: &'static [Step]) -> Result<(), StoreError> {
    loop {
        let current: Installation = store.read(Installation::read)?;
        migration_path(current.format, steps)?;
        let Some(step) = steps.iter().find(|step| step.from == current.format) else {
            return installation::note_release(store).await;
        };
        tracing::info!(from = step.from, "migrating the store");
        store
            .write(move |tx| -> Result<(), StoreError> {
                if (step.advance)(tx)? == Progress::Done {
                    Installation { format: step.from + 1, ..current.clone() }.write(tx)?;
                }
                Ok(())
            })
            .await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "the form of a step")]
    fn nothing(_: &mut WriteTx) -> Result<Progress, StoreError> {
        Ok(Progress::Done)
    }

    const fn step(from: u32) -> Step {
        Step { from, advance: nothing }
    }

    #[test]
    fn a_migration_visits_every_format_and_refuses_a_gap() {
        let steps = [step(FORMAT), step(FORMAT + 1), step(FORMAT + 2)];
        assert_eq!(migration_path(FORMAT, &steps).unwrap(), [FORMAT + 1, FORMAT + 2, FORMAT + 3]);
        assert_eq!(migration_path(FORMAT + 2, &steps).unwrap(), [FORMAT + 3]);
        assert!(migration_path(FORMAT + 3, &steps).unwrap().is_empty());
        assert!(migration_path(FORMAT + 4, &steps).is_err_and(|error| error.to_string().contains("install")));
        let gap = [step(FORMAT), step(FORMAT + 2)];
        assert!(migration_path(FORMAT, &gap).is_err_and(|error| error.to_string().contains("releases in between")));
    }
}
