//! Deletes records to which no other record refers, or moves the referring records to another record first.
//!
//! The referring records are counted on a snapshot and checked again in the transaction that removes the record. Moving runs in
//! steps that each commit, so a large organization does not block other writers. **Invariant:** the record itself is removed last,
//! so an interrupted request can be repeated.

use std::{ops::Bound, sync::Arc};

use tenantd_base::{
    access::{Grants, Principal},
    change::Change,
    id::{DeviceId, TenantId, UserId},
    versions::ExpectedVersion,
};
use tenantd_store::{
    Direction, Flow, Key, KeyRange, ReadTx, Store, StoreError, WriteTx,
    events::{Act, Intent},
};

use super::{
    super::{
        error::DirectoryError,
        model::{ContactChange, DeviceChange, Reference},
        repo::{devices, organizations, users},
    },
    Dependent, Dependents, Directory, Subject, find_contact, find_device, find_organization,
};

/// The maximum number of records that one request moves.
const MAX_MOVED: u64 = 10_000;
/// The maximum number of devices or contacts per transaction, and the size of devices after which a transaction ends early.
const STEP: usize = 100;
const STEP_BYTES: usize = 1 << 20;
/// The maximum number of attempts, to include records that start to refer to the subject in the meantime.
const ROUNDS: usize = 3;

/// Deletes directory records.
#[derive(Clone, Debug)]
pub(crate) struct Remover {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) dependents: Arc<[Arc<dyn Dependents>]>,
}

/// The records of the directory itself that refer to a record.
#[derive(Clone, Debug, Default)]
struct OwnDependents {
    devices: Vec<DeviceId>,
    contacts: Vec<UserId>,
}

impl OwnDependents {
    fn find(tx: &ReadTx, tenant: TenantId, subject: Subject) -> Result<Self, StoreError> {
        let mut own = Self::default();
        if matches!(subject, Subject::Device(_)) {
            return Ok(own);
        }
        devices::scan(tx, tenant, Bound::Unbounded, |device| {
            let refers = match subject {
                Subject::Organization(id) => device.organization_id == id,
                Subject::Contact(id) => device.owner_id == Some(id),
                Subject::Device(_) => false,
            };
            if refers {
                own.devices.push(device.id);
            }
            Ok(Flow::Continue)
        })?;
        if let Subject::Organization(id) = subject {
            users::USERS.scan(tx, &KeyRange::prefix(&tenant.to_bytes()), Direction::Forward, |_, user| {
                if user.organization_id() == Some(id) {
                    own.contacts.push(user.id);
                }
                Ok(Flow::Continue)
            })?;
        }
        Ok(own)
    }

    /// Counts these records, from the counters where they exist.
    fn count(tx: &ReadTx, tenant: TenantId, subject: Subject) -> Result<Vec<Dependent>, StoreError> {
        let (devices, contacts) = match subject {
            Subject::Organization(id) => {
                let members = organizations::members(tx, (tenant, id))?;
                (members.devices, members.contacts)
            }
            Subject::Contact(_) => (Self::find(tx, tenant, subject)?.devices.len() as u64, 0),
            Subject::Device(_) => (0, 0),
        };
        let found = [Dependent { name: "devices", count: devices }, Dependent { name: "contacts", count: contacts }];
        Ok(found.into_iter().filter(|dependent| dependent.count > 0).collect())
    }
}

/// Finds the record and checks its version.
fn find(tx: &impl tenantd_store::Read, act: &Act, subject: Subject, expected: &ExpectedVersion) -> Result<(), DirectoryError> {
    let version = match subject {
        Subject::Organization(id) => find_organization(tx, act.tenant_id, &act.reach, id)?.version,
        Subject::Contact(id) => find_contact(tx, act.tenant_id, &act.reach, id)?.version,
        Subject::Device(id) => find_device(tx, act.tenant_id, &act.reach, id)?.version,
    };
    Ok(expected.check(version)?)
}

impl Remover {
    /// Deletes a record. With `target`, all referring records then refer to that record.
    pub(crate) async fn remove(
        &self,
        principal: &Principal,
        intent: Intent,
        subject: Subject,
        expected: ExpectedVersion,
        target: Option<Subject>,
    ) -> Result<(), DirectoryError> {
        for _ in 0..ROUNDS {
            let (this, step_intent, versions, grants) = (self.clone(), intent.clone(), expected.clone(), principal.grants);
            let examined = self
                .store
                .scan_for(intent.tenant_id, move |tx| this.examine(tx, &step_intent.begin(), grants, subject, target, &versions));
            let own = examined.await?;
            if let Some(target) = target {
                // Moving records makes the store grow, unlike deleting them.
                self.store.ensure_room()?;
                self.move_all(&intent, own, subject, target).await?;
            }
            let (this, step_intent, versions) = (self.clone(), intent.clone(), expected.clone());
            let removed =
                self.store.write(move |tx| this.remove_one(tx, &mut step_intent.begin(), subject, &versions, target.is_some()));
            match removed.await {
                // A record has started to refer to it since the snapshot.
                Err(DirectoryError::InUse { .. }) => {}
                other => return other,
            }
        }
        Err(DirectoryError::InUse { found: Vec::new(), unseen: false })
    }

