//! The sums over the devices and jobs of one organization, from which reports are built. Every change updates them, so a report
//! reads one record per organization, however many devices and jobs there are.
//!
//! Jobs are counted by the UTC hour and day in which they ended. The last 24 hours are the current hour and the 23 before it; 7 and
//! 30 days are today and the 6 and 29 days before.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{OrganizationId, TenantId},
    vocabulary::vocabulary,
};

use super::posture::{Posture, Share};

const HOURS: i64 = 24;
const DAYS: i64 = 30;
/// The maximum number of target names to store.
const MAX_TARGETS: usize = 32;

vocabulary! {
    /// The time span of job counts.
    Window:
    Day "24h", Week "7d", Month "30d",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Warned,
    Failed,
    Missed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub succeeded: u32,
    pub warned: u32,
    pub failed: u32,
    pub missed: u32,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Warned => &mut self.warned,
            Outcome::Failed => &mut self.failed,
            Outcome::Missed => &mut self.missed,
        };
        *count = count.saturating_add(1);
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded.saturating_add(other.succeeded),
            warned: self.warned.saturating_add(other.warned),
            failed: self.failed.saturating_add(other.failed),
            missed: self.missed.saturating_add(other.missed),
        }
    }

    /// The number of jobs that left a restore point, and of all jobs.
    pub fn rate(self) -> (u64, u64) {
        let good = u64::from(self.succeeded) + u64::from(self.warned);
        (good, good + u64::from(self.failed) + u64::from(self.missed))
    }
}

/// The contribution of one job.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub job: bool,
    pub outcome: Option<(Outcome, Timestamp)>,
    pub target: Option<String>,
    pub verified_at: Option<Timestamp>,
    /// For a failed job: the text for the ticket.
    pub failure: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollup {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub organization_id: OrganizationId,
    pub share: Share,
    /// Whether there was ever a job.
    pub has_jobs: bool,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    pub last_verified_at: Option<Timestamp>,
    /// The last time that a restore point was written to each target.
    pub targets: Vec<(String, Timestamp)>,
    /// By the hour and by the day since 1970, in order.
    pub hours: Vec<(i64, Counts)>,
    pub days: Vec<(i64, Counts)>,
    /// The total size of all restore points at the end of each day on which it changed.
    pub sizes: Vec<(i64, u64)>,
}

fn hour_of(at: Timestamp) -> i64 {
    at.as_seconds().div_euclid(3_600)
}

pub fn day_of(at: Timestamp) -> i64 {
    at.as_seconds().div_euclid(86_400)
}

fn count(buckets: &mut Vec<(i64, Counts)>, bucket: i64, outcome: Outcome) {
    match buckets.binary_search_by_key(&bucket, |(number, _)| *number) {
        Ok(place) => {
            if let Some((_, counts)) = buckets.get_mut(place) {
                counts.add(outcome);
            }
        }
        Err(place) => {
            let mut counts = Counts::default();
            counts.add(outcome);
            buckets.insert(place, (bucket, counts));
        }
    }
}

impl Rollup {
    /// The number of entries in all lists.
    pub fn entries(&self) -> usize {
        self.targets.len() + self.hours.len() + self.days.len() + self.sizes.len()
    }

    pub fn new(tenant_id: TenantId, organization_id: OrganizationId) -> Self {
        Self {
            tenant_id,
            organization_id,
            share: Share::default(),
            has_jobs: false,
            last_success_at: None,
            last_failure_at: None,
            last_verified_at: None,
            targets: Vec::new(),
            hours: Vec::new(),
            days: Vec::new(),
            sizes: Vec::new(),
        }
    }

    /// Adds the contribution of a job.
    pub fn count(&mut self, tally: &Tally, now: Timestamp) {
        self.has_jobs |= tally.job;
        self.last_verified_at = self.last_verified_at.max(tally.verified_at);
        let Some((outcome, at)) = tally.outcome else { return };
        match outcome {
            Outcome::Succeeded | Outcome::Warned => {
                self.last_success_at = self.last_success_at.max(Some(at));
                if let Some(name) = &tally.target {
                    self.write_to(name, at);
                }
            }
            Outcome::Failed => self.last_failure_at = self.last_failure_at.max(Some(at)),
            Outcome::Missed => {}
        }
        let (this_hour, today) = (hour_of(now), day_of(now));
        if hour_of(at) > this_hour - HOURS {
            count(&mut self.hours, hour_of(at), outcome);
        }
        if day_of(at) > today - DAYS {
            count(&mut self.days, day_of(at), outcome);
        }
        self.hours.retain(|(hour, _)| *hour > this_hour - HOURS);
        self.days.retain(|(day, _)| *day > today - DAYS);
    }

    fn write_to(&mut self, name: &str, at: Timestamp) {
        if let Some((_, last)) = self.targets.iter_mut().find(|(known, _)| known == name) {
            *last = at.max(*last);
            return;
        }
        if self.targets.len() >= MAX_TARGETS
            && let Some(oldest) = self.targets.iter().enumerate().min_by_key(|(_, (_, at))| *at).map(|(place, _)| place)
        {
            self.targets.swap_remove(oldest);
        }
        self.targets.push((name.to_owned(), at));
    }

    /// Applies a device that was added, changed or removed.
    pub fn replace_device(&mut self, before: Option<&Posture>, after: Option<&Posture>, now: Timestamp) {
        let share = |posture: Option<&Posture>| posture.map(Posture::share).unwrap_or_default();
        let bytes = self.share.bytes;
        self.share = self.share.with_replaced(share(before), share(after));
        if let (None, Some(arrived)) = (before, after) {
            // A device that moves in brings its history.
            self.has_jobs |= arrived.last_success_at.is_some() || arrived.last_failure_at.is_some();
            self.last_success_at = self.last_success_at.max(arrived.last_success_at);
            self.last_failure_at = self.last_failure_at.max(arrived.last_failure_at);
            self.last_verified_at = self.last_verified_at.max(arrived.last_verified_at);
        }
        if self.share.bytes == bytes {
            return;
        }
        let today = day_of(now);
        match self.sizes.last_mut() {
            Some((day, size)) if *day == today => *size = self.share.bytes,
            _ => self.sizes.push((today, self.share.bytes)),
        }
        let base = self.sizes.iter().rposition(|(day, _)| *day <= today - DAYS).unwrap_or(0);
        self.sizes.drain(..base);
    }

    pub fn jobs(&self, window: Window, now: Timestamp) -> Counts {
        let sum = |buckets: &[(i64, Counts)], after: i64| {
            let within = buckets.iter().filter(|(number, _)| *number > after);
            within.fold(Counts::default(), |sum, (_, counts)| sum.plus(*counts))
        };
        match window {
            Window::Day => sum(&self.hours, hour_of(now) - HOURS),
            Window::Week => sum(&self.days, day_of(now) - 7),
            Window::Month => sum(&self.days, day_of(now) - DAYS),
        }
    }

    /// The growth of the restore points since the end of the day 30 days ago.
    pub fn growth(&self, now: Timestamp) -> i64 {
        let then = self.sizes.iter().rev().find(|(day, _)| *day <= day_of(now) - DAYS).map_or(0, |(_, size)| *size);
        let difference = i128::from(self.share.bytes) - i128::from(then);
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }
}
