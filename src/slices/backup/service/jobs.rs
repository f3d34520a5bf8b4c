//! Processes the jobs that backup systems report. A line is checked before anything is written, so a refused line has no effect.

use std::time::Duration;

use tenantd_base::{
    clock::Timestamp,
    id::{BackupJobId, DeviceId},
};
use tenantd_directory::{self as directory, DirectoryError, JobLine, JobReceiver, JobStatus, LineResult, LineStatus, Reference};
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Describe, Draft},
};

use super::{
    super::{
        error::BackupError,
        model::{Job, Outcome, Posture, Tally},
        repo::{jobs, postures},
    },
    JOB_FAILED, JOB_SUCCEEDED, Service, chain,
    settle::labels,
};

/// The maximum clock skew of other systems.
const AHEAD: Duration = Duration::from_mins(5);

impl From<BackupError> for DirectoryError {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::NotFound => refused("/device", "device not found"),
            BackupError::Store(error) => Self::Store(error),
            BackupError::Event(error) => Self::Event(error),
            other => refused("", other.to_string()),
        }
    }
}

fn refused(pointer: &'static str, message: impl Into<String>) -> DirectoryError {
    DirectoryError::Line { pointer, message: message.into() }
}

impl JobReceiver for Service {
    fn take(&self, tx: &mut WriteTx, act: &mut Act, line: &JobLine) -> Result<LineResult, DirectoryError> {
        self.check_times(act, line)?;
        let device = find_device(tx, act, &line.device)?;
        let before = jobs::get(tx, act.tenant_id, device, &line.external_id, line.started_at)?;
        let Some(before) = before else {
            let job = new_job(act, device, line);
            self.record(tx, act, None, job.clone())?;
            return Ok(LineResult { status: LineStatus::Created, id: Some(job.id.to_string()) });
        };
        let after = changed_job(act, &before, line)?;
        let id = Some(before.id.to_string());
        if after == before {
            return Ok(LineResult { status: LineStatus::Unchanged, id });
        }
        self.record(tx, act, Some(&before), Job { version: before.version + 1, ..after })?;
        Ok(LineResult { status: LineStatus::Updated, id })
    }
}

/// Finds the device, or refuses the line if it does not exist or is out of reach.
fn find_device(tx: &impl Read, act: &Act, reference: &Reference<DeviceId>) -> Result<DeviceId, DirectoryError> {
    let id = match reference {
        Reference::Id(id) => Some(*id),
        Reference::External(external_id) => directory::device_by_external_id(tx, act.tenant_id, external_id)?,
    };
    let label = match id {
        Some(id) => directory::device(tx, act.tenant_id, id)?,
        None => None,
    };
    let found = label.filter(|device| act.reach.covers(Some(device.organization_id)));
    found.map(|device| device.id).ok_or_else(|| refused("/device", "device not found"))
}

fn ended_at(line: &JobLine) -> Option<Timestamp> {
    (line.status != JobStatus::Running).then_some(line.ended_at.unwrap_or(line.started_at))
}

fn new_job(act: &mut Act, device_id: DeviceId, line: &JobLine) -> Job {
    let ended_at = ended_at(line);
    Job {
        id: BackupJobId::new(act.now, &mut act.entropy),
        external_id: line.external_id.clone(),
        device_id,
        started_at: line.started_at,
        ended_at,
        status: line.status,
        bytes: line.bytes,
        target: line.target.clone(),
        // A test that is reported together with the end of its job belongs to the job.
        verified_at: ended_at.filter(|_| line.verified).map(|at| at.min(act.now)),
        version: 1,
    }
}

/// Applies a further line to a job. A job that has ended does not change, except that a restore test can be added.
fn changed_job(act: &Act, before: &Job, line: &JobLine) -> Result<Job, DirectoryError> {
    if !before.has_ended() {
        let ended_at = ended_at(line);
        return Ok(Job {
            ended_at,
            status: line.status,
            bytes: line.bytes.or(before.bytes),
            target: line.target.clone().or_else(|| before.target.clone()),
            verified_at: ended_at.filter(|_| line.verified).map(|at| at.min(act.now)),
            ..before.clone()
        });
    }
    let other = [
        ("/status", line.status != before.status),
        ("/started_at", line.started_at != before.started_at),
        ("/ended_at", line.ended_at.is_some() && line.ended_at != before.ended_at),
        ("/bytes", line.bytes.is_some() && line.bytes != before.bytes),
        ("/target", line.target.is_some() && line.target != before.target),
    ];
    if let Some((pointer, _)) = other.into_iter().find(|(_, differs)| *differs) {
        return Err(refused(pointer, "the job has ended and cannot change; only verified can be added"));
    }
    let verified_at = before.verified_at.or(line.verified.then_some(act.now));
    Ok(Job { verified_at, ..before.clone() })
}

