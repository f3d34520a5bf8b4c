//! The use of processors and of the store's writer by each tenant, and the delays that follow from it.
//!
//! Use is time that decays: after one second only a third of it counts. A tenant that uses much waits before it starts something
//! new while others work too, so that they find the processors and the writer free. While there are no others, nobody waits.
//!
//! Requests without a tenant, such as those that are refused because they have no credential, are charged to their address. Some
//! work cannot be charged directly: reading requests, following the log, writing files. It is charged in proportion to the rest.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::{instant, turns::Full};
use crate::id::TenantId;

/// Use decays to a third in about this time, in seconds. A steady use of one processor adds up to as many seconds.
const MEMORY: f64 = 1.0;
/// A tenant that uses more than this of any resource, in seconds, is busy.
const BUSY: f64 = 0.2;
/// The share of every resource that all busy tenants together have while others work.
const BUSY_SHARE: f64 = 0.5;
/// A tenant counts as working if it has used anything in this time.
const RECENT: Duration = Duration::from_secs(1);
/// The shortest and the longest wait before the use of a tenant is checked again.
const WAIT: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// Requests of one tenant that may wait for their turn.
const MAX_WAITING: usize = 256;
/// When there are more accounts than this, those without use are removed.
const MAX_ACCOUNTS: usize = 1024;
/// Use below this, in seconds, is negligible.
const NEGLIGIBLE: f64 = 0.001;
/// How often the uncharged work is estimated, and the most by which it can multiply a charge.
const ESTIMATE_INTERVAL: Duration = Duration::from_millis(250);
const MAX_OVERHEAD: f64 = 4.0;
/// While more events than this wait for the readers of the log, busy tenants wait if others work.
const MAX_BACKLOG: u64 = 2_000;
/// The charge for a request without a tenant, or for a refused one, in seconds: reading it, checking it, logging it.
const REFUSAL: f64 = 0.000_2;

tokio::task_local! {
    static PAYER: Payer;
}

/// The party that work is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    Tenant(TenantId),
    /// The origin of requests without a tenant. For IPv6 it is the network, because a client chooses its address within it.
    Address(IpAddr),
}

impl Party {
    pub fn at(address: IpAddr) -> Self {
        /// The bits of an IPv6 address that a provider assigns.
        const NETWORK: u128 = !0 << 64;
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl From<TenantId> for Party {
    fn from(tenant: TenantId) -> Self {
        Self::Tenant(tenant)
    }
}

/// The shares. Clones refer to the same ones.
#[derive(Clone, Debug)]
pub struct Shares(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Events that are not visible yet because a reader of the log is behind.
    backlog: AtomicU64,
}

#[derive(Debug)]
struct State {
    accounts: HashMap<Party, Account>,
    processors: Resource,
    writer: Resource,
    /// The total time that the writer has worked.
    writer_used: Duration,
}

/// The use of each resource, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    processors: f64,
    writer: f64,
}

impl Use {
    fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { processors: change(self.processors), writer: change(self.writer) }
    }

    fn with(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        Self { processors: join(self.processors, other.processors), writer: join(self.writer, other.writer) }
    }

    fn most(self) -> f64 {
        self.processors.max(self.writer)
    }
}

#[derive(Debug)]
struct Account {
    /// Its use and its number of turns. Both decay.
    used: Use,
    turns: f64,
    at: Instant,
    /// Requests that wait for their turn.
    waiting: usize,
    requests: Queue,
    background: Queue,
}

/// The holder of the lock is the next of its tenant.
type Queue = Arc<tokio::sync::Mutex<()>>;

/// The kind of work that waits. Each kind has its own queue, so that a person does not wait for all workflow runs of their tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Background,
}

/// A turn is charged in advance, with the recent average cost of the tenant's turns. Dropping it takes that charge back, because
/// the real cost has been charged by then.
#[derive(Debug)]
pub struct Turn {
    shares: Shares,
    party: Party,
    estimate: Use,
    began: Instant,
    was_delayed: bool,
}

impl Turn {
    /// Whether the tenant had to wait for the turn.
    pub fn was_delayed(&self) -> bool {
        self.was_delayed
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = instant();
        let fading = fading(now.saturating_duration_since(self.began));
        if let Some(account) = self.shares.state().accounts.get_mut(&self.party) {
            account.fade(now);
            account.used = account.used.with(self.estimate, |used, estimate| (used - estimate * fading).max(0.0));
        }
    }
}

/// The party that pays for the current work.
#[derive(Clone, Debug)]
pub struct Payer {
    shares: Shares,
    party: Party,
}

impl Payer {
    /// The payer of the current task.
    pub fn current() -> Option<Self> {
        PAYER.try_with(Self::clone).ok()
    }

    /// Does a part of the work on this thread.
    pub fn pay<T>(&self, work: impl FnOnce() -> T) -> T {
        let _measured = Measured { payer: self, begin: processor_time(), writing_since: None };
        work()
    }

