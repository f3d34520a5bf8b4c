//! The dispatcher's state in memory: a window of the log, a lane for each endpoint with work, the rotation of turns, and the
//! results that wait for a commit. No I/O and no waiting here: `mod.rs` reads, sends and commits.
//!
//! **Boundary:** only the methods of the engine change lanes, places and turns. **Invariant:** everything here can be lost. An
//! event leaves the window only when its results are in the outbox. The cursor that is committed with the outbox never passes an
//! event that is still in the window.

mod calendar;
mod endpoints;
mod lane;
mod places;
mod rate;
mod rotation;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
    entropy::Entropy,
};

use super::{
    super::{
        delivery::{Decision, Delivery, DeliveryStatus, Sent, Trigger, decide},
        health::Gate,
        model::{DisabledReason, EndpointStatus},
        repo::{EndpointKey, EndpointState},
        subscriptions::Target,
    },
    commit::{Batch, Committed, Settlement, SettlementKind, disabling_intent},
};

use lane::{Class, Lane, Start};
pub(super) use lane::{Job, QueuedEvent};
use places::Places;
use rotation::Rotation;

/// How many events of the log may be in progress, and how many settlements may wait for a commit.
pub(super) const WINDOW: usize = 4096;
/// How many stored deliveries may wait in memory over all endpoints. If a tenant has no place left, its endpoint is checked again
/// later.
const MAX_CLAIMED: usize = 1024;
const CROWDED: Duration = Duration::from_millis(50);
/// The cursor moves at least once every this many events, even if no endpoint wants them.
const CURSOR_STRIDE: u64 = 4096;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) in_flight: usize,
    pub(super) per_endpoint: usize,
}

#[derive(Debug)]
pub(super) struct Engine {
    limits: Limits,
    entropy: Entropy,
    lanes: HashMap<EndpointKey, Lane>,
    first_turns: Rotation,
    late_turns: Rotation,
    /// When to check lanes again, by timeline: something is due, the breaker allows a probe, or the rate limit has room.
    calendar: BTreeMap<Timeline, BTreeSet<(Timestamp, EndpointKey)>>,
    /// Events with deliveries that are neither settled nor stored, and the number of these deliveries.
    window: BTreeMap<u64, usize>,
    /// The last event that was read, and the last event that the stored cursor has passed.
    read_to: u64,
    saved_cursor: u64,
    in_flight: Places,
    /// Stored deliveries that wait in memory.
    claimed: Places,
    outbox: Vec<Settlement>,
    committing: bool,
    /// Starts no new attempts, because the server shuts down.
    closing: bool,
    timer: Option<Timestamp>,
    /// The log has more events, but there was no room for them.
    starved: bool,
    /// Distinguishes this engine from earlier ones that were discarded.
    epoch: u64,
}

