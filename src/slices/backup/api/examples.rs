//! The examples in the OpenAPI document. Each file holds the example of one schema.

use tenantd_http::examples;

use super::{
    aggregate_wire::BackupAggregate,
    config_wire::{BackupConfig, BackupSettings},
    history::BackupHistory,
};

examples! {
    BackupSettings => "backup_settings.json",
    BackupConfig => "backup_config.json",
    BackupHistory => "backup_history.json",
    BackupAggregate => "backup_aggregate.json",
}
