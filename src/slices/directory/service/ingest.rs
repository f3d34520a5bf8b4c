//! Processes import lines from agents and other systems. Each line creates, changes or removes the record with its external ID, or
//! leaves it unchanged.
//!
//! A transaction contains hundreds of lines, most of them for the same few organizations, so their names are looked up once. A line
//! is checked before it writes. A refused line has no effect, and the other lines are kept.

use std::collections::HashMap;

use tenantd_base::{
    access::Reach,
    change::Change,
    id::{OrganizationId, UserId},
    versions::ExpectedVersion,
};
use tenantd_store::{Read, WriteTx, events::Act};

use super::{
    super::{
        error::DirectoryError,
        model::{
            ContactLine, Device, DeviceChange, DeviceLine, IngestLine, JobLine, LineResult, LineStatus, NewOrganization, NewUser,
            OrganizationLabel, OrganizationLine, PersonLabel, RecordKind, Reference, Standing, normalize_email,
        },
        repo::{devices, organizations, users},
    },
    Directory,
    devices::DeviceLabels,
};

/// Processes lines with backup jobs, in the transaction of the surrounding lines. The slice that interprets them implements this.
pub trait JobReceiver: std::fmt::Debug + Send + Sync + 'static {
    /// If it refuses a line for any reason other than a store error, it has written nothing.
    fn take(&self, tx: &mut WriteTx, act: &mut Act, line: &JobLine) -> Result<LineResult, DirectoryError>;
}

/// The labels that the lines of one transaction have already looked up.
#[derive(Debug, Default)]
pub(crate) struct LabelCache {
    by_external_id: HashMap<String, OrganizationLabel>,
    by_id: HashMap<OrganizationId, OrganizationLabel>,
}

impl LabelCache {
    fn organization(
        &mut self,
        tx: &impl Read,
        act: &Act,
        reference: &Reference<OrganizationId>,
    ) -> Result<OrganizationLabel, DirectoryError> {
        let id = match reference {
            Reference::Id(id) => *id,
            Reference::External(external_id) => {
                if let Some(label) = self.by_external_id.get(external_id) {
                    return Ok(label.clone());
                }
                let found = organizations::find_external(tx, act.tenant_id, external_id)?;
                found.ok_or_else(|| DirectoryError::UnknownExternalOrganization(external_id.clone()))?
            }
        };
        let label = match self.by_id.get(&id) {
            Some(label) => label.clone(),
            None => super::super::organization(tx, act.tenant_id, id)?.ok_or(DirectoryError::UnknownOrganization)?,
        };
        self.by_id.insert(id, label.clone());
        if let Reference::External(external_id) = reference {
            self.by_external_id.insert(external_id.clone(), label.clone());
        }
        Ok(label)
    }

    fn clear(&mut self) {
        self.by_external_id.clear();
        self.by_id.clear();
    }
}

fn owner(tx: &impl Read, act: &Act, reference: &Reference<UserId>) -> Result<PersonLabel, DirectoryError> {
    let id = match reference {
        Reference::Id(id) => *id,
        Reference::External(external_id) => {
            let found = users::find_external(tx, act.tenant_id, external_id)?;
            found.ok_or_else(|| DirectoryError::UnknownExternalOwner(external_id.clone()))?
        }
    };
    let found = super::super::person(tx, act.tenant_id, id)?.filter(|person| act.reach.covers(person.organization_id));
    found.ok_or(DirectoryError::UnknownOwner)
}

fn done(status: LineStatus, id: impl ToString) -> LineResult {
    LineResult { status, id: Some(id.to_string()) }
}

fn changed<T>(change: Option<T>) -> LineStatus {
    if change.is_some() { LineStatus::Updated } else { LineStatus::Unchanged }
}

