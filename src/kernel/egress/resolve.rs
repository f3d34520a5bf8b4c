//! Names to addresses, within a time limit. An answer counts for its TTL and at most half a minute, so that an address that a name
//! no longer has is not dialled for long; every caller judges the answer again.
//!
//! **Invariant:** there is one look-up for one exchange. Its addresses are judged and those very addresses are dialled.

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

/// How long an answer is believed when its TTL is longer, and how many are kept.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
const KEPT_ANSWERS: u64 = 4096;
/// How often a question is repeated within the time limit.
const REPEATS: u32 = 2;
/// More addresses than this are no sensible answer, and each of them would have to be judged.
const MOST_ADDRESSES: usize = 64;
const MOST_TEXTS: usize = 64;

pub(super) struct Resolver {
    /// None where the system has no usable configuration: then only addresses can be dialled.
    servers: Option<TokioResolver>,
    /// Ready addresses: the resolver's own cache keeps whole messages, and reading it costs as much as the exchange itself.
    kept: Cache<String, Kept>,
    limit: Duration,
}

#[derive(Clone, Debug)]
struct Kept {
    addresses: Arc<[IpAddr]>,
    until: Instant,
}

impl Resolver {
    /// Asks `servers`, or those of the system when there are none.
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
        let servers = built
            .inspect_err(
                |error| tracing::warn!(%error, "names of targets cannot be resolved; egress.dns_servers names DNS servers"),
            )
            .ok();
        let kept = Cache::expiring(KEPT_ANSWERS, LONGEST_ANSWER);
        Self { servers, kept, limit }
    }

    /// All addresses of `name`, at least one.
    pub(super) async fn addresses(&self, name: &str) -> Result<Arc<[IpAddr]>, EgressError> {
        if let Some(kept) = self.kept.get(&name.to_owned())
            && Instant::now() < kept.until
        {
            return Ok(kept.addresses);
        }
        let relative = name.strip_suffix('.').unwrap_or(name);
        if relative == "localhost" || relative.ends_with(".localhost") {
            // RFC 6761: never a question for DNS, and the same at every site.
            return Ok(Arc::new([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
        }
        let asked = Instant::now();
        let answer = self.look_up(relative).await?;
        let addresses: Arc<[IpAddr]> = answer.iter().take(MOST_ADDRESSES + 1).collect();
        match addresses.len() {
            0 => return Err(no_such_name()),
            1..=MOST_ADDRESSES => {}
            _ => return Err(EgressError::Dns("too many addresses".to_owned())),
        }
        let ttl = answer.as_lookup().answers().iter().map(|record| record.ttl).min().unwrap_or_default();
        if ttl > 0 {
            let until = asked + LONGEST_ANSWER.min(Duration::from_secs(ttl.into()));
            self.kept.insert(name.into(), Kept { addresses: addresses.clone(), until });
        }
        Ok(addresses)
    }

    /// The texts (TXT) that `name`, which is meant in full, has in DNS now: none where there is no such name. They are never kept, because
    /// the caller has often just published one.
    pub(super) async fn texts(&self, name: &str) -> Result<Vec<String>, EgressError> {
        let Some(servers) = &self.servers else {
            return Err(EgressError::Dns("no DNS server is configured".to_owned()));
        };
        let answer = match tokio::time::timeout(self.limit, servers.txt_lookup(format!("{name}."))).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_no_records_found() => return Ok(Vec::new()),
            Ok(Err(error)) => {
                tracing::debug!(name, %error, "look-up failed");
                return Err(EgressError::Dns("the look-up failed".to_owned()));
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
        // A name with a dot is meant in full; only a bare host name is looked for in the search list of the system.
        let question = if name.contains('.') { format!("{name}.") } else { name.to_owned() };
        match tokio::time::timeout(self.limit, servers.lookup_ip(question)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.is_no_records_found() => Err(no_such_name()),
            Ok(Err(error)) => {
                // It may name the operator's DNS servers, which are not the tenant's to know.
                tracing::debug!(name, %error, "look-up failed");
                Err(EgressError::Dns("the look-up failed".to_owned()))
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
