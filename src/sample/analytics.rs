//! Generates a year of metrics for the sample data. They contain tickets and backup jobs from before the first sample record,
//! because later ones are counted from the event log. They also contain what the log does not have: requests, deliveries, devices,
//! VMs and runs. The sampled values lead up to the current sample data.
//!
//! The metrics are written as roll-ups, because events of a year ago cannot be replayed. The same seed gives the same metrics.

use std::time::Duration;

use tenantd_analytics::{Backfill, Series};
use tenantd_backup::{self as backup, Coverage};
use tenantd_base::{clock::Timestamp, entropy::Entropy, id::TenantId};
use tenantd_store::{Store, StoreError, usage};
use tenantd_tickets::Status;

use super::{backups, people::Participants};

const DAYS: u32 = 365;
const DAY: Duration = Duration::from_hours(24);
const PRIORITIES: [(&str, u64); 4] = [("critical", 4), ("high", 14), ("medium", 50), ("low", 32)];
const ROUTES: [(&str, u64); 5] =
    [("list_tickets", 40), ("read_ticket", 25), ("update_ticket_by_id", 12), ("search", 15), ("report_asset_inventory", 8)];

/// The state of the sample data at its end.
#[derive(Clone, Copy)]
struct Today {
    devices: u64,
    coverage: Coverage,
    stored_bytes: u64,
}

/// One hour of the year.
struct Hour<'a> {
    at: Timestamp,
    /// The load in percent of the busiest hour.
    busy: u64,
    random: &'a mut Entropy,
    past: &'a mut Backfill,
}

