//! The settings of outgoing connections, and their constraints.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::only_target::OnlyTarget;

/// The private networks: RFC 1918, the shared address space of RFC 6598, and the unique local addresses of RFC 4193.
/// `allowed_networks` can open only these. Any other blocked address must be opened by itself.
pub const PRIVATE_NETWORKS: [IpNet; 5] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7)),
];

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    pub allowed_networks: Vec<IpNet>,
    pub allowed_addresses: Vec<IpAddr>,
    pub only_targets: Vec<OnlyTarget>,
    pub dns_servers: Vec<SocketAddr>,
    #[serde(with = "super::empty_is_none")]
    pub ca_file: Option<PathBuf>,
    pub pool_connections: usize,
    pub pool_connections_per_target: usize,
    pub pool_idle_seconds: u64,
    pub pool_lifetime_seconds: u64,
}

impl Egress {
    /// Refuses a network that is not private. It would open nothing, although its operator believes that it does.
    pub(super) fn problem(&self) -> Option<String> {
        let is_private = |network: &IpNet| PRIVATE_NETWORKS.iter().any(|private| private.contains(network));
        let odd = self.allowed_networks.iter().find(|network| !is_private(network))?;
        let private: Vec<String> = PRIVATE_NETWORKS.iter().map(IpNet::to_string).collect();
        Some(format!(
            "egress.allowed_networks: {odd} is not part of a private network ({}); use egress.allowed_addresses for single addresses",
            private.join(", ")
        ))
    }
    /// Refuses a listed private network that the address policy closes. The list opens nothing, although its operator may believe
    /// that it does.
    pub(super) fn conflict(&self) -> Option<String> {
        let within = |outer: &IpNet, inner: &IpNet| outer.contains(inner);
        let closed = |network: &IpNet| {
            PRIVATE_NETWORKS.iter().any(|private| within(private, network))
                && !self.allowed_networks.iter().any(|open| within(open, network) || within(network, open))
                && !self.allowed_addresses.iter().any(|address| network.contains(address))
        };
        let odd = self.only_targets.iter().find(|target| target.network().is_some_and(|network| closed(&network)))?;
        Some(format!(
            "egress.only_targets: {odd} is in a private network that egress.allowed_networks does not open; the list never opens an \
             address by itself"
        ))
    }
}
