//! Rows and sums of the report as clients see them.

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
        listing::{self, Summary, Weighed, coverage_percent},
        model::{self, Cap, Counts, Posture, Share, State, Trouble, Window},
    },
    evidence::BackupEvidence,
};

/// A device by its id and name.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupDevice {
    pub(super) id: DeviceId,
    pub(super) name: String,
}

impl From<&DeviceLabel> for BackupDevice {
    fn from(label: &DeviceLabel) -> Self {
        Self { id: label.id, name: label.name.clone() }
    }
}

/// The points of each part; together they make up the score before its caps.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupScoreParts {
    /// Of 25: protected devices by eligible ones.
    pub(super) coverage: u8,
    /// Of 30: devices within their objective, those at risk by half. Servers count three times.
    pub(super) recency: u8,
    /// Of 15: jobs of the last 7 days that left a restore point, by all that did, failed or were missed.
    pub(super) success: u8,
    /// Of 20: all when the last restore test is within `restore_test_every_days`, half within twice that.
    pub(super) verification: u8,
    /// Of 10: 3 for three copies, 2 for two media, 3 for one offsite, 2 for one that nobody can remove.
    pub(super) resilience: u8,
}

#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupCap {
    pub(super) code: Cap,
    /// The score is not higher.
    pub(super) most: u8,
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupDevices {
    /// All devices, as the asset inventory counts them.
    pub(super) total: u64,
    /// Those that are to be backed up: in use (`active` or `in_repair`), of a class that `workloads` names, and not switched off. `server`
    /// stands for servers and hypervisors, `workstation` and `vm` for the classes of the same name. Other classes are not backed up.
    pub(super) eligible: u64,
    /// Eligible devices with a restore point of the last 30 days. The inventory finds the same devices by `protected=true`.
    pub(super) protected: u64,
    /// Eligible devices without one. The inventory finds the same devices by `protected=false`.
    pub(super) unprotected: u64,
    /// Rounded down; absent where no device is eligible.
    pub(super) coverage_percent: Option<u8>,
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupLast {
    /// When a job last succeeded.
    pub(super) success_at: Option<Timestamp>,
    /// When a job last failed.
    pub(super) failure_at: Option<Timestamp>,
    /// Eligible devices without any success.
    pub(super) never_backed_up: u64,
}

/// The device that has breached its objective for the longest.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct BackupWorst {
    pub(super) device: BackupDevice,
    /// Since when it breaches it.
    pub(super) breached_at: Timestamp,
}

/// Eligible devices by how they stand to their objective.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupRpoCounts {
    /// Devices whose newest restore point is younger than three quarters of the objective.
    pub(super) ok: u64,
    /// Devices whose newest restore point is older than that, and within the objective.
    pub(super) at_risk: u64,
    /// Devices whose newest restore point is older than the objective allows, or that have had none for as long.
    pub(super) breached: u64,
    /// Devices that were never backed up, and have been eligible for less time than the objective allows.
    pub(super) pending: u64,
    /// The device that has breached its objective for the longest.
    pub(super) worst: Option<BackupWorst>,
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupJobCounts {
    /// Jobs that succeeded.
    pub(super) succeeded: u32,
    /// Jobs that ended with a warning.
    pub(super) warning: u32,
    /// Jobs that failed.
    pub(super) failed: u32,
    /// Jobs that were due and did not run.
    pub(super) missed: u32,
    /// Those that left a restore point by all, rounded down; absent where there are none.
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

/// Jobs that ended in the last hours and days: this hour and the 23 before, today and the 6 or 29 days before, of UTC.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupJobs {
    /// Jobs of the last 24 hours.
    #[oai(rename = "24h")]
    #[serde(rename = "24h")]
    pub(super) day: Option<BackupJobCounts>,
    /// Jobs of the last 7 days.
    #[oai(rename = "7d")]
    #[serde(rename = "7d")]
    pub(super) week: Option<BackupJobCounts>,
    /// Jobs of the last 30 days.
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

#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupStorage {
    /// What the newest restore points of all devices hold.
    pub(super) protected_bytes: u64,
    /// How much more that is than at the end of the day 30 days ago (UTC). Backups that began since then have grown from nothing.
    pub(super) growth_30d_bytes: i64,
}

