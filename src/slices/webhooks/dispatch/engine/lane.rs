//! One endpoint in the dispatcher's memory: what waits for it here, what is under way, and whether it may get something now. Of what
//! waits in the store only the next few are here, never all.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

use tenantd_base::{clock::Timestamp, id::EventId};
use tenantd_store::events::{Event, EventRecord};

use super::super::super::{
    body::delivery_body,
    delivery::{Delivery, Trigger},
    health::Gate,
    model::EndpointStatus,
    repo::EndpointState,
    subscriptions::Target,
};
use super::rate::{RateWindow, Room};

/// How many events may wait here for an endpoint that answers well, and for one that does not.
const HEALTHY_QUEUE: usize = 1024;
const TROUBLED_QUEUE: usize = 64;

/// An event of the log that waits or is under way. Endpoints share it.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) seq: u64,
    /// Its number in the tenant's sequence.
    pub(crate) number: u64,
    pub(crate) id: EventId,
    pub(crate) kind: String,
    pub(crate) at: Timestamp,
    /// As it is sent.
    pub(crate) body: Bytes,
}

impl QueuedEvent {
    pub(crate) fn new(Event { seq, record }: Event) -> Self {
        let EventRecord { id, number, kind, at, body, .. } = record;
        Self { seq, number, id, kind, at, body: delivery_body(body, number) }
    }
}

/// An attempt to make.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) target: Arc<Target>,
    pub(crate) event: Arc<QueuedEvent>,
    /// The stored delivery; none while the event comes straight from the log.
    pub(crate) stored: Option<Delivery>,
    pub(crate) trigger: Trigger,
    /// What the event is about, where the endpoint keeps the order.
    pub(crate) resource: Option<String>,
}

impl Job {
    /// Whether it has waited without an attempt since before this place in the log, and nobody asked for it.
    fn keeps_order(&self, in_order_to: u64) -> bool {
        let untried = |delivery: &Delivery| delivery.attempt_count == 0 && delivery.trigger == Trigger::Auto;
        self.event.seq <= in_order_to && self.stored.as_ref().is_some_and(untried)
    }
}

/// First attempts come before late ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    First,
    Late,
}

/// Whether an endpoint can take an attempt.
#[derive(Debug)]
pub(super) enum Start {
    Job(Box<Job>),
    /// Something under way must end first, or nothing waits.
    Busy,
    /// Time must pass first.
    At(Timestamp),
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) target: Arc<Target>,
    pub(super) state: EndpointState,
    pub(super) first: VecDeque<Job>,
    pub(super) late: VecDeque<Job>,
    pub(super) in_flight: usize,
    /// Deliveries from the store that are here or not yet committed.
    pub(super) claimed: HashSet<u64>,
    /// Deliveries on their way into the store that have had no attempt.
    pub(super) unsaved_parked: u64,
    /// Resources under way, and resources that are held by a delivery which is not committed yet.
    pub(super) busy: HashSet<String>,
    pub(super) held: HashSet<String>,
    /// Whether the lane stands in the rotation of first and of late attempts.
    pub(super) listed: [bool; 2],
    /// Where it stands in the calendar.
    pub(super) next_due: Option<Timestamp>,
    /// Set when an answer disabled the endpoint, until the store says so too.
    pub(super) disabled: bool,
    /// Since when it can have been sent to: before, what is due has waited for the endpoint.
    pub(super) open_since: Timestamp,
    pub(super) rate: RateWindow,
    /// What waited when the endpoint was resumed, up to this place in the log, goes one at a time: several at once could overtake each other.
    pub(super) in_order_to: u64,
    /// The one of them that is under way, by the place of its event.
    pub(super) in_order: Option<u64>,
}

