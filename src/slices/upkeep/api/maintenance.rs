//! `/internal/admin`: snapshots of the live store, off-site backups, and the results of restore drills. Only the admin socket
//! serves them.

use std::{path::PathBuf, time::Duration};

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;

use tenantd_base::clock::Timestamp;
use tenantd_http::{
    input::{Body, Filter},
    need::{Allowed, LocalOperator},
    problem::{Code, Problem},
    reply::Answer,
};
use tenantd_store::within_reserve;

use super::{
    super::{
        model::{Run, RunKind},
        offsite::{Offsite, OffsiteError},
        snapshots::Snapshots,
    },
    wire::SnapshotRun,
};

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

/// Where to write a snapshot.
#[derive(Debug, Object)]
struct CreateBackup {
    /// An absolute path on the server's host. The file must not exist yet.
    #[oai(validator(min_length = 2, max_length = 4096))]
    path: String,
}

#[derive(Debug, Object)]
struct BackupQuery {
    /// How many additional seconds the request may take. The snapshot is finished in any case.
    #[oai(validator(minimum(value = "0"), maximum(value = "86400")))]
    #[allow(dead_code, reason = "read by the edge")]
    wait_seconds: Option<u32>,
}

/// A snapshot that was written, read back from disk and verified.
#[derive(Debug, Object, Serialize)]
struct Backup {
    /// The path of the snapshot.
    path: String,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// The size of all records in bytes.
    #[oai(validator(minimum(value = "0")))]
    bytes: u64,
    /// The size of the file in bytes.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
    duration_seconds: f64,
    /// A SHA-256 over every table and record, in hexadecimal. The file was read back and has the same digest.
    digest: String,
}

/// A complete backup outside of the server's host. It was read back and verified.
#[derive(Debug, Object, Serialize)]
struct OffsiteBackup {
    /// The id of the backup, for `tenantd restore --from offsite:ID`.
    id: String,
    /// Where the backup is stored.
    place: String,
    /// The age recipients that can decrypt the backup. Empty if it is not encrypted.
    recipients: Vec<String>,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// The size of the snapshot in the backup, in bytes.
    #[oai(validator(minimum(value = "0")))]
    snapshot_bytes: u64,
    /// The size of the stored object in bytes.
    #[oai(validator(minimum(value = "0")))]
    stored_bytes: u64,
    duration_seconds: f64,
    /// How many older backups were removed according to the retention settings.
    #[oai(validator(minimum(value = "0")))]
    removed: u64,
}

/// The result of a drill: an attempt to restore a snapshot on this host.
#[derive(Debug, Object)]
struct RecordDrill {
    /// The path of the snapshot.
    #[oai(validator(min_length = 2, max_length = 4096))]
    path: String,
    /// When the drill began.
    at: Timestamp,
    /// How long the drill took, in milliseconds.
    #[oai(validator(minimum(value = "0")))]
    duration_milliseconds: u64,
    /// The size of the snapshot file in bytes.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// Why the snapshot could not be restored. Absent if the drill succeeded.
    #[oai(validator(min_length = 1, max_length = 4096))]
    failure: Option<String>,
}

/// The store on disk.
#[derive(Debug, Object, Serialize)]
struct StoreFormat {
    /// The number of the storage format.
    #[oai(validator(minimum(value = "1")))]
    format: u32,
    /// The size of the store file in bytes.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
}

