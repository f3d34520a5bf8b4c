//! The dispatcher's sources of work: the log, the due deliveries in the store, and changed endpoints.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering as Atomic},
};

use tenantd_base::{clock::Timestamp, clocks::Reading, entropy::Entropy};
use tenantd_store::{
    ReadTx, StoreError, catalog,
    events::{self, Event},
};

use super::{
    super::{
        delivery::{Delivery, DeliveryStatus, Trigger},
        interrupted, ledger,
        model::{DisabledReason, EndpointStatus},
        repo::{self, EndpointKey},
        subscriptions::Target,
    },
    Dispatcher, Hints,
    commit::CURSOR,
    engine::{Engine, Job, QueuedEvent},
    lock,
};

/// How many events one read takes, and how many due deliveries of one endpoint are taken from the store at a time.
const READ_BATCH: usize = 256;
const CLAIM: usize = 32;

impl Dispatcher {
    /// Records the attempts that the previous run left unfinished. Runs once, before anything is sent.
    pub(super) async fn recover(&self, clocks: &Reading) -> Result<(), StoreError> {
        if lock(&self.shared.engine).is_some() || !self.shared.store.read(interrupted::has_any)? {
            return Ok(());
        }
        let clocks = clocks.clone();
        let found = self.shared.store.write(move |tx| interrupted::recover(tx, &clocks)).await?;
        tracing::info!(found, "found attempts that the previous run left unfinished; making them again");
        Ok(())
    }

    /// Loads the state from the store: at startup, and after a failure that discarded it.
    pub(super) fn load(&self, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        let failed = shared.failed.swap(false, Atomic::SeqCst);
        if lock(&shared.engine).is_some() && !failed {
            return Ok(());
        }
        let epoch = shared.epochs.fetch_add(1, Atomic::SeqCst);
        let (cursor, head) = shared.store.read(|tx| Ok::<_, StoreError>((events::cursor(tx, CURSOR)?, events::head(tx)?)))?;
        let engine = Engine::new(shared.limits(), Entropy::from_os(), cursor, epoch);
        *lock(&shared.engine) = Some(engine);
        let mut chores = lock(&self.chores);
        chores.recover_to = head;
        drop(chores);
        self.find_waiting(clocks)
    }

    /// Creates a lane for every endpoint with waiting deliveries in the store.
    pub(super) fn find_waiting(&self, clocks: &Reading) -> Result<(), StoreError> {
        let waiting = self.shared.store.read(repo::waiting)?;
        for (key, _) in waiting {
            self.look_at(key, clocks)?;
        }
        Ok(())
    }

    /// Reads how many deliveries wait for an endpoint, and when the next one is due.
    fn look_at(&self, key: EndpointKey, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        let Some(target) = shared.subscriptions.target(key)? else {
            lock(&self.chores).sweep.insert(key);
            return Ok(());
        };
        if matches!(target.status, EndpointStatus::Disabled(_)) {
            lock(&self.chores).sweep.insert(key);
        }
        let (state, due) = shared.store.read(|tx| Ok::<_, StoreError>((repo::state(tx, key)?, ledger::next_due(tx, key)?)))?;
        let now = clocks.of(key.0);
        shared.with_engine(|engine| engine.update_lane(target, state, due.map(|(at, _)| at), now));
        Ok(())
    }

    pub(super) fn take_hints(&self, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        let Hints { nudged, requested, reset } = std::mem::take(&mut *lock(&shared.hints));
        for key in reset {
            let state = shared.store.read(|tx| repo::state(tx, key))?;
            shared.with_engine(|engine| engine.reset(key, state.health, clocks.of(key.0)));
        }
        for key in nudged {
            self.look_at(key, clocks)?;
        }
        for (key, seq) in requested {
            self.claim_requested(key, seq, clocks.of(key.0))?;
        }
        Ok(())
    }

