//! The organizations of a tenant by the worth of their backups. One record an organization is read, never its devices or jobs, but for those
//! with something wrong that a page shows.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_directory::{self as directory, DeviceLabel, OrganizationLabel};
use tenantd_store::{Key, Read, StoreError};

use super::{
    model::{Counts, Policy, Posture, Rollup, Rpo, Rule321, Share, State, Weighing, Window, rule_321, state, weigh},
    repo::{postures, rollups},
    service::Chains,
};

/// Devices with something wrong that a row tells one by one.
const MAX_ISSUES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortBy {
    Score,
    Coverage,
    Name,
    LastSuccess,
}

#[derive(Clone, Debug)]
pub(super) struct AggregateQuery {
    pub(super) tenant_id: TenantId,
    pub(super) reach: Reach,
    pub(super) now: Timestamp,
    /// Empty: all.
    pub(super) organizations: Vec<OrganizationId>,
    pub(super) states: Vec<State>,
    pub(super) score_lt: Option<u8>,
    pub(super) coverage_lt: Option<u8>,
    /// Organizations that have a device in one of these states.
    pub(super) rpo: Vec<Rpo>,
    pub(super) sort: SortBy,
    pub(super) descending: bool,
}

/// An organization, weighed.
#[derive(Clone, Debug)]
pub(super) struct Weighed {
    pub(super) rollup: Rollup,
    pub(super) policy: Policy,
    pub(super) rule: Rule321,
    pub(super) weighing: Option<Weighing>,
    pub(super) state: State,
    /// Its place in the order.
    pub(super) position: Vec<u8>,
}

/// An organization with all that a row shows.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) weighed: Weighed,
    pub(super) organization: OrganizationLabel,
    /// The worst first.
    pub(super) troubled: Vec<(Posture, DeviceLabel)>,
}

/// What all organizations of a report come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    pub(super) organizations: u64,
    /// In the order of [`State::ALL`].
    pub(super) states: [u64; 5],
    pub(super) share: Share,
    /// In the order of [`Window::ALL`].
    pub(super) jobs: [Counts; 3],
    pub(super) growth: i64,
    pub(super) scores: u64,
    pub(super) scored: u64,
}

pub(super) fn coverage_percent(share: &Share) -> Option<u8> {
    (100 * share.protected).checked_div(share.eligible).and_then(|percent| u8::try_from(percent).ok())
}

impl AggregateQuery {
    fn wants(&self, weighed: &Weighed) -> bool {
        let share = &weighed.rollup.share;
        let has = |rpo: &Rpo| match rpo {
            Rpo::Ok => share.rpo_ok > 0,
            Rpo::AtRisk => share.rpo_at_risk > 0,
            Rpo::Breached => share.rpo_breached > 0,
        };
        let below = |limit: Option<u8>, value: Option<u8>| limit.is_none_or(|limit| value.is_some_and(|value| value < limit));
        (self.states.is_empty() || self.states.contains(&weighed.state))
            && below(self.score_lt, weighed.weighing.as_ref().map(|weighing| weighing.score))
            && below(self.coverage_lt, coverage_percent(share))
            && (self.rpo.is_empty() || self.rpo.iter().any(has))
    }

    /// What the row is sorted by, as bytes; the organization's id makes it unique.
    fn position(&self, tx: &impl Read, weighed: &Weighed) -> Result<Vec<u8>, StoreError> {
        let share = &weighed.rollup.share;
        let id = weighed.rollup.organization_id;
        // What nobody has backed up yet is worse than everything; where there is nothing to back up, nothing is wrong.
        let unscored = if share.eligible > 0 { 0 } else { u8::MAX };
        Ok(match self.sort {
            SortBy::Score => (weighed.weighing.as_ref().map_or(unscored, |weighing| weighing.score + 1), id).to_bytes(),
            SortBy::Coverage => (coverage_percent(share).map_or(u8::MAX, |percent| percent), id).to_bytes(),
            SortBy::LastSuccess => (weighed.rollup.last_success_at, id).to_bytes(),
            SortBy::Name => {
                let label = directory::organization(tx, self.tenant_id, id)?;
                (label.map(|label| label.name.to_lowercase()).unwrap_or_default(), id).to_bytes()
            }
        })
    }
}

