//! One endpoint in the dispatcher's memory: its waiting deliveries, its attempts in progress, and whether it may receive another.
//! Of the stored deliveries only the next few are here, never all.

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

/// How many events may wait here for an endpoint that responds well, and for one that does not.
const HEALTHY_QUEUE: usize = 1024;
const TROUBLED_QUEUE: usize = 64;

/// An event of the log that waits or is in progress. Endpoints share it.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    pub(crate) seq: u64,
    /// Its number in the tenant's sequence.
    pub(crate) number: u64,
    pub(crate) id: EventId,
    pub(crate) kind: String,
    pub(crate) at: Timestamp,
    /// The body as it is sent.
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
    /// The stored delivery. `None` while the event comes directly from the log.
    pub(crate) stored: Option<Delivery>,
    pub(crate) trigger: Trigger,
    /// The resource that the event is about, if the endpoint keeps the order.
    pub(crate) resource: Option<String>,
}

impl Job {
    /// Whether the delivery has waited without an attempt since before this position in the log, and no caller requested it.
    fn keeps_order(&self, in_order_to: u64) -> bool {
        let untried = |delivery: &Delivery| delivery.attempt_count == 0 && delivery.trigger == Trigger::Auto;
        self.event.seq <= in_order_to && self.stored.as_ref().is_some_and(untried)
    }
}

/// First attempts have priority over later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    First,
    Late,
}

/// Whether an endpoint can take an attempt.
#[derive(Debug)]
pub(super) enum Start {
    Job(Box<Job>),
    /// Nothing waits, or an attempt in progress must end first.
    Busy,
    /// The endpoint must wait until this time.
    At(Timestamp),
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) target: Arc<Target>,
    pub(super) state: EndpointState,
    pub(super) first: VecDeque<Job>,
    pub(super) late: VecDeque<Job>,
    pub(super) in_flight: usize,
    /// Deliveries from the store that are here or not committed yet.
    pub(super) claimed: HashSet<u64>,
    /// Deliveries without an attempt that are about to be stored.
    pub(super) unsaved_parked: u64,
    /// Resources with an attempt in progress, and resources that an uncommitted delivery holds back.
    pub(super) busy: HashSet<String>,
    pub(super) held: HashSet<String>,
    /// Whether the lane is in the rotation of first attempts and in that of late attempts.
    pub(super) listed: [bool; 2],
    /// The lane's time in the calendar.
    pub(super) next_due: Option<Timestamp>,
    /// Set when a response disabled the endpoint, until the store shows it.
    pub(super) disabled: bool,
    /// Since when the endpoint can receive. Deliveries that were due earlier had to wait for the endpoint.
    pub(super) open_since: Timestamp,
    pub(super) rate: RateWindow,
    /// Deliveries that waited when the endpoint was resumed, up to this position in the log, go out one at a time. In parallel they
    /// could overtake each other.
    pub(super) in_order_to: u64,
    /// The one of them that is in progress, by the position of its event.
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

    /// Whether the endpoint may receive at all.
    pub(super) fn is_served(&self) -> bool {
        !self.disabled && self.target.status == EndpointStatus::Active
    }

    /// Whether a new event can wait here. If not, it goes into the store: behind stored deliveries, or because the endpoint accepts
    /// nothing now.
    pub(super) fn takes_events(&self, now: Timestamp) -> bool {
        let room = if self.state.health.consecutive_failures == 0 { HEALTHY_QUEUE } else { TROUBLED_QUEUE };
        let backlog = self.state.parked + self.unsaved_parked > 0;
        self.is_served() && !backlog && self.first.len() < room && self.state.health.gate(now) == Gate::Open
    }

    /// Whether nothing of it is in memory and nothing waits in the store.
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

    /// Since when the first waiting delivery here could have been sent. The earliest stored ones come here first.
    pub(super) fn oldest_due(&self) -> Option<Timestamp> {
        let first = self.first.front().map(|job| job.event.at);
        let late = self.late.front().and_then(|job| job.stored.as_ref()?.next_attempt_at);
        first.into_iter().chain(late).min().map(|due| due.max(self.open_since))
    }

    /// Takes the next attempt of this class, if the endpoint may receive one now.
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
        // A caller requests an attempt to find out whether the receiver works now.
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
        // A requested attempt keeps its trigger.
        if gate == Gate::Probe && job.trigger == Trigger::Auto {
            job.trigger = Trigger::Probe;
        }
        // The endpoint may have changed while the job waited.
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
