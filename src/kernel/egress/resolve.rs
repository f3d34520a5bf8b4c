//! Resolves names to addresses within a time limit. An answer is cached for its TTL, but for at most half a minute, so that an
//! outdated address is not dialed for long. Every caller checks the addresses again.
//!
//! **Invariant:** an exchange uses one lookup. The addresses of that lookup are checked, and exactly those are dialed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig},
    lookup_ip::LookupIp,
    net::runtime::TokioRuntimeProvider,
    proto::rr::{RData, Record},
};
use tokio::time::Instant;

use tenantd_base::cache::Cache;

use super::error::EgressError;

/// The longest time that an answer is cached, and the most answers in the cache.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
const MAX_ANSWERS: u64 = 4096;
/// How often a question is repeated within the time limit.
const REPEATS: u32 = 2;
/// A sensible answer does not have more addresses than this, and each of them has to be checked.
const MOST_ADDRESSES: usize = 64;
const MOST_TEXTS: usize = 64;

pub(super) struct Resolver {
    /// `None` if the system has no usable configuration. Then only addresses can be dialed.
    servers: Option<TokioResolver>,
    /// Resolved addresses. The resolver's own cache holds whole messages, and reading it costs as much as the exchange itself.
    cache: Cache<String, CachedAnswer>,
    limit: Duration,
}

#[derive(Clone, Debug)]
struct CachedAnswer {
    addresses: Arc<[IpAddr]>,
    until: Instant,
}

impl Resolver {
    /// Uses `servers`, or those of the system if the list is empty.
    pub(super) fn new(servers: &[SocketAddr], limit: Duration) -> Self {
        let builder = if servers.is_empty() {
            TokioResolver::builder_tokio()
        } else {
            let servers = servers.iter().map(name_server).collect();
            Ok(TokioResolver::builder_with_config(ResolverConfig::from_name_servers(servers), TokioRuntimeProvider::default()))
        };
        let built = builder.and_then(|mut builder| {
            let options = builder.options_mut();
            options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
            options.timeout = limit / (REPEATS + 1);
            options.attempts = REPEATS as usize;
            options.cache_size = 0;
            builder.build()
        });
        let servers =
            built.inspect_err(|error| tracing::warn!(%error, "names of targets cannot be resolved; set egress.dns_servers")).ok();
        let cache = Cache::expiring(MAX_ANSWERS, LONGEST_ANSWER);
        Self { servers, cache, limit }
    }

    /// All addresses of `name`, at least one.
    pub(super) async fn addresses(&self, name: &str) -> Result<Arc<[IpAddr]>, EgressError> {
        if let Some(cached) = self.cache.get(&name.to_owned())
            && Instant::now() < cached.until
        {
            return Ok(cached.addresses);
        }
        let relative = name.strip_suffix('.').unwrap_or(name);
        if relative == "localhost" || relative.ends_with(".localhost") {
            // RFC 6761: these names are never sent to DNS, and they mean the same everywhere.
            return Ok(Arc::new([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
        }
        let started = Instant::now();
        let answer = self.look_up(relative).await?;
        let addresses: Arc<[IpAddr]> = answer.iter().take(MOST_ADDRESSES + 1).collect();
        match addresses.len() {
            0 => return Err(no_such_name()),
            1..=MOST_ADDRESSES => {}
            _ => return Err(EgressError::Dns("too many addresses".to_owned())),
        }
        let ttl = answer.as_lookup().answers().iter().map(|record| record.ttl).min().unwrap_or_default();
        if ttl > 0 {
            let until = started + LONGEST_ANSWER.min(Duration::from_secs(ttl.into()));
            self.cache.insert(name.into(), CachedAnswer { addresses: addresses.clone(), until });
        }
        Ok(addresses)
    }

    /// The current TXT records of `name`, which must be fully qualified. Empty if the name does not exist. They are never cached,
    /// because the caller has often just published one.
    pub(super) async fn texts(&self, name: &str) -> Result<Vec<String>, EgressError> {
        let Some(servers) = &self.servers else {
            return Err(EgressError::Dns("no DNS server is configured".to_owned()));
        };
        let answer = match tokio::time::timeout(self.limit, servers.txt_lookup(format!("{name}."))).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_no_records_found() => return Ok(Vec::new()),
            Ok(Err(error)) => {
                tracing::debug!(name, %error, "DNS lookup failed");
                return Err(EgressError::Dns("the lookup failed".to_owned()));
            }
            Err(_) => return Err(EgressError::Dns("no answer in time".to_owned())),
        };
        let text = |record: &Record| match &record.data {
            // A long text comes in pieces.
            RData::TXT(text) => String::from_utf8(text.txt_data.concat()).ok(),
            _ => None,
        };
        Ok(answer.answers().iter().filter_map(text).take(MOST_TEXTS).collect())
    }

    async fn look_up(&self, name: &str) -> Result<LookupIp, EgressError> {
        let Some(servers) = &self.servers else {
            return Err(EgressError::Dns("no DNS server is configured".to_owned()));
        };
        // A name with a dot is fully qualified. Only a bare host name uses the search list of the system.
        let question = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
        match tokio::time::timeout(self.limit, servers.lookup_ip(question)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.is_no_records_found() => Err(no_such_name()),
            Ok(Err(error)) => {
                // The error may name the operator's DNS servers, which tenants must not learn.
                tracing::debug!(name, %error, "DNS lookup failed");
                Err(EgressError::Dns("the lookup failed".to_owned()))
            }
            Err(_) => Err(EgressError::Dns("no answer in time".to_owned())),
        }
    }
}

fn no_such_name() -> EgressError {
    EgressError::Dns("no such name or address".to_owned())
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Resolver").field("limit", &self.limit).finish_non_exhaustive()
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let at_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    NameServerConfig::new(address.ip(), true, vec![at_port(ConnectionConfig::udp()), at_port(ConnectionConfig::tcp())])
}