    /// Takes a requested delivery from the store into memory, regardless of the breaker.
    fn claim_requested(&self, key: EndpointKey, seq: u64, now: Timestamp) -> Result<(), StoreError> {
        let shared = &self.shared;
        let Some(target) = shared.with_engine(|engine| engine.plan_requested(key, seq)).flatten() else { return Ok(()) };
        shared.store.read(|tx| {
            let is_requested =
                |delivery: &Delivery| delivery.trigger == Trigger::Manual && delivery.next_attempt_at.is_some_and(|at| at <= now);
            match ledger::get(tx, key, seq)?.filter(is_requested) {
                Some(delivery) => self.take(tx, &target, (seq, delivery), now),
                None => Ok(()),
            }
        })?;
        shared.with_engine(|engine| engine.list(key));
        Ok(())
    }

    /// Applies changes to the endpoints that have lanes.
    pub(super) fn refresh_endpoints(&self, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        let unchanged = |seen: &AtomicU64, table| {
            let version = shared.store.version(table);
            seen.swap(version, Atomic::SeqCst) == version
        };
        let endpoints = unchanged(&self.seen_endpoints, catalog::WEBHOOKS);
        let tenants = unchanged(&self.seen_tenants, catalog::TENANTS);
        if endpoints && tenants {
            return Ok(());
        }
        let known: Vec<EndpointKey> = shared.with_engine(|engine| engine.known()).unwrap_or_default();
        for key in known {
            let target = shared.subscriptions.target(key)?;
            let state = shared.store.read(|tx| repo::state(tx, key))?;
            let gives_up = shared.with_engine(|engine| engine.refresh(key, target, state, clocks.of(key.0)));
            if gives_up == Some(true) {
                lock(&self.chores).sweep.insert(key);
            }
        }
        Ok(())
    }

    /// Reads the log as far as there is room, and passes each event to the endpoints that want it.
    pub(super) fn read_log(&self, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        loop {
            let place = shared.with_engine(|engine| (engine.read_to(), engine.room(clocks).min(READ_BATCH), engine.has_no_lanes()));
            let Some((read_to, room, no_lanes)) = place else { return Ok(()) };
            if room == 0 {
                return Ok(());
            }
            let last = shared.store.read(|tx| {
                if no_lanes && repo::is_empty(tx)? {
                    // In this snapshot no endpoint exists, and an endpoint that is created later wants only later events.
                    return Ok(Some(events::head(tx)?).filter(|head| *head > read_to));
                }
                let events = events::read_batch(tx, read_to, room)?;
                let last = events.last().map(|event| event.seq);
                for event in events.into_iter().filter(|event| !event.is_imported()) {
                    self.hand_out(tx, event, clocks)?;
                }
                Ok::<_, StoreError>(last)
            })?;
            let Some(last) = last else { return Ok(()) };
            shared.with_engine(|engine| engine.advance_to(last));
            shared.start_workers();
        }
    }

    fn hand_out(&self, tx: &ReadTx, event: Event, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        let targets = shared.subscriptions.of_tenant(event.record.tenant_id)?;
        let mut wanting: Vec<Arc<Target>> = Vec::new();
        for target in targets.iter().filter(|target| target.wants(&event)) {
            if shared.subscriptions.may_read(target, &event.record.kind)? {
                wanting.push(target.clone());
            }
        }
        if wanting.is_empty() {
            return Ok(());
        }
        let recovering = event.seq <= lock(&self.chores).recover_to;
        let (seq, now) = (event.seq, clocks.of(event.record.tenant_id));
        let queued = Arc::new(QueuedEvent::new(event));
        for target in wanting {
            let key = target.key;
            // Events that were stored before a crash are not sent as new again.
            if recovering && ledger::get(tx, key, seq)?.is_some() {
                continue;
            }
            let resource = target.ordered_by(&queued.body);
            let known = shared.with_engine(|engine| engine.pending(key)).flatten();
            let pending = if let Some(pending) = known {
                pending
            } else {
                let state = repo::state(tx, key)?;
                shared.with_engine(|engine| engine.update_lane(target.clone(), state, None, now));
                state.pending
            };
            let held = match &resource {
                Some(resource) if pending > 0 => ledger::first_held(tx, key, resource)?.is_some(),
                _ => false,
            };
            shared.with_engine(|engine| engine.offer(&queued, &target, resource, held, now));
        }
        Ok(())
    }

