//! `/internal/admin`: snapshots and checks of the live store, for whoever may open the admin socket.

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;

use super::super::{reload::Reload, rotation::KeyRotation};
use crate::kernel::{
    http::{
        input::Body,
        need::{Allowed, LocalOperator},
        problem::{Code, Problem},
        reply::Answer,
    },
    store::{Checked, Store, StoreError},
};

#[derive(Tags)]
enum Area {
    /// What only the admin socket serves.
    Administration,
}

/// Where to write a snapshot.
#[derive(Debug, Object)]
struct CreateBackup {
    /// An absolute path on the server's host, where nothing is yet.
    #[oai(validator(min_length = 2, max_length = 4096))]
    path: String,
}

/// A snapshot that was written.
#[derive(Debug, Object, Serialize)]
struct Backup {
    path: String,
    tables: u64,
    records: u64,
    bytes: u64,
    /// A SHA-256 over every record, in hexadecimal. The file was read back and found to have the same.
    digest: String,
}

/// What a check of the store found.
#[derive(Debug, Object, Serialize)]
struct StoreCheck {
    clean: bool,
    records: u64,
    index_entries: u64,
    problems: Vec<String>,
    /// Problems beyond those listed.
    more_problems: u64,
}

pub(in super::super) struct MaintenanceApi {
    pub(in super::super) store: Store,
    pub(in super::super) checked: Vec<&'static dyn Checked>,
    pub(in super::super) reload: Reload,
    pub(in super::super) keys: KeyRotation,
}

/// What holds after the settings were read.
#[derive(Debug, Object, Serialize)]
struct ReloadDone {
    /// Always true: settings that cannot be taken up are a problem, and the old ones stay.
    reloaded: bool,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl MaintenanceApi {
    /// Write a consistent snapshot of the live store
    ///
    /// The server goes on working meanwhile. The snapshot is read back and compared before it gets its name. The snapshot can be checked and restored with the tenantd command.
    #[oai(path = "/backup", method = "post", operation_id = "create_backup")]
    async fn create_backup(&self, _auth: Allowed<LocalOperator>, body: Body<CreateBackup>) -> Result<Answer<Backup>, Problem> {
        let path = std::path::PathBuf::from(&body.0.path);
        if !path.is_absolute() {
            return Err(Problem::new(
                Code::ValidationFailed,
                "The path must be absolute: the server does not know your directory.",
            ));
        }
        if self.keys.rotation.status()?.under_way.is_some() {
            // Neither of the two keys alone would open all that is in it.
            return Err(Problem::new(
                Code::InvalidTransition,
                "A change of the installation key is under way. Write the snapshot when it has ended.",
            ));
        }
        let report = self.store.snapshot(path).await.map_err(|error| match error {
            StoreError::Installation(reason) => Problem::new(Code::InvalidTransition, reason),
            other => other.into(),
        })?;
        Ok(Answer::new(&Backup {
            path: body.0.path,
            tables: report.tables as u64,
            records: report.records,
            bytes: report.bytes,
            digest: data_encoding::HEXLOWER.encode(&report.digest),
        }))
    }

    /// Take up the settings anew
    ///
    /// Certificates, the log level, rate limits, limits of requests and trusted proxies. All of them, or none when something is wrong with
    /// them.
    #[oai(path = "/reload", method = "post", operation_id = "reload_settings")]
    async fn reload_settings(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<ReloadDone>, Problem> {
        self.reload.ask().await.map_err(|reason| Problem::new(Code::ValidationFailed, reason))?;
        Ok(Answer::new(&ReloadDone { reloaded: true }))
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
