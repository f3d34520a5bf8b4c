//! Rate limits: GCRA buckets per credential and per tenant, so that one integration cannot block another. Requests without a
//! credential have a bucket per address. The buckets are in memory, so a restart fills them.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    time::Duration,
};

use arc_swap::ArcSwap;
use governor::{
    Quota, RateLimiter, clock::Clock as GovernorClock, middleware::StateInformationMiddleware, nanos::Nanos,
    state::keyed::DashMapStateStore,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use tenantd_base::{
    access::{Principal, TenantKind},
    clock::Clock,
    config::{Rate, RateLimits as Settings},
};
use tenantd_store::tasks::{Done, Task, TaskError};

use super::{
    context::Client,
    problem::{Code, Problem},
};

const WINDOW: Duration = Duration::from_mins(1);

/// The limit that an operation falls under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateClass {
    Read,
    Search,
    Report,
    Write,
    Provision,
    SignIn,
    Public,
}

impl RateClass {
    pub const ALL: [Self; 7] = [Self::Read, Self::Search, Self::Report, Self::Write, Self::Provision, Self::SignIn, Self::Public];

    /// The default class of an operation.
    pub(super) fn usual(needs_credential: bool, method: &str) -> Self {
        match (needs_credential, method) {
            (false, _) => Self::Public,
            (true, "get") => Self::Read,
            (true, _) => Self::Write,
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Search => "search",
            Self::Report => "report",
            Self::Write => "write",
            Self::Provision => "provision",
            Self::SignIn => "sign_in",
            Self::Public => "public",
        }
    }

    pub const fn description(self) -> &'static str {
        match self {
            Self::Read => "Requests that read records and lists.",
            Self::Search => "Search requests.",
            Self::Report => "Reports, aggregates and analytics.",
            Self::Write => "Requests that change something.",
            Self::Provision => "Provisioning of virtual machines.",
            Self::SignIn => "Sign-in requests.",
            Self::Public => "Requests that need no credential.",
        }
    }
}

/// Our clock for governor, in nanoseconds.
#[derive(Clone, Debug)]
struct RateClock(Clock);

impl GovernorClock for RateClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(Duration::from_millis(u64::try_from(self.0.now().as_millis()).unwrap_or(0)))
    }
}

type Bucket = RateLimiter<[u8; 16], DashMapStateStore<[u8; 16]>, RateClock, StateInformationMiddleware>;

/// One limit and its buckets.
#[derive(Debug)]
struct Limiter {
    /// `"read_credential";q=1200;w=60`
    policy: String,
    name: String,
    per_minute: u32,
    clock: RateClock,
    buckets: Bucket,
}

/// What is left in a bucket.
#[derive(Clone, Debug)]
pub struct RateStatus {
    policy: String,
    name: String,
    limit: u32,
    remaining: u32,
    /// Seconds until the bucket is full again.
    reset_seconds: u64,
}

impl Limiter {
    fn new(class: RateClass, per: &str, per_minute: u32, clock: &Clock) -> Self {
        let allowed = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
        let clock = RateClock(clock.clone());
        let name = format!("{}_{per}", class.name());
        let buckets = RateLimiter::dashmap_with_clock(Quota::per_minute(allowed), clock.clone()).with_middleware();
        Self { policy: format!("\"{name}\";q={per_minute};w={}", WINDOW.as_secs()), name, per_minute, clock, buckets }
    }

    fn take(&self, key: &[u8; 16]) -> Result<RateStatus, (RateStatus, Duration)> {
        let status = |remaining: u32| {
            let used = u64::from(self.per_minute.saturating_sub(remaining));
            let reset_seconds = (used * WINDOW.as_secs()).div_ceil(u64::from(self.per_minute.max(1)));
            RateStatus { policy: self.policy.clone(), name: self.name.clone(), limit: self.per_minute, remaining, reset_seconds }
        };
        match self.buckets.check_key(key) {
            Ok(snapshot) => Ok(status(snapshot.remaining_burst_capacity())),
            Err(refused) => Err((status(0), refused.wait_time_from(self.clock.now()))),
        }
    }
}

#[derive(Debug)]
struct ClassLimits {
    class: RateClass,
    credential: Option<Limiter>,
    tenant: Option<Limiter>,
    /// Used for evaluation tenants instead of `tenant`.
    evaluation: Option<Limiter>,
    address: Option<Limiter>,
}

#[derive(Debug)]
struct Active {
    settings: Settings,
    classes: Vec<ClassLimits>,
}

/// The limits in force.
#[derive(Debug)]
pub struct RateLimits {
    clock: Clock,
    active: ArcSwap<Active>,
}

impl RateLimits {
    pub fn new(settings: &Settings, clock: Clock) -> Self {
        let active = ArcSwap::from_pointee(build(settings, &clock));
        Self { clock, active }
    }

    /// Applies new limits. All buckets start full.
    pub fn reload(&self, settings: &Settings) {
        self.active.store(std::sync::Arc::new(build(settings, &self.clock)));
    }

    pub fn settings(&self) -> Settings {
        self.active.load().settings.clone()
    }

