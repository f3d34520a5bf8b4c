//! Authority as a value: what a caller may do, where, from which networks and until when. This is plain data: no store, no clock,
//! no HTTP.
//!
//! Every comparison of rights uses this module: who may create, change or act through a credential, and who may read a record.
//! **Invariant:** an authority over some organizations holds no tenant-wide scope. **Invariant:** an empty `Only` reaches nothing.
//! Stored and wire forms in which an empty list means "all" become [`Within::All`] where they are read, never here.

use std::{collections::BTreeSet, fmt};

use ipnet::IpNet;

use super::{
    access::{Grants, Principal, Reach, Scope},
    clock::Timestamp,
    id::{OrganizationId, TenantId},
};

/// Everything, or only the given part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Within<T> {
    All,
    /// An empty part reaches nothing.
    Only(T),
}

pub type Organizations = BTreeSet<OrganizationId>;

/// A set of IP networks in canonical form: two sets are equal if they contain the same addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(IpNet::aggregate(&networks))
    }

    pub fn as_slice(&self) -> &[IpNet] {
        &self.0
    }

    fn holds(&self, network: &IpNet) -> bool {
        // Canonical networks neither overlap nor touch, so only a single one of them can contain the whole network.
        self.0.iter().any(|own| own.contains(network))
    }
}

impl FromIterator<IpNet> for Networks {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        Self::new(networks.into_iter().collect())
    }
}

impl Within<Organizations> {
    fn lacking(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::All, _) => None,
            (Self::Only(_), Self::All) => Some(Self::All),
            (Self::Only(own), Self::Only(wanted)) => {
                let missing: Organizations = wanted.difference(own).copied().collect();
                (!missing.is_empty()).then_some(Self::Only(missing))
            }
        }
    }

    fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, limit) | (limit, Self::All) => limit.clone(),
            (Self::Only(own), Self::Only(others)) => Self::Only(own.intersection(others).copied().collect()),
        }
    }
}

impl From<&Reach> for Within<Organizations> {
    fn from(reach: &Reach) -> Self {
        match reach {
            Reach::Everything => Self::All,
            Reach::Organizations(ids) => Self::Only(ids.iter().copied().collect()),
        }
    }
}

impl Within<Networks> {
    fn lacking(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::All, _) => None,
            (Self::Only(_), Self::All) => Some(Self::All),
            (Self::Only(own), Self::Only(wanted)) => {
                let missing: Networks = wanted.0.iter().filter(|network| !own.holds(network)).copied().collect();
                (!missing.0.is_empty()).then_some(Self::Only(missing))
            }
        }
    }

    fn meet(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, limit) | (limit, Self::All) => limit.clone(),
            (Self::Only(own), Self::Only(others)) => {
                // Two networks overlap only if one contains the other.
                let within = |inner: &Networks, outer: &Networks| -> Vec<IpNet> {
                    inner.0.iter().filter(|network| outer.holds(network)).copied().collect()
                };
                Self::Only(Networks::new([within(own, others), within(others, own)].concat()))
            }
        }
    }
}

/// What a credential may do in one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    tenant_id: TenantId,
    scopes: Grants,
    organizations: Within<Organizations>,
    networks: Within<Networks>,
    until: Option<Timestamp>,
}

impl Authority {
    /// These scopes over the whole tenant, from any network, without an end.
    pub fn new(tenant_id: TenantId, scopes: Grants) -> Self {
        Self { tenant_id, scopes, organizations: Within::All, networks: Within::All, until: None }
    }

    /// All rights in a tenant.
    pub fn everything(tenant_id: TenantId) -> Self {
        Self::new(tenant_id, Grants::all())
    }

    /// Restricts the authority to organizations. Unless this is `All`, tenant-wide scopes are dropped.
    pub fn with_organizations(mut self, organizations: Within<Organizations>) -> Self {
        if organizations != Within::All {
            self.scopes = self.scopes.intersection(Grants::BY_ORGANIZATION);
        }
        self.organizations = organizations;
        self
    }

    pub fn with_networks(mut self, networks: Within<Networks>) -> Self {
        self.networks = networks;
        self
    }

    /// `None` means that it never ends.
    pub fn with_until(mut self, until: Option<Timestamp>) -> Self {
        self.until = until;
        self
    }

    pub fn tenant_id(&self) -> TenantId {
        self.tenant_id
    }

    pub fn scopes(&self) -> Grants {
        self.scopes
    }

    pub fn organizations(&self) -> &Within<Organizations> {
        &self.organizations
    }

    pub fn networks(&self) -> &Within<Networks> {
        &self.networks
    }

    /// `None` means that it never ends.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Whether this authority holds every right of the other.
    pub fn covers(&self, other: &Self) -> bool {
        self.lacking(other).is_none()
    }

    /// The rights that are missing to cover the other; `None` if nothing is missing.
    pub fn lacking(&self, other: &Self) -> Option<Lacking> {
        let lacking = Lacking {
            tenant: self.tenant_id != other.tenant_id,
            scopes: other.scopes.without(self.scopes),
            organizations: self.organizations.lacking(&other.organizations),
            networks: self.networks.lacking(&other.networks),
            until: self.until.filter(|end| other.until.is_none_or(|wanted| wanted > *end)),
        };
        (!lacking.is_empty()).then_some(lacking)
    }

