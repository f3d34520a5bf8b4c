//! `/internal/admin/key-rotation`: rotates the installation key, for callers with access to the admin socket. Keys never appear in
//! a request or a response.

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, secrets::show_fingerprint};
use tenantd_http::{
    need::{Allowed, LocalOperator},
    problem::{Code, Problem},
    reply::Answer,
};
use tenantd_store::{RotationStatus, StoreError};

use super::super::rotation::KeyRotation;

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

/// The progress of a key rotation.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
struct KeyRotationStatus {
    /// The fingerprint of the installation key in use.
    fingerprint: String,
    /// Whether a rotation is in progress.
    under_way: bool,
    /// The fingerprint of the new key, during a rotation.
    #[oai(skip_serializing_if_is_none)]
    next_fingerprint: Option<String>,
    /// When the rotation started. Absent if none is in progress.
    #[oai(skip_serializing_if_is_none)]
    started_at: Option<Timestamp>,
    /// The number of records already sealed with the new key.
    #[oai(validator(minimum(value = "0")))]
    resealed: u64,
    /// What the operator must still do, when tenantd may not write the key file itself.
    #[oai(skip_serializing_if_is_none)]
    operator_action: Option<String>,
}

impl From<RotationStatus> for KeyRotationStatus {
    fn from(status: RotationStatus) -> Self {
        let under_way = status.under_way;
        Self {
            fingerprint: show_fingerprint(status.fingerprint),
            under_way: !status.settled,
            next_fingerprint: under_way.as_ref().map(|progress| show_fingerprint(progress.to)),
            started_at: under_way.as_ref().map(|progress| progress.started_at),
            resealed: under_way.as_ref().map_or(0, |progress| progress.resealed),
            operator_action: status.operator_action,
        }
    }
}

/// Reports a rotation that cannot start to the operator; other errors go to the log.
fn problem(error: StoreError) -> Problem {
    match error {
        StoreError::Installation(reason) => Problem::new(Code::InvalidTransition, reason),
        other => other.into(),
    }
}

pub(crate) struct KeyRotationApi {
    pub(crate) keys: KeyRotation,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl KeyRotationApi {
    /// Rotate the installation key
    ///
    /// Starts a rotation. tenantd generates the new key on the server and keeps it there. It seals all secrets again in the
    /// background while the server keeps running. Read the key rotation to follow the progress. If a rotation is already in
    /// progress, the request starts nothing.
    #[oai(path = "/key-rotation", method = "post", operation_id = "rotate_key")]
    async fn rotate_key(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<KeyRotationStatus>, Problem> {
        self.keys.rotation.begin().await.map_err(problem)?;
        self.keys.wake_up();
        self.status()
    }

    /// Read the status of the key rotation
    ///
    /// Also returns the fingerprint of the key in use. You need it to restore a snapshot.
    #[oai(path = "/key-rotation", method = "get", operation_id = "get_key_rotation")]
    async fn get_key_rotation(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<KeyRotationStatus>, Problem> {
        self.status()
    }
}

impl KeyRotationApi {
    fn status(&self) -> Result<Answer<KeyRotationStatus>, Problem> {
        Ok(Answer::new(&KeyRotationStatus::from(self.keys.rotation.status().map_err(problem)?)))
    }
}
