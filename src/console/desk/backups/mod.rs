//! Backups: how well each organization is protected, and the settings that say what protected means.

mod config;
mod devices;
mod edit;
mod impact;
mod inputs;
mod list;
mod one;
mod record;
mod scope;
mod score;
mod settings;
mod values;

use super::routes::Route;

const API: &str = "/api/backup/customer-aggregate";
const CONFIG_API: &str = "/api/backup/config";
const PATH: &str = "/backups";
const CONFIG_PATH: &str = "/backups/config";
const EDIT_PATH: &str = "/backups/config/edit";

/// The events after which a page about backups is shown again. Successful jobs are left out: in a large tenant they never pause.
const EVENTS: &str = "backup.job.failed backup.job.missed backup.rpo_breached backup.rpo_recovered backup.config.updated";

pub(super) const ROUTES: &[Route] = &[
    Route::shows(PATH, "report_backup_customers", |visitor| Box::pin(list::show(visitor))),
    Route::shows("/backups/{id}", "report_backup_customers", |visitor| Box::pin(one::show(visitor))),
    Route::shows(CONFIG_PATH, "read_backup_config", |visitor| Box::pin(config::show(visitor))),
    Route::both(
        EDIT_PATH,
        "replace_backup_config",
        |visitor| Box::pin(edit::show(visitor)),
        |visitor| Box::pin(edit::change(visitor)),
    ),
];