impl Engine {
    pub(super) fn new(limits: Limits, entropy: Entropy, cursor: u64, epoch: u64) -> Self {
        Self {
            limits,
            entropy,
            lanes: HashMap::new(),
            first_turns: Rotation::default(),
            late_turns: Rotation::default(),
            calendar: BTreeMap::new(),
            window: BTreeMap::new(),
            read_to: cursor,
            saved_cursor: cursor,
            in_flight: Places::new(limits.in_flight),
            claimed: Places::new(MAX_CLAIMED),
            outbox: Vec::new(),
            committing: false,
            closing: false,
            timer: None,
            starved: false,
            epoch,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Stops starting attempts.
    pub(super) fn shut_down(&mut self) {
        self.closing = true;
    }

    pub(super) fn read_to(&self) -> u64 {
        self.read_to
    }

    pub(super) fn advance_to(&mut self, seq: u64) {
        self.read_to = seq;
    }

    /// How many events can be read now. If none, the next commit wakes the reader.
    pub(super) fn room(&mut self, clocks: &Reading) -> usize {
        if self.closing {
            return 0;
        }
        let room = |engine: &Self| WINDOW.saturating_sub(engine.window.len().max(engine.outbox.len()));
        if room(self) == 0 {
            self.relieve(clocks);
        }
        let room = room(self);
        self.starved = room == 0;
        room
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.in_flight.taken() == 0 && self.outbox.is_empty() && !self.committing
    }

    /// The number of attempts in progress.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.taken()
    }

    /// The number of deliveries that wait only in memory, not in the store.
    pub(super) fn waiting_here(&self, endpoint: EndpointKey) -> usize {
        self.lanes.get(&endpoint).map_or(0, |lane| lane.first.len() + lane.in_flight.saturating_sub(lane.claimed.len()))
    }

    /// Queues an event for an endpoint that wants it. `held`: an earlier event of its resource waits in the store.
    pub(super) fn offer(
        &mut self,
        event: &Arc<QueuedEvent>,
        target: &Arc<Target>,
        resource: Option<String>,
        held: bool,
        now: Timestamp,
    ) {
        let key = target.key;
        if let EndpointStatus::Disabled(reason) = target.status {
            return self.skip(event, key, resource, reason, now);
        }
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let held = held || resource.as_ref().is_some_and(|resource| lane.held.contains(resource));
        if held || !lane.takes_events(now) {
            return self.park(event, key, resource, held);
        }
        lane.first.push_back(Job { target: target.clone(), event: event.clone(), stored: None, trigger: Trigger::Auto, resource });
        *self.window.entry(event.seq).or_default() += 1;
        self.list(key);
    }

    fn skip(
        &mut self,
        event: &QueuedEvent,
        endpoint: EndpointKey,
        resource: Option<String>,
        reason: DisabledReason,
        now: Timestamp,
    ) {
        let mut delivery = Delivery::new((event.id, event.number), &event.kind, event.at, resource);
        delivery.give_up(DeliveryStatus::Skipped, Some(reason), now);
        self.settle(endpoint, event.seq, delivery, SettlementKind::Skipped);
    }

    fn park(&mut self, event: &QueuedEvent, endpoint: EndpointKey, resource: Option<String>, behind: bool) {
        if let Some(lane) = self.lanes.get_mut(&endpoint) {
            lane.unsaved_parked += 1;
            lane.held.extend(resource.clone());
        }
        let delivery = Delivery::new((event.id, event.number), &event.kind, event.at, resource);
        self.settle(endpoint, event.seq, delivery, SettlementKind::Parked { behind });
    }

    fn settle(&mut self, endpoint: EndpointKey, seq: u64, delivery: Delivery, kind: SettlementKind) {
        self.outbox.push(Settlement { endpoint, seq, delivery, kind, health: None, disables: None, noted: false });
    }

    fn close(&mut self, seq: u64) {
        if let Some(open) = self.window.get_mut(&seq) {
            *open -= 1;
            if *open == 0 {
                self.window.remove(&seq);
            }
        }
    }

    /// Makes room in a full window: moves the longest queue into the store, so that the other endpoints can continue.
    fn relieve(&mut self, clocks: &Reading) {
        let longest = self.lanes.iter().max_by_key(|(_, lane)| lane.first.len()).map(|(key, _)| *key);
        if let Some(key) = longest {
            self.unload(key, clocks.of(key.0));
        }
    }

    /// Adds an endpoint to the rotation.
    pub(super) fn list(&mut self, key: EndpointKey) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        for (place, class, turns) in [(0, Class::First, &mut self.first_turns), (1, Class::Late, &mut self.late_turns)] {
            if let Some(listed) = lane.listed.get(place).copied()
                && !listed
                && lane.has(class)
            {
                turns.push(key);
                if let Some(slot) = lane.listed.get_mut(place) {
                    *slot = true;
                }
            }
        }
    }

    /// The next attempt to make, if one is allowed now.
    pub(super) fn next(&mut self, clocks: &Reading) -> Option<Job> {
        if self.closing || self.in_flight.is_full() {
            return None;
        }
        self.next_of(Class::First, clocks).or_else(|| self.next_of(Class::Late, clocks))
    }

    fn next_of(&mut self, class: Class, clocks: &Reading) -> Option<Job> {
        loop {
            let (turns, place) = match class {
                Class::First => (&mut self.first_turns, 0),
                Class::Late => (&mut self.late_turns, 1),
            };
            let key = turns.pop(|tenant| self.in_flight.has_one_for(tenant))?;
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if let Some(slot) = lane.listed.get_mut(place) {
                *slot = false;
            }
            match lane.start(class, clocks.of(key.0), self.limits.per_endpoint) {
                Start::Job(job) => {
                    self.in_flight.take(key.0);
                    self.claimed.release(key.0, usize::from(class == Class::Late));
                    self.list(key);
                    return Some(*job);
                }
                Start::Busy => {}
                Start::At(at) => self.remind(key, at),
            }
        }
    }

