//! `/internal/admin/key-rotation`: another installation key, for whoever may open the admin socket. No key is shown here, and none is taken.

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
    /// What only the admin socket serves.
    Administration,
}

/// How a change of the installation key stands.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
struct KeyRotationStatus {
    /// Tells the key that the store names as its own from others.
    fingerprint: String,
    /// Whether a change is under way.
    under_way: bool,
    /// Of the key that takes the place of that one, while it does.
    #[oai(skip_serializing_if_is_none)]
    next_fingerprint: Option<String>,
    #[oai(skip_serializing_if_is_none)]
    started_at: Option<Timestamp>,
    /// Records whose secrets are under the next key so far.
    #[oai(validator(minimum(value = "0")))]
    resealed: u64,
    /// What is left for the operator to do, where tenantd may not write the file that the key is read from.
    #[oai(skip_serializing_if_is_none)]
    errand: Option<String>,
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
            errand: status.errand,
        }
    }
}

/// What cannot be begun as things are is told to the operator; the rest is for the log.
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
    /// Let another installation key take the place of the one in force
    ///
    /// The key is made on the server and kept there. Secrets are sealed anew in the background, while the server goes on working; ask for
    /// the key rotation to see how far it is. Asked for again while it is under way, nothing is begun.
    #[oai(path = "/key-rotation", method = "post", operation_id = "rotate_key")]
    async fn rotate_key(&self, _auth: Allowed<LocalOperator>) -> Result<Answer<KeyRotationStatus>, Problem> {
        self.keys.rotation.begin().await.map_err(problem)?;
        self.keys.wake_up();
        self.status()
    }

    /// Show how a change of the installation key stands
    ///
    /// Also tells the fingerprint of the key in force, which a snapshot that is restored asks for.
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
