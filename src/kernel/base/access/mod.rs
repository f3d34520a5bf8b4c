//! Who may do what: scopes, roles, and the identity behind a request. This is plain data. How a request carries its credential is
//! in `tenantd_http::credentials`, and `tenantd_auth` checks it.

mod role;

use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use role::{NotARole, Role, StaffRole};

use super::{
    clock::Timestamp,
    id::{ApiKeyId, OrganizationId, SessionId, TenantId, UserId},
    vocabulary::vocabulary,
};

macro_rules! scopes {
    ($($variant:ident $name:literal $what:literal;)*) => {
        /// One permission. The wire name is `area:action`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Scope { $($variant),* }

        impl Scope {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What the scope allows, for the documentation.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $what),* }
            }
        }
    };
}

scopes! {
    TicketsRead "tickets:read" "Read tickets, their comments, time entries and history.";
    TicketsWrite "tickets:write" "Create and change tickets.";
    WorkflowsRead "workflows:read" "Read workflow definitions and runs.";
    WorkflowsWrite "workflows:write" "Create, change and archive workflow definitions.";
    WorkflowsRun "workflows:run" "Start and steer workflow runs.";
    WorkflowsApprove "workflows:approve" "Approve or reject waiting workflow steps.";
    SearchRead "search:read" "Search. Each hit also needs the read scope of its kind.";
    InventoryRead "inventory:read" "Read devices and the asset inventory.";
    ProvidersRead "providers:read" "Read cloud providers, but never their secrets.";
    ProvidersWrite "providers:write" "Create, verify, change and delete cloud providers.";
    VmsRead "vms:read" "Read virtual machines.";
    VmsWrite "vms:write" "Provision virtual machines.";
    BackupRead "backup:read" "Read backup configuration and posture.";
    BackupWrite "backup:write" "Change backup configuration.";
    AnalyticsRead "analytics:read" "Read the tenant's analytics.";
    PlatformRead "platform:read" "Read platform analytics. Works only in the platform tenant.";
    ApiKeysRead "api_keys:read" "List API keys, but never their plaintext.";
    ApiKeysWrite "api_keys:write" "Create, change, rotate and revoke API keys.";
    WebhooksRead "webhooks:read" "Read webhook endpoints and their deliveries.";
    WebhooksWrite "webhooks:write" "Create, change, test and delete webhook endpoints.";
    EventsRead "events:read" "Read the event feed.";
    UsersRead "users:read" "Read users.";
    UsersWrite "users:write" "Create, change and disable users.";
    IngestWrite "ingest:write" "Send organizations, users, devices and backup jobs.";
    SecretsWrite "secrets:write" "List, create, change, rotate and delete named secrets, but never read their values.";
    SecretsUse "secrets:use" "Save and start workflows that send named secrets.";
    QuotasRead "quotas:read" "Read the quotas of the tenant and their current use.";
    DirectoryRead "directory:read" "Read organizations, contacts and devices.";
    DirectoryWrite "directory:write" "Create, change and delete organizations, contacts and devices.";
    ProvisioningWrite "provisioning:write" "Provision staff and groups with SCIM. An API key with it counts as an administrator.";
}

/// The set of scopes that a wildcard stands for. A credential with a wildcard keeps the set of its own generation: scopes that a
/// later release adds do not join it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Generation(pub u16);

impl Generation {
    /// The generation with all scopes of this release.
    pub const CURRENT: Self = Self(3);
}

