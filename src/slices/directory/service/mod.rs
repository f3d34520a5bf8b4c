//! The use cases of organizations, people and devices. Each function runs in the caller's transaction: it checks, writes and
//! appends the event.

mod dependents;
mod devices;
mod ingest;
mod organizations;
mod removal;
mod users;

use serde_json::value::RawValue;

use tenantd_store::{
    WriteTx,
    events::{self, Act, Changes, Draft, EventKind},
};

use super::{error::DirectoryError, model::AgentRules};

pub use dependents::{Dependent, Dependents, Subject};
pub(super) use devices::{DEVICE_CREATED, DEVICE_REMOVED, DEVICE_UPDATED};
pub(super) use devices::{device_labels, find_device};
pub use ingest::JobReceiver;
pub(super) use ingest::LabelCache;
pub(super) use organizations::find_organization;
pub(super) use organizations::{ORGANIZATION_CREATED, ORGANIZATION_REMOVED, ORGANIZATION_UPDATED};
pub(super) use removal::Remover;
pub use users::UserChange;
pub(super) use users::{USER_CREATED, USER_REMOVED, USER_UPDATED};
pub(super) use users::{find_contact, organization_of};

/// The use cases, with their configured rules.
#[derive(Clone, Copy, Debug)]
pub struct Directory {
    pub(super) agents: AgentRules,
}

/// Appends the event of a record.
fn announce(
    tx: &mut WriteTx,
    act: &mut Act,
    kind: &'static EventKind,
    (id, version): (String, u64),
    shown: &RawValue,
    changes: Option<Changes>,
) -> Result<(), DirectoryError> {
    let draft = Draft::new(kind, id, version, shown).with_changes(changes.as_ref());
    events::append(tx, act, &draft)?;
    Ok(())
}
