//! The examples of the published document, one file a schema.

use tenantd_http::examples;

use super::{
    aggregate_wire::BackupAggregate,
    config_wire::{BackupConfig, BackupSettings},
};

examples! {
    BackupSettings => "backup_settings.json",
    BackupConfig => "backup_config.json",
    BackupAggregate => "backup_aggregate.json",
}