impl Scope {
    fn area(self) -> &'static str {
        self.name().split_once(':').map_or("", |(area, _)| area)
    }

    fn action(self) -> &'static str {
        self.name().split_once(':').map_or("", |(_, action)| action)
    }

    /// Whether the scope only reads.
    pub fn is_read(self) -> bool {
        self.action() == "read"
    }

    const fn bit(self) -> u64 {
        1 << (self as u64)
    }

    /// The first generation of wildcards that includes the scope.
    const fn since(self) -> Generation {
        match self {
            Self::SecretsWrite | Self::SecretsUse | Self::QuotasRead => Generation(1),
            Self::DirectoryRead | Self::DirectoryWrite => Generation(2),
            Self::ProvisioningWrite => Generation(3),
            _ => Generation(0),
        }
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grants(u64);

impl Grants {
    pub const NONE: Self = Self(0);
    /// The scopes over records that belong to an organization. A key for some organizations can have only these.
    pub const BY_ORGANIZATION: Self = Self::of(&[
        Scope::TicketsRead,
        Scope::TicketsWrite,
        Scope::SearchRead,
        Scope::InventoryRead,
        Scope::ProvidersRead,
        Scope::ProvidersWrite,
        Scope::VmsRead,
        Scope::VmsWrite,
        Scope::BackupRead,
        Scope::BackupWrite,
        Scope::IngestWrite,
        Scope::DirectoryRead,
        Scope::DirectoryWrite,
    ]);

    /// The scopes that create and change credentials. A secret that a rotation has replaced does not have them.
    pub const OVER_CREDENTIALS: Self = Self::of(&[Scope::ApiKeysWrite, Scope::UsersWrite, Scope::ProvisioningWrite]);

    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    /// A set of these scopes, for use in a constant.
    pub const fn of(scopes: &[Scope]) -> Self {
        let (mut set, mut rest) = (0, scopes);
        while let [scope, others @ ..] = rest {
            set |= scope.bit();
            rest = others;
        }
        Self(set)
    }

    pub const fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn allows(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    pub const fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The scopes of this set that only read.
    pub fn reads(self) -> Self {
        self.iter().filter(|scope| scope.is_read()).collect()
    }

    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.allows(*scope))
    }

    /// The scopes that a list of patterns grants. Unknown patterns grant nothing.
    pub fn from_patterns<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Self::from_patterns_of(Generation::CURRENT, patterns)
    }

    /// Like [`Self::from_patterns`], with the wildcards of a given generation. A scope that is listed by its name is always
    /// included.
    pub fn from_patterns_of<'a>(generation: Generation, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let expand = |pattern: &str| {
            let known = |scope: &Scope| scope.since() <= generation || scope.name() == pattern;
            Some(expand(pattern)?.iter().filter(known).collect())
        };
        patterns.into_iter().filter_map(expand).fold(Self::NONE, Self::union)
    }
}

impl FromIterator<Scope> for Grants {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | scope.bit()))
    }
}

/// The scopes that are needed to read everything that an administrator does.
pub const AUDIT_READ: Grants = Grants::of(&[Scope::ApiKeysRead, Scope::WebhooksRead, Scope::EventsRead, Scope::UsersRead]);

/// The scopes that a pattern stands for: the name of a scope, `area:*`, `*:action` or `*`. `None` if the pattern matches nothing.
pub fn expand(pattern: &str) -> Option<Grants> {
    let wanted = |scope: &Scope| match pattern.split_once(':') {
        None => pattern == "*",
        Some(("*", "*")) => false,
        Some(("*", action)) => scope.action() == action,
        Some((area, "*")) => scope.area() == area,
        Some(_) => scope.name() == pattern,
    };
    let grants: Grants = Scope::ALL.iter().copied().filter(wanted).collect();
    (grants != Grants::NONE).then_some(grants)
}

/// Every pattern that [`expand`] accepts, for error messages and the published document.
pub fn known_patterns() -> Vec<String> {
    let mut areas: Vec<&str> = Scope::ALL.iter().map(|scope| scope.area()).collect();
    areas.dedup();
    let mut actions: Vec<&str> = Scope::ALL.iter().map(|scope| scope.action()).collect();
    actions.sort_unstable();
    actions.dedup();
    let names = Scope::ALL.iter().map(|scope| scope.name().to_owned());
    let by_area = areas.into_iter().map(|area| format!("{area}:*"));
    let by_action = actions.into_iter().map(|action| format!("*:{action}"));
    names.chain(by_area).chain(by_action).chain(["*".to_owned()]).collect()
}

