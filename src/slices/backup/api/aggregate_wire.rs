//! The rows and the summary of the report on the wire.

use poem_openapi::Object;
use serde::Serialize;
use serde_with::skip_serializing_none;

use tenantd_base::{
    clock::Timestamp,
    id::{DeviceId, TicketId},
};
use tenantd_directory::{DeviceLabel, OrganizationReference};
use tenantd_http::page::Page;

use super::{
    super::{
        listing::{self, Assessment, Summary, coverage_percent},
        model::{self, Cap, Counts, Posture, Share, State, Trouble, Window},
    },
    evidence::BackupEvidence,
};

/// A device, with its ID and name.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupDevice {
    /// The ID of the device.
    pub(super) id: DeviceId,
    /// The name of the device.
    pub(super) name: String,
}

impl From<&DeviceLabel> for BackupDevice {
    fn from(label: &DeviceLabel) -> Self {
        Self { id: label.id, name: label.name.clone() }
    }
}

/// The points of each part. Their sum is the score before caps.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupScoreParts {
    /// Up to 25 points: the share of eligible devices that are protected.
    pub(super) coverage: u8,
    /// Up to 30 points: the share of devices within their objective. Devices at risk count half; servers count three times.
    pub(super) recency: u8,
    /// Up to 15 points: the share of jobs in the last 7 days that left a restore point. Failed and missed jobs lower it.
    pub(super) success: u8,
    /// Up to 20 points: 20 if the last restore test is within `restore_test_every_days`, 10 within twice that time, else 0.
    pub(super) verification: u8,
    /// Up to 10 points: 3 for three copies, 2 for two media, 3 for an offsite copy, 2 for an immutable copy.
    pub(super) resilience: u8,
}

/// A cap that limits the score.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupCap {
    /// The reason for the cap.
    pub(super) code: Cap,
    /// The highest score that this cap allows.
    pub(super) most: u8,
}

/// The number of devices by protection.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupDevices {
    /// The number of all devices in the asset inventory.
    pub(super) total: u64,
    /// The number of devices that must be backed up: in use (`active` or `in_repair`), of a class in `workloads`, with backups
    /// enabled. `server` includes servers and hypervisors. `workstation` and `vm` include the classes with these names. Devices of
    /// other classes are never eligible.
    pub(super) eligible: u64,
    /// The number of eligible devices with a restore point from the last 30 days. The inventory lists them with `protected=true`.
    pub(super) protected: u64,
    /// The number of eligible devices without such a restore point. The inventory lists them with `protected=false`.
    pub(super) unprotected: u64,
    /// The percentage of eligible devices that are protected, rounded down. Absent if no device is eligible.
    pub(super) coverage_percent: Option<u8>,
}

/// The times of the last successful and failed jobs.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupLast {
    /// The time of the last successful job. Absent if there is none.
    pub(super) success_at: Option<Timestamp>,
    /// The time of the last failed job. Absent if there is none.
    pub(super) failure_at: Option<Timestamp>,
    /// The number of eligible devices without any successful backup.
    pub(super) never_backed_up: u64,
}

/// The device that has breached its objective for the longest time.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupWorst {
    /// The device.
    pub(super) device: BackupDevice,
    /// When the breach started.
    pub(super) breached_at: Timestamp,
}

/// The number of eligible devices in each RPO state.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupRpoCounts {
    /// Devices whose newest restore point is younger than three quarters of the objective.
    pub(super) ok: u64,
    /// Devices whose newest restore point is older than that, but within the objective.
    pub(super) at_risk: u64,
    /// Devices whose newest restore point is older than the objective, or that have had none for longer than the objective.
    pub(super) breached: u64,
    /// Devices without any backup that have been eligible for less time than the objective.
    pub(super) pending: u64,
    /// The device that has breached its objective for the longest time. Absent if none has, and in the summary.
    pub(super) worst: Option<BackupWorst>,
}

/// The number of jobs by result.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupJobCounts {
    /// The number of jobs that succeeded.
    pub(super) succeeded: u32,
    /// The number of jobs that ended with a warning.
    pub(super) warning: u32,
    /// The number of jobs that failed.
    pub(super) failed: u32,
    /// The number of jobs that were due and did not run.
    pub(super) missed: u32,
    /// The percentage of these jobs that left a restore point, rounded down. Absent if there are no jobs.
    pub(super) success_percent: Option<u8>,
}

