//! `/internal/admin`: snapshots of the live store and what came of trials of restoring them, for whoever may open the admin socket.

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

#[derive(Debug, Object)]
struct BackupQuery {
    /// How long the request may take beyond the usual. The snapshot is finished in any case.
    #[oai(validator(minimum(value = "0"), maximum(value = "86400")))]
    #[allow(dead_code, reason = "read by the edge")]
    wait_seconds: Option<u32>,
}

/// A snapshot that was written, read back from the disk, and found to be the same.
#[derive(Debug, Object, Serialize)]
struct Backup {
    /// Where the snapshot is.
    path: String,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// Of all records.
    #[oai(validator(minimum(value = "0")))]
    bytes: u64,
    /// Of the file.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
    duration_seconds: f64,
    /// A SHA-256 over every table and record, in hexadecimal. The file was read back and found to have the same.
    digest: String,
}

/// A backup outside of the server's host that is complete: it was read back from there and found to be what was sent.
#[derive(Debug, Object, Serialize)]
struct OffsiteBackup {
    /// Names it in `tenantd restore --from offsite:ID`.
    id: String,
    /// Where it is.
    place: String,
    /// The age recipients that it is encrypted for. None: it is not encrypted.
    recipients: Vec<String>,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// Of the snapshot in it.
    #[oai(validator(minimum(value = "0")))]
    snapshot_bytes: u64,
    /// As it is stored.
    #[oai(validator(minimum(value = "0")))]
    stored_bytes: u64,
    duration_seconds: f64,
    /// How many older backups were removed, because the settings do not keep them.
    #[oai(validator(minimum(value = "0")))]
    removed: u64,
}

/// The trial of restoring a snapshot, which somebody has made on this host.
#[derive(Debug, Object)]
struct RecordDrill {
    /// The snapshot.
    #[oai(validator(min_length = 2, max_length = 4096))]
    path: String,
    /// When it began.
    at: Timestamp,
    /// How long it took, in milliseconds.
    #[oai(validator(minimum(value = "0")))]
    duration_milliseconds: u64,
    /// The size of the file in bytes.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
    #[oai(validator(minimum(value = "0")))]
    tables: u64,
    #[oai(validator(minimum(value = "0")))]
    records: u64,
    /// Why the snapshot could not be restored, if it could not.
    #[oai(validator(min_length = 1, max_length = 4096))]
    failure: Option<String>,
}

/// The store as it is on the disk.
#[derive(Debug, Object, Serialize)]
struct StoreFormat {
    /// The number of its format.
    #[oai(validator(minimum(value = "1")))]
    format: u32,
    /// The size of its file.
    #[oai(validator(minimum(value = "0")))]
    file_bytes: u64,
}

pub(crate) struct UpkeepApi {
    pub(crate) snapshots: Snapshots,
    /// Where the settings name a place for it.
    pub(crate) offsite: Option<Offsite>,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl UpkeepApi {
    /// Write a consistent snapshot of the live store
    ///
    /// The server goes on working meanwhile. The snapshot is read back from the disk and compared, table by table, before it gets its name; one
    /// that is not the same is removed. What came of it is kept either way. It can be checked, tried and restored with the tenantd command.
    #[oai(path = "/backup", method = "post", operation_id = "create_backup")]
    async fn create_backup(
        &self,
        auth: Allowed<LocalOperator>,
        query: Filter<BackupQuery>,
        body: Body<CreateBackup>,
    ) -> Result<Answer<Backup>, Problem> {
        // The edge waits for as long as it says.
        let Filter(BackupQuery { wait_seconds: _ }) = query;
        let path = PathBuf::from(&body.0.path);
        if !path.is_absolute() {
            return Err(Problem::new(
                Code::ValidationFailed,
                "The path must be absolute: the server does not know your directory.",
            ));
        }
        // Of its own, so that it is finished and noted also when nobody waits for it any more.
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
    /// Takes a snapshot, encrypts it for the configured recipients, sends it to the configured place, reads it back from there and compares it.
    /// Then removes the older backups that the settings do not keep.
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

    /// Show the format of the store
    ///
    /// What an upgrade starts from: `tenantd upgrade check` of another release asks for it.
    #[oai(path = "/store", method = "get", operation_id = "get_store_format")]
    async fn get_store_format(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<StoreFormat>, Problem> {
        let (format, file_bytes) = self.snapshots.store_format()?;
        Ok(Answer::new(&StoreFormat { format, file_bytes }))
    }

    /// Keep what came of the trial of restoring a snapshot
    ///
    /// The trial itself is made by the tenantd command, in a directory of its own.
    #[oai(path = "/drills", method = "post", operation_id = "record_drill")]
    async fn record_drill(&self, auth: Allowed<LocalOperator>, body: Body<RecordDrill>) -> Result<Answer<SnapshotRun>, Problem> {
        let RecordDrill { path, at, duration_milliseconds, file_bytes, tables, records, failure } = body.0;
        let took = Duration::from_millis(duration_milliseconds);
        let run = Run { kind: RunKind::Drill, at, path, took, file_bytes, tables, records, failure };
        self.snapshots.note(auth.context.intent(&auth.principal), run.clone()).await?;
        Ok(Answer::new(&SnapshotRun::new(&run)))
    }
}