    /// The rights that both have. Authorities of different tenants have none in common.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let scopes = if self.tenant_id == other.tenant_id { self.scopes.intersection(other.scopes) } else { Grants::NONE };
        let until = match (self.until, other.until) {
            (Some(own), Some(others)) => Some(own.min(others)),
            (own, others) => own.or(others),
        };
        Self::new(self.tenant_id, scopes)
            .with_organizations(self.organizations.meet(&other.organizations))
            .with_networks(self.networks.meet(&other.networks))
            .with_until(until)
    }

    /// Whether the holder may turn `before` into `after`. The holder must cover both. `None` means that the credential does not
    /// exist: before a creation, or after a removal.
    ///
    /// A reduction needs no rights, so that a weaker administrator can stop a stronger credential. With `secret_leaves` a reduction
    /// does need them: if the action hands out a secret or enables a disabled credential, the holder could act through it.
    pub fn may_change(&self, before: Option<&Self>, after: Option<&Self>, secret_leaves: bool) -> Result<(), Lacking> {
        let reduces = match (before, after) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(before), Some(after)) => before.covers(after),
        };
        if reduces && !secret_leaves {
            return Ok(());
        }
        let lacking = before.into_iter().chain(after).filter_map(|authority| self.lacking(authority)).reduce(Lacking::and);
        lacking.map_or(Ok(()), Err)
    }

    /// Whether the holder may read a record with this label.
    pub fn may(&self, label: &Label) -> Result<(), Lacking> {
        let lacking = Lacking {
            scopes: label.scopes.without(self.scopes),
            organizations: self.organizations.lacking(&label.organizations),
            ..Lacking::default()
        };
        if lacking.is_empty() { Ok(()) } else { Err(lacking) }
    }
}

impl Principal {
    /// What the caller may do with the credential of this request.
    pub fn authority(&self) -> Authority {
        let networks = self.networks.as_ref().map_or(Within::All, |networks| Within::Only(networks.iter().copied().collect()));
        Authority::new(self.tenant_id, self.grants)
            .with_organizations((&self.reach).into())
            .with_networks(networks)
            .with_until(self.until)
    }

    /// The rights that the caller has lost since they had these scopes over these organizations; `None` if nothing is lost. Rights
    /// that a rotation takes from the replaced secret do not count as lost, because the key still has them.
    pub fn lost(&self, scopes: Grants, organizations: &Reach) -> Option<Lacking> {
        let over = if self.superseded { Grants::OVER_CREDENTIALS } else { Grants::NONE };
        let had = |scopes: Grants, reach: &Reach| Authority::new(self.tenant_id, scopes).with_organizations(reach.into());
        had(self.grants, &self.reach).lacking(&had(scopes.without(over), organizations))
    }
}

/// The rights that a reader needs. All of them are required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub scopes: Grants,
    /// Every one of these organizations; `All` for a record of the whole tenant.
    pub organizations: Within<Organizations>,
}

impl Label {
    /// The label of a record that belongs to these organizations, or to the whole tenant if there are none.
    pub fn new(scopes: Grants, organizations: impl IntoIterator<Item = OrganizationId>) -> Self {
        let organizations: Organizations = organizations.into_iter().collect();
        let organizations = if organizations.is_empty() { Within::All } else { Within::Only(organizations) };
        Self { scopes, organizations }
    }

    /// The label of a record that belongs to the whole tenant.
    pub fn tenant_wide(scopes: Grants) -> Self {
        Self { scopes, organizations: Within::All }
    }
}

/// The rights that an authority is missing. At least one part is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// Whether the rights are in another tenant.
    pub tenant: bool,
    pub scopes: Grants,
    /// The organizations out of reach; `All` if the whole tenant is needed.
    pub organizations: Option<Within<Organizations>>,
    /// The networks that are not covered; `All` if any address is needed.
    pub networks: Option<Within<Networks>>,
    /// When the authority ends, which is too early.
    pub until: Option<Timestamp>,
}

impl Lacking {
    /// Only scopes are missing.
    pub fn scopes(scopes: Grants) -> Self {
        Self { scopes, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing but scopes is missing.
    pub fn is_scopes_alone(&self) -> bool {
        *self == Self::scopes(self.scopes)
    }

    pub fn scope_names(&self) -> Vec<&'static str> {
        self.scopes.iter().map(Scope::name).collect()
    }

    /// Everything that is missing in either.
    fn and(self, other: Self) -> Self {
        let organizations = match (self.organizations, other.organizations) {
            (Some(Within::Only(own)), Some(Within::Only(others))) => Some(Within::Only(own.union(&others).copied().collect())),
            (Some(Within::All), _) | (_, Some(Within::All)) => Some(Within::All),
            (own, others) => own.or(others),
        };
        let networks = match (self.networks, other.networks) {
            (Some(Within::Only(own)), Some(Within::Only(others))) => Some(Within::Only(Networks::new([own.0, others.0].concat()))),
            (Some(Within::All), _) | (_, Some(Within::All)) => Some(Within::All),
            (own, others) => own.or(others),
        };
        Self {
            tenant: self.tenant || other.tenant,
            scopes: self.scopes.union(other.scopes),
            organizations,
            networks,
            until: self.until.or(other.until),
        }
    }
}

/// The rest of a sentence that begins with "You lack".
impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |items: Vec<String>| items.join(", ");
        let mut parts = Vec::new();
        if self.tenant {
            parts.push("rights in this tenant".to_owned());
        }
        if self.scopes != Grants::NONE {
            parts.push(format!("the scopes {}", self.scope_names().join(", ")));
        }
        match &self.organizations {
            Some(Within::All) => parts.push("access to all organizations".to_owned()),
            Some(Within::Only(ids)) => {
                parts.push(format!("access to the organizations {}", join(ids.iter().map(ToString::to_string).collect())));
            }
            None => {}
        }
        match &self.networks {
            Some(Within::All) => parts.push("access from every network".to_owned()),
            Some(Within::Only(networks)) => {
                parts.push(format!("access from the networks {}", join(networks.0.iter().map(ToString::to_string).collect())));
            }
            None => {}
        }
        if let Some(end) = self.until {
            parts.push(format!("access after {end}, when your credential ends"));
        }
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests;