impl Directory {
    /// Processes one line. If it refuses the line for any reason other than a store error, it has written nothing.
    pub(crate) fn ingest(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        cache: &mut LabelCache,
        line: &IngestLine,
    ) -> Result<LineResult, DirectoryError> {
        if act.reach != Reach::Everything {
            check_reach(tx, act, line)?;
        }
        match line {
            IngestLine::Organization(line) => {
                cache.clear();
                self.ingest_organization(tx, act, line)
            }
            IngestLine::User(line) => self.ingest_contact(tx, act, cache, line),
            IngestLine::Device(line) => self.ingest_device(tx, act, cache, line),
            IngestLine::Removal(kind, external_id) => {
                cache.clear();
                self.ingest_removal(tx, act, *kind, external_id)
            }
        }
    }

    fn ingest_organization(&self, tx: &mut WriteTx, act: &mut Act, line: &OrganizationLine) -> Result<LineResult, DirectoryError> {
        let Some(id) = organizations::find_external(tx, act.tenant_id, &line.external_id)? else {
            let name = line.name.clone().ok_or(DirectoryError::Incomplete { field: "name" })?;
            let new = NewOrganization { external_id: Some(line.external_id.clone()), name };
            return Ok(done(LineStatus::Created, self.create_organization(tx, act, &new)?.id));
        };
        let before = organizations::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        let mut after = before.clone();
        after.name = line.name.clone().unwrap_or(after.name);
        Ok(done(changed(Self::change_organization(tx, act, &before, after)?), id))
    }

    fn ingest_contact(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        cache: &mut LabelCache,
        line: &ContactLine,
    ) -> Result<LineResult, DirectoryError> {
        let organization = line.organization.clone().try_map(|reference| cache.organization(tx, act, &reference))?;
        let organization = organization.map(|label| label.id);
        let Some(id) = users::find_external(tx, act.tenant_id, &line.external_id)? else {
            let new = NewUser {
                external_id: Some(line.external_id.clone()),
                email: line.email.clone().apply(None),
                name: line.name.clone().ok_or(DirectoryError::Incomplete { field: "name" })?,
                standing: Standing::Contact { organization_id: organization.apply(None) },
            };
            return Ok(done(LineStatus::Created, self.create_user(tx, act, &new)?.id));
        };
        let before = users::get(tx, act.tenant_id, id)?.ok_or(DirectoryError::NotFound)?;
        if before.role().is_some() {
            return Err(DirectoryError::IsStaff);
        }
        let mut after = before.clone();
        after.name = line.name.clone().unwrap_or(after.name);
        after.email = line.email.clone().try_map(|email| normalize_email(&email))?.apply(after.email);
        after.standing = Standing::Contact { organization_id: organization.apply(before.organization_id()) };
        Ok(done(changed(self.change_user(tx, act, &before, after)?), id))
    }

    fn ingest_device(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        cache: &mut LabelCache,
        line: &DeviceLine,
    ) -> Result<LineResult, DirectoryError> {
        let before = match devices::find_external(tx, act.tenant_id, &line.external_id)? {
            Some(id) => devices::get(tx, act.tenant_id, id)?,
            None => None,
        };
        if before.is_none() && line.change.organization.is_none() {
            return Err(DirectoryError::Incomplete { field: "organization_external_id" });
        }
        let labels = Self::changed_labels(tx, act, cache, before.as_ref(), &line.change)?;
        let owner_id = labels.owner.as_ref().map(|owner| owner.id);
        let Some(before) = before else {
            line.change.name.as_ref().ok_or(DirectoryError::Incomplete { field: "name" })?;
            let empty = Device { external_id: Some(line.external_id.clone()), collected_at: act.now, ..Device::default() };
            let new = line.change.apply(empty, labels.organization.id, owner_id)?;
            return Ok(done(LineStatus::Created, self.insert_device(tx, act, new, &labels)?.id));
        };
        let after = line.change.apply(before.clone(), labels.organization.id, owner_id)?;
        Ok(done(changed(self.change_device(tx, act, &before, after, &labels)?), before.id))
    }

