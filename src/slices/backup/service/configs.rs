//! Reads and replaces the backup configuration. A change for many devices is stored at once. The devices are re-evaluated
//! afterwards in bounded steps (`upkeep.rs`), so that no change blocks the writer for longer than a request may.

use std::collections::HashMap;

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    fault::Fault,
    id::{DeviceId, OrganizationId, TenantId},
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    self as store, Flow, WriteTx,
    events::{self, Act, Changes, Describe, Draft},
};

use super::{
    super::{
        error::BackupError,
        model::{OwnConfig, Policy, Posture, Rpo, Scope, resolve},
        repo::{configs, configs::ConfigRecord, postures, sweeps},
    },
    CONFIG_UPDATED, Chains, Service,
    chain::MAX_CONFIGS,
};

/// The maximum number of device IDs in an impact report.
const MAX_LISTED_DEVICES: usize = 50;

/// The own and the effective configuration of a scope.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) scope: Scope,
    pub(crate) own: OwnConfig,
    pub(crate) effective: Policy,
    /// The source of each inherited field; `None` for the defaults.
    pub(crate) inherited: Vec<(&'static str, Option<Scope>)>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) version: u64,
}

/// The impact of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Impact {
    /// The number of devices, eligible before or after the change, whose effective settings would change.
    pub(crate) devices: u64,
    pub(crate) newly_breaching: u64,
    /// The first of the breaching devices.
    pub(crate) breaching: Vec<DeviceId>,
    pub(crate) newly_missed: u64,
    pub(crate) expiring_points: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) read: Read,
    /// Only for a dry run.
    pub(crate) impact: Option<Impact>,
}

/// The chain of a scope, the farthest first. A record out of reach counts as not found.
fn chain_of(tx: &impl store::Read, tenant: TenantId, reach: &Reach, scope: Scope) -> Result<Vec<Scope>, BackupError> {
    let within = |id: OrganizationId| reach.covers(Some(id));
    match scope {
        Scope::Tenant => Ok(vec![scope]),
        Scope::Organization(id) => {
            let found = directory::organization(tx, tenant, id)?.filter(|organization| within(organization.id));
            found.map(|_| vec![Scope::Tenant, scope]).ok_or(BackupError::NotFound)
        }
        Scope::Device(id) => {
            let device = directory::device(tx, tenant, id)?.filter(|device| within(device.organization_id));
            let device = device.ok_or(BackupError::NotFound)?;
            Ok(vec![Scope::Tenant, Scope::Organization(device.organization_id), scope])
        }
    }
}

impl Service {
    pub(crate) fn read_config(tx: &impl store::Read, tenant: TenantId, reach: &Reach, scope: Scope) -> Result<Read, BackupError> {
        let chain = chain_of(tx, tenant, reach, scope)?;
        let records = chain.iter().map(|scope| configs::get(tx, tenant, *scope)).collect::<Result<Vec<_>, _>>()?;
        Ok(shown(&chain, records))
    }

    /// Checks a change and reports its impact without applying it.
    pub(crate) fn plan_config(
        tx: &impl store::Read,
        act: &Act,
        expected: &ExpectedVersion,
        scope: Scope,
        own: &OwnConfig,
    ) -> Result<Replaced, BackupError> {
        let (chain, mut records) = check(tx, act, expected, scope, own)?;
        let chains = Chains::read(tx, act.tenant_id)?;
        let impact = impact(tx, act, scope, &chains, &chains.with(scope, own.clone()))?;
        let last = records.pop().flatten();
        let (updated_at, version) = last.map_or((act.now, 0), |record| (record.updated_at, record.version));
        records.push(Some(ConfigRecord { own: own.clone(), updated_at, version }));
        Ok(Replaced { read: shown(&chain, records), impact: Some(impact) })
    }

