//! The dispatcher's state in memory when the receivers of some tenants never answer.

use std::sync::Arc;

use bytes::Bytes;

use tenantd_base::{
    clock::{Clock, Timestamp},
    clocks::{Clocks, Reading},
    entropy::Entropy,
    id::{EventId, TenantId, WebhookId},
};

use super::{
    super::{
        delivery::{AttemptError, Delivery, Sent, Trigger},
        repo::{EndpointKey, EndpointState},
        subscriptions::Target,
    },
    engine::{Engine, Job, Limits, QueuedEvent},
};

const ENDPOINTS: u8 = 100;
const IN_FLIGHT: usize = 64;

struct Memory {
    engine: Engine,
    clocks: Reading,
    last_seq: u64,
}

fn key(tenant: u8, endpoint: u8) -> EndpointKey {
    (TenantId::from_bytes([tenant; 16]), WebhookId::from_bytes([endpoint; 16]))
}

impl Memory {
    fn new() -> Self {
        let clocks = Clocks::new(Clock::movable(Timestamp::from_millis(1_767_225_600_000))).read();
        let limits = Limits { in_flight: IN_FLIGHT, per_endpoint: 4 };
        Self { engine: Engine::new(limits, Entropy::from_seed(1), 0, 0), clocks, last_seq: 0 }
    }

    fn event(&mut self) -> Arc<QueuedEvent> {
        self.last_seq += 1;
        let (id, kind, at) = (EventId::from_bytes([1; 16]), "ticket.created".to_owned(), self.clocks.installation());
        Arc::new(QueuedEvent { seq: self.last_seq, number: self.last_seq, id, kind, at, body: Bytes::new() })
    }

    /// Adds an endpoint to the engine.
    fn target(&mut self, key: EndpointKey) -> Arc<Target> {
        let target = Arc::new(Target::example(key));
        self.engine.update_lane(target.clone(), EndpointState::default(), None, self.clocks.installation());
        target
    }

    /// Emits an event for this many endpoints of a tenant. Returns the attempts that start.
    fn emit(&mut self, tenant: u8, endpoints: u8) -> Vec<Job> {
        let (event, now) = (self.event(), self.clocks.installation());
        for endpoint in 0..endpoints {
            let target = self.target(key(tenant, endpoint));
            self.engine.offer(&event, &target, None, false, now);
        }
        self.start()
    }

    fn start(&mut self) -> Vec<Job> {
        std::iter::from_fn(|| self.engine.next(&self.clocks)).collect()
    }
}

fn tenants(jobs: &[Job]) -> Vec<TenantId> {
    jobs.iter().map(|job| job.target.key.0).collect()
}

#[test]
fn two_tenants_with_silent_receivers_leave_places_for_a_third() {
    let mut memory = Memory::new();
    let first: usize = (0..10).map(|_| memory.emit(1, ENDPOINTS).len()).sum();
    assert!((1..=IN_FLIGHT / 2).contains(&first), "{first}");
    let second: usize = (0..10).map(|_| memory.emit(2, ENDPOINTS).len()).sum();
    assert!((1..=IN_FLIGHT / 2).contains(&second) && first + second < IN_FLIGHT, "{first} and {second}");
    let third = memory.emit(3, 5);
    assert_eq!(tenants(&third), [key(3, 0).0; 5], "no wait for other tenants");
    assert_eq!(memory.engine.in_flight(), first + second + 5);
}

#[test]
fn a_free_place_goes_to_a_tenant_without_one() {
    let mut memory = Memory::new();
    let mut under_way: Vec<Job> = (1..=14).flat_map(|tenant| memory.emit(tenant, ENDPOINTS)).collect();
    assert_eq!(under_way.len(), IN_FLIGHT, "fourteen tenants can have all places");
    assert!(memory.emit(15, 1).is_empty());
    let ended = under_way.swap_remove(0);
    assert_eq!(ended.target.key.0, key(1, 0).0);
    let now = memory.clocks.installation();
    memory.engine.complete(ended, Sent::failed(now, AttemptError::Timeout), now);
    assert_eq!(tenants(&memory.start()), [key(15, 0).0]);
}

#[test]
fn a_tenant_with_a_stored_backlog_leaves_memory_for_others() {
    let mut memory = Memory::new();
    let now = memory.clocks.installation();
    for endpoint in 0..ENDPOINTS {
        let target = memory.target(key(1, endpoint));
        if memory.engine.plan_claim(target.key, now).is_none() {
            continue;
        }
        for _ in 0..32 {
            let event = memory.event();
            let stored = Some(Delivery::new((event.id, event.number), &event.kind, event.at, None));
            let job = Job { target: target.clone(), event, stored, trigger: Trigger::Auto, resource: None };
            memory.engine.claim(target.key, job);
        }
    }
    assert!(memory.engine.plan_claim(key(1, ENDPOINTS - 1), now).is_none());
    let quiet = memory.target(key(2, 0));
    assert!(memory.engine.plan_claim(quiet.key, now).is_some());
}
