//! The clocks of an installation: its own, and those of evaluation tenants, which are ahead of it by a span. Nothing is stored
//! here: the caller that stores the spans passes them in.
//!
//! The data of a tenant uses the tenant's time. Sessions, tokens, rate limits, idempotency and retention protect people and the
//! installation, so they use the installation's time. **Invariant:** the id of a tenant alone decides which clock applies, so that
//! an index can be keyed by it. A clock goes back only after all data of its tenant is gone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::{
    clock::{Clock, Timestamp},
    id::TenantId,
};

/// The clock that something waits for. An index of due times has it as the first part of its key, because each timeline has its own
/// now: a scan up to now on one timeline says nothing about the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timeline {
    /// The installation's clock, which most tenants share.
    Shared,
    Own(TenantId),
}

impl Timeline {
    pub fn of(tenant: TenantId) -> Self {
        if tenant.has_own_clock() { Self::Own(tenant) } else { Self::Shared }
    }
}

/// How far the tenants with their own clock are ahead.
#[derive(Debug, Default)]
struct Spans {
    /// The number of changes so far.
    edition: u64,
    by_tenant: BTreeMap<TenantId, Duration>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    spans: ArcSwap<Spans>,
    moved: Notify,
}

/// A handle to the clocks. Clones share them.
#[derive(Clone, Debug)]
pub struct Clocks(Arc<Shared>);

/// The times of all clocks at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    now: Timestamp,
    spans: Arc<Spans>,
}

impl Clocks {
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Shared { clock, spans: ArcSwap::default(), moved: Notify::new() }))
    }

    pub fn installation(&self) -> &Clock {
        &self.0.clock
    }

    pub fn now(&self, tenant: TenantId) -> Timestamp {
        let now = self.0.clock.now();
        if tenant.has_own_clock() { now + self.0.spans.load().span(Timeline::Own(tenant)) } else { now }
    }

    pub fn read(&self) -> Reading {
        Reading { now: self.0.clock.now(), spans: self.0.spans.load_full() }
    }

    /// Sets how far the clocks of tenants are ahead. Tenants that are not listed lose their span. Tenants that share the
    /// installation's clock keep it.
    pub fn set(&self, ahead: impl IntoIterator<Item = (TenantId, Duration)>) {
        let by_tenant = ahead.into_iter().filter(|(tenant, _)| tenant.has_own_clock()).collect();
        let spans = self.0.spans.load();
        if spans.by_tenant != by_tenant {
            self.0.spans.store(Arc::new(Spans { edition: spans.edition + 1, by_tenant }));
            self.0.moved.notify_waiters();
        }
    }

    /// Waits until a clock has been moved since the reading with this edition.
    pub async fn moved_since(&self, edition: u64) {
        loop {
            let moved = self.0.moved.notified();
            if self.0.spans.load().edition != edition {
                return;
            }
            moved.await;
        }
    }

    /// Waits until the tenant's clock shows `deadline` or later.
    pub async fn sleep_until(&self, tenant: TenantId, deadline: Timestamp) {
        loop {
            let reading = self.read();
            if reading.of(tenant) >= deadline {
                return;
            }
            let due = reading.reached(Timeline::of(tenant), deadline);
            tokio::select! {
                () = self.0.clock.sleep_until(due) => {}
                () = self.moved_since(reading.edition()) => {}
            }
        }
    }
}

impl Spans {
    fn span(&self, timeline: Timeline) -> Duration {
        match timeline {
            Timeline::Shared => Duration::ZERO,
            Timeline::Own(tenant) => self.by_tenant.get(&tenant).copied().unwrap_or_default(),
        }
    }
}

impl Reading {
    pub fn installation(&self) -> Timestamp {
        self.now
    }

    pub fn of(&self, tenant: TenantId) -> Timestamp {
        self.on(Timeline::of(tenant))
    }

    /// How far a tenant's clock is ahead of the installation's.
    pub fn ahead(&self, tenant: TenantId) -> Duration {
        self.spans.span(Timeline::of(tenant))
    }

    pub fn on(&self, timeline: Timeline) -> Timestamp {
        self.now + self.spans.span(timeline)
    }

    /// When the installation's clock shows the time that a timeline calls `at`, if no clock is moved.
    pub fn reached(&self, timeline: Timeline, at: Timestamp) -> Timestamp {
        at - self.spans.span(timeline)
    }

    /// The shared timeline comes first, because real work takes precedence over evaluations.
    pub fn timelines(&self) -> impl Iterator<Item = Timeline> + '_ {
        std::iter::once(Timeline::Shared).chain(self.spans.by_tenant.keys().copied().map(Timeline::Own))
    }

    /// Changes whenever a clock is moved.
    pub fn edition(&self) -> u64 {
        self.spans.edition
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;

    const DAY: Duration = Duration::from_hours(24);

    fn tenants() -> (TenantId, TenantId) {
        let mut entropy = Entropy::from_seed(3);
        let at = Timestamp::from_millis(1_000);
        (TenantId::with_own_clock(at, &mut entropy), TenantId::with_shared_clock(at, &mut entropy))
    }

    #[test]
    fn only_a_tenant_with_its_own_clock_is_ahead() {
        let (own, shared) = tenants();
        let start = Timestamp::from_millis(5_000);
        let clocks = Clocks::new(Clock::movable(start));
        clocks.set([(own, DAY), (shared, DAY)]);
        assert_eq!((clocks.now(own), clocks.now(shared)), (start + DAY, start));
        let reading = clocks.read();
        assert_eq!((reading.of(own), reading.of(shared), reading.installation()), (start + DAY, start, start));
        assert_eq!(reading.timelines().collect::<Vec<_>>(), [Timeline::Shared, Timeline::Own(own)]);
        assert_eq!(reading.reached(Timeline::of(own), start + DAY), start);
        clocks.set([]);
        assert_eq!(clocks.now(own), start);
        assert_eq!(clocks.read().timelines().collect::<Vec<_>>(), [Timeline::Shared]);
    }

    #[tokio::test]
    async fn a_tenant_deadline_is_reached_by_moving_either_clock() {
        let (own, shared) = tenants();
        let start = Timestamp::from_millis(5_000);
        let clocks = Clocks::new(Clock::movable(start));
        let sleeper = |tenant: TenantId, deadline: Timestamp| {
            let clocks = clocks.clone();
            tokio::spawn(async move { clocks.sleep_until(tenant, deadline).await })
        };
        let (first, second, other) = (sleeper(own, start + DAY), sleeper(own, start + DAY * 2), sleeper(shared, start + DAY * 2));
        tokio::task::yield_now().await;
        clocks.set([(own, DAY)]);
        assert!(first.await.is_ok());
        assert!(!second.is_finished());
        clocks.installation().advance(DAY);
        assert!(second.await.is_ok());
        assert!(!other.is_finished());
    }
}