vocabulary! {
    /// The kind of a tenant.
    TenantKind:
    Standard "standard",
    /// An evaluation with synthetic data, an end date, and keys that are recognizable as evaluation keys.
    Evaluation "evaluation",
    /// The operator's own tenant. Exactly one exists.
    Platform "platform",
}

/// The authenticated identity behind a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub tenant_id: TenantId,
    pub tenant_name: String,
    pub tenant_kind: TenantKind,
    pub identity: Identity,
    pub grants: Grants,
    pub reach: Reach,
    /// The networks from which the credential works; `None` for any.
    pub networks: Option<Arc<[IpNet]>>,
    /// When the credential expires; `None` for a session, which has no fixed end.
    pub until: Option<Timestamp>,
    /// Whether a rotation has replaced the secret. It then works only until the overlap ends.
    pub superseded: bool,
}

/// The records that a credential sees and changes within its tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    #[default]
    Everything,
    /// Only records that belong to one of these organizations, in order. Records without an organization are out of reach.
    Organizations(Arc<[OrganizationId]>),
}

impl Reach {
    /// An empty list restricts nothing.
    pub fn new(mut organizations: Vec<OrganizationId>) -> Self {
        if organizations.is_empty() {
            return Self::Everything;
        }
        organizations.sort_unstable();
        organizations.dedup();
        Self::Organizations(organizations.into())
    }

    /// The grants that remain within this reach. A restricted reach removes all tenant-wide scopes.
    pub fn limit(&self, grants: Grants) -> Grants {
        match self {
            Self::Everything => grants,
            Self::Organizations(_) => grants.without(Grants::all().without(Grants::BY_ORGANIZATION)),
        }
    }

    /// The organizations that both a filter and the reach allow; `None` for all organizations.
    pub fn narrow(&self, wanted: Option<Vec<OrganizationId>>) -> Option<Vec<OrganizationId>> {
        match (self, wanted) {
            (Self::Everything, wanted) => wanted,
            (Self::Organizations(within), None) => Some(within.to_vec()),
            (Self::Organizations(_), Some(mut wanted)) => {
                wanted.retain(|id| self.covers(Some(*id)));
                Some(wanted)
            }
        }
    }