    pub(crate) fn replace_config(
        &self,
        tx: &mut WriteTx,
        act: &mut Act,
        expected: &ExpectedVersion,
        scope: Scope,
        own: &OwnConfig,
    ) -> Result<Replaced, BackupError> {
        let (chain, mut records) = check(tx, act, expected, scope, own)?;
        let last = records.pop().flatten();
        let before = last.as_ref().map(|record| record.own.clone()).unwrap_or_default();
        if before == *own {
            records.push(last);
            return Ok(Replaced { read: shown(&chain, records), impact: None });
        }
        let version = last.map_or(0, |record| record.version) + 1;
        let record = ConfigRecord { own: own.clone(), updated_at: act.now, version };
        configs::put(tx, act.tenant_id, scope, &record)?;
        let name = scope.to_string();
        let shown_config = own.describe((name.as_str(), act.now, version))?;
        let before = before.describe((name.as_str(), act.now, version))?;
        let changes = Changes::between(&serde_json::from_str(before.get())?, &serde_json::from_str(shown_config.get())?);
        let id = if scope == Scope::Tenant { act.tenant_id.to_string() } else { name };
        let draft = Draft::new(&CONFIG_UPDATED, id, version, &shown_config).with_changes(Some(&changes));
        events::append(tx, act, &draft)?;
        match scope {
            Scope::Tenant => sweeps::begin(tx, (act.tenant_id, None))?,
            Scope::Organization(id) => sweeps::begin(tx, (act.tenant_id, Some(id)))?,
            Scope::Device(id) => {
                if let Some(posture) = postures::of_device(tx, act.tenant_id, id)? {
                    self.review(tx, act, posture)?;
                }
            }
        }
        records.push(Some(record));
        Ok(Replaced { read: shown(&chain, records), impact: None })
    }
}

fn shown(chain: &[Scope], records: Vec<Option<ConfigRecord>>) -> Read {
    let last = records.last().cloned().flatten();
    let empty = OwnConfig::default();
    let own: Vec<&OwnConfig> = records.iter().map(|record| record.as_ref().map_or(&empty, |record| &record.own)).collect();
    let (effective, sources) = resolve(&own);
    let end = chain.len().saturating_sub(1);
    let inherited = sources.into_iter().filter(|(_, place)| *place != Some(end));
    Read {
        scope: chain.last().copied().unwrap_or(Scope::Tenant),
        effective,
        inherited: inherited.map(|(field, place)| (field, place.and_then(|place| chain.get(place).copied()))).collect(),
        updated_at: last.as_ref().map(|record| record.updated_at),
        version: last.as_ref().map_or(0, |record| record.version),
        own: last.map(|record| record.own).unwrap_or_default(),
    }
}

type Checked = (Vec<Scope>, Vec<Option<ConfigRecord>>);

/// Runs all checks of a change. Returns the chain of the scope and the stored records.
fn check(
    tx: &impl store::Read,
    act: &Act,
    expected: &ExpectedVersion,
    scope: Scope,
    own: &OwnConfig,
) -> Result<Checked, BackupError> {
    let tenant = act.tenant_id;
    if scope == Scope::Tenant && act.reach != Reach::Everything {
        return Err(BackupError::TenantWideSettings);
    }
    let chain = chain_of(tx, tenant, &act.reach, scope)?;
    let records = chain.iter().map(|scope| configs::get(tx, tenant, *scope)).collect::<Result<Vec<_>, _>>()?;
    let current = records.last().and_then(Option::as_ref);
    expected.check(current.map_or(0, |record| record.version))?;
    if current.is_none() && !own.is_empty() && configs::list(tx, tenant, MAX_CONFIGS)?.len() >= MAX_CONFIGS {
        return Err(BackupError::LimitReached { most: MAX_CONFIGS });
    }
    let mut faults = own.faults();
    faults.extend(locks(tx, tenant, scope, own)?);
    if faults.is_empty() { Ok((chain, records)) } else { Err(BackupError::Invalid(faults)) }
}