    /// The same on the writer's thread, which others wait for.
    pub fn pay_for_writing<T>(&self, work: impl FnOnce() -> T) -> T {
        let _measured = Measured { payer: self, begin: processor_time(), writing_since: Some(instant()) };
        work()
    }
}

/// Dropping it on its own thread charges what the thread has used, even if the work panicked.
struct Measured<'a> {
    payer: &'a Payer,
    begin: Duration,
    writing_since: Option<Instant>,
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        let processors = processor_time().saturating_sub(self.begin).as_secs_f64();
        let writer = self.writing_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        self.payer.shares.charge(self.payer.party, Use { processors, writer });
    }
}

/// The processor time of this thread.
pub(super) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn processor_time_of_process() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// The fraction of a use that remains after some time.
fn fading(elapsed: Duration) -> f64 {
    (-elapsed.as_secs_f64() / MEMORY).exp()
}

impl Account {
    fn new(now: Instant) -> Self {
        let (requests, background) = (Queue::default(), Queue::default());
        Self { used: Use::default(), turns: 0.0, at: now, waiting: 0, requests, background }
    }

    fn fade(&mut self, now: Instant) {
        let fading = fading(now.saturating_duration_since(self.at));
        self.used = self.used.map(|used| used * fading);
        self.turns *= fading;
        self.at = now;
    }

    fn used(&self, now: Instant) -> Use {
        let fading = fading(now.saturating_duration_since(self.at));
        self.used.map(|used| used * fading)
    }
}

/// A resource that tenants share: its amount, and the ratio of its real use to the charged use.
#[derive(Debug)]
struct Resource {
    amount: f64,
    overhead: f64,
    /// Seconds that were charged since `since`, and the total use at that time.
    charged: f64,
    since: Instant,
    used: Duration,
}

impl Resource {
    fn new(amount: f64, used: Duration) -> Self {
        Self { amount, overhead: 1.0, charged: 0.0, since: instant(), used }
    }

    /// The charge including its part of the uncharged work. `used` is the current total use.
    fn charge(&mut self, charge: f64, now: Instant, used: impl FnOnce() -> Duration) -> f64 {
        self.charged += charge;
        if now.saturating_duration_since(self.since) >= ESTIMATE_INTERVAL {
            let used = used();
            let whole = used.saturating_sub(self.used).as_secs_f64();
            self.overhead = (whole / self.charged.max(NEGLIGIBLE)).clamp(1.0, MAX_OVERHEAD);
            (self.charged, self.since, self.used) = (0.0, now, used);
        }
        charge * self.overhead
    }

    /// How long one of `busy` tenants waits if it has used more than its share.
    fn wait(&self, used: f64, busy: f64, others: bool) -> Option<Duration> {
        let part = self.amount * if others { BUSY_SHARE } else { 1.0 } / busy;
        let most = (part * MEMORY).max(BUSY);
        (used > most).then(|| Duration::from_secs_f64(MEMORY * (used / most).ln()).clamp(WAIT.0, WAIT.1))
    }
}

impl State {
    fn account(&mut self, party: Party, now: Instant) -> &mut Account {
        if self.accounts.len() > MAX_ACCOUNTS {
            self.accounts.retain(|other, account| *other == party || account.waiting > 0 || account.used(now).most() > NEGLIGIBLE);
        }
        self.accounts.entry(party).or_insert_with(|| Account::new(now))
    }

    /// How long the party must wait now, given the size of the backlog.
    fn wait(&self, party: Party, backlog: u64, now: Instant) -> Option<Duration> {
        let used = self.accounts.get(&party).map_or(Use::default(), |account| account.used(now));
        if used.most() <= BUSY {
            return None;
        }
        let (mut busy, mut others) = (1.0, false);
        for (_, account) in self.accounts.iter().filter(|(other, _)| **other != party) {
            if account.used(now).most() > BUSY {
                busy += 1.0;
            } else if now.saturating_duration_since(account.at) < RECENT {
                others = true;
            }
        }
        if busy < 2.0 && !others {
            return None;
        }
        if backlog > MAX_BACKLOG {
            return Some(WAIT.1);
        }
        self.processors.wait(used.processors, busy, others).max(self.writer.wait(used.writer, busy, others))
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self::with_processors(std::thread::available_parallelism().map_or(2.0, |count| count.get() as f64))
    }
}