impl From<Counts> for BackupJobCounts {
    fn from(counts: Counts) -> Self {
        let (good, all) = counts.rate();
        Self {
            succeeded: counts.succeeded,
            warning: counts.warned,
            failed: counts.failed,
            missed: counts.missed,
            success_percent: (100 * good).checked_div(all).and_then(|percent| u8::try_from(percent).ok()),
        }
    }
}

/// Job counts by end time, in UTC: the current hour and the 23 before it, and today with the 6 or 29 days before it.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupJobs {
    /// Jobs of the last 24 hours. Absent if `window` selects a different time.
    #[oai(rename = "24h")]
    #[serde(rename = "24h")]
    pub(super) day: Option<BackupJobCounts>,
    /// Jobs of the last 7 days. Absent if `window` selects a different time.
    #[oai(rename = "7d")]
    #[serde(rename = "7d")]
    pub(super) week: Option<BackupJobCounts>,
    /// Jobs of the last 30 days. Absent if `window` selects a different time.
    #[oai(rename = "30d")]
    #[serde(rename = "30d")]
    pub(super) month: Option<BackupJobCounts>,
}

impl BackupJobs {
    fn new(wanted: Option<Window>, counts: impl Fn(Window) -> Counts) -> Self {
        let of = |window: Window| wanted.is_none_or(|wanted| wanted == window).then(|| counts(window).into());
        Self { day: of(Window::Day), week: of(Window::Week), month: of(Window::Month) }
    }
}

/// The storage that the backups use.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupStorage {
    /// The total size of the newest restore points of all devices, in bytes.
    pub(super) protected_bytes: u64,
    /// The change of this size since the end of the day 30 days ago (UTC), in bytes. If the backups began later, the growth starts
    /// at 0.
    pub(super) growth_30d_bytes: i64,
}

/// The 3-2-1 rule: three copies on two media, one of them offsite. The original data counts as a copy on a local medium. A target
/// counts while it has a restore point from the last 30 days.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupRule321 {
    /// The number of copies, including the original data.
    pub(super) copies: u32,
    /// The number of different kinds of media.
    pub(super) media: u32,
    /// Whether a copy is offsite.
    pub(super) offsite: bool,
    /// Whether a copy is immutable.
    pub(super) immutable: bool,
    /// Whether the organization meets the rule.
    pub(super) compliant: bool,
}

impl From<model::Rule321> for BackupRule321 {
    fn from(rule: model::Rule321) -> Self {
        let model::Rule321 { copies, media, offsite, .. } = rule;
        Self { copies, media, offsite, immutable: rule.immutable(), compliant: rule.compliant() }
    }
}

/// The restore tests.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupTests {
    /// The time of the last restore test. Absent if there was none.
    pub(super) last_restore_test_at: Option<Timestamp>,
}

/// The most severe issue of a device.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupIssue {
    /// The kind of issue.
    pub(super) code: Trouble,
    /// The severity: `critical` for `rpo_breached` and `unprotected`, otherwise `warning`.
    pub(super) severity: String,
    /// The affected device.
    pub(super) device: BackupDevice,
    /// When the issue started.
    pub(super) since: Timestamp,
    /// The ticket for this issue. Absent if there is none.
    pub(super) ticket: Option<TicketId>,
}

impl BackupIssue {
    fn new(posture: &Posture, device: &DeviceLabel) -> Option<Self> {
        let (code, since) = posture.trouble?;
        let [failed, missed, breach] = posture.tickets;
        let (severity, ticket) = match code {
            Trouble::RpoBreached => ("critical", breach),
            Trouble::Unprotected => ("critical", breach.or(missed).or(failed)),
            Trouble::Missed => ("warning", missed),
            Trouble::Failed => ("warning", failed),
            Trouble::RpoAtRisk => ("warning", None),
        };
        Some(Self { code, severity: severity.to_owned(), device: device.into(), since, ticket })
    }
}