pub(crate) struct UpkeepApi {
    pub(crate) snapshots: Snapshots,
    /// `None` if off-site backups are not configured.
    pub(crate) offsite: Option<Offsite>,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl UpkeepApi {
    /// Write a consistent snapshot of the live store
    ///
    /// Writes a snapshot to a file while the server continues to work. tenantd reads the snapshot back from disk and compares
    /// it, table by table, before it gives the file its final name. A snapshot that differs is removed. The result is
    /// recorded in both cases. You can verify, try and restore the snapshot with the `tenantd` command.
    #[oai(path = "/backup", method = "post", operation_id = "create_backup")]
    async fn create_backup(
        &self,
        auth: Allowed<LocalOperator>,
        query: Filter<BackupQuery>,
        body: Body<CreateBackup>,
    ) -> Result<Answer<Backup>, Problem> {
        // The HTTP layer uses it for the timeout.
        let Filter(BackupQuery { wait_seconds: _ }) = query;
        let path = PathBuf::from(&body.0.path);
        if !path.is_absolute() {
            return Err(Problem::new(
                Code::ValidationFailed,
                "The path must be absolute. The server does not know your working directory.",
            ));
        }
        // A separate task, so that the snapshot is finished and recorded even if the client disconnects.
        let (snapshots, intent) = (self.snapshots.clone(), auth.context.intent(&auth.principal));
        let taken = tokio::spawn(within_reserve(async move { snapshots.take(intent, path).await }));
        let taken = taken.await.map_err(Problem::internal)??;
        let (run, report) = (taken.run, taken.report?);
        Ok(Answer::new(&Backup {
            path: run.path,
            tables: run.tables,
            records: run.records,
            bytes: report.bytes(),
            file_bytes: run.file_bytes,
            duration_seconds: run.took.as_secs_f64(),
            digest: data_encoding::HEXLOWER.encode(&report.digest()),
        }))
    }

    /// Write a backup outside of the host
    ///
    /// Takes a snapshot, encrypts it for the configured recipients, uploads it to the configured place, reads it back and
    /// compares it. Then it removes older backups according to the retention settings.
    #[oai(path = "/offsite-backups", method = "post", operation_id = "create_offsite_backup")]
    async fn create_offsite_backup(
        &self,
        auth: Allowed<LocalOperator>,
        query: Filter<BackupQuery>,
    ) -> Result<Answer<OffsiteBackup>, Problem> {
        let Filter(BackupQuery { wait_seconds: _ }) = query;
        let offsite = self.offsite.clone().ok_or(OffsiteError::NotConfigured)?;
        let intent = auth.context.intent(&auth.principal);
        let stored = tokio::spawn(within_reserve(async move { offsite.back_up(intent).await }));
        let stored = stored.await.map_err(Problem::internal)??;
        Ok(Answer::new(&OffsiteBackup {
            id: stored.manifest.id,
            place: stored.run.path,
            recipients: stored.manifest.recipients,
            tables: stored.run.tables,
            records: stored.run.records,
            snapshot_bytes: stored.manifest.snapshot.bytes,
            stored_bytes: stored.manifest.object.bytes,
            duration_seconds: stored.run.took.as_secs_f64(),
            removed: stored.removed as u64,
        }))
    }

    /// Get the format of the store
    ///
    /// Returns the format and the size of the store. The command `tenantd upgrade check` of another release uses it.
    #[oai(path = "/store", method = "get", operation_id = "get_store_format")]
    async fn get_store_format(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<StoreFormat>, Problem> {
        let (format, file_bytes) = self.snapshots.store_format()?;
        Ok(Answer::new(&StoreFormat { format, file_bytes }))
    }

    /// Record the result of a restore drill
    ///
    /// Stores the result of a drill. The `tenantd` command runs the drill itself, in a separate directory.
    #[oai(path = "/drills", method = "post", operation_id = "record_drill")]
    async fn record_drill(&self, auth: Allowed<LocalOperator>, body: Body<RecordDrill>) -> Result<Answer<SnapshotRun>, Problem> {
        let RecordDrill { path, at, duration_milliseconds, file_bytes, tables, records, failure } = body.0;
        let took = Duration::from_millis(duration_milliseconds);
        let run = Run { kind: RunKind::Drill, at, path, took, file_bytes, tables, records, failure };
        self.snapshots.note(auth.context.intent(&auth.principal), run.clone()).await?;
        Ok(Answer::new(&SnapshotRun::new(&run)))
    }
}
