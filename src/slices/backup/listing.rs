//! The organizations of a tenant with their backup scores. Reads one record per organization. Reads devices only for the issues
//! that a page shows, and never reads jobs.

use tenantd_base::{
    access::Reach,
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};
use tenantd_directory::{self as directory, DeviceLabel, OrganizationLabel};
use tenantd_store::{Key, Read, StoreError};

use super::{
    model::{Counts, Policy, Posture, Rollup, Rpo, Rule321, ScoreBreakdown, Share, State, Window, compute_score, rule_321, state},
    repo::{postures, rollups},
    service::Chains,
};

/// The maximum number of devices with issues in a row.
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
    /// Empty means all.
    pub(super) organizations: Vec<OrganizationId>,
    pub(super) states: Vec<State>,
    pub(super) score_lt: Option<u8>,
    pub(super) coverage_lt: Option<u8>,
    /// Matches organizations that have a device in one of these states.
    pub(super) rpo: Vec<Rpo>,
    pub(super) sort: SortBy,
    pub(super) descending: bool,
}

/// An organization with its score.
#[derive(Clone, Debug)]
pub(super) struct Assessment {
    pub(super) rollup: Rollup,
    pub(super) policy: Policy,
    pub(super) rule: Rule321,
    pub(super) breakdown: Option<ScoreBreakdown>,
    pub(super) state: State,
    /// The sort key.
    pub(super) position: Vec<u8>,
}

/// An organization with all data of a row.
#[derive(Clone, Debug)]
pub(super) struct ReportRow {
    pub(super) assessment: Assessment,
    pub(super) organization: OrganizationLabel,
    /// The worst first.
    pub(super) troubled: Vec<(Posture, DeviceLabel)>,
}

/// The totals over all organizations of a report.
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
    fn matches(&self, assessment: &Assessment) -> bool {
        let share = &assessment.rollup.share;
        let has = |rpo: &Rpo| match rpo {
            Rpo::Ok => share.rpo_ok > 0,
            Rpo::AtRisk => share.rpo_at_risk > 0,
            Rpo::Breached => share.rpo_breached > 0,
        };
        let below = |limit: Option<u8>, value: Option<u8>| limit.is_none_or(|limit| value.is_some_and(|value| value < limit));
        (self.states.is_empty() || self.states.contains(&assessment.state))
            && below(self.score_lt, assessment.breakdown.as_ref().map(|breakdown| breakdown.score))
            && below(self.coverage_lt, coverage_percent(share))
            && (self.rpo.is_empty() || self.rpo.iter().any(has))
    }

    /// The sort key of the row as bytes. The organization's ID makes it unique.
    fn position(&self, tx: &impl Read, assessment: &Assessment) -> Result<Vec<u8>, StoreError> {
        let share = &assessment.rollup.share;
        let id = assessment.rollup.organization_id;
        // Eligible devices without any job are worse than every score. Without eligible devices, nothing is wrong.
        let unscored = if share.eligible > 0 { 0 } else { u8::MAX };
        Ok(match self.sort {
            SortBy::Score => (assessment.breakdown.as_ref().map_or(unscored, |breakdown| breakdown.score + 1), id).to_bytes(),
            SortBy::Coverage => (coverage_percent(share).map_or(u8::MAX, |percent| percent), id).to_bytes(),
            SortBy::LastSuccess => (assessment.rollup.last_success_at, id).to_bytes(),
            SortBy::Name => {
                let label = directory::organization(tx, self.tenant_id, id)?;
                (label.map(|label| label.name.to_lowercase()).unwrap_or_default(), id).to_bytes()
            }
        })
    }
}

/// All organizations that match a query, in its order.
pub(super) fn find(tx: &impl Read, query: &AggregateQuery) -> Result<Vec<Assessment>, StoreError> {
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
        let mut assessment = self::assessment(rollup, &chains, query.now);
        if query.matches(&assessment) {
            assessment.position = query.position(tx, &assessment)?;
            found.push(assessment);
        }
    }
    found.sort_unstable_by(|left, right| left.position.cmp(&right.position));
    if query.descending {
        found.reverse();
    }
    Ok(found)
}

fn assessment(rollup: Rollup, chains: &Chains, now: Timestamp) -> Assessment {
    let policy = chains.of_organization(rollup.organization_id);
    let breakdown = compute_score(&rollup, &policy, now);
    let (rule, state) = (rule_321(&rollup, &policy, now), state(&rollup, breakdown.as_ref()));
    Assessment { rollup, policy, rule, breakdown, state, position: Vec::new() }
}

/// The part of `found` after a position, at most `limit`, and the position of the next part if there is one.
pub(super) fn page(
    mut found: Vec<Assessment>,
    descending: bool,
    after: Option<&[u8]>,
    limit: usize,
) -> (Vec<Assessment>, Option<Vec<u8>>) {
    if let Some(after) = after {
        found.retain(
            |assessment| if descending { assessment.position.as_slice() < after } else { assessment.position.as_slice() > after },
        );
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|assessment| assessment.position.clone()).filter(|_| more);
    (found, last)
}

/// Adds the names and the issues.
pub(super) fn show(tx: &impl Read, assessment: Assessment) -> Result<ReportRow, StoreError> {
    let (tenant, id) = (assessment.rollup.tenant_id, assessment.rollup.organization_id);
    let organization = directory::organization(tx, tenant, id)?;
    let organization = organization.unwrap_or_else(|| OrganizationLabel { id, name: id.to_string() });
    let mut troubled = Vec::new();
    for posture in postures::troubled(tx, tenant, id, MAX_ISSUES)? {
        if let Some(device) = directory::device(tx, tenant, posture.device_id)? {
            troubled.push((posture, device));
        }
    }
    Ok(ReportRow { assessment, organization, troubled })
}

pub(super) fn summarize(found: &[Assessment], now: Timestamp) -> Summary {
    let mut summary = Summary::default();
    for assessment in found {
        let rollup = &assessment.rollup;
        summary.organizations += 1;
        if let Some(count) = summary.states.get_mut(assessment.state as usize) {
            *count += 1;
        }
        summary.share = summary.share.with_replaced(Share::default(), rollup.share);
        for (sum, window) in summary.jobs.iter_mut().zip(Window::ALL) {
            *sum = sum.plus(rollup.jobs(*window, now));
        }
        summary.growth = summary.growth.saturating_add(rollup.growth(now));
        if let Some(breakdown) = &assessment.breakdown {
            summary.scored += 1;
            summary.scores += u64::from(breakdown.score);
        }
    }
    summary
}
