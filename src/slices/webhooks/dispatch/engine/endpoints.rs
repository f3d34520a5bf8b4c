//! Endpoints that get a lane, change and go.

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

    pub(crate) fn knows_nobody(&self) -> bool {
        self.lanes.is_empty()
    }

    /// How many deliveries wait in the store for an endpoint that has a lane.
    pub(crate) fn pending(&self, endpoint: EndpointKey) -> Option<u64> {
        self.lanes.get(&endpoint).map(|lane| lane.state.pending)
    }

    /// Takes up what waits in the store for an endpoint, and when it is due.
    pub(crate) fn take_up(&mut self, target: Arc<Target>, state: EndpointState, due: Option<Timestamp>, now: Timestamp) {
        let key = target.key;
        let read_to = self.read_to;
        let lane = self.lanes.entry(key).or_insert_with(|| Lane { in_order_to: read_to, ..Lane::new(target, state, now) });
        (lane.state.pending, lane.state.parked) = (state.pending, state.parked);
        if let Some(at) = due.filter(|_| lane.is_served()) {
            self.remind(key, at.max(now));
        }
    }

    /// Takes in what an endpoint is now, if it still exists. Whether what waits for it in the store is to be given up.
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
                // Enabling an endpoint gives it a clean slate in the store.
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

    /// Takes in that the health of an endpoint was reset: what waits for the breaker goes now.
    pub(crate) fn reset(&mut self, key: EndpointKey, stored: Health, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        // A commit that was under way may have written the health of before.
        lane.state.health = stored.forgiven();
        lane.open_since = now;
        self.list(key);
        self.remind(key, now);
    }

    /// Moves what waits here for an endpoint into the store, in order, or out of the way when the endpoint is gone. What somebody asked
    /// for does not wait for the breaker and stays.
    pub(super) fn unload(&mut self, key: EndpointKey, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        let status = lane.target.status;
        let jobs: Vec<Job> = lane.first.drain(..).collect();
        let served = lane.is_served();
        let (asked, others): (VecDeque<Job>, VecDeque<Job>) =
            lane.late.drain(..).partition(|job| served && job.trigger == Trigger::Manual);
        lane.late = asked;
        self.claimed.give_back(key.0, others.len());
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

    /// Forgets endpoints that have nothing to do.
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
            self.claimed.give_back(key.0, lane.late.len());
            for job in lane.first {
                self.close(job.event.seq);
            }
        }
    }
}
