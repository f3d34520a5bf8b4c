//! The client: judges, resolves, finds or opens a connection, and runs one exchange on it, all within the time of the request.
//! Every send is judged anew, also when a connection is there already.

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
    policy::{Audience, Policy},
    pool::{Pool, PoolKey, PoolLimits},
    resolve::Resolver,
    target::TargetUrl,
    tls::{Authorities, Trust},
};

/// How long parts of an exchange may take, each also within the time of the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLimits {
    pub(super) dns: Duration,
    pub(super) connect: Duration,
}

const TIME_LIMITS: TimeLimits = TimeLimits { dns: Duration::from_secs(3), connect: Duration::from_secs(5) };
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// Headers that belong to the connection. The client sets those that it needs itself, and a caller cannot.
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

/// A request to somebody else's server.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: TargetUrl,
    /// Without those of the connection (`Host`, `Content-Length`, …), which are taken out.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// For everything, from the look-up to the end of the body.
    pub timeout: Duration,
    pub audience: Audience,
    /// PEM of the certificate authorities to believe in place of the usual ones.
    pub ca_pem: Option<Arc<str>>,
    /// The SHA-256 of the one certificate to believe, in place of all authorities.
    pub pinned_certificate: Option<[u8; 32]>,
    /// How much of the answer's body is read.
    pub max_body_bytes: usize,
    /// The receiver takes it well to get this twice. A kept connection can turn out dead after the request was written on it, and
    /// nobody knows whether it was read: a repeatable request is then sent again on a new one.
    pub repeatable: bool,
}

/// How long the parts of an exchange took. Zero for what was not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    pub dns: Duration,
    pub connect: Duration,
    pub tls: Duration,
    /// From the request's first byte to the head of the answer.
    pub first_byte: Duration,
    pub total: Duration,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub timings: Timings,
    /// The address that was connected to.
    pub remote_ip: Option<IpAddr>,
    pub outcome: Result<Response, EgressError>,
}

/// What is known of an exchange so far, also when its time is over in the middle.
#[derive(Debug, Default)]
struct Record {
    timings: Timings,
    remote_ip: Option<IpAddr>,
}

/// The way out. Cheap to clone; all clones share policy and connections.
#[derive(Clone, Debug)]
pub struct Egress(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    policy: Policy,
    resolver: Resolver,
    authorities: Authorities,
    pool: Pool,
    limits: TimeLimits,
}

impl Egress {
    /// `listening` are the addresses that this server itself answers on.
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
            resolver: Resolver::new(&settings.dns_servers, limits.dns),
            authorities: Authorities::new(settings.ca_file.as_deref())?,
            pool: Pool::new(pool),
            limits,
        })))
    }

    /// Takes the addresses that were really bound: a port of 0 in the settings is known only then.
    pub fn set_listening(&self, listening: &[SocketAddr]) {
        self.0.policy.set_listening(listening);
    }

    /// Would a request to `url` be let out now? A name that cannot be resolved now is let pass: it is judged when it is sent to.
    pub async fn vet(&self, url: &TargetUrl, audience: Audience) -> Result<(), Blocked> {
        match self.0.addresses(url, audience).await {
            Err(EgressError::Blocked(blocked)) => Err(blocked),
            _ => Ok(()),
        }
    }

    /// The same for a target whose host is an address, without a look-up. Names are judged when they are dialled.
    pub fn vet_address(&self, url: &TargetUrl, audience: Audience) -> Result<(), Blocked> {
        let Some(address) = url.literal() else { return Ok(()) };
        self.0.policy.judge(address, audience).map_err(|refusal| refusal.report(url.host()))
    }

    /// The texts that a name has in DNS now, by the same servers that targets are looked up with.
    pub async fn texts(&self, name: &str) -> Result<Vec<String>, EgressError> {
        self.0.resolver.texts(name).await
    }

    /// Sends and waits for the answer. Never takes longer than the request's time.
    pub async fn send(&self, request: Request) -> Exchange {
        let started = Instant::now();
        let mut record = Record::default();
        let outcome = timeout(request.timeout, self.0.exchange(&request, &mut record)).await.unwrap_or(Err(EgressError::Timeout));
        let timings = Timings { total: started.elapsed(), ..record.timings };
        Exchange { timings, remote_ip: record.remote_ip, outcome }
    }

    /// The task that closes connections nobody has asked for.
    pub fn upkeep(&self) -> EgressUpkeep {
        EgressUpkeep(self.clone())
    }

    #[cfg(test)]
    pub(super) fn waiting_connections(&self) -> usize {
        self.0.pool.waiting()
    }
}

impl Parts {
    /// The addresses of `url`, all of them judged.
    async fn addresses(&self, url: &TargetUrl, audience: Audience) -> Result<Vec<SocketAddr>, EgressError> {
        let addresses = if let Some(address) = url.literal() {
            vec![address]
        } else {
            let found = self.resolver.addresses(url.host()).await?;
            found.iter().map(|ip| SocketAddr::new(*ip, url.port())).collect()
        };
        for address in &addresses {
            self.policy.judge(*address, audience).map_err(|refusal| refusal.report(url.host()))?;
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
        if let Some(kept) = addresses.iter().find_map(|address| self.pool.take(&key(*address))) {
            match self.run(kept, request, record, &key).await {
                Err(Failure { progress: Progress::Unsent, .. }) => {}
                Err(Failure { progress: Progress::Unanswered, .. }) if request.repeatable => {}
                settled => return settled.map_err(|failure| failure.error),
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
        let stream = dial::shake_hands(stream, host, trust.config.clone()).await?;
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
        let (response, reusable) = connection.exchange(on_the_wire(request), request.max_body_bytes, on_head).await?;
        if reusable {
            self.pool.put(key(connection.peer), connection);
        }
        Ok(response)
    }
}

fn on_the_wire(request: &Request) -> http::Request<Full<Bytes>> {
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

/// Closes kept connections whose time is over.
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
