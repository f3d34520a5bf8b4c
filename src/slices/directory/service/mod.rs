//! The use cases of organizations, people and devices. Each function runs in the caller's transaction: it checks, writes and
//! appends the event.

mod dependents;
mod devices;
mod ingest;
mod organizations;
mod removal;
mod roles;
mod users;

use serde_json::value::RawValue;

use tenantd_store::{
    StoreError, WriteTx,
    events::{self, Act, Changes, Draft, EventKind},
};

use super::{
    error::DirectoryError,
    model::{AgentRules, User},
};

pub use dependents::{Dependent, Dependents, Subject};
pub(super) use devices::{DEVICE_CREATED, DEVICE_REMOVED, DEVICE_UPDATED};
pub(super) use devices::{device_labels, find_device};
pub use ingest::JobReceiver;
pub(super) use ingest::LabelCache;
pub(super) use organizations::find_organization;
pub(super) use organizations::{ORGANIZATION_CREATED, ORGANIZATION_REMOVED, ORGANIZATION_UPDATED};
pub(super) use removal::Remover;
pub(super) use roles::{ROLE_CREATED, ROLE_REMOVED, ROLE_UPDATED};
pub use roles::{role_grants, staff_authority, standing_authority};
pub use users::UserChange;
pub(super) use users::find_contact;
pub use users::user_labels;
pub(super) use users::{USER_CREATED, USER_REMOVED, USER_UPDATED};

/// What another slice does when a contact has changed, in the same transaction. It gets the contact before and after the change.
pub type ContactChanged = fn(&mut WriteTx, &User, &User) -> Result<(), StoreError>;

/// The use cases, with their configured rules.
#[derive(Clone, Copy, Debug)]
pub struct Directory {
    pub(super) agents: AgentRules,
    pub(super) contact_changed: ContactChanged,
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