impl Lane {
    pub(super) fn new(target: Arc<Target>, state: EndpointState, now: Timestamp) -> Self {
        Self {
            target,
            state,
            first: VecDeque::new(),
            late: VecDeque::new(),
            in_flight: 0,
            claimed: HashSet::new(),
            unsaved_parked: 0,
            busy: HashSet::new(),
            held: HashSet::new(),
            listed: [false; 2],
            next_due: None,
            disabled: false,
            open_since: now,
            rate: RateWindow::default(),
            in_order_to: 0,
            in_order: None,
        }
    }

    /// Whether deliveries may be made at all.
    pub(super) fn is_served(&self) -> bool {
        !self.disabled && self.target.status == EndpointStatus::Active
    }

    /// Whether a new event can wait here. If not it goes into the store: behind those that wait there already, or because the endpoint
    /// takes nothing now.
    pub(super) fn takes_events(&self, now: Timestamp) -> bool {
        let room = if self.state.health.consecutive_failures == 0 { HEALTHY_QUEUE } else { TROUBLED_QUEUE };
        let backlog = self.state.parked + self.unsaved_parked > 0;
        self.is_served() && !backlog && self.first.len() < room && self.state.health.gate(now) == Gate::Open
    }

    /// Nothing of it is in memory, and nothing waits in the store.
    pub(super) fn is_idle(&mut self, now: Timestamp) -> bool {
        let waiting = self.first.len() + self.late.len() + self.in_flight + self.claimed.len();
        waiting == 0 && self.unsaved_parked == 0 && self.state.pending == 0 && self.held.is_empty() && self.rate.is_empty(now)
    }

    pub(super) fn has(&self, class: Class) -> bool {
        match class {
            Class::First => !self.first.is_empty(),
            Class::Late => !self.late.is_empty(),
        }
    }

    /// Since when the first of those that wait here could have been sent. Of the store's the earliest come here first.
    pub(super) fn oldest_due(&self) -> Option<Timestamp> {
        let first = self.first.front().map(|job| job.event.at);
        let late = self.late.front().and_then(|job| job.stored.as_ref()?.next_attempt_at);
        first.into_iter().chain(late).min().map(|due| due.max(self.open_since))
    }

    /// Takes the next attempt of this class, if the endpoint can get one now.
    pub(super) fn start(&mut self, class: Class, now: Timestamp, most: usize) -> Start {
        if !self.is_served() || self.in_flight >= most {
            return Start::Busy;
        }
        let gate = self.state.health.gate(now);
        let closed = match gate {
            Gate::Open => None,
            Gate::Probe if self.in_flight == 0 => None,
            Gate::Probe => Some(Start::Busy),
            Gate::ClosedUntil(at) => Some(Start::At(at)),
        };
        let queue = if class == Class::First { &mut self.first } else { &mut self.late };
        // The request is made to learn whether the receiver works now.
        let passes = |job: &Job| closed.is_none() || job.trigger == Trigger::Manual;
        let free = |job: &Job| job.resource.as_ref().is_none_or(|resource| !self.busy.contains(resource));
        let (in_order_to, waits) = (self.in_order_to, self.in_order.is_some());
        let its_turn = |job: &Job| !(waits && job.keeps_order(in_order_to));
        let next = queue.iter().position(|job| passes(job) && free(job) && its_turn(job));
        let Some(place) = next else { return closed.unwrap_or(Start::Busy) };
        match self.rate.room(self.target.rate_limit_per_second, self.in_flight, now) {
            Room::Free => {}
            Room::At(at) => return Start::At(at),
            Room::Later => return Start::Busy,
        }
        let Some(mut job) = queue.remove(place) else { return Start::Busy };
        // An attempt that somebody asked for keeps its reason.
        if gate == Gate::Probe && job.trigger == Trigger::Auto {
            job.trigger = Trigger::Probe;
        }
        // It may have been changed while the job waited.
        job.target = self.target.clone();
        if let Some(resource) = &job.resource {
            self.busy.insert(resource.clone());
        }
        if job.keeps_order(in_order_to) {
            self.in_order = Some(job.event.seq);
        }
        self.in_flight += 1;
        Start::Job(Box::new(job))
    }
}
