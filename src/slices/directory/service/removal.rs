//! Records are deleted while nothing refers to them, or after what does was moved to another record.
//!
//! What refers to a record is counted on a snapshot, and looked for once more in the transaction that removes the record. Moving goes in
//! steps that each commit, so a large organization holds up nobody. **Invariant:** the record goes last: a request that was interrupted
//! can be repeated.

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

/// The most records that one request moves.
const MAX_MOVED: u64 = 10_000;
/// How many devices and contacts are moved in one transaction, and after how many bytes of devices one ends early.
const STEP: usize = 100;
const STEP_BYTES: usize = 1 << 20;
/// How often what has come meanwhile is moved, too.
const ROUNDS: usize = 3;

/// Deletes records of the directory.
#[derive(Clone, Debug)]
pub(crate) struct Remover {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) dependents: Arc<[Arc<dyn Dependents>]>,
}

/// What the directory itself has that refers to a record.
#[derive(Clone, Debug, Default)]
struct Own {
    devices: Vec<DeviceId>,
    contacts: Vec<UserId>,
}

impl Own {
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

    /// How much there is, from the counters where they say it.
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

/// Finds the record, and checks its version.
fn find(tx: &impl tenantd_store::Read, act: &Act, subject: Subject, expected: &ExpectedVersion) -> Result<(), DirectoryError> {
    let version = match subject {
        Subject::Organization(id) => find_organization(tx, act.tenant_id, &act.reach, id)?.version,
        Subject::Contact(id) => find_contact(tx, act.tenant_id, &act.reach, id)?.version,
        Subject::Device(id) => find_device(tx, act.tenant_id, &act.reach, id)?.version,
    };
    Ok(expected.check(version)?)
}

impl Remover {
    /// Deletes a record. With `target`, what refers to it refers to that record from then on.
    pub(crate) async fn remove(
        &self,
        principal: &Principal,
        intent: Intent,
        subject: Subject,
        expected: ExpectedVersion,
        target: Option<Subject>,
    ) -> Result<(), DirectoryError> {
        for _ in 0..ROUNDS {
            let (this, begun, versions, grants) = (self.clone(), intent.clone(), expected.clone(), principal.grants);
            let examined = self
                .store
                .scan_for(intent.tenant_id, move |tx| this.examine(tx, &begun.begin(), grants, subject, target, &versions));
            let own = examined.await?;
            if let Some(target) = target {
                // A request that moves records makes the store grow, as a request that deletes does not.
                self.store.ensure_room()?;
                self.move_all(&intent, own, subject, target).await?;
            }
            let (this, begun, versions) = (self.clone(), intent.clone(), expected.clone());
            let removed = self.store.write(move |tx| this.remove_one(tx, &mut begun.begin(), subject, &versions, target.is_some()));
            match removed.await {
                // Something came to refer to it since the snapshot.
                Err(DirectoryError::InUse { .. }) => {}
                other => return other,
            }
        }
        Err(DirectoryError::InUse { found: Vec::new(), unseen: false })
    }

    /// Removes the record in a transaction of the caller, if nothing refers to it.
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

    /// Counts what refers to the record. Without a target there must be nothing; with one, the caller must be able to move all of it.
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
    ) -> Result<Own, DirectoryError> {
        find(tx, act, subject, expected)?;
        let mut found = Own::count(tx, act.tenant_id, subject)?;
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
            return if total == 0 { Ok(Own::default()) } else { Err(DirectoryError::InUse { found, unseen }) };
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
        Ok(Own::find(tx, act.tenant_id, subject)?)
    }

    async fn move_all(&self, intent: &Intent, own: Own, from: Subject, to: Subject) -> Result<(), DirectoryError> {
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

    /// Moves the first of these devices; how many.
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
