//! Workflows: the list, the starters, one workflow as a graph and as text, its editor, and runs by hand.

mod catalog;
mod definition;
mod delete;
mod editor;
mod faults;
mod graph;
mod inputs;
mod layout;
mod list;
mod one;
mod outline;
mod plan;
mod pointer;
mod record;
mod run;
mod runs;
mod schedule;
mod starters;

use super::routes::Route;

pub(super) use definition::{branches, steps};
pub(super) use record::text;
pub(super) use schedule::next_times;

const API: &str = "/api/psa/workflows/trigger";
const PATH: &str = "/workflows";
/// The list of runs.
const RUNS: &str = "/workflows/runs";
const STARTERS: &str = "/workflows/starters";

pub(super) const ROUTES: &[Route] = &[
    Route::shows("/workflows", "read_workflows", |visitor| Box::pin(list::list(visitor))),
    Route::both(
        STARTERS,
        "trigger_workflow",
        |visitor| Box::pin(starters::show(visitor)),
        |visitor| Box::pin(starters::install(visitor)),
    ),
    Route::both(
        "/workflows/new",
        "trigger_workflow",
        |visitor| Box::pin(editor::new(visitor)),
        |visitor| Box::pin(editor::create(visitor)),
    ),
    Route::shows("/workflows/{id}", "read_workflow", |visitor| Box::pin(one::show(visitor))),
    Route::both(
        "/workflows/{id}/edit",
        "update_workflow_by_id",
        |visitor| Box::pin(editor::edit(visitor)),
        |visitor| Box::pin(editor::change(visitor)),
    ),
    Route::acts("/workflows/{id}/enabled", "update_workflow_by_id", |visitor| Box::pin(one::change_enabled(visitor))),
    Route::acts("/workflows/{id}/owner", "trigger_workflow", |visitor| Box::pin(one::take_over(visitor))),
    Route::both(
        "/workflows/{id}/run",
        "trigger_workflow",
        |visitor| Box::pin(run::show(visitor)),
        |visitor| Box::pin(run::start(visitor)),
    ),
    Route::both(
        "/workflows/{id}/delete",
        "archive_workflow_by_id",
        |visitor| Box::pin(delete::show(visitor)),
        |visitor| Box::pin(delete::archive(visitor)),
    ),
];