impl Service {
    fn check_times(&self, act: &Act, line: &JobLine) -> Result<(), DirectoryError> {
        let oldest = act.now - Duration::from_hours(24 * u64::from(self.job_retention_days));
        let latest = act.now + AHEAD;
        if line.started_at < oldest {
            let message = format!("must not be more than {} days ago, which is the retention of jobs", self.job_retention_days);
            return Err(refused("/started_at", message));
        }
        if line.started_at > latest {
            return Err(refused("/started_at", "must not be in the future"));
        }
        if line.ended_at.is_some_and(|at| at > latest) {
            return Err(refused("/ended_at", "must not be in the future"));
        }
        if line.ended_at.is_some_and(|at| at < line.started_at) {
            return Err(refused("/ended_at", "must not be before started_at"));
        }
        if line.status == JobStatus::Running && line.ended_at.is_some() {
            return Err(refused("/ended_at", "must be absent for a running job"));
        }
        if line.verified && !matches!(line.status, JobStatus::Success | JobStatus::Warning) {
            return Err(refused("/verified", "only a job that left a restore point can be verified"));
        }
        Ok(())
    }

    /// Stores a job and applies its effect on its device.
    fn record(&self, tx: &mut WriteTx, act: &mut Act, before: Option<&Job>, mut job: Job) -> Result<(), BackupError> {
        let known = postures::of_device(tx, act.tenant_id, job.device_id)?;
        let device = match &known {
            // The follower applies changes from the directory.
            Some(_) => None,
            None => Some(directory::device_outline(tx, act.tenant_id, job.device_id)?.ok_or(BackupError::NotFound)?),
        };
        let mut posture = match (&known, &device) {
            (Some(posture), _) => posture.clone(),
            (None, Some(device)) => Posture::new(device, act.now),
            (None, None) => return Err(BackupError::NotFound),
        };
        let policy = chain::device_policy(tx, act.tenant_id, posture.organization_id, job.device_id)?;
        if job.has_succeeded() && job.target.is_none() {
            job.target = policy.targets.first().map(|target| target.name.clone());
        }
        jobs::put(tx, act.tenant_id, &job)?;
        let ends = job.has_ended() && before.is_none_or(|before| !before.has_ended());
        let mut tally = Tally { job: before.is_none(), ..Tally::default() };
        if job.verified_at.is_some() && before.is_none_or(|before| before.verified_at.is_none()) {
            tally.verified_at = job.verified_at;
            posture.last_verified_at = posture.last_verified_at.max(job.verified_at);
        }
        if ends {
            tally.outcome = apply_end(&mut posture, &job, act.now);
            tally.target = job.target.clone().filter(|_| job.has_succeeded());
            // The sums also change if an earlier line has already reported the job.
            tally.job = true;
            announce(tx, act, &posture, &job)?;
            if job.status == JobStatus::Failed {
                tally.failure = Some(format!("Job {} started at {} and failed.", job.external_id, job.started_at));
            }
        }
        self.settle(tx, act, known, posture, &policy, tally)?;
        Ok(())
    }
}

fn announce(tx: &mut WriteTx, act: &mut Act, posture: &Posture, job: &Job) -> Result<(), BackupError> {
    let kind = match job.status {
        JobStatus::Success | JobStatus::Warning => &JOB_SUCCEEDED,
        JobStatus::Failed => &JOB_FAILED,
        JobStatus::Running | JobStatus::Cancelled => return Ok(()),
    };
    let shown = job.describe(&labels(tx, posture)?)?;
    let draft = Draft::new(kind, job.id.to_string(), job.version, &shown);
    events::append(tx, act, &draft)?;
    Ok(())
}

/// Applies the end of a job to its device. The result does not depend on the order of the jobs.
fn apply_end(posture: &mut Posture, job: &Job, now: Timestamp) -> Option<(Outcome, Timestamp)> {
    let at = job.ended_at.unwrap_or(job.started_at).min(now);
    let outcome = match job.status {
        JobStatus::Success => Outcome::Succeeded,
        JobStatus::Warning => Outcome::Warned,
        JobStatus::Failed => Outcome::Failed,
        JobStatus::Running | JobStatus::Cancelled => return None,
    };
    if outcome == Outcome::Failed {
        posture.last_failure_at = posture.last_failure_at.max(Some(at));
        if posture.last_success_at.is_none_or(|success| success < at) {
            posture.failing_since = Some(posture.failing_since.map_or(at, |since| since.min(at)));
        }
        return Some((outcome, at));
    }
    if posture.last_success_at.is_none_or(|success| success <= at) {
        posture.last_success_at = Some(at);
        posture.bytes = job.bytes.unwrap_or(posture.bytes);
    }
    if posture.last_failure_at.is_none_or(|failure| failure <= at) {
        posture.failing_since = None;
    }
    let point = u32::try_from(at.as_seconds()).unwrap_or(0);
    if let Err(place) = posture.points.binary_search(&point) {
        posture.points.insert(place, point);
    }
    Some((outcome, at))
}
