//! The address policy: decides whether tenantd may connect to an address on behalf of a tenant. It is pure, except that it asks
//! which addresses belong to this machine. It handles no names (`resolve.rs`), no URLs (`target.rs`) and no connections.
//!
//! **Invariant:** an address that is neither known to be public nor explicitly opened is refused. The tenant learns only that it is
//! refused. The reason and the setting go to the operator's log.

use std::{
    collections::HashSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use arc_swap::ArcSwap;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use tenantd_base::config;

use super::{error::Blocked, hidden::readings, machine::Machine};

/// The caller on whose behalf a target is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    /// Whether loopback is allowed. An evaluation tenant may run its receiver on the same machine.
    pub allow_loopback: bool,
}

/// The class of an address by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Public,
    Private,
    Forbidden(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Loopback,
    Unspecified,
    LinkLocal,
    Metadata,
    Multicast,
    Broadcast,
    Reserved,
    /// tenantd itself listens on the address.
    Own,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Loopback => "loopback",
            Self::Unspecified => "the unspecified address",
            Self::LinkLocal => "link-local",
            Self::Metadata => "a cloud's metadata service",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved (IANA special purpose)",
            Self::Own => "an address that tenantd listens on",
        })
    }
}

/// Azure's wire server and the IPv6 address of Amazon's metadata service. The others are link-local.
const METADATA: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254))];

/// IANA's special-purpose IPv4 ranges that are neither private nor listed elsewhere. 192.0.0.0/24 and 192.88.99.0/24 hold anycast
/// addresses of gateways, so no tenant has a server there.
const RESERVED_V4: [Ipv4Net; 8] = [
    Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 8),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The only part of IPv6 that is assigned for use on the Internet, and the exceptions in it: protocol assignments (with
/// benchmarking and ORCHID) and the two ranges for documentation. Teredo and 6to4 do not reach this check, because they are read as
/// IPv4.
const GLOBAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const RESERVED_V6: [Ipv6Net; 3] = [
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// The class of `ip` as it is written. Embedded IPv4 addresses are extracted before (`hidden.rs`).
pub fn classify(ip: IpAddr) -> Class {
    if METADATA.contains(&ip) {
        return Class::Forbidden(Reason::Metadata);
    }
    if config::PRIVATE_NETWORKS.iter().any(|network| network.contains(&ip)) {
        return Class::Private;
    }
    let reason = match ip {
        _ if ip.is_loopback() => Reason::Loopback,
        _ if ip.is_unspecified() => Reason::Unspecified,
        _ if ip.is_multicast() => Reason::Multicast,
        IpAddr::V4(Ipv4Addr::BROADCAST) => Reason::Broadcast,
        IpAddr::V4(v4) if v4.is_link_local() => Reason::LinkLocal,
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Reason::LinkLocal,
        IpAddr::V4(v4) if RESERVED_V4.iter().any(|network| network.contains(&v4)) => Reason::Reserved,
        IpAddr::V6(v6) if !GLOBAL_V6.contains(&v6) || RESERVED_V6.iter().any(|network| network.contains(&v6)) => Reason::Reserved,
        _ => return Class::Public,
    };
    Class::Forbidden(reason)
}

/// Why a target is refused, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The address as it would be dialed.
    pub address: IpAddr,
    /// The address that was checked: a different one if an IPv4 address is embedded.
    pub judged_as: IpAddr,
    pub class: Class,
}

impl Refusal {
    /// Logs the refusal for the operator, and returns the error for the tenant.
    pub fn report(self, host: &str) -> Blocked {
        let (reason, setting) = match self.class {
            Class::Private | Class::Public => ("a private address".to_owned(), "egress.allowed_networks"),
            Class::Forbidden(reason) => (reason.to_string(), "egress.allowed_addresses"),
        };
        let Self { address, judged_as, .. } = self;
        tracing::warn!(host, %address, %judged_as, reason, setting, "refused to connect: the setting would allow it");
        Blocked
    }
}

/// The operator's settings for allowed targets.
#[derive(Debug)]
pub struct Policy {
    allowed_networks: Vec<IpNet>,
    allowed_addresses: HashSet<IpAddr>,
    listening: ArcSwap<Vec<SocketAddr>>,
    machine: Machine,
}

impl Policy {
    pub fn new(settings: &config::Egress, listening: &[SocketAddr]) -> Self {
        let mut allowed_addresses: HashSet<IpAddr> = settings.allowed_addresses.iter().copied().collect();
        // An entry with an embedded address also opens that address, if there is only one.
        for entry in &settings.allowed_addresses {
            let mut plain = readings(*entry);
            if let (Some(address), None) = (plain.next(), plain.next()) {
                allowed_addresses.insert(address);
            }
        }
        Self {
            allowed_networks: settings.allowed_networks.clone(),
            allowed_addresses,
            listening: ArcSwap::from_pointee(listening.to_vec()),
            machine: Machine::new(),
        }
    }

    pub fn set_listening(&self, listening: &[SocketAddr]) {
        self.listening.store(listening.to_vec().into());
    }

    /// Checks whether `target` may be dialed for `audience`. All addresses that it can stand for must be allowed.
    pub fn check(&self, target: SocketAddr, audience: Audience) -> Result<(), Refusal> {
        let address = target.ip();
        if self.allowed_addresses.contains(&address) {
            return Ok(());
        }
        for judged_as in readings(address) {
            let class = self.class_here(SocketAddr::new(judged_as, target.port()));
            let allowed = match class {
                Class::Public => true,
                Class::Private => self.allowed_networks.iter().any(|network| network.contains(&judged_as)),
                Class::Forbidden(reason) => reason == Reason::Loopback && audience.allow_loopback,
            };
            if !allowed && !self.allowed_addresses.contains(&judged_as) {
                return Err(Refusal { address, judged_as, class });
            }
        }
        Ok(())
    }

    fn class_here(&self, target: SocketAddr) -> Class {
        if self.is_own(target) { Class::Forbidden(Reason::Own) } else { classify(target.ip()) }
    }

    /// On loopback only the port of tenantd counts as its own, because the receiver of an evaluation runs next to it. Of other
    /// local addresses all ports count, because other services of this machine are not for tenants.
    fn is_own(&self, target: SocketAddr) -> bool {
        let ip = target.ip();
        self.listening.load().iter().any(|own| {
            let port_matters = ip.is_loopback();
            let here = match own.ip() {
                any if any.is_unspecified() => port_matters || self.machine.has(ip),
                one => one == ip,
            };
            here && (!port_matters || own.port() == target.port())
        })
    }
}

#[cfg(test)]
mod tests;