    /// Returns where to send the due deliveries of an endpoint and which of them are already in memory. `None` if none can be taken
    /// from the store now.
    pub(super) fn plan_claim(&mut self, key: EndpointKey, now: Timestamp) -> Option<(HashSet<u64>, Arc<Target>)> {
        self.list(key);
        let lane = self.lanes.get(&key).filter(|lane| lane.is_served())?;
        if let Gate::ClosedUntil(until) = lane.state.health.gate(now) {
            self.remind(key, until);
            return None;
        }
        if !self.claimed.has_one_for(key.0) {
            self.remind(key, now + CROWDED);
            return None;
        }
        Some((lane.claimed.clone(), lane.target.clone()))
    }

    /// Returns where to send a delivery that a caller requested. `None` if it cannot be taken from the store now.
    pub(super) fn plan_requested(&self, key: EndpointKey, seq: u64) -> Option<Arc<Target>> {
        let lane = self.lanes.get(&key).filter(|lane| lane.is_served() && !lane.claimed.contains(&seq))?;
        self.claimed.has_one_for(key.0).then(|| lane.target.clone())
    }

    /// Adds a delivery from the store.
    pub(super) fn claim(&mut self, key: EndpointKey, job: Job) {
        if let Some(lane) = self.lanes.get_mut(&key)
            && lane.claimed.insert(job.event.seq)
        {
            lane.late.push_back(job);
            self.claimed.take(key.0);
        }
    }

    /// The number of waiting deliveries, in memory and in the store.
    pub(super) fn depth(&self) -> u64 {
        self.lanes.values().map(|lane| lane.state.pending + lane.first.len() as u64).sum()
    }

    /// How long the longest-waiting attempt in memory has been due. Only endpoints that currently accept attempts count.
    pub(super) fn oldest_due(&self, clocks: &Reading) -> Option<Duration> {
        let age = |(key, lane): (&EndpointKey, &Lane)| {
            let now = clocks.of(key.0);
            let is_open = lane.is_served() && lane.state.health.gate(now) == Gate::Open;
            lane.oldest_due().filter(|_| is_open).map(|due| now.since(due))
        };
        self.lanes.iter().filter_map(age).max()
    }

    /// Processes the result of an attempt.
    pub(super) fn complete(&mut self, job: Job, sent: Sent, now: Timestamp) {
        let Job { target, event, stored, trigger, resource } = job;
        let key = target.key;
        self.in_flight.release(key.0, 1);
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.in_flight = lane.in_flight.saturating_sub(1);
        lane.rate.ended(lane.target.rate_limit_per_second, now);
        if lane.in_order == Some(event.seq) {
            lane.in_order = None;
        }
        if let Some(resource) = &resource {
            lane.busy.remove(resource);
        }
        let is_late = stored.is_some();
        let due_at = stored.as_ref().and_then(|delivery| delivery.next_attempt_at);
        let mut delivery =
            stored.unwrap_or_else(|| Delivery::new((event.id, event.number), &event.kind, event.at, resource.clone()));
        let mut verdict = decide(&sent, target.retry, delivery.round + 1, now, &mut self.entropy);
        let health = &mut lane.state.health;
        if health.gate(now) != Gate::Open {
            lane.open_since = now;
        }
        match verdict.decision {
            Decision::Delivered => health.succeeded(now, sent.status()),
            _ => health.failed(now, sent.status(), delivery.attempt_count == 0),
        }
        if verdict.disables.is_none() && verdict.decision != Decision::Delivered && health.should_be_disabled(now) {
            verdict.disables = Some(DisabledReason::Failures);
        }
        count_attempt(&sent, verdict.decision);
        let noted = sent.noted;
        delivery.record(sent, trigger, verdict, now);
        let health = *health;
        lane.disabled |= verdict.disables.is_some();
        let kind = if is_late { SettlementKind::Late { due_at } } else { SettlementKind::First };
        let waits = !delivery.status.is_settled();
        let next_at = delivery.next_attempt_at;
        self.outbox.push(Settlement {
            endpoint: key,
            seq: event.seq,
            delivery,
            kind,
            health: Some(health),
            disables: verdict.disables.map(|reason| (reason, disabling_intent(key, now))),
            noted,
        });
        if !is_late {
            self.close(event.seq);
        }
        if waits && let Some(resource) = resource {
            self.hold_back(key, &resource);
        }
        if let Some(at) = next_at {
            self.remind(key, at);
        }
        if health.gate(now) != Gate::Open {
            self.unload(key, now);
        }
        self.list(key);
        if let Gate::ClosedUntil(until) = health.gate(now) {
            self.remind(key, until);
        }
    }

