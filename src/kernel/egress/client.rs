//! The client: checks the target, resolves the name, finds or opens a connection, and runs one exchange on it, all within the time
//! limit of the request. Every send is checked again, even on an open connection.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body_util::Full;
use tokio::time::{Instant, timeout};

use tenantd_base::config;
use tenantd_store::tasks::{Done, Task, TaskError};

use super::{
    connection::{Connection, Failure, Progress, Response},
    dial,
    error::{Blocked, EgressError},
    listed::{Listing, OnlyTargets, refuse},
    policy::{Audience, Policy},
    pool::{Pool, PoolKey, PoolLimits},
    resolve::Resolver,
    target::TargetUrl,
    tls::{Authorities, Trust},
};

/// Time limits for parts of an exchange. The limit of the whole exchange applies as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLimits {
    pub(super) dns: Duration,
    pub(super) connect: Duration,
}

const TIME_LIMITS: TimeLimits = TimeLimits { dns: Duration::from_secs(3), connect: Duration::from_secs(5) };
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Headers of the connection. The client sets the ones that it needs, and a caller cannot set them.
const CONNECTION_HEADERS: [header::HeaderName; 8] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
];

/// A request to an external server.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: TargetUrl,
    /// The headers of the request. Connection headers such as `Host` and `Content-Length` are removed.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The time limit for everything, from the DNS lookup to the end of the body.
    pub timeout: Duration,
    pub audience: Audience,
    /// The PEM of certificate authorities to trust instead of the default ones.
    pub ca_pem: Option<Arc<str>>,
    /// The SHA-256 of the only certificate to trust, instead of all authorities.
    pub pinned_certificate: Option<[u8; 32]>,
    /// The most bytes of the answer's body that are read.
    pub max_body_bytes: usize,
    /// Whether the receiver can safely get this request twice. A pooled connection can turn out to be dead after the request was
    /// written to it, and then it is unknown whether the request was read. A repeatable request is sent again on a new connection.
    pub repeatable: bool,
}

/// How long the parts of an exchange took. Zero for parts that were not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    pub dns: Duration,
    pub connect: Duration,
    pub tls: Duration,
    /// From the request's first byte to the head of the answer.
    pub first_byte: Duration,
    pub total: Duration,
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub timings: Timings,
    /// The address of the connection.
    pub remote_ip: Option<IpAddr>,
    pub outcome: Result<Response, EgressError>,
}

/// What is known of an exchange so far, even if it times out halfway.
#[derive(Debug, Default)]
struct Record {
    timings: Timings,
    remote_ip: Option<IpAddr>,
}

/// The client. It is cheap to clone, and all clones share the policy and the connections.
#[derive(Clone, Debug)]
pub struct Egress(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    policy: Policy,
    only: OnlyTargets,
    resolver: Resolver,
    authorities: Authorities,
    pool: Pool,
    limits: TimeLimits,
}

impl Egress {
    /// `listening` are the addresses on which this server listens.
    pub fn new(settings: &config::Egress, listening: &[SocketAddr]) -> Result<Self, String> {
        Self::with_limits(settings, listening, TIME_LIMITS)
    }

    pub(super) fn with_limits(settings: &config::Egress, listening: &[SocketAddr], limits: TimeLimits) -> Result<Self, String> {
        let pool = PoolLimits {
            connections: settings.pool_connections,
            per_target: settings.pool_connections_per_target,
            idle: Duration::from_secs(settings.pool_idle_seconds),
            lifetime: Duration::from_secs(settings.pool_lifetime_seconds),
        };
        Ok(Self(Arc::new(Parts {
            policy: Policy::new(settings, listening),
            only: OnlyTargets::new(&settings.only_targets),
            resolver: Resolver::new(&settings.dns_servers, limits.dns),
            authorities: Authorities::new(settings.ca_file.as_deref())?,
            pool: Pool::new(pool),
            limits,
        })))
    }

    /// Sets the addresses that were actually bound. A port of 0 in the configuration is only known then.
    pub fn set_listening(&self, listening: &[SocketAddr]) {
        self.0.policy.set_listening(listening);
    }

    /// Checks whether a request to `url` would be allowed now. A name that cannot be resolved now passes, because it is checked
    /// again when the request is sent.
    pub async fn vet(&self, url: &TargetUrl, audience: Audience) -> Result<(), Blocked> {
        match self.0.addresses(url, audience).await {
            Err(EgressError::Blocked(blocked)) => Err(blocked),
            _ => Ok(()),
        }
    }

    /// The same without a lookup. Names pass if they or their addresses can be listed, because they are checked again when the
    /// request is sent.
    pub fn vet_address(&self, url: &TargetUrl, audience: Audience) -> Result<(), Blocked> {
        if self.0.only.listing(url) == Listing::Unlisted {
            return Err(refuse(url));
        }
        let Some(address) = url.literal() else { return Ok(()) };
        self.0.policy.check(address, audience).map_err(|refusal| refusal.report(url.host()))
    }

    /// The current TXT records of a name, from the same DNS servers that resolve targets.
    pub async fn texts(&self, name: &str) -> Result<Vec<String>, EgressError> {
        self.0.resolver.texts(name).await
    }