    /// Removes the record in the caller's transaction, if no other record refers to it.
    pub(crate) fn remove_one(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        subject: Subject,
        expected: &ExpectedVersion,
        reassigned: bool,
    ) -> Result<(), DirectoryError> {
        find(tx, act, subject, expected)?;
        for dependents in self.dependents.iter() {
            if dependents.remains(tx, act, subject, reassigned)? {
                return Err(DirectoryError::InUse { found: Vec::new(), unseen: false });
            }
        }
        match subject {
            Subject::Organization(id) => self.directory.remove_organization(tx, act, id),
            Subject::Contact(id) => self.directory.remove_user(tx, act, id, expected).map(drop),
            Subject::Device(id) => self.directory.remove_device(tx, act, id),
        }
    }

    /// Checks that no other record refers to the record.
    pub(crate) fn examine_free(
        &self,
        tx: &ReadTx,
        act: &Act,
        grants: Grants,
        subject: Subject,
        expected: &ExpectedVersion,
    ) -> Result<(), DirectoryError> {
        self.examine(tx, act, grants, subject, None, expected).map(drop)
    }

    fn examine(
        &self,
        tx: &ReadTx,
        act: &Act,
        grants: Grants,
        subject: Subject,
        target: Option<Subject>,
        expected: &ExpectedVersion,
    ) -> Result<OwnDependents, DirectoryError> {
        find(tx, act, subject, expected)?;
        let mut found = OwnDependents::count(tx, act.tenant_id, subject)?;
        let (mut total, mut unseen, mut lacking) = (found.iter().map(|own| own.count).sum::<u64>(), false, Grants::NONE);
        for dependents in self.dependents.iter() {
            let (read, write) = dependents.scopes();
            let counted = dependents.count(tx, act.tenant_id, &act.reach, subject)?;
            total += counted.iter().map(|dependent| dependent.count).sum::<u64>();
            if !counted.is_empty() && !grants.allows(write) {
                lacking = lacking.union(Grants::of(&[write]));
            }
            if grants.allows(read) {
                found.extend(counted);
            } else {
                unseen |= !counted.is_empty();
            }
        }
        let Some(target) = target else {
            let found = found.into_iter().map(|dependent| (dependent.name, dependent.count)).collect();
            return if total == 0 { Ok(OwnDependents::default()) } else { Err(DirectoryError::InUse { found, unseen }) };
        };
        if target == subject {
            return Err(DirectoryError::UnknownTarget);
        }
        find(tx, act, target, &ExpectedVersion::Unspecified).map_err(|error| match error {
            DirectoryError::NotFound => DirectoryError::UnknownTarget,
            other => other,
        })?;
        if lacking != Grants::NONE {
            return Err(DirectoryError::MissingScopes(lacking));
        }
        if total > MAX_MOVED {
            return Err(DirectoryError::TooManyDependents(total));
        }
        Ok(OwnDependents::find(tx, act.tenant_id, subject)?)
    }

    async fn move_all(&self, intent: &Intent, own: OwnDependents, from: Subject, to: Subject) -> Result<(), DirectoryError> {
        let mut devices = own.devices;
        while !devices.is_empty() {
            let (this, intent, step) = (self.clone(), intent.clone(), devices.clone());
            let moved = self.store.write(move |tx| this.move_devices(tx, &mut intent.begin(), &step, from, to)).await?;
            devices.drain(..moved);
        }
        for step in own.contacts.chunks(STEP) {
            let (this, intent, step) = (self.clone(), intent.clone(), step.to_vec());
            self.store.write(move |tx| this.move_contacts(tx, &mut intent.begin(), &step, from, to)).await?;
        }
        for dependents in self.dependents.iter() {
            loop {
                let (dependents, intent) = (dependents.clone(), intent.clone());
                if self.store.write(move |tx| dependents.reassign(tx, &mut intent.begin(), from, to)).await? == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Moves the first of these devices. Returns the number of devices processed.
    fn move_devices(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        ids: &[DeviceId],
        from: Subject,
        to: Subject,
    ) -> Result<usize, DirectoryError> {
        let change = match to {
            Subject::Organization(id) => DeviceChange { organization: Some(Reference::Id(id)), ..DeviceChange::default() },
            Subject::Contact(id) => DeviceChange { owner: Change::Set(Reference::Id(id)), ..DeviceChange::default() },
            Subject::Device(_) => return Ok(ids.len()),
        };
        let mut bytes = 0;
        for (place, id) in ids.iter().enumerate() {
            if place == STEP || bytes > STEP_BYTES {
                return Ok(place);
            }
            let Some(device) = devices::folded(tx, act.tenant_id, *id)? else { continue };
            let refers =
                from == Subject::Organization(device.organization_id) || Some(from) == device.owner_id.map(Subject::Contact);
            if refers {
                bytes += device.details.bytes();
                self.directory.update_device(tx, act, *id, &ExpectedVersion::Unspecified, &change)?;
            }
        }
        Ok(ids.len())
    }

    fn move_contacts(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        ids: &[UserId],
        from: Subject,
        to: Subject,
    ) -> Result<(), DirectoryError> {
        let Subject::Organization(to) = to else { return Ok(()) };
        let change = ContactChange { organization_id: Change::Set(to), ..ContactChange::default() };
        for id in ids {
            let contact = users::get(tx, act.tenant_id, *id)?;
            if contact.and_then(|contact| contact.organization_id()).map(Subject::Organization) == Some(from) {
                self.directory.update_contact(tx, act, *id, &ExpectedVersion::Unspecified, &change)?;
            }
        }
        Ok(())
    }
}