/// Checks that no lock is longer than the retention, for the scope and for all scopes below it with their own settings.
fn locks(tx: &impl store::Read, tenant: TenantId, scope: Scope, own: &OwnConfig) -> Result<Vec<Fault>, BackupError> {
    if own.retention.is_none() && own.targets.is_none() && scope != Scope::Tenant && configs::get(tx, tenant, scope)?.is_none() {
        return Ok(Vec::new());
    }
    let chains = Chains::read(tx, tenant)?.with(scope, own.clone());
    let (organizations, devices) = chains.own_scopes();
    let mut policies: Vec<(Scope, Policy)> = Vec::new();
    let organization_of =
        |device: DeviceId| directory::device(tx, tenant, device).map(|found| found.map(|found| found.organization_id));
    match scope {
        Scope::Tenant => {
            policies.push((scope, chains.of_organization(OrganizationId::from_bytes([0; 16]))));
            policies.extend(organizations.map(|id| (Scope::Organization(id), chains.of_organization(id))));
        }
        Scope::Organization(id) => policies.push((scope, chains.of_organization(id))),
        Scope::Device(_) => {}
    }
    for device in devices {
        let Some(organization) = organization_of(device)? else { continue };
        let below = match scope {
            Scope::Tenant => true,
            Scope::Organization(id) => id == organization,
            Scope::Device(id) => id == device,
        };
        if below {
            policies.push((Scope::Device(device), chains.of_device(organization, device)));
        }
    }
    let pointer = if own.retention.is_some() || own.targets.is_none() { "/retention" } else { "/targets" };
    let fault = |(place, policy): &(Scope, Policy)| {
        let message = policy.lock_conflict()?;
        let message = if *place == scope { message } else { format!("{place} {message}") };
        Some(Fault::new(pointer, "shorter_than_lock", message).depending_on(&["retention", "targets"]))
    };
    // One error is enough; a tenant can have thousands of scopes.
    Ok(policies.iter().find_map(fault).into_iter().collect())
}

/// Computes the impact on the devices of a scope.
fn impact(tx: &impl store::Read, act: &Act, scope: Scope, before: &Chains, after: &Chains) -> Result<Impact, BackupError> {
    let mut impact = Impact::default();
    // Devices without their own settings share the policy of their organization.
    let mut shared: HashMap<OrganizationId, (bool, Policy)> = HashMap::new();
    let mut look = |posture: Posture| {
        let (organization, device) = (posture.organization_id, posture.device_id);
        let compare = || {
            let policy = after.of_device(organization, device);
            (before.of_device(organization, device) != policy, policy)
        };
        if before.has_own(device) || after.has_own(device) {
            let (differs, policy) = compare();
            add(&mut impact, posture, differs, &policy, act.now);
        } else {
            let (differs, policy) = shared.entry(organization).or_insert_with(compare);
            add(&mut impact, posture, *differs, policy, act.now);
        }
        Ok(Flow::Continue)
    };
    match scope {
        Scope::Tenant => postures::scan(tx, act.tenant_id, None, None, look)?,
        Scope::Organization(id) => postures::scan(tx, act.tenant_id, Some(id), None, look)?,
        Scope::Device(id) => {
            if let Some(posture) = postures::of_device(tx, act.tenant_id, id)? {
                look(posture)?;
            }
        }
    }
    Ok(impact)
}

fn add(impact: &mut Impact, posture: Posture, differs: bool, policy: &Policy, now: Timestamp) {
    if !differs {
        return;
    }
    let (was, points, device) = (posture.standing, posture.points.len(), posture.device_id);
    let after = posture.evaluated(policy, now);
    impact.devices += u64::from(was.eligible() || after.standing.eligible());
    if after.standing.rpo == Some(Rpo::Breached) && was.rpo != Some(Rpo::Breached) {
        impact.newly_breaching += 1;
        if impact.breaching.len() < MAX_LISTED_DEVICES {
            impact.breaching.push(device);
        }
    }
    impact.newly_missed += u64::from(after.standing.missed && !was.missed);
    impact.expiring_points += points.saturating_sub(after.points.len()) as u64;
}