/// Three copies on two media, one of them offsite. The data itself is a copy on a local medium; a target counts while a restore point of
/// the last 30 days is on it.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupRule321 {
    /// How many copies there are.
    pub(super) copies: u32,
    /// How many kinds of media the copies are on.
    pub(super) media: u32,
    /// Whether a copy is off-site.
    pub(super) offsite: bool,
    /// Whether a copy cannot be changed.
    pub(super) immutable: bool,
    /// Whether the rule is met.
    pub(super) compliant: bool,
}

impl From<model::Rule321> for BackupRule321 {
    fn from(rule: model::Rule321) -> Self {
        let model::Rule321 { copies, media, offsite, .. } = rule;
        Self { copies, media, offsite, immutable: rule.immutable(), compliant: rule.compliant() }
    }
}

#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupTests {
    /// When a restore was last tested.
    pub(super) last_restore_test_at: Option<Timestamp>,
}

/// The worst that is wrong with a device.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupIssue {
    pub(super) code: Trouble,
    /// `critical` for `rpo_breached` and `unprotected`, else `warning`.
    pub(super) severity: String,
    pub(super) device: BackupDevice,
    /// Since when it is so.
    pub(super) since: Timestamp,
    /// The ticket that was opened for it.
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

/// What the parts of a score were made from.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupExplanation {
    /// How many devices have a recent restore point.
    pub(super) protected: u64,
    /// How many devices are to be backed up.
    pub(super) eligible: u64,
    /// Twice the weight of devices within their objective, and the weight of those at risk; a device that was never backed up adds none.
    pub(super) recency_credit: u64,
    /// Eligible devices, servers three times.
    pub(super) recency_weight: u64,
    /// Jobs of the last 7 days that succeeded.
    pub(super) jobs_good_7d: u64,
    /// Jobs of the last 7 days.
    pub(super) jobs_all_7d: u64,
    /// How long ago a restore was last tested, in days.
    pub(super) restore_test_age_days: Option<u64>,
    /// How often a restore must be tested, in days.
    pub(super) restore_test_every_days: u32,
    /// How many copies there are.
    pub(super) copies: u32,
    /// How many kinds of media the copies are on.
    pub(super) media: u32,
    /// Whether a copy is off-site.
    pub(super) offsite: bool,
    /// Whether a copy cannot be changed.
    pub(super) immutable: bool,
    /// Servers whose newest restore point is older than twice the objective.
    pub(super) servers_breached_twice: u64,
    /// Servers without a recent restore point.
    pub(super) unprotected_servers: u64,
    /// The sum of the parts, before caps.
    pub(super) sum: u8,
}

/// How well an organization is backed up.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupRow {
    pub(super) organization: OrganizationReference,
    /// The time that the figures are of.
    pub(super) as_of: Timestamp,
    pub(super) state: State,
    /// From 0 to 100: the sum of the parts, or the lowest cap that applies. Absent where there was never a job or nothing is to be backed
    /// up, as are its parts.
    pub(super) score: Option<u8>,
    pub(super) score_parts: Option<BackupScoreParts>,
    /// What limits the score.
    pub(super) caps: Vec<BackupCap>,
    /// Only with `explain=true`, where there is a score.
    pub(super) explanation: Option<BackupExplanation>,
    /// The devices of the organization, counted.
    pub(super) devices: BackupDevices,
    /// When jobs last succeeded and failed.
    pub(super) last: BackupLast,
    pub(super) rpo: BackupRpoCounts,
    pub(super) jobs: BackupJobs,
    /// How much space the backups take.
    pub(super) storage: BackupStorage,
    pub(super) rule_321: BackupRule321,
    /// The results of restore tests.
    pub(super) verification: BackupTests,
    /// At most 20, the worst first.
    pub(super) issues: Vec<BackupIssue>,
}

/// What a row is to show.
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

