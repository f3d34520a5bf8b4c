//! When to check lanes again.

use tenantd_base::{
    clock::Timestamp,
    clocks::{Reading, Timeline},
};

use super::{super::super::repo::EndpointKey, Engine};

impl Engine {
    /// Schedules a check of an endpoint at the earlier of this time and its current one.
    pub(crate) fn remind(&mut self, key: EndpointKey, at: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&key) else { return };
        if lane.next_due.is_some_and(|known| known <= at) {
            return;
        }
        let times = self.calendar.entry(Timeline::of(key.0)).or_default();
        if let Some(known) = lane.next_due.replace(at) {
            times.remove(&(known, key));
        }
        times.insert((at, key));
    }

    /// Removes the due endpoints from the calendar and returns them.
    pub(crate) fn due_lanes(&mut self, clocks: &Reading) -> Vec<EndpointKey> {
        let mut due = Vec::new();
        for (timeline, times) in &mut self.calendar {
            let now = clocks.on(*timeline);
            while let Some((at, key)) = times.first().copied().filter(|(at, _)| *at <= now) {
                times.remove(&(at, key));
                if let Some(lane) = self.lanes.get_mut(&key) {
                    lane.next_due = None;
                }
                due.push(key);
            }
        }
        self.calendar.retain(|_, times| !times.is_empty());
        due
    }

    /// Handles moved clocks: deliveries that become due by the move have not waited for it.
    pub(crate) fn clocks_moved(&mut self, clocks: &Reading) {
        for (key, lane) in self.lanes.iter_mut().filter(|(key, _)| key.0.has_own_clock()) {
            lane.open_since = clocks.of(key.0);
        }
    }

    /// When the installation's clock reaches the next reminder.
    fn next_reminder(&self, clocks: &Reading) -> Option<Timestamp> {
        self.calendar.iter().filter_map(|(timeline, times)| Some(clocks.reached(*timeline, times.first()?.0))).min()
    }

    /// Sets the timer to the next reminder.
    pub(crate) fn arm_timer(&mut self, clocks: &Reading) -> Option<Timestamp> {
        self.timer = self.next_reminder(clocks);
        self.timer
    }

    /// Whether a reminder is earlier than the current timer.
    pub(crate) fn wants_earlier_timer(&self, clocks: &Reading) -> bool {
        self.next_reminder(clocks).is_some_and(|next| self.timer.is_none_or(|timer| next < timer))
    }
}