    /// From now on the store keeps the order of the resource: moves its waiting deliveries from memory into the store.
    fn hold_back(&mut self, key: EndpointKey, resource: &str) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        lane.held.insert(resource.to_owned());
        let (behind, free): (Vec<Job>, Vec<Job>) = lane.first.drain(..).partition(|job| job.resource.as_deref() == Some(resource));
        lane.first.extend(free);
        for job in behind {
            self.park(&job.event, key, job.resource, true);
            self.close(job.event.seq);
        }
    }

    /// Records that a stored delivery was given up.
    pub(super) fn gave_up(&mut self, endpoint: EndpointKey, seq: u64, delivery: Delivery, due_at: Option<Timestamp>) {
        self.settle(endpoint, seq, delivery, SettlementKind::Late { due_at });
    }

    /// The position before the first event that is neither settled nor stored.
    fn low_water(&self) -> u64 {
        self.window.first_key_value().map_or(self.read_to, |(seq, _)| seq.saturating_sub(1))
    }

    /// The next batch to commit. `None` if there is nothing to commit or a commit is in progress.
    pub(super) fn begin_commit(&mut self, clocks: &Reading) -> Option<Batch> {
        if self.committing {
            return None;
        }
        self.take_batch(clocks)
    }

    fn take_batch(&mut self, clocks: &Reading) -> Option<Batch> {
        let low_water = self.low_water();
        let far = low_water >= self.saved_cursor + CURSOR_STRIDE || (self.closing && low_water > self.saved_cursor);
        self.committing = far || !self.outbox.is_empty();
        if !self.committing {
            return None;
        }
        let cursor = (low_water > self.saved_cursor).then_some(low_water);
        self.saved_cursor = low_water;
        Some(Batch { settlements: std::mem::take(&mut self.outbox), cursor, clocks: Some(clocks.clone()) })
    }

    /// Processes a stored batch. Returns whether endpoints have more work because of it, and the next batch.
    pub(super) fn committed(&mut self, batch: &Batch, report: &[Committed], clocks: &Reading) -> (bool, Option<Batch>) {
        let mut more = false;
        for settlement in &batch.settlements {
            if let Some(lane) = self.lanes.get_mut(&settlement.endpoint) {
                match settlement.kind {
                    SettlementKind::Parked { .. } => lane.unsaved_parked = lane.unsaved_parked.saturating_sub(1),
                    SettlementKind::Late { .. } => drop(lane.claimed.remove(&settlement.seq)),
                    SettlementKind::First | SettlementKind::Skipped => {}
                }
                if let Some(resource) = &settlement.delivery.resource {
                    lane.held.remove(resource);
                }
            }
        }
        for Committed { endpoint, state } in report {
            let Some(lane) = self.lanes.get_mut(endpoint) else { continue };
            let Some(state) = state else {
                self.drop_lane(*endpoint);
                continue;
            };
            // The health in memory is newer than the stored one.
            lane.state = EndpointState { health: lane.state.health, ..*state };
            let unclaimed = lane.state.pending > lane.claimed.len() as u64;
            if unclaimed && lane.late.len() < self.limits.per_endpoint && lane.is_served() {
                self.remind(*endpoint, clocks.of(endpoint.0));
                more = true;
            }
        }
        (more || self.starved, self.take_batch(clocks))
    }
}

fn count_attempt(sent: &Sent, decision: Decision) {
    let outcome = match (decision, &sent.result) {
        (Decision::Delivered, _) => "delivered",
        (_, Err(_)) => "no_answer",
        (_, Ok(300..400)) => "redirect",
        (_, Ok(400..500)) => "client_error",
        (_, Ok(_)) => "server_error",
    };
    metrics::counter!("tenantd_webhook_attempts_total", "outcome" => outcome).increment(1);
}