fn explanation(weighed: &Weighed, now: Timestamp) -> Option<BackupExplanation> {
    let weighing = weighed.weighing.as_ref()?;
    let (rollup, rule) = (&weighed.rollup, weighed.rule);
    let (good, all) = rollup.jobs(Window::Week, now).rate();
    Some(BackupExplanation {
        protected: rollup.share.protected,
        eligible: rollup.share.eligible,
        recency_credit: rollup.share.credit,
        recency_weight: rollup.share.weight,
        jobs_good_7d: good,
        jobs_all_7d: all,
        restore_test_age_days: rollup.last_verified_at.map(|at| now.since(at).as_secs() / 86_400),
        restore_test_every_days: weighed.policy.verification.restore_test_every_days,
        copies: rule.copies,
        media: rule.media,
        offsite: rule.offsite,
        immutable: rule.immutable(),
        servers_breached_twice: rollup.share.servers_breached_twice,
        unprotected_servers: rollup.share.unprotected_servers,
        sum: weighing.coverage + weighing.recency + weighing.success + weighing.verification + weighing.resilience,
    })
}

impl BackupRow {
    pub(super) fn new(shown: listing::Shown, shape: Shape) -> Self {
        let listing::Shown { weighed, organization, troubled } = shown;
        let (rollup, now) = (&weighed.rollup, shape.now);
        let share = &rollup.share;
        let parts = weighed.weighing.as_ref().map(|weighing| BackupScoreParts {
            coverage: weighing.coverage,
            recency: weighing.recency,
            success: weighing.success,
            verification: weighing.verification,
            resilience: weighing.resilience,
        });
        let worst = troubled.first().and_then(|(posture, device)| match posture.trouble? {
            (Trouble::RpoBreached, breached_at) => Some(BackupWorst { device: device.into(), breached_at }),
            _ => None,
        });
        let caps = weighed.weighing.iter().flat_map(|weighing| &weighing.caps);
        Self {
            organization: organization.into(),
            as_of: now,
            state: weighed.state,
            score: weighed.weighing.as_ref().map(|weighing| weighing.score),
            score_parts: parts,
            caps: caps.map(|cap| BackupCap { code: *cap, most: cap.most() }).collect(),
            explanation: if shape.explain { explanation(&weighed, now) } else { None },
            devices: devices(share),
            last: BackupLast {
                success_at: rollup.last_success_at,
                failure_at: rollup.last_failure_at,
                never_backed_up: share.never_backed_up,
            },
            rpo: rpo(share, worst),
            jobs: BackupJobs::new(shape.window, |window| rollup.jobs(window, now)),
            storage: BackupStorage { protected_bytes: share.bytes, growth_30d_bytes: rollup.growth(now) },
            rule_321: weighed.rule.into(),
            verification: BackupTests { last_restore_test_at: rollup.last_verified_at },
            issues: troubled.iter().filter_map(|(posture, device)| BackupIssue::new(posture, device)).collect(),
        }
    }
}

/// How many organizations are in each state.
#[derive(Clone, Copy, Debug, Object, Serialize)]
pub(super) struct BackupStates {
    /// Organizations in the state `healthy`.
    pub(super) healthy: u64,
    /// Organizations in the state `warning`.
    pub(super) warning: u64,
    /// Organizations in the state `critical`.
    pub(super) critical: u64,
    /// Organizations in the state `unprotected`.
    pub(super) unprotected: u64,
    /// Organizations in the state `unknown`.
    pub(super) unknown: u64,
}

/// What all organizations come to that match, on this page or not.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct BackupSummary {
    /// How many organizations there are.
    pub(super) organizations: u64,
    pub(super) states: BackupStates,
    /// The mean of the scores that there are, rounded down.
    pub(super) mean_score: Option<u64>,
    /// The devices, counted.
    pub(super) devices: BackupDevices,
    /// Devices without a successful backup.
    pub(super) never_backed_up: u64,
    pub(super) rpo: BackupRpoCounts,
    pub(super) jobs: BackupJobs,
    /// How much space the backups take.
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

/// A page of organizations with the sums over all; or evidence.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct BackupAggregate {
    /// Absent with `view=evidence`.
    pub(super) data: Option<Vec<BackupRow>>,
    pub(super) page: Option<Page>,
    pub(super) summary: Option<BackupSummary>,
    /// Only with `view=evidence`.
    pub(super) evidence: Option<BackupEvidence>,
}