    /// The names of the records to which a device refers after a change.
    pub(crate) fn changed_labels(
        tx: &impl Read,
        act: &Act,
        cache: &mut LabelCache,
        before: Option<&Device>,
        change: &DeviceChange,
    ) -> Result<DeviceLabels, DirectoryError> {
        let organization = match (&change.organization, before) {
            (Some(reference), _) => reference.clone(),
            (None, Some(device)) => Reference::Id(device.organization_id),
            (None, None) => return Err(DirectoryError::UnknownOrganization),
        };
        let organization = cache.organization(tx, act, &organization)?;
        let owner = match (&change.owner, before.and_then(|device| device.owner_id)) {
            (Change::Set(reference), _) => Some(owner(tx, act, reference)?),
            // A deleted owner must not prevent other changes of the device.
            (Change::Keep, Some(id)) => super::super::person(tx, act.tenant_id, id)?,
            (Change::Keep, None) | (Change::Clear, _) => None,
        };
        Ok(DeviceLabels { organization, owner })
    }

    fn ingest_removal(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        kind: RecordKind,
        external_id: &str,
    ) -> Result<LineResult, DirectoryError> {
        let tenant = act.tenant_id;
        let removed = match kind {
            RecordKind::Organization => match organizations::find_external(tx, tenant, external_id)? {
                Some(id) => Some(self.remove_organization(tx, act, id).map(|()| id.to_string())?),
                None => None,
            },
            RecordKind::User => match users::find_external(tx, tenant, external_id)? {
                Some(id) if users::get(tx, tenant, id)?.is_some_and(|user| user.role().is_some()) => {
                    return Err(DirectoryError::IsStaff);
                }
                Some(id) => Some(self.remove_user(tx, act, id, &ExpectedVersion::Unspecified).map(|_| id.to_string())?),
                None => None,
            },
            RecordKind::Device => match devices::find_external(tx, tenant, external_id)? {
                Some(id) => Some(self.remove_device(tx, act, id).map(|()| id.to_string())?),
                None => None,
            },
        };
        let status = if removed.is_some() { LineStatus::Removed } else { LineStatus::Unchanged };
        Ok(LineResult { status, id: removed })
    }
}

/// Checks that a record is within reach before and after its line.
fn check_reach(tx: &impl Read, act: &Act, line: &IngestLine) -> Result<(), DirectoryError> {
    let organization = |reference: &Reference<OrganizationId>| match reference {
        Reference::Id(id) => Ok(Some(*id)),
        Reference::External(external_id) => organizations::find_external(tx, act.tenant_id, external_id),
    };
    let (kind, external_id, after) = match line {
        IngestLine::Organization(line) => (RecordKind::Organization, &line.external_id, None),
        IngestLine::User(line) => (RecordKind::User, &line.external_id, Some(line.organization.clone())),
        IngestLine::Device(line) => {
            (RecordKind::Device, &line.external_id, Some(line.change.organization.clone().map_or(Change::Keep, Change::Set)))
        }
        IngestLine::Removal(kind, external_id) => (*kind, external_id, None),
    };
    let before = is_reached(tx, act, kind, external_id)?;
    let stays = match before {
        Some(reached) => reached,
        // A new organization is out of reach. Removing a missing record is always allowed.
        None => kind != RecordKind::Organization || matches!(line, IngestLine::Removal(..)),
    };
    let arrives = match after {
        None => true,
        Some(Change::Keep) => before.is_some(),
        Some(Change::Clear) => false,
        Some(Change::Set(reference)) => act.reach.covers(organization(&reference)?),
    };
    if stays && arrives { Ok(()) } else { Err(DirectoryError::OutOfReach) }
}

/// Whether an existing record is within reach; `None` if it does not exist.
fn is_reached(tx: &impl Read, act: &Act, kind: RecordKind, external_id: &str) -> Result<Option<bool>, DirectoryError> {
    let tenant = act.tenant_id;
    Ok(match kind {
        RecordKind::Organization => organizations::find_external(tx, tenant, external_id)?.map(|id| act.reach.covers(Some(id))),
        RecordKind::User => match users::find_external(tx, tenant, external_id)? {
            Some(id) => users::get(tx, tenant, id)?.map(|user| act.reach.covers(user.organization_id())),
            None => None,
        },
        RecordKind::Device => match devices::find_external(tx, tenant, external_id)? {
            Some(id) => devices::label(tx, tenant, id)?.map(|device| act.reach.covers(Some(device.organization_id))),
            None => None,
        },
    })
}