    /// Sends the request and waits for the answer, at most for the timeout of the request.
    pub async fn send(&self, request: Request) -> Exchange {
        let started = Instant::now();
        let mut record = Record::default();
        let outcome = timeout(request.timeout, self.0.exchange(&request, &mut record)).await.unwrap_or(Err(EgressError::Timeout));
        let timings = Timings { total: started.elapsed(), ..record.timings };
        Exchange { timings, remote_ip: record.remote_ip, outcome }
    }

    /// The task that closes unused connections.
    pub fn upkeep(&self) -> EgressUpkeep {
        EgressUpkeep(self.clone())
    }

    #[cfg(test)]
    pub(super) fn waiting_connections(&self) -> usize {
        self.0.pool.waiting()
    }
}

impl Parts {
    /// The addresses of `url`. The list of targets has the URL, and all of its addresses have passed the policy.
    async fn addresses(&self, url: &TargetUrl, audience: Audience) -> Result<Vec<SocketAddr>, EgressError> {
        let listing = self.only.listing(url);
        if listing == Listing::Unlisted {
            return Err(refuse(url).into());
        }
        let addresses = if let Some(address) = url.literal() {
            vec![address]
        } else {
            let found = self.resolver.addresses(url.host()).await?;
            found.iter().map(|ip| SocketAddr::new(*ip, url.port())).collect()
        };
        for address in &addresses {
            self.policy.check(*address, audience).map_err(|refusal| refusal.report(url.host()))?;
            if listing == Listing::ByAddresses && !self.only.has_address(address.ip(), address.port()) {
                return Err(refuse(url).into());
            }
        }
        Ok(addresses)
    }

    async fn exchange(&self, request: &Request, record: &mut Record) -> Result<Response, EgressError> {
        let started = Instant::now();
        let addresses = self.addresses(&request.url, request.audience).await?;
        if request.url.literal().is_none() {
            record.timings.dns = started.elapsed();
        }
        let trust = if request.url.is_https() {
            Some(self.authorities.trust(request.ca_pem.as_deref(), request.pinned_certificate).map_err(EgressError::Tls)?)
        } else {
            None
        };
        let key = |address: SocketAddr| PoolKey {
            secure: trust.is_some(),
            host: request.url.shared_host(),
            address,
            private_authorities: trust.as_ref().and_then(|trust| trust.private),
        };
        if let Some(pooled) = addresses.iter().find_map(|address| self.pool.take(&key(*address))) {
            match self.run(pooled, request, record, &key).await {
                Err(Failure { progress: Progress::Unsent, .. }) => {}
                Err(Failure { progress: Progress::Unanswered, .. }) if request.repeatable => {}
                result => return result.map_err(|failure| failure.error),
            }
        }
        let fresh = self.open(&addresses, request.url.host(), trust.as_ref(), record).await?;
        self.run(fresh, request, record, &key).await.map_err(|failure| failure.error)
    }

    async fn open(
        &self,
        addresses: &[SocketAddr],
        host: &str,
        trust: Option<&Trust>,
        record: &mut Record,
    ) -> Result<Connection, EgressError> {
        record.remote_ip = addresses.first().filter(|_| addresses.len() == 1).map(SocketAddr::ip);
        let started = Instant::now();
        let (stream, peer) = dial::connect(addresses, self.limits.connect).await?;
        record.timings.connect = started.elapsed();
        record.remote_ip = Some(peer.ip());
        let Some(trust) = trust else {
            return Connection::open(stream, peer).await;
        };
        let started = Instant::now();
        let stream = dial::tls_handshake(stream, host, trust.config.clone()).await?;
        record.timings.tls = started.elapsed();
        Connection::open(stream, peer).await
    }

    async fn run(
        &self,
        mut connection: Connection,
        request: &Request,
        record: &mut Record,
        key: &impl Fn(SocketAddr) -> PoolKey,
    ) -> Result<Response, Failure> {
        record.remote_ip = Some(connection.peer.ip());
        let started = Instant::now();
        let on_head = || record.timings.first_byte = started.elapsed();
        let (response, reusable) = connection.exchange(wire_request(request), request.max_body_bytes, on_head).await?;
        if reusable {
            self.pool.put(key(connection.peer), connection);
        }
        Ok(response)
    }
}

fn wire_request(request: &Request) -> http::Request<Full<Bytes>> {
    let mut wire = http::Request::new(Full::new(request.body.clone()));
    *wire.method_mut() = request.method.clone();
    *wire.uri_mut() = request.url.request_target();
    let mut headers = request.headers.clone();
    for name in &CONNECTION_HEADERS {
        headers.remove(name);
    }
    headers.insert(header::HOST, request.url.host_header());
    *wire.headers_mut() = headers;
    wire
}

/// Closes pooled connections that have reached their time limit.
#[derive(Clone, Debug)]
pub struct EgressUpkeep(Egress);

impl Task for EgressUpkeep {
    fn name(&self) -> &'static str {
        "egress_upkeep"
    }

    fn period(&self) -> Duration {
        SWEEP_PERIOD
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        self.0.0.pool.sweep();
        Ok(Done::All)
    }
}