/// The inputs of the score.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupExplanation {
    /// The number of eligible devices with a restore point from the last 30 days.
    pub(super) protected: u64,
    /// The number of devices that must be backed up.
    pub(super) eligible: u64,
    /// Twice the weight of the devices within their objective, plus the weight of the devices at risk. Devices without any backup
    /// add nothing.
    pub(super) recency_credit: u64,
    /// The number of eligible devices. Servers count three times.
    pub(super) recency_weight: u64,
    /// The number of jobs in the last 7 days that left a restore point.
    pub(super) jobs_good_7d: u64,
    /// The number of jobs in the last 7 days, including missed ones.
    pub(super) jobs_all_7d: u64,
    /// The number of days since the last restore test. Absent if there was none.
    pub(super) restore_test_age_days: Option<u64>,
    /// The maximum number of days between restore tests.
    pub(super) restore_test_every_days: u32,
    /// The number of copies, including the original data.
    pub(super) copies: u32,
    /// The number of different kinds of media.
    pub(super) media: u32,
    /// Whether a copy is offsite.
    pub(super) offsite: bool,
    /// Whether a copy is immutable.
    pub(super) immutable: bool,
    /// The number of servers whose newest restore point is older than twice the objective.
    pub(super) servers_breached_twice: u64,
    /// The number of servers without a restore point from the last 30 days.
    pub(super) unprotected_servers: u64,
    /// The sum of the parts, before caps.
    pub(super) sum: u8,
}

/// The backup status of an organization.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupRow {
    /// The organization.
    pub(super) organization: OrganizationReference,
    /// The time of this status.
    pub(super) as_of: Timestamp,
    /// The overall state of the organization's backups.
    pub(super) state: State,
    /// The score from 0 to 100: the sum of the parts, or the lowest cap that applies. The score and its parts are absent if there
    /// was never a job or no device is eligible.
    pub(super) score: Option<u8>,
    /// The points of each part of the score.
    pub(super) score_parts: Option<BackupScoreParts>,
    /// The caps that apply to the score.
    pub(super) caps: Vec<BackupCap>,
    /// The inputs of the score. Only with `explain=true`, and if there is a score.
    pub(super) explanation: Option<BackupExplanation>,
    /// The number of devices by protection.
    pub(super) devices: BackupDevices,
    /// The times of the last successful and failed jobs.
    pub(super) last: BackupLast,
    /// The number of eligible devices in each RPO state.
    pub(super) rpo: BackupRpoCounts,
    /// The job counts of the last hours and days.
    pub(super) jobs: BackupJobs,
    /// The storage that the backups use.
    pub(super) storage: BackupStorage,
    /// Whether the backups meet the 3-2-1 rule.
    pub(super) rule_321: BackupRule321,
    /// The restore tests.
    pub(super) verification: BackupTests,
    /// The devices with issues, the worst first. At most 20.
    pub(super) issues: Vec<BackupIssue>,
}

/// What a row includes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) now: Timestamp,
    pub(super) window: Option<Window>,
    pub(super) explain: bool,
}

pub(super) fn devices(share: &Share) -> BackupDevices {
    BackupDevices {
        total: share.devices,
        eligible: share.eligible,
        protected: share.protected,
        unprotected: share.eligible.saturating_sub(share.protected),
        coverage_percent: coverage_percent(share),
    }
}

fn rpo(share: &Share, worst: Option<BackupWorst>) -> BackupRpoCounts {
    let Share { rpo_ok: ok, rpo_at_risk: at_risk, rpo_breached: breached, rpo_pending: pending, .. } = *share;
    BackupRpoCounts { ok, at_risk, breached, pending, worst }
}

fn explanation(assessment: &Assessment, now: Timestamp) -> Option<BackupExplanation> {
    let breakdown = assessment.breakdown.as_ref()?;
    let (rollup, rule) = (&assessment.rollup, assessment.rule);
    let (good, all) = rollup.jobs(Window::Week, now).rate();
    Some(BackupExplanation {
        protected: rollup.share.protected,
        eligible: rollup.share.eligible,
        recency_credit: rollup.share.credit,
        recency_weight: rollup.share.weight,
        jobs_good_7d: good,
        jobs_all_7d: all,
        restore_test_age_days: rollup.last_verified_at.map(|at| now.since(at).as_secs() / 86_400),
        restore_test_every_days: assessment.policy.verification.restore_test_every_days,
        copies: rule.copies,
        media: rule.media,
        offsite: rule.offsite,
        immutable: rule.immutable(),
        servers_breached_twice: rollup.share.servers_breached_twice,
        unprotected_servers: rollup.share.unprotected_servers,
        sum: breakdown.coverage + breakdown.recency + breakdown.success + breakdown.verification + breakdown.resilience,
    })
}

