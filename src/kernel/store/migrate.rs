//! The format of the store has a number. A newer release brings an older file forward in bounded steps, each its own durable
//! transaction that also records how far it is, so a crash in between resumes; an older release refuses a newer file.

use super::{Installation, Store, StoreError, WriteTx, due, installation};

/// The format that this release writes.
pub const FORMAT: u32 = 2;

/// What leads to it from those before.
pub const STEPS: &[Step] = &[Step { from: 1, advance: due::regroup }];

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

pub(super) async fn run(store: &Store, steps: &'static [Step]) -> Result<(), StoreError> {
    loop {
        let current: Installation = store.read(Installation::read)?;
        let target = FORMAT.max(steps.iter().map(|step| step.from + 1).max().unwrap_or(FORMAT));
        if current.format > target {
            return Err(installation::newer_format(current.format));
        }
        if current.format == target {
            return Ok(());
        }
        let Some(step) = steps.iter().find(|step| step.from == current.format) else {
            let problem = format!("no step leads on from format {}; upgrade through the releases in between", current.format);
            return Err(StoreError::Installation(problem));
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
