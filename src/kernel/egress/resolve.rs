//! Names to addresses, within a time limit. An answer counts for its TTL and at most half a minute, so that an address that a name
//! no longer has is not dialled for long; every caller judges what it gets anew.
//!
//! **Invariant:** there is one look-up for one exchange. Its addresses are judged and those very addresses are dialled.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
};

use super::error::EgressError;

/// How long an answer is believed when its TTL is longer, and that there is none.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
const LONGEST_REFUSAL: Duration = Duration::from_secs(5);
const CACHED_ANSWERS: u64 = 4096;
/// How often a question is repeated within the time limit.
const REPEATS: u32 = 2;
/// More addresses than this are no sensible answer, and each of them would have to be judged.
const MOST_ADDRESSES: usize = 64;

pub(super) struct Resolver {
    /// None where the system has no usable configuration: then only addresses can be dialled.
    resolver: Option<TokioResolver>,
    limit: Duration,
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
            options.cache_size = CACHED_ANSWERS;
            options.positive_min_ttl = None;
            options.positive_max_ttl = Some(LONGEST_ANSWER);
            options.negative_min_ttl = None;
            options.negative_max_ttl = Some(LONGEST_REFUSAL);
            builder.build()
        });
        let resolver = built
            .inspect_err(
                |error| tracing::warn!(%error, "names of targets cannot be resolved; egress.dns_servers names DNS servers"),
            )
            .ok();
        Self { resolver, limit }
    }

    /// All addresses of `name`, at least one.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, EgressError> {
        let relative = name.strip_suffix('.').unwrap_or(name);
        if relative == "localhost" || relative.ends_with(".localhost") {
            // RFC 6761: never a question for DNS, and the same at every site.
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let Some(resolver) = &self.resolver else {
            return Err(EgressError::Dns("no DNS server is configured".to_owned()));
        };
        // A name with a dot is meant in full; only a bare host name is looked for in the search list of the system.
        let question = if relative.contains('.') { format!("{relative}.") } else { relative.to_owned() };
        let found = tokio::time::timeout(self.limit, resolver.lookup_ip(question)).await;
        let addresses: Vec<IpAddr> = match found {
            Err(_) => return Err(EgressError::Dns("no answer in time".to_owned())),
            Ok(Err(error)) if error.is_no_records_found() => return Err(EgressError::Dns("no such name or address".to_owned())),
            Ok(Err(error)) => {
                // It may name the operator's DNS servers, which are not the tenant's to know.
                tracing::debug!(name, %error, "look-up failed");
                return Err(EgressError::Dns("the look-up failed".to_owned()));
            }
            Ok(Ok(answers)) => answers.iter().take(MOST_ADDRESSES + 1).collect(),
        };
        match addresses.len() {
            0 => Err(EgressError::Dns("no such name or address".to_owned())),
            1..=MOST_ADDRESSES => Ok(addresses),
            _ => Err(EgressError::Dns("too many addresses".to_owned())),
        }
    }
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
