//! The format of the store has a number. A newer release brings an older file forward in bounded steps, each its own durable
//! transaction that also records how far it is, so a crash in between resumes; an older release refuses a newer file.

use super::{
    Installation, ReadTx, Store, StoreError, WriteTx,
    catalog::{self, TableName},
    installation,
};

/// The format that this release writes.
pub const FORMAT: u32 = 8;

/// Indexes of records that were there before them or have another form now, and the format since which they have their entries.
const LATER_INDEXES: &[(TableName, u32)] =
    &[(catalog::TENANTS_BY_EXPIRY, 3), (catalog::API_KEYS_BY_OWNER, 4), (catalog::USERS_BY_LOGIN, 5)];

/// The format since which what tenants use is exact: the step to it counts everything again.
const COUNTED_SINCE: u32 = 6;

/// Takes a store from one format to the next.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub from: u32,
    /// Does a bounded part of the work, and says whether that was all of it. Runs again from where it stopped.
    pub advance: fn(&mut WriteTx) -> Result<Progress, StoreError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// The formats that a store of format `found` goes through to become what this release writes. Empty when it is that already.
pub fn way(found: u32, steps: &[Step]) -> Result<Vec<u32>, StoreError> {
    let target = FORMAT.max(steps.iter().map(|step| step.from + 1).max().unwrap_or(FORMAT));
    if found > target {
        return Err(installation::newer_format(found, None));
    }
    match (found..target).find(|format| !steps.iter().any(|step| step.from == *format)) {
        None => Ok((found + 1..=target).collect()),
        Some(gap) => {
            let problem = format!("no step leads on from format {gap}; upgrade through the releases in between");
            Err(StoreError::Installation(problem))
        }
    }
}

/// Whether the entries of an index are still to be made: a store that no server of this release has taken up yet is not damaged by
/// their absence.
pub(super) fn is_to_be_filled(tx: &ReadTx, index: TableName) -> Result<bool, StoreError> {
    match LATER_INDEXES.iter().find(|(later, _)| *later == index) {
        Some((_, since)) => Ok(Installation::read(tx)?.format < *since),
        None => Ok(false),
    }
}

/// Whether what tenants use is still to be counted again: before that it may differ from what they have.
pub(super) fn is_to_be_counted(tx: &ReadTx) -> Result<bool, StoreError> {
    Ok(Installation::find(tx)?.is_some_and(|installation| installation.format < COUNTED_SINCE))
}

pub(super) async fn run(store: &Store, steps: &'static [Step]) -> Result<(), StoreError> {
    loop {
        let current: Installation = store.read(Installation::read)?;
        way(current.format, steps)?;
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
    fn the_way_goes_through_every_format_and_is_told_when_there_is_none() {
        let steps = [step(FORMAT), step(FORMAT + 1), step(FORMAT + 2)];
        assert_eq!(way(FORMAT, &steps).unwrap(), [FORMAT + 1, FORMAT + 2, FORMAT + 3]);
        assert_eq!(way(FORMAT + 2, &steps).unwrap(), [FORMAT + 3]);
        assert!(way(FORMAT + 3, &steps).unwrap().is_empty());
        assert!(way(FORMAT + 4, &steps).is_err_and(|error| error.to_string().contains("install")));
        let gap = [step(FORMAT), step(FORMAT + 2)];
        assert!(way(FORMAT, &gap).is_err_and(|error| error.to_string().contains("releases in between")));
    }
}
