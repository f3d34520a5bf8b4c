//! `/internal/admin`: checks the live store and reloads the configuration, for callers with access to the admin socket.

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;

use tenantd_http::{
    need::{Allowed, LocalOperator},
    problem::{Code, Problem},
    reply::Answer,
};
use tenantd_store::{Checked, Store};

use super::super::reload::Reload;

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

/// The result of a store check.
#[derive(Debug, Object, Serialize)]
struct StoreCheck {
    /// Whether the check found no problems.
    clean: bool,
    /// The number of records checked.
    records: u64,
    /// The number of index entries checked.
    index_entries: u64,
    /// The problems found.
    problems: Vec<String>,
    /// The number of further problems that are not listed.
    more_problems: u64,
}

pub(crate) struct MaintenanceApi {
    pub(crate) store: Store,
    pub(crate) checked: Vec<&'static dyn Checked>,
    pub(crate) reload: Reload,
}

/// The result of a reload.
#[derive(Debug, Object, Serialize)]
struct ReloadDone {
    /// Always true. If the configuration is invalid, the request returns a problem and the old configuration stays in use.
    reloaded: bool,
    /// The changed settings that take effect only after a restart, such as `listen.address`.
    needs_restart: Vec<String>,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl MaintenanceApi {
    /// Reload the configuration
    ///
    /// Reloads certificates, the log level, rate limits, request limits and trusted proxies. Applies all of them, or none if one is
    /// invalid.
    #[oai(path = "/reload", method = "post", operation_id = "reload_settings")]
    async fn reload_settings(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<ReloadDone>, Problem> {
        let needs_restart = self.reload.request().await.map_err(|reason| Problem::new(Code::ValidationFailed, reason))?;
        Ok(Answer::new(&ReloadDone { reloaded: true, needs_restart }))
    }

    /// Check the live store
    ///
    /// Checks every record and every index. Reads everything and changes nothing. Lists the problems found in `problems`.
    #[oai(path = "/check", method = "post", operation_id = "check_store")]
    async fn check_store(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<StoreCheck>, Problem> {
        let report = self.store.check(self.checked.clone()).await?;
        Ok(Answer::new(&StoreCheck {
            clean: report.is_clean(),
            records: report.records,
            index_entries: report.index_entries,
            problems: report.problems,
            more_problems: report.more_problems,
        }))
    }
}
