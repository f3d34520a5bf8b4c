//! Evaluation data: organizations with their people and devices, and a quarter of a year of tickets that were worked on.
//!
//! It is made by the use cases themselves, in the order of time, so that it has the events, promises and numbers that real work
//! would have left. The same seed gives the same story. **Boundary:** for tenants that evaluate, never for others.

mod analytics;
mod backups;
mod clouds;
mod fleet;
mod people;
mod story;
mod words;
mod workflows;

use std::{collections::BTreeMap, time::Duration};

use self::{
    people::Cast,
    story::{Deed, Scene},
};
use super::App;
use crate::{
    kernel::{
        clock::Timestamp,
        entropy::Entropy,
        events::{Act, Actor, Intent},
        id::TenantId,
        store::{StoreError, WriteTx},
    },
    slices::{
        backup::BackupError,
        directory::DirectoryError,
        tickets::{self, TicketError, TicketRef, Tickets},
        workflows::WorkflowError,
    },
};

/// How far back the story begins.
const PAST: Duration = Duration::from_hours(24 * 90);
/// Scenes that share a transaction.
const SCENES_AT_ONCE: usize = 200;

#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Ticket(#[from] TicketError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Fills the tenant with a story of so many tickets.
pub async fn fill(app: &App, tenant: TenantId, seed: u64, tickets: usize) -> Result<(), String> {
    let now = app.clock.now();
    let mut random = Entropy::from_seed(seed);
    let cast = people::enter(app, tenant, &mut random, now - PAST, now).await.map_err(|error| error.to_string())?;
    let (mut numbers, mut backlog) = (BTreeMap::new(), Vec::new());
    let scenes = story::tell(&cast, &mut random, now - PAST, now, tickets);
    for scenes in scenes.chunks(SCENES_AT_ONCE) {
        let stage: Vec<(Intent, Scene)> = scenes.iter().map(|scene| (intent(&cast, tenant, scene), scene.clone())).collect();
        let (tickets, mut known) = (app.slices.tickets.clone(), numbers.clone());
        let play = move |tx: &mut WriteTx| {
            for (intent, scene) in &stage {
                play(&tickets, tx, &mut intent.begin(), scene, &mut known)?;
            }
            Ok::<_, SampleError>((known.clone(), tickets::backlog(tx, tenant)?))
        };
        let (known, waiting) = app.store.write(play).await.map_err(|error| error.to_string())?;
        numbers = known;
        backlog.extend(scenes.last().map(|scene| (scene.at, waiting)));
    }
    let (tickets, today) = (app.slices.tickets.clone(), Intent::new(tenant, now, Actor::system("Sample data")));
    app.store.write(move |tx| tickets.tend(tx, &mut today.begin())).await.map_err(|error| error.to_string())?;
    analytics::remember(&app.store, tenant, seed, &cast, (now - PAST, now), &backlog).await?;
    backups::run(app, tenant, seed, &cast, now).await.map_err(|error| error.to_string())?;
    clouds::connect(app, tenant, seed, &cast, now).await.map_err(|error| error.to_string())?;
    workflows::install(app, tenant, &cast, now).await.map_err(|error| error.to_string())
}

fn intent(cast: &Cast, tenant: TenantId, scene: &Scene) -> Intent {
    Intent::new(tenant, scene.at, cast.actor(scene.player))
}

/// Does what the scene tells, and before it what time alone did to all tickets until then. `numbers` knows the tickets of the story
/// by their place in it.
fn play(
    tickets: &Tickets,
    tx: &mut WriteTx,
    act: &mut Act,
    scene: &Scene,
    numbers: &mut BTreeMap<usize, u64>,
) -> Result<(), SampleError> {
    tickets.tend(tx, act)?;
    if let Deed::Create(new) = &scene.deed {
        numbers.insert(scene.ticket, tickets.create(tx, act, new)?.number);
        return Ok(());
    }
    let Some(number) = numbers.get(&scene.ticket) else { return Ok(()) };
    let ticket = TicketRef::Number(*number);
    match &scene.deed {
        Deed::Create(_) => {}
        Deed::Change(change) => drop(tickets.change(tx, act, ticket, change)?),
        Deed::Comment(comment) => drop(tickets.comment(tx, act, ticket, comment)?),
        Deed::Work(entry) => drop(tickets.log_time(tx, act, ticket, entry)?),
    }
    Ok(())
}

/// A moment between two times.
fn between(random: &mut Entropy, from: Timestamp, to: Timestamp) -> Timestamp {
    let span = u64::try_from(to.as_millis() - from.as_millis()).unwrap_or_default();
    from + Duration::from_millis(random.below(span.max(1)))
}

/// One of them. There is always at least one.
fn pick<'a, T>(random: &mut Entropy, choices: &'a [T]) -> Option<&'a T> {
    choices.get(usize::try_from(random.below(choices.len() as u64)).unwrap_or_default())
}