impl Shares {
    fn with_processors(processors: f64) -> Self {
        let (processors, writer) = (Resource::new(processors, processor_time_of_process()), Resource::new(1.0, Duration::ZERO));
        let state = State { accounts: HashMap::new(), processors, writer, writer_used: Duration::ZERO };
        Self(Arc::new(Inner { state: Mutex::new(state), backlog: AtomicU64::new(0) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn charge(&self, party: Party, used: Use) {
        let (now, mut state) = (instant(), self.state());
        let writer_used = state.writer_used;
        let used = Use {
            processors: state.processors.charge(used.processors, now, processor_time_of_process),
            writer: state.writer.charge(used.writer, now, || writer_used),
        };
        let account = state.account(party, now);
        account.fade(now);
        account.used = account.used.with(used, |before, more| before + more);
    }

    /// Charges a tenant for processor time.
    #[cfg(test)]
    pub(super) fn charge_processors(&self, tenant: TenantId, used: Duration) {
        self.charge(tenant.into(), Use { processors: used.as_secs_f64(), writer: 0.0 });
    }

    /// Adds to the time that the writer has worked, for tenants and for tenantd itself.
    pub fn writer_worked(&self, used: Duration) {
        self.state().writer_used += used;
    }

    /// Notes how many events a reader of the log still has to process while others wait for it.
    pub fn note_backlog(&self, events: u64) {
        self.0.backlog.store(events, Ordering::Relaxed);
    }

    fn backlog(&self) -> u64 {
        self.0.backlog.load(Ordering::Relaxed)
    }

    /// Charges for a request that was answered without work for a tenant, and waits if there were many of them. Fails if too many
    /// wait.
    pub async fn note_refusal(&self, party: Party) -> Result<(), Full> {
        self.charge(party, Use { processors: REFUSAL, writer: 0.0 });
        self.turn_of_request(party).await.map(drop)
    }

    /// Whether a tenant has recently used much processor time.
    pub(super) fn is_busy(&self, tenant: TenantId) -> bool {
        self.state().accounts.get(&tenant.into()).is_some_and(|account| account.used(instant()).processors > BUSY)
    }

    /// The payer for work of a tenant on another thread.
    pub(super) fn payer(&self, tenant: TenantId) -> Payer {
        Payer { shares: self.clone(), party: tenant.into() }
    }

    /// Works for a tenant, which pays for `work` and for its writes. Tasks that `work` spawns are not included.
    pub async fn work_for<F: Future>(&self, tenant: TenantId, work: F) -> F::Output {
        let payer = self.payer(tenant);
        let paying = payer.clone();
        let measured = async move {
            let mut work = pin!(work);
            std::future::poll_fn(|context| paying.pay(|| work.as_mut().poll(context))).await
        };
        PAYER.scope(payer, measured).await
    }

    /// Waits until a request may start. Fails if too many already wait.
    pub async fn turn_of_request(&self, party: impl Into<Party>) -> Result<Turn, Full> {
        let party = party.into();
        if let Some(turn) = self.free_turn(party) {
            return Ok(turn);
        }
        let _waiting = Waiting::join(self, party)?;
        Ok(self.turn(party, Kind::Request).await)
    }

    /// Waits until the next background work of the tenant may start. The caller limits how many wait.
    pub async fn turn_in_background(&self, tenant: TenantId) -> Turn {
        let party = tenant.into();
        match self.free_turn(party) {
            Some(turn) => turn,
            None => self.turn(party, Kind::Background).await,
        }
    }

    /// A turn without waiting, if the party need not wait.
    fn free_turn(&self, party: Party) -> Option<Turn> {
        let (now, mut state) = (instant(), self.state());
        state.wait(party, self.backlog(), now).is_none().then(|| self.begin(&mut state, party, now, false))
    }

    async fn turn(&self, party: Party, kind: Kind) -> Turn {
        metrics::counter!("tenantd_turns_delayed_total").increment(1);
        let queue = {
            let mut state = self.state();
            let account = state.account(party, instant());
            if kind == Kind::Request { account.requests.clone() } else { account.background.clone() }
        };
        let _first = queue.lock().await;
        loop {
            let wait = {
                let (now, mut state) = (instant(), self.state());
                match state.wait(party, self.backlog(), now) {
                    None => return self.begin(&mut state, party, now, true),
                    Some(wait) => wait,
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    fn begin(&self, state: &mut State, party: Party, now: Instant, was_delayed: bool) -> Turn {
        let account = state.account(party, now);
        account.fade(now);
        account.turns += 1.0;
        let estimate = account.used.map(|used| used / account.turns);
        account.used = account.used.with(estimate, |used, more| used + more);
        Turn { shares: self.clone(), party, estimate, began: now, was_delayed }
    }
}

/// A request that waits for its turn.
struct Waiting<'a> {
    shares: &'a Shares,
    party: Party,
}

impl<'a> Waiting<'a> {
    fn join(shares: &'a Shares, party: Party) -> Result<Self, Full> {
        let mut state = shares.state();
        let account = state.account(party, instant());
        if account.waiting >= MAX_WAITING {
            return Err(Full);
        }
        account.waiting += 1;
        Ok(Self { shares, party })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(account) = self.shares.state().accounts.get_mut(&self.party) {
            account.waiting = account.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests;