impl BackupRow {
    pub(super) fn new(shown: listing::ReportRow, shape: Shape) -> Self {
        let listing::ReportRow { assessment, organization, troubled } = shown;
        let (rollup, now) = (&assessment.rollup, shape.now);
        let share = &rollup.share;
        let parts = assessment.breakdown.as_ref().map(|breakdown| BackupScoreParts {
            coverage: breakdown.coverage,
            recency: breakdown.recency,
            success: breakdown.success,
            verification: breakdown.verification,
            resilience: breakdown.resilience,
        });
        let worst = troubled.first().and_then(|(posture, device)| match posture.trouble? {
            (Trouble::RpoBreached, breached_at) => Some(BackupWorst { device: device.into(), breached_at }),
            _ => None,
        });
        let caps = assessment.breakdown.iter().flat_map(|breakdown| &breakdown.caps);
        Self {
            organization: organization.into(),
            as_of: now,
            state: assessment.state,
            score: assessment.breakdown.as_ref().map(|breakdown| breakdown.score),
            score_parts: parts,
            caps: caps.map(|cap| BackupCap { code: *cap, most: cap.most() }).collect(),
            explanation: if shape.explain { explanation(&assessment, now) } else { None },
            devices: devices(share),
            last: BackupLast {
                success_at: rollup.last_success_at,
                failure_at: rollup.last_failure_at,
                never_backed_up: share.never_backed_up,
            },
            rpo: rpo(share, worst),
            jobs: BackupJobs::new(shape.window, |window| rollup.jobs(window, now)),
            storage: BackupStorage { protected_bytes: share.bytes, growth_30d_bytes: rollup.growth(now) },
            rule_321: assessment.rule.into(),
            verification: BackupTests { last_restore_test_at: rollup.last_verified_at },
            issues: troubled.iter().filter_map(|(posture, device)| BackupIssue::new(posture, device)).collect(),
        }
    }
}

/// The number of organizations in each state.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupStates {
    /// The number of organizations in the state `healthy`.
    pub(super) healthy: u64,
    /// The number of organizations in the state `warning`.
    pub(super) warning: u64,
    /// The number of organizations in the state `critical`.
    pub(super) critical: u64,
    /// The number of organizations in the state `unprotected`.
    pub(super) unprotected: u64,
    /// The number of organizations in the state `unknown`.
    pub(super) unknown: u64,
}

/// The totals over all matching organizations, including those on other pages.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupSummary {
    /// The number of matching organizations.
    pub(super) organizations: u64,
    /// The number of organizations in each state.
    pub(super) states: BackupStates,
    /// The mean of all scores, rounded down. Absent if no organization has a score.
    pub(super) mean_score: Option<u64>,
    /// The number of devices by protection.
    pub(super) devices: BackupDevices,
    /// The number of eligible devices without any successful backup.
    pub(super) never_backed_up: u64,
    /// The number of eligible devices in each RPO state.
    pub(super) rpo: BackupRpoCounts,
    /// The job counts of the last hours and days.
    pub(super) jobs: BackupJobs,
    /// The storage that the backups use.
    pub(super) storage: BackupStorage,
}

impl BackupSummary {
    pub(super) fn new(summary: &Summary, window: Option<Window>) -> Self {
        let share = &summary.share;
        let [healthy, warning, critical, unprotected, unknown] = summary.states;
        Self {
            organizations: summary.organizations,
            states: BackupStates { healthy, warning, critical, unprotected, unknown },
            mean_score: summary.scores.checked_div(summary.scored),
            devices: devices(share),
            never_backed_up: share.never_backed_up,
            rpo: rpo(share, None),
            jobs: BackupJobs::new(window, |window| summary.jobs.get(window as usize).copied().unwrap_or_default()),
            storage: BackupStorage { protected_bytes: share.bytes, growth_30d_bytes: summary.growth },
        }
    }
}

/// A page of organizations with a summary over all matches, or the evidence view.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct BackupAggregate {
    /// The rows of the page. Absent with `view=evidence`.
    pub(super) data: Option<Vec<BackupRow>>,
    /// The position of this page in the list.
    pub(super) page: Option<Page>,
    /// The totals over all matching organizations. Absent with `view=evidence`.
    pub(super) summary: Option<BackupSummary>,
    /// The signed statement. Only with `view=evidence`.
    pub(super) evidence: Option<BackupEvidence>,
}
