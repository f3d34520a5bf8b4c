//! `/api/backup/config`: the backup configuration of a scope.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi};

use tenantd_http::{
    input::{Filter, Lenient},
    need::{Allowed, BackupRead, BackupWrite},
    precondition::IfMatch,
    problem::Problem,
    reply::Changed,
};
use tenantd_store::Store;

use super::{
    super::{error::BackupError, model::Scope, service::Service},
    Area,
    config_wire::{BackupConfig, BackupSettings},
};

#[derive(Debug, Object)]
struct ReadBackupConfig {
    /// The scope to read: `tenant`, or the ID of an organization or a device. Defaults to `tenant`.
    scope: Option<Scope>,
}

#[derive(Debug, Object)]
struct ReplaceBackupConfig {
    /// The scope to change: `tenant`, or the ID of an organization or a device.
    scope: Scope,
    /// Whether to check the change and report its impact without applying it. Defaults to false.
    dry_run: Option<bool>,
}

pub(crate) struct ConfigApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/backup", tag = "Area::Backup")]
impl ConfigApi {
    /// Read the backup configuration
    ///
    /// Returns the configuration of the tenant, an organization or a device: its own settings (`own`), the resulting settings
    /// (`effective`), and the source of each inherited field (`inherited_from`). Each field comes as a whole from the nearest scope
    /// that sets it: the device, its organization, the tenant, or the defaults. The `ETag` is the version of `own`, for `If-Match`.
    /// `effective` also changes when a scope above changes.
    #[oai(path = "/config", method = "get", operation_id = "read_backup_config")]
    async fn read_backup_config(
        &self,
        auth: Allowed<BackupRead>,
        query: Filter<ReadBackupConfig>,
    ) -> Result<Changed<BackupConfig>, Problem> {
        let scope = query.0.scope.unwrap_or(Scope::Tenant);
        let principal = &auth.principal;
        let read = self.store.read(|tx| Service::read_config(tx, principal.tenant_id, &principal.reach, scope))?;
        let version = read.version;
        Ok(Changed::new(&BackupConfig::from(read), version))
    }

    /// Replace the backup configuration
    ///
    /// Replaces all of the scope's own settings with the body. Absent fields are inherited, and `{}` inherits everything. The
    /// request fails if a target would lock restore points for longer than the retention keeps them, in this scope or in one below
    /// it. Months count as 30 days. The change applies at once, and tenantd re-evaluates the devices in the background within
    /// seconds.
    ///
    /// With `dry_run=true`, the request runs the same checks, returns `impact`, and changes nothing. A key restricted to
    /// organizations cannot change tenant-wide settings.
    #[oai(path = "/config", method = "put", operation_id = "replace_backup_config")]
    async fn replace_backup_config(
        &self,
        auth: Allowed<BackupWrite>,
        if_match: IfMatch,
        query: Filter<ReplaceBackupConfig>,
        body: Lenient<BackupSettings>,
    ) -> Result<Changed<BackupConfig>, Problem> {
        let own = body.0.into_model().map_err(BackupError::Invalid)?;
        let (service, intent, scope) = (self.service.clone(), auth.context.intent(&auth.principal), query.0.scope);
        let replaced = if query.0.dry_run.unwrap_or(false) {
            self.store
                .scan_for(auth.principal.tenant_id, move |tx| Service::plan_config(tx, &intent.begin(), &if_match, scope, &own))
                .await?
        } else {
            self.store.write(move |tx| service.replace_config(tx, &mut intent.begin(), &if_match, scope, &own)).await?
        };
        let version = replaced.read.version;
        Ok(Changed::new(&BackupConfig::from(replaced), version))
    }
}