    /// Takes one request from every bucket that it falls under. Returns `None` if limits are off.
    pub fn take(&self, class: RateClass, principal: Option<&Principal>, client: Client) -> Result<Option<RateStatus>, Problem> {
        let active = self.active.load();
        if !active.settings.enabled || client == Client::Local {
            return Ok(None);
        }
        let Some(limits) = active.classes.iter().find(|limits| limits.class == class) else { return Ok(None) };
        let mut tightest: Option<RateStatus> = None;
        let tenant_key = principal.map(|principal| *principal.tenant_id.as_bytes());
        let evaluates = principal.is_some_and(|principal| principal.tenant_kind == TenantKind::Evaluation);
        let checks = [
            (&limits.credential, principal.map(Principal::credential)),
            (if evaluates { &limits.evaluation } else { &limits.tenant }, tenant_key),
            (&limits.address, client.address().map(address_key)),
        ];
        for (limiter, key) in checks {
            let (Some(limiter), Some(key)) = (limiter, key) else { continue };
            match limiter.take(&key) {
                Ok(status) => {
                    if tightest.as_ref().is_none_or(|tightest| status.remaining < tightest.remaining) {
                        tightest = Some(status);
                    }
                }
                Err((status, wait)) => return Err(refusal(&status, wait)),
            }
        }
        Ok(tightest)
    }

    fn remove_idle(&self) {
        let active = self.active.load();
        let limiters = active
            .classes
            .iter()
            .flat_map(|limits| [&limits.credential, &limits.tenant, &limits.evaluation, &limits.address])
            .flatten();
        for limiter in limiters {
            limiter.buckets.retain_recent();
            limiter.buckets.shrink_to_fit();
        }
    }
}

fn refusal(status: &RateStatus, wait: Duration) -> Problem {
    metrics::counter!("tenantd_rate_limited_total", "limit" => status.name.clone()).increment(1);
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let detail = format!("You have used up the limit {} of {} requests per minute.", status.name, status.limit);
    let mut problem = Problem::new(Code::RateLimited, detail).retry_after(seconds.max(1));
    let mut headers = HeaderMap::new();
    status.write(&mut headers);
    problem.headers.extend(headers.into_iter().filter_map(|(name, value)| Some((name?, value))));
    problem
}

/// One client controls a whole IPv6 /64.
pub fn address_key(address: IpAddr) -> [u8; 16] {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(_) => v6,
            None => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)),
        },
    };
    v6.octets()
}

impl RateStatus {
    pub fn write(&self, headers: &mut HeaderMap) {
        const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
        const CURRENT: HeaderName = HeaderName::from_static("ratelimit");
        const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
        const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
        const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
        let current = format!("\"{}\";r={};t={}", self.name, self.remaining, self.reset_seconds);
        for (name, text) in [(POLICY, &self.policy), (CURRENT, &current)] {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        }
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset_seconds));
    }
}

/// The given percentage of a limit, but at least one.
fn share(per_minute: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(per_minute) * u64::from(percent) / 100).unwrap_or(per_minute).max(1)
}

fn build(settings: &Settings, clock: &Clock) -> Active {
    let by_credential = |class: RateClass, rate: Rate| ClassLimits {
        class,
        credential: Some(Limiter::new(class, "credential", rate.credential, clock)),
        tenant: Some(Limiter::new(class, "tenant", rate.tenant, clock)),
        evaluation: Some(Limiter::new(class, "evaluation", share(rate.tenant, settings.evaluation_percent), clock)),
        address: None,
    };
    let by_address = |class: RateClass, per_minute: u32| ClassLimits {
        class,
        credential: None,
        tenant: None,
        evaluation: None,
        address: Some(Limiter::new(class, "address", per_minute, clock)),
    };
    let classes = vec![
        by_credential(RateClass::Read, settings.read),
        by_credential(RateClass::Search, settings.search),
        by_credential(RateClass::Report, settings.report),
        by_credential(RateClass::Write, settings.write),
        by_credential(RateClass::Provision, settings.provision),
        by_address(RateClass::SignIn, settings.sign_in_per_address),
        by_address(RateClass::Public, settings.public_per_address),
    ];
    Active { settings: settings.clone(), classes }
}

/// Removes buckets that are full again, so that memory depends only on the clients of the last minute.
#[derive(Debug)]
pub struct RateLimitSweep(pub std::sync::Arc<RateLimits>);

impl Task for RateLimitSweep {
    fn name(&self) -> &'static str {
        "rate_limit_sweep"
    }

    fn period(&self) -> Duration {
        Duration::from_mins(1)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.0.remove_idle();
        Ok(Done::All)
    }
}

#[cfg(test)]
mod tests {
    use tenantd_base::{clock::Timestamp, config};

    use super::*;

    #[test]
    fn an_address_waits_after_its_burst() {
        let clock = Clock::movable(Timestamp::from_millis(1_000_000));
        let mut settings = config::load(None, [], &[]).unwrap().rate_limits;
        settings.sign_in_per_address = 6;
        let limits = RateLimits::new(&settings, clock.clone());
        let client = Client::Address("192.0.2.1".parse().unwrap());
        let other = Client::Address("192.0.2.2".parse().unwrap());
        for left in (0..6).rev() {
            let status = limits.take(RateClass::SignIn, None, client).unwrap().unwrap();
            assert_eq!(status.remaining, left);
        }
        let refused = limits.take(RateClass::SignIn, None, client).unwrap_err();
        assert_eq!(refused.extra["retry_after_seconds"], 10);
        assert!(limits.take(RateClass::SignIn, None, other).is_ok());
        clock.advance(Duration::from_secs(10));
        assert!(limits.take(RateClass::SignIn, None, client).is_ok());
        assert!(limits.take(RateClass::SignIn, None, client).is_err());
    }

    #[test]
    fn one_ipv6_network_is_one_client() {
        let key = |text: &str| address_key(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
