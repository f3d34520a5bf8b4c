//! Named secrets as clients see and send them.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    change::Change,
    clock::Timestamp,
    id::{SecretId, WorkflowId},
    secrets::Secret,
};
use tenantd_http::{author::Author, shape::Shape};
use tenantd_store::events::{Describe, Described};

use super::super::{
    error::{self, SecretError},
    model::{self, Host},
    service::{NewSecret, SecretChange},
};

/// A named secret, without its value.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct NamedSecret {
    pub(super) id: SecretId,
    /// What workflow steps call it: `{{ secrets.NAME }}`. It cannot change.
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// The servers that it may be sent to.
    pub(super) hosts: Vec<String>,
    /// The workflows that may send it. All of the tenant when absent, none when empty.
    pub(super) workflow_ids: Option<Vec<WorkflowId>>,
    /// When it was last sent, to the minute. Events do not show it.
    pub(super) last_used_at: Option<Timestamp>,
    /// When the value was last replaced.
    pub(super) rotated_at: Option<Timestamp>,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Author,
    pub(super) updated_at: Timestamp,
    /// Counts the changes of this record. Uses do not count.
    pub(super) version: u64,
}

impl NamedSecret {
    pub(super) fn new(secret: model::NamedSecret, last_used_at: Option<Timestamp>) -> Self {
        Self {
            id: secret.id,
            name: secret.name,
            description: secret.description,
            hosts: secret.hosts.iter().map(|host| host.shown().to_owned()).collect(),
            workflow_ids: secret.workflow_ids,
            last_used_at,
            rotated_at: secret.rotated_at,
            created_at: secret.created_at,
            created_by: secret.created_by.into(),
            updated_at: secret.updated_at,
            version: secret.version,
        }
    }
}

impl Describe for model::NamedSecret {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&NamedSecret::new(self.clone(), None))
    }
}

/// A secret to create.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct CreateSecret {
    /// What workflow steps call it: letters, digits and underscores. Unique in the tenant, whatever the case of its letters.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) name: String,
    /// The value, exactly as it is to be sent. It is kept encrypted and never shown.
    #[oai(validator(min_length = 4, max_length = 8192))]
    pub(super) value: String,
    /// The servers that it may be sent to, such as `api.example.com` and `api.example.com:8443`. They are reached by HTTPS; write
    /// `http://api.example.com` for one that is not.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) hosts: Vec<String>,
    /// The workflows that may send it. All of the tenant when absent, none when empty.
    #[oai(validator(max_items = 100))]
    pub(super) workflow_ids: Option<Vec<WorkflowId>>,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Option<String>,
}

/// The bounds of a stored secret.
pub(crate) fn secret_fields() -> Result<Shape, String> {
    Shape::fields::<CreateSecret>(&["name", "hosts", "workflow_ids", "description"])
}

/// A change of a secret. What is absent stays as it is; `null` clears. Its name cannot change.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateSecret {
    /// The secret, unless the path or the query names it.
    pub(super) id: Option<SecretId>,
    /// Replaces the stored value. Required when you add a host.
    #[oai(validator(min_length = 4, max_length = 8192))]
    pub(super) value: Option<String>,
    /// Replaces all hosts. A value is sent to the hosts that it was given for: to add one, send `value` again.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) hosts: Option<Vec<String>>,
    /// Replaces the permitted workflows; `null` permits all of the tenant.
    #[oai(validator(max_items = 100))]
    pub(super) workflow_ids: Change<Vec<WorkflowId>>,
    #[oai(validator(max_length = 1000))]
    pub(super) description: Change<String>,
}

/// A new value for a secret.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RotateSecret {
    /// The value, exactly as it is to be sent. It is kept encrypted and never shown.
    #[oai(validator(min_length = 4, max_length = 8192))]
    pub(super) value: String,
}

fn read_hosts(texts: &[String]) -> Result<Vec<Host>, SecretError> {
    let (mut hosts, mut faults) = (Vec::new(), Vec::new());
    for (place, text) in texts.iter().enumerate() {
        match Host::parse(text) {
            Ok(host) => hosts.push(host),
            Err(problem) => faults.push(error::bad_host(place, problem)),
        }
    }
    if faults.is_empty() { Ok(hosts) } else { Err(SecretError::Invalid(faults)) }
}

impl TryFrom<CreateSecret> for NewSecret {
    type Error = SecretError;

    fn try_from(body: CreateSecret) -> Result<Self, SecretError> {
        let hosts = read_hosts(&body.hosts);
        let (hosts, mut faults) = match hosts {
            Ok(hosts) => (hosts, Vec::new()),
            Err(SecretError::Invalid(faults)) => (Vec::new(), faults),
            Err(other) => return Err(other),
        };
        if !model::is_name(&body.name) {
            faults.push(error::bad_name());
        }
        if !faults.is_empty() {
            return Err(SecretError::Invalid(faults));
        }
        let CreateSecret { name, value, workflow_ids, description, .. } = body;
        Ok(Self { name, description, hosts, workflow_ids, value: Secret::new(value) })
    }
}

impl TryFrom<UpdateSecret> for SecretChange {
    type Error = SecretError;

    fn try_from(body: UpdateSecret) -> Result<Self, SecretError> {
        let hosts = body.hosts.as_deref().map(read_hosts).transpose()?;
        let UpdateSecret { value, workflow_ids, description, .. } = body;
        Ok(Self { description, hosts, workflow_ids, value: value.map(Secret::new) })
    }
}
