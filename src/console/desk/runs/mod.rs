//! Workflow runs: the list, one run with its steps, the runs that wait for an approval, and the calendar of the schedules.

mod actions;
mod approvals;
mod calendar;
mod decision;
mod definition;
mod list;
mod one;
mod record;
mod steps;
mod values;

use super::routes::Route;

pub(super) use record::{path, record_link, status_badge};

/// Workflows, and with `view=runs` their runs.
const API: &str = "/api/psa/workflows/trigger";
const PATH: &str = "/workflows/runs";
const APPROVALS: &str = "/workflows/approvals";
const CALENDAR: &str = "/workflows/calendar";

/// The page above those of this area.
const WORKFLOWS: (&str, &str) = ("/workflows", "Workflows");

pub(super) const ROUTES: &[Route] = &[
    Route::shows(PATH, "read_workflows", |visitor| Box::pin(list::show(visitor))),
    Route::shows("/workflows/runs/{id}", "read_workflow_run", |visitor| Box::pin(one::show(visitor))),
    Route::acts("/workflows/runs/{id}/cancel", "cancel_workflow_run_by_id", |visitor| Box::pin(actions::cancel(visitor))),
    Route::acts("/workflows/runs/{id}/actions", "steer_workflow_run_by_id", |visitor| Box::pin(actions::steer(visitor))),
    Route::acts("/workflows/runs/{id}/decisions", "steer_workflow_run_by_id", |visitor| Box::pin(actions::decide(visitor))),
    Route::shows(APPROVALS, "read_workflows", |visitor| Box::pin(approvals::show(visitor))),
    Route::shows(CALENDAR, "read_workflows", |visitor| Box::pin(calendar::show(visitor))),
];