    /// Takes due deliveries from the store into memory, a few for each endpoint.
    pub(super) fn claim_due(&self, clocks: &Reading) -> Result<(), StoreError> {
        let shared = &self.shared;
        let due = shared.with_engine(|engine| engine.due_lanes(clocks)).unwrap_or_default();
        for key in due {
            let now = clocks.of(key.0);
            let plan = shared.with_engine(|engine| engine.plan_claim(key, now)).flatten();
            if let Some((claimed, target)) = plan {
                shared.store.read(|tx| self.claim(tx, &target, &claimed, now))?;
            }
        }
        Ok(())
    }

    fn claim(
        &self,
        tx: &ReadTx,
        target: &Arc<Target>,
        claimed: &std::collections::HashSet<u64>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (shared, key) = (&self.shared, target.key);
        let rows = ledger::due(tx, key, now, CLAIM + claimed.len())?;
        let complete = rows.len() < CLAIM + claimed.len();
        for (_, seq) in rows.into_iter().filter(|(_, seq)| !claimed.contains(seq)) {
            if let Some(delivery) = ledger::get(tx, key, seq)? {
                self.take(tx, target, (seq, delivery), now)?;
            }
        }
        // If all due rows were read, the next later one is scheduled. Otherwise the commit of these deliveries triggers another
        // look.
        let later = if complete { ledger::due_after(tx, key, now)? } else { None };
        shared.with_engine(|engine| {
            engine.list(key);
            if let Some(at) = later {
                engine.remind(key, at);
            }
        });
        Ok(())
    }

    /// Takes a stored delivery into memory, or gives it up.
    fn take(&self, tx: &ReadTx, target: &Arc<Target>, (seq, delivery): (u64, Delivery), now: Timestamp) -> Result<(), StoreError> {
        let (shared, key) = (&self.shared, target.key);
        let Some(event) = events::read_one(tx, seq)? else {
            self.give_up((key, seq), delivery, (DeliveryStatus::Expired, None), now);
            return Ok(());
        };
        // The owner's rights are checked before every attempt.
        if !shared.subscriptions.may_read(target, &event.record.kind)? {
            self.give_up((key, seq), delivery, (DeliveryStatus::Skipped, Some(DisabledReason::NotReadable)), now);
            return Ok(());
        }
        let event = QueuedEvent::new(event);
        let (trigger, resource) = (delivery.trigger, delivery.resource.clone());
        let job = Job { target: target.clone(), event: Arc::new(event), stored: Some(delivery), trigger, resource };
        shared.with_engine(|engine| engine.claim(key, job));
        Ok(())
    }

    /// Gives up a stored delivery that can no longer be sent.
    fn give_up(
        &self,
        (key, seq): (EndpointKey, u64),
        mut delivery: Delivery,
        (status, reason): (DeliveryStatus, Option<DisabledReason>),
        now: Timestamp,
    ) {
        let due_at = delivery.next_attempt_at;
        delivery.give_up(status, reason, now);
        self.shared.with_engine(|engine| engine.gave_up(key, seq, delivery, due_at));
    }

    /// The number of events in the log that were not read yet.
    pub(super) fn lag(&self) -> Result<u64, StoreError> {
        let head = self.shared.store.read(events::head)?;
        let read_to = self.shared.with_engine(|engine| engine.read_to()).unwrap_or(head);
        Ok(head.saturating_sub(read_to))
    }
}