/// All organizations that a query wants, in its order.
pub(super) fn find(tx: &impl Read, query: &AggregateQuery) -> Result<Vec<Weighed>, StoreError> {
    let mut rollups = Vec::new();
    let wanted = query.reach.narrow(Some(query.organizations.clone()).filter(|wanted| !wanted.is_empty()));
    match wanted {
        Some(mut organizations) => {
            organizations.sort_unstable();
            organizations.dedup();
            for organization in organizations {
                rollups.extend(rollups::find(tx, (query.tenant_id, organization))?);
            }
        }
        None => rollups::scan(tx, query.tenant_id, |rollup| rollups.push(rollup))?,
    }
    let chains = Chains::read(tx, query.tenant_id)?;
    let mut found = Vec::with_capacity(rollups.len());
    for rollup in rollups {
        let mut weighed = self::weighed(rollup, &chains, query.now);
        if query.wants(&weighed) {
            weighed.position = query.position(tx, &weighed)?;
            found.push(weighed);
        }
    }
    found.sort_unstable_by(|left, right| left.position.cmp(&right.position));
    if query.descending {
        found.reverse();
    }
    Ok(found)
}

fn weighed(rollup: Rollup, chains: &Chains, now: Timestamp) -> Weighed {
    let policy = chains.of_organization(rollup.organization_id);
    let weighing = weigh(&rollup, &policy, now);
    let (rule, state) = (rule_321(&rollup, &policy, now), state(&rollup, weighing.as_ref()));
    Weighed { rollup, policy, rule, weighing, state, position: Vec::new() }
}

/// The part of `found` behind a position, at most `limit`; and where the next part begins, if there is one.
pub(super) fn page(
    mut found: Vec<Weighed>,
    descending: bool,
    after: Option<&[u8]>,
    limit: usize,
) -> (Vec<Weighed>, Option<Vec<u8>>) {
    if let Some(after) = after {
        found.retain(|weighed| if descending { weighed.position.as_slice() < after } else { weighed.position.as_slice() > after });
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|weighed| weighed.position.clone()).filter(|_| more);
    (found, last)
}

/// The same with names, and with what is wrong.
pub(super) fn show(tx: &impl Read, weighed: Weighed) -> Result<Shown, StoreError> {
    let (tenant, id) = (weighed.rollup.tenant_id, weighed.rollup.organization_id);
    let organization = directory::organization(tx, tenant, id)?;
    let organization = organization.unwrap_or_else(|| OrganizationLabel { id, name: id.to_string() });
    let mut troubled = Vec::new();
    for posture in postures::troubled(tx, tenant, id, MAX_ISSUES)? {
        if let Some(device) = directory::device(tx, tenant, posture.device_id)? {
            troubled.push((posture, device));
        }
    }
    Ok(Shown { weighed, organization, troubled })
}

pub(super) fn summarize(found: &[Weighed], now: Timestamp) -> Summary {
    let mut summary = Summary::default();
    for weighed in found {
        let rollup = &weighed.rollup;
        summary.organizations += 1;
        if let Some(count) = summary.states.get_mut(weighed.state as usize) {
            *count += 1;
        }
        summary.share = summary.share.exchanged(Share::default(), rollup.share);
        for (sum, window) in summary.jobs.iter_mut().zip(Window::ALL) {
            *sum = sum.plus(rollup.jobs(*window, now));
        }
        summary.growth = summary.growth.saturating_add(rollup.growth(now));
        if let Some(weighing) = &weighed.weighing {
            summary.scored += 1;
            summary.scores += u64::from(weighing.score);
        }
    }
    summary
}
