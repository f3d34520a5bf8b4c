//! `/api/backup/config`.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi};

use tenantd_http::{
    input::{Filter, Judged},
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
    /// `tenant`, or the id of an organization or a device. The tenant when absent.
    scope: Option<Scope>,
}

#[derive(Debug, Object)]
struct ReplaceBackupConfig {
    /// `tenant`, or the id of an organization or a device.
    scope: Scope,
    /// Check everything and say what would happen, but change nothing.
    dry_run: Option<bool>,
}

pub(crate) struct ConfigApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/backup", tag = "Area::Backup")]
impl ConfigApi {
    /// Read what is set for backups
    ///
    /// For the tenant, an organization or a device: what it has set itself (`own`), what holds for it (`effective`), and where each field
    /// comes from that it has not set (`inherited_from`). A field comes as a whole from the nearest scope that sets it: the device, its
    /// organization, the tenant, else the defaults. The `ETag` counts the changes of `own`, for `If-Match`; `effective` changes with the
    /// scopes above too.
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

    /// Replace what is set for backups
    ///
    /// The body takes the place of all that the scope has set; a field that is absent is inherited, and `{}` inherits everything. It is
    /// refused when a target would lock restore points for longer than the retention keeps them, for the scope or for one below it
    /// (months count 30 days). It holds at once; the devices are judged by it in the background, within seconds.
    ///
    /// `dry_run=true` checks the same and answers with `impact`, and changes nothing. A key for some organizations cannot change what holds
    /// for the tenant.
    #[oai(path = "/config", method = "put", operation_id = "replace_backup_config")]
    async fn replace_backup_config(
        &self,
        auth: Allowed<BackupWrite>,
        if_match: IfMatch,
        query: Filter<ReplaceBackupConfig>,
        body: Judged<BackupSettings>,
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