impl Hour<'_> {
    /// A random number of about `most` at the busiest time, and less at other times.
    fn about(&mut self, most: u64) -> u64 {
        let mean = most * self.busy / 100;
        mean / 2 + self.random.below(mean + 1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn word(&mut self, words: &[(&'static str, u64)]) -> &'static str {
        let mut place = self.random.below(words.iter().map(|(_, weight)| weight).sum::<u64>().max(1));
        for (word, weight) in words {
            if place < *weight {
                return word;
            }
            place -= weight;
        }
        words.first().map_or("", |(word, _)| word)
    }

    fn tickets(&mut self, participants: &Participants) {
        for _ in 0..self.about(4) {
            let priority = self.word(&PRIORITIES);
            self.past.count(Series::TicketsCreated, priority, self.at, 1);
            let customer = usize::try_from(self.random.below(participants.customers.len().max(1) as u64)).unwrap_or_default();
            if let Some(customer) = participants.customers.get(customer) {
                self.past.count(Series::TicketsCreatedByOrganization, &customer.id.to_string(), self.at, 1);
            }
            let answered = 60 * (2 + self.random.below(90) * (1 + self.random.below(3)));
            self.past.spread(Series::FirstResponse, priority, self.at, answered);
            if self.percent(93) {
                let took = answered + 60 * (10 + self.random.below(900) * (1 + self.random.below(4)));
                self.past.count(Series::TicketsResolved, priority, self.at, 1);
                self.past.spread(Series::Resolution, priority, self.at, took);
                if self.percent(91) {
                    self.past.count(Series::SlaMet, priority, self.at, 1);
                }
                if self.percent(5) {
                    self.past.count(Series::TicketsReopened, "", self.at, 1);
                }
            }
        }
        let (open, waiting) = (40 + self.random.below(15), 12 + self.random.below(8));
        self.past.gauge(Series::TicketBacklog, "open", self.at, open);
        self.past.gauge(Series::TicketBacklog, "waiting_customer", self.at, waiting);
    }

    fn requests(&mut self, participants: &Participants) {
        for (route, weight) in ROUTES {
            let count = self.about(weight * 6);
            let micros = 300 + weight * 20 + self.random.below(2_500);
            self.past.spread_many(Series::RequestsByRoute, route, self.at, micros, count);
            for (share, times) in [(60, 1), (35, 2), (5, 9)] {
                self.past.spread_many(Series::RequestLatency, "", self.at, micros * times, count * share / 100);
            }
            let refused = count * 2 / 100;
            self.past.count(Series::Requests, "2xx", self.at, count - refused);
            self.past.count(Series::Requests, "4xx", self.at, refused);
        }
        if self.busy > 30 {
            for user in participants.staff.iter().filter(|_| self.busy > 60) {
                let count = self.random.below(40);
                if count > 0 {
                    self.past.count(Series::RequestsByCaller, &user.id.to_string(), self.at, count);
                }
            }
        }
        let (sent, failed) = (self.about(60), self.random.below(3));
        self.past.count(Series::Deliveries, "delivered", self.at, sent);
        self.past.count(Series::Deliveries, "failed", self.at, failed);
        let lag = 15 + self.random.below(200);
        self.past.spread_many(Series::DeliveryLag, "", self.at, lag, sent);
    }

    fn runs(&mut self) {
        for _ in 0..self.about(5) {
            self.past.count(Series::RunsStarted, "", self.at, 1);
            self.past.count(Series::RunsStartedByWorkflow, "follow-up-resolved", self.at, 1);
            let outcome = self.word(&[("succeeded", 94), ("failed", 4), ("timed_out", 1), ("cancelled", 1)]);
            self.past.count(Series::RunsEnded, outcome, self.at, 1);
            let millis = 400 + self.random.below(60_000);
            self.past.spread(Series::RunDuration, "", self.at, millis);
        }
    }

    /// `grown` is the size of the fleet in percent of today's.
    fn fleet(&mut self, today: Today, grown: u64) {
        let devices = today.devices * grown / 100;
        let online = devices * (if self.busy > 30 { 88 } else { 41 } + self.random.below(8)) / 100;
        let patched = devices * (70 + grown / 6 + self.random.below(4)) / 100;
        for (series, value) in [
            (Series::Devices, devices),
            (Series::DevicesOnline, online),
            (Series::DevicesScanned, devices),
            (Series::DevicesPatched, patched.min(devices)),
            (Series::BackupEligible, today.coverage.eligible * grown / 100),
            (Series::BackupProtected, today.coverage.protected * grown / 100 * grown / 100),
        ] {
            self.past.gauge(series, "", self.at, value);
        }
        self.past.gauge(Series::Vms, "running", self.at, 40 * grown / 100);
        self.past.gauge(Series::Vms, "stopped", self.at, 8 * grown / 100);
    }
}

/// The load of an hour in percent. People work from 7:00 to 18:00, and little at weekends.
fn busy(at: Timestamp) -> u64 {
    let (hour, weekday) = (at.as_seconds().rem_euclid(86_400) / 3600, (at.as_seconds().div_euclid(86_400) + 3).rem_euclid(7));
    match (hour, weekday) {
        (_, 5 | 6) => 12,
        (9..=11 | 13..=15, _) => 100,
        (7..=17, _) => 70,
        _ => 10,
    }
}

/// Writes the metrics of the year before `now`. Tickets end at `from` and backup jobs at their first sample job, because the log
/// has the later ones. `backlog` contains the open tickets over time, which no gauge sampled.
pub(super) async fn backfill(
    store: &Store,
    tenant: TenantId,
    seed: u64,
    participants: &Participants,
    (from, now): (Timestamp, Timestamp),
    backlog: &[(Timestamp, Vec<(Status, u64)>)],
) -> Result<(), StoreError> {
    let midnight = Timestamp::from_millis(now.as_millis().div_euclid(86_400_000) * 86_400_000);
    let mut random = Entropy::from_seed(seed ^ 0x0a11_a171_c500);
    let mut past = Backfill::new(tenant, midnight);
    let today = store.read(|tx| {
        Ok::<_, StoreError>(Today {
            devices: participants.customers.iter().map(|customer| customer.devices.len() as u64).sum(),
            coverage: backup::coverage(tx, tenant)?,
            stored_bytes: usage::usage(tx, tenant)?.stored_bytes,
        })
    })?;
    for day in 0..DAYS {
        let begins = midnight - DAY * (DAYS - day);
        let grown = 70 + u64::from(day) * 30 / u64::from(DAYS);
        for hour in 0..24 {
            let at = begins + Duration::from_hours(hour);
            let mut hour = Hour { at, busy: busy(at) * grown / 100, random: &mut random, past: &mut past };
            if at < from {
                hour.tickets(participants);
            }
            hour.requests(participants);
            hour.runs();
            hour.fleet(today, grown);
        }
        let night = begins + Duration::from_hours(2);
        let (jobs, breaches) = (today.coverage.eligible * grown / 100, random.below(3));
        if night < now - DAY * backups::DAYS {
            past.count(Series::BackupJobs, "succeeded", night, jobs - jobs / 40);
            past.count(Series::BackupJobs, "failed", night, jobs / 60);
            past.count(Series::BackupJobs, "missed", night, jobs / 120);
            past.count(Series::RpoBreaches, "", night, breaches);
        }
        past.count(Series::Provisions, "succeeded", night, random.below(3));
        past.count(Series::Provisions, "failed", night, u64::from(random.below(20) == 0));
        past.gauge(Series::StoredBytes, "", night, today.stored_bytes * grown / 100);
    }
    for (at, waiting) in backlog {
        for (status, count) in waiting {
            past.gauge(Series::TicketBacklog, status.name(), *at, *count);
        }
    }
    past.write(store).await
}
