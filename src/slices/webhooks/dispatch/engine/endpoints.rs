//! Adding, changing and removing the lanes of endpoints.

use std::{collections::VecDeque, sync::Arc};

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
};

use super::{
    super::super::{
        delivery::Trigger,
        health::Health,
        model::EndpointStatus,
        repo::{EndpointKey, EndpointState},
        subscriptions::Target,
    },
    Engine,
    lane::{Job, Lane},
};

impl Engine {
    /// The endpoints that have a lane.
    pub(crate) fn known(&self) -> Vec<EndpointKey> {
        self.lanes.keys().copied().collect()
    }

    pub(crate) fn has_no_lanes(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The number of waiting deliveries in the store, for an endpoint that has a lane.
    pub(crate) fn pending(&self, endpoint: EndpointKey) -> Option<u64> {
        self.lanes.get(&endpoint).map(|lane| lane.state.pending)
    }

    /// Updates the counts of an endpoint, creates its lane if needed, and schedules its next due delivery.
    pub(crate) fn update_lane(&mut self, target: Arc<Target>, state: EndpointState, due: Option<Timestamp>, now: Timestamp) {
        let key = target.key;
        let read_to = self.read_to;
        let lane = self.lanes.entry(key).or_insert_with(|| Lane { in_order_to: read_to, ..Lane::new(target, state, now) });
        (lane.state.pending, lane.state.parked) = (state.pending, state.parked);
        if let Some(at) = due.filter(|_| lane.is_served()) {
            self.remind(key, at.max(now));
        }
    }

    /// Applies the current state of an endpoint (`None` if it was deleted). Returns whether to give up its waiting deliveries in
    /// the store.
    pub(crate) fn refresh(&mut self, key: EndpointKey, target: Option<Arc<Target>>, state: EndpointState, now: Timestamp) -> bool {
        let Some(target) = target else {
            self.drop_lane(key);
            return true;
        };
        let read_to = self.read_to;
        let Some(lane) = self.lanes.get_mut(&key) else { return false };
        let (was_served, status) = (lane.is_served(), target.status);
        (lane.disabled, lane.target) = (false, target);
        if lane.is_served() {
            if !was_served {
                // Enabling an endpoint resets its stored health.
                lane.state = state;
                lane.open_since = now;
                lane.in_order_to = read_to;
            }
            self.list(key);
            self.remind(key, now);
        } else {
            self.unload(key, now);
        }
        matches!(status, EndpointStatus::Disabled(_))
    }

    /// Applies a reset of an endpoint's health: deliveries that wait for the breaker go out now.
    pub(crate) fn reset(&mut self, key: EndpointKey, stored: Health, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        // A commit that was in progress may have written the earlier health.
        lane.state.health = stored.without_failures();
        lane.open_since = now;
        self.list(key);
        self.remind(key, now);
    }

    /// Moves the waiting deliveries of an endpoint into the store, in order, or skips them if it is disabled. Deliveries that a
    /// caller requested stay, because they do not wait for the breaker.
    pub(super) fn unload(&mut self, key: EndpointKey, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let status = lane.target.status;
        let jobs: Vec<Job> = lane.first.drain(..).collect();
        let served = lane.is_served();
        let (requested, others): (VecDeque<Job>, VecDeque<Job>) =
            lane.late.drain(..).partition(|job| served && job.trigger == Trigger::Manual);
        lane.late = requested;
        self.claimed.release(key.0, others.len());
        for job in others {
            lane.claimed.remove(&job.event.seq);
        }
        for job in jobs {
            match status {
                EndpointStatus::Disabled(reason) => self.skip(&job.event, key, job.resource, reason, now),
                EndpointStatus::Active | EndpointStatus::Paused => self.park(&job.event, key, job.resource, true),
            }
            self.close(job.event.seq);
        }
    }

    /// Removes the lanes of endpoints that have nothing to do.
    pub(crate) fn tidy(&mut self, clocks: &Reading) {
        let idle = |(key, lane): (&EndpointKey, &mut Lane)| lane.is_idle(clocks.of(key.0)).then_some(*key);
        let idle: Vec<EndpointKey> = self.lanes.iter_mut().filter_map(idle).collect();
        for key in idle {
            self.drop_lane(key);
        }
    }

    pub(super) fn drop_lane(&mut self, key: EndpointKey) {
        if let Some(lane) = self.lanes.remove(&key) {
            if let (Some(at), Some(times)) = (lane.next_due, self.calendar.get_mut(&Timeline::of(key.0))) {
                times.remove(&(at, key));
            }
            self.claimed.release(key.0, lane.late.len());
            for job in lane.first {
                self.close(job.event.seq);
            }
        }
    }
}
