//! The request and response bodies of named secrets.

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
    /// The ID of the secret.
    pub(super) id: SecretId,
    /// The name that workflow steps use: `{{ secrets.NAME }}`. It cannot change.
    pub(super) name: String,
    /// A description for people. Absent if there is none.
    pub(super) description: Option<String>,
    /// The servers to which steps may send the value.
    pub(super) hosts: Vec<String>,
    /// The IDs of the workflows that may use the secret. When absent, all workflows of the tenant may use it. When empty, none may.
    pub(super) workflow_ids: Option<Vec<WorkflowId>>,
    /// When a step last used the secret, accurate to one minute. Absent if no step has used it, and in events.
    pub(super) last_used_at: Option<Timestamp>,
    /// When the value was last replaced. Absent if it never was.
    pub(super) rotated_at: Option<Timestamp>,
    /// When the secret was created.
    pub(super) created_at: Timestamp,
    /// Who created the secret.
    pub(super) created_by: Author,
    /// When the secret was last changed.
    pub(super) updated_at: Timestamp,
    /// The version of the record. It increases with each change; uses do not count.
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
    /// The name that workflow steps use: letters, digits and underscores, not starting with a digit. Unique in the tenant, ignoring
    /// case.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) name: String,
    /// The value, exactly as steps send it. tenantd stores it encrypted and never returns it.
    #[oai(validator(min_length = 4, max_length = 8192))]
    pub(super) value: String,
    /// The servers to which steps may send the value, such as `api.example.com` and `api.example.com:8443`. Steps use HTTPS. For a
    /// server without TLS, write `http://api.example.com`.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) hosts: Vec<String>,
    /// The IDs of the workflows that may use the secret. When absent, all workflows of the tenant may use it. When empty, none may.
    #[oai(validator(max_items = 100))]
    pub(super) workflow_ids: Option<Vec<WorkflowId>>,
    /// A description for people.
    #[oai(validator(max_length = 1000))]
    pub(super) description: Option<String>,
}

/// The limits for the fields of a stored secret.
pub(crate) fn secret_fields() -> Result<Shape, String> {
    Shape::fields::<CreateSecret>(&["name", "hosts", "workflow_ids", "description"])
}

/// A change to a secret. Absent fields keep their values; `null` clears a field. The name cannot change.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdateSecret {
    /// The ID of the secret. Required unless the path or the query has it.
    pub(super) id: Option<SecretId>,
    /// A new value that replaces the stored one. Required when you add a host.
    #[oai(validator(min_length = 4, max_length = 8192))]
    pub(super) value: Option<String>,
    /// The new list of hosts, which replaces the old list. The value is bound to its hosts: to add one, send `value` again.
    #[oai(validator(min_items = 1, max_items = 20))]
    pub(super) hosts: Option<Vec<String>>,
    /// The new list of permitted workflows, which replaces the old list. `null` permits all workflows of the tenant.
    #[oai(validator(max_items = 100))]
    pub(super) workflow_ids: Change<Vec<WorkflowId>>,
    /// A description for people. `null` removes it.
    #[oai(validator(max_length = 1000))]
    pub(super) description: Change<String>,
}

/// A new value for a secret.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct RotateSecret {
    /// The new value, exactly as steps send it. tenantd stores it encrypted and never returns it.
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
