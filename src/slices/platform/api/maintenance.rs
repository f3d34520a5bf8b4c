//! `/internal/admin`: checks of the live store and its settings, for whoever may open the admin socket.

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
    /// What only the admin socket serves.
    Administration,
}

/// What a check of the store found.
#[derive(Debug, Object, Serialize)]
struct StoreCheck {
    /// Whether nothing is wrong.
    clean: bool,
    records: u64,
    /// How many entries of indexes were checked.
    index_entries: u64,
    /// What is wrong.
    problems: Vec<String>,
    /// Problems beyond those listed.
    more_problems: u64,
}

pub(crate) struct MaintenanceApi {
    pub(crate) store: Store,
    pub(crate) checked: Vec<&'static dyn Checked>,
    pub(crate) reload: Reload,
}

/// What holds after the settings were read.
#[derive(Debug, Object, Serialize)]
struct ReloadDone {
    /// Always true: settings that cannot be taken up are a problem, and the old ones stay.
    reloaded: bool,
    /// Changed settings that only a restart takes up, such as `listen.address`.
    needs_restart: Vec<String>,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl MaintenanceApi {
    /// Take up the settings anew
    ///
    /// Certificates, the log level, rate limits, limits of requests and trusted proxies. All of them, or none when something is wrong with
    /// them.
    #[oai(path = "/reload", method = "post", operation_id = "reload_settings")]
    async fn reload_settings(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<ReloadDone>, Problem> {
        let needs_restart = self.reload.ask().await.map_err(|reason| Problem::new(Code::ValidationFailed, reason))?;
        Ok(Answer::new(&ReloadDone { reloaded: true, needs_restart }))
    }

    /// Check every record and every index of the live store
    ///
    /// Reads everything and changes nothing. What is wrong is listed in `problems`.
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