    /// Whether a record of this organization, or of none, is within reach.
    pub fn covers(&self, organization: Option<OrganizationId>) -> bool {
        match self {
            Self::Everything => true,
            Self::Organizations(within) => organization.is_some_and(|id| within.binary_search(&id).is_ok()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    User {
        id: UserId,
        session_id: SessionId,
        email: String,
        name: String,
        role: StaffRole,
        /// The name of a custom role.
        role_name: Option<String>,
        /// When the person last proved who they are.
        proven_at: Timestamp,
        /// Whether the session lacks a second factor that the tenant's policy requires. It then permits only to add or prove one.
        lacks_factor: bool,
    },
    ApiKey {
        id: ApiKeyId,
        name: String,
    },
    /// A person at a customer, in the portal. They have no scopes.
    Contact {
        id: UserId,
        session_id: SessionId,
        email: String,
        name: String,
        /// Their organization now.
        organization_id: OrganizationId,
        /// When the person last proved who they are.
        proven_at: Timestamp,
    },
    /// Anyone who may open the admin socket.
    LocalOperator,
}

impl Principal {
    /// Whether the caller may act for the whole installation, beyond one tenant.
    pub fn is_operator(&self) -> bool {
        match &self.identity {
            Identity::LocalOperator => true,
            Identity::User { role, lacks_factor: false, .. } => role.is(Role::Operator) && self.tenant_kind == TenantKind::Platform,
            Identity::User { .. } | Identity::ApiKey { .. } | Identity::Contact { .. } => false,
        }
    }

    /// Whether the caller is a contact of a customer, who can use only the portal and their own account.
    pub fn is_contact(&self) -> bool {
        matches!(self.identity, Identity::Contact { .. })
    }

    /// Whether the caller is a person with a session, which a browser sends with every request.
    pub fn has_session(&self) -> bool {
        self.session().is_some()
    }

    /// The session of a person.
    pub fn session(&self) -> Option<SessionId> {
        match &self.identity {
            Identity::User { session_id, .. } | Identity::Contact { session_id, .. } => Some(*session_id),
            Identity::ApiKey { .. } | Identity::LocalOperator => None,
        }
    }

    /// Whether the caller can only add or prove a second factor.
    pub fn lacks_factor(&self) -> bool {
        matches!(self.identity, Identity::User { lacks_factor: true, .. })
    }

    /// A short value that is unique for the credential. It is the scope of idempotency keys and rate limits.
    pub fn credential(&self) -> [u8; 16] {
        match &self.identity {
            Identity::User { id, .. } | Identity::Contact { id, .. } => *id.as_bytes(),
            Identity::ApiKey { id, .. } => *id.as_bytes(),
            Identity::LocalOperator => [0; 16],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_expand_to_the_scopes_they_name() {
        assert_eq!(expand("*"), Some(Grants::all()));
        let tickets: Vec<Scope> = expand("tickets:*").into_iter().flat_map(Grants::iter).collect();
        assert_eq!(tickets, [Scope::TicketsRead, Scope::TicketsWrite]);
        assert!(expand("*:read").is_some_and(|reads| reads.allows(Scope::VmsRead) && !reads.allows(Scope::VmsWrite)));
        for unknown in ["", "**", "*:*", "tickets", "tickets:reed", "tickets:", ":read", "Tickets:read", "nothing:*"] {
            assert_eq!(expand(unknown), None, "{unknown}");
        }
        assert!(known_patterns().iter().all(|pattern| expand(pattern).is_some()));
    }

    #[test]
    fn an_operator_has_rights_only_in_the_platform_tenant() {
        for kind in [TenantKind::Standard, TenantKind::Evaluation, TenantKind::Platform] {
            let (id, session_id) = (UserId::from_bytes([1; 16]), SessionId::from_bytes([2; 16]));
            let identity = Identity::User {
                id,
                session_id,
                email: String::new(),
                name: String::new(),
                role: Role::Operator.into(),
                role_name: None,
                proven_at: Timestamp::EPOCH,
                lacks_factor: false,
            };
            let principal = Principal {
                tenant_id: TenantId::from_bytes([3; 16]),
                tenant_name: String::new(),
                tenant_kind: kind,
                identity,
                grants: Role::Operator.grants_in(kind),
                reach: Reach::Everything,
                networks: None,
                until: None,
                superseded: false,
            };
            let is_platform = kind == TenantKind::Platform;
            assert_eq!(principal.is_operator(), is_platform, "{kind:?}");
            assert_eq!(principal.grants != Grants::NONE, is_platform, "{kind:?}");
        }
        assert_eq!(Role::Admin.grants_in(TenantKind::Evaluation), Role::Admin.grants());
    }

    #[test]
    fn later_scopes_do_not_join_earlier_wildcards() {
        let first = |pattern: &str| Grants::from_patterns_of(Generation(0), [pattern]);
        let later: Grants = Scope::ALL.iter().copied().filter(|scope| scope.since() > Generation(0)).collect();
        assert!(later.allows(Scope::SecretsWrite) && later.allows(Scope::QuotasRead));
        for wildcard in ["*", "*:write", "*:read", "secrets:*", "quotas:*", "directory:*", "*:use"] {
            let (then, now) = (first(wildcard), Grants::from_patterns([wildcard]));
            assert!(!then.overlaps(later), "{wildcard}");
            assert_eq!(then, now.without(later), "{wildcard}");
        }
        assert!(first("secrets:write").allows(Scope::SecretsWrite));
        let second = Grants::from_patterns_of(Generation(1), ["*"]);
        assert!(second.allows(Scope::QuotasRead) && !second.allows(Scope::DirectoryRead));
        assert_eq!(first("tickets:*"), Grants::from_patterns(["tickets:*"]));
        assert!(Scope::ALL.iter().all(|scope| scope.since() <= Generation::CURRENT));
    }
}
