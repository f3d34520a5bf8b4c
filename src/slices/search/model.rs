//! What can be searched, what is asked, and what is found. No store, no index, no wire.
//!
//! **Invariant:** a document holds what a record is found by and ranked by; what a hit shows is read from the record itself.

use tenantd_base::{
    access::{Grants, Reach, Scope},
    clock::Timestamp,
    id::{OrganizationId, TenantId},
    vocabulary::vocabulary,
};

/// Words of which the index keeps the place in their list.
macro_rules! in_index {
    ($($type:ty),*) => {$(
        impl $type {
            pub const fn code(self) -> u8 {
                self as u8
            }

            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.get(usize::from(code)).copied()
            }
        }
    )*};
}

in_index!(Kind, State);

vocabulary! {
    /// The types of hits.
    Kind:
    Device "device", User "user", Organization "organization", Ticket "ticket", Vm "vm", Provider "provider", Workflow "workflow",
    Software "software",
}

vocabulary! {
    /// The states that hits are filtered and counted by: of tickets their status, of devices their lifecycle, of users whether they are
    /// active, of workflows and providers whether they are enabled, of VMs their state.
    State:
    New "new", Open "open", InProgress "in_progress", WaitingCustomer "waiting_customer", WaitingVendor "waiting_vendor",
    Scheduled "scheduled", OnHold "on_hold", Resolved "resolved", Closed "closed", Cancelled "cancelled", Merged "merged",
    Active "active", Spare "spare", InRepair "in_repair", Retired "retired", Missing "missing",
    Enabled "enabled", Disabled "disabled", Archived "archived",
    Provisioning "provisioning", Starting "starting", Running "running", Stopping "stopping", Stopped "stopped",
    Suspended "suspended", Rebooting "rebooting", Terminating "terminating", Error "error", Unknown "unknown",
}

impl State {
    /// Whether it comes before those that are over.
    pub const fn is_open(self) -> bool {
        !matches!(
            self,
            Self::Resolved | Self::Closed | Self::Cancelled | Self::Merged | Self::Retired | Self::Disabled | Self::Archived
        )
    }
}

impl Kind {
    /// The scope that hits of this type need beside `search:read`. The names of organizations stand in every record that belongs to
    /// one, so they need none.
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Device | Self::Software => Some(Scope::InventoryRead),
            Self::User => Some(Scope::UsersRead),
            Self::Organization => None,
            Self::Ticket => Some(Scope::TicketsRead),
            Self::Vm => Some(Scope::VmsRead),
            Self::Provider => Some(Scope::ProvidersRead),
            Self::Workflow => Some(Scope::WorkflowsRead),
        }
    }
}

/// A record's own id, of whatever type.
pub type RecordId = [u8; 16];

/// What a field of the query language compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    Os,
    Ip,
    Mac,
    Serial,
    Tag,
    Assignee,
    Priority,
    Number,
    /// An address in a form whose order is that of the addresses.
    Address,
}

/// What one record is found by, and how it is told apart from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub tenant_id: TenantId,
    pub kind: Kind,
    pub id: RecordId,
    /// The id as clients know it.
    pub shown_id: String,
    pub name: String,
    pub subtitle: Option<String>,
    /// All other text, by the name of its field.
    pub texts: Vec<(&'static str, String)>,
    /// What it is named by exactly, by the name of its field, as it is written.
    pub identifiers: Vec<(&'static str, String)>,
    /// Folded values.
    pub attributes: Vec<(Attribute, String)>,
    /// The names of installed packages.
    pub software: Vec<String>,
    pub organization_id: Option<OrganizationId>,
    pub state: Option<State>,
    pub updated_at: Timestamp,
}

/// The name of a document: what it is replaced and removed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    pub tenant_id: TenantId,
    pub kind: Kind,
    pub id: RecordId,
}

impl Document {
    pub fn key(&self) -> DocumentKey {
        DocumentKey { tenant_id: self.tenant_id, kind: self.kind, id: self.id }
    }
}

/// What a caller may find.
#[derive(Clone, Debug)]
pub struct Sight {
    pub tenant_id: TenantId,
    pub kinds: Vec<Kind>,
    pub reach: Reach,
}

impl Sight {
    pub fn new(tenant_id: TenantId, grants: Grants, reach: Reach) -> Self {
        let kinds = Kind::ALL.iter().copied().filter(|kind| kind.scope().is_none_or(|scope| grants.allows(scope)));
        Self { tenant_id, kinds: kinds.collect(), reach }
    }

    /// Whether a record of this type and organization may be shown. An organization belongs to itself; what belongs to the tenant as a
    /// whole is only for those whose reach is not restricted.
    pub fn covers(&self, kind: Kind, organization: Option<OrganizationId>) -> bool {
        self.kinds.contains(&kind) && self.reach.covers(organization)
    }
}

vocabulary! {
    /// `Suggest` is for while somebody types: only names and identifiers, and the last word may be unfinished.
    Mode:
    Full "full", Suggest "suggest",
}

vocabulary! {
    #[derive(Default)]
    Order:
    #[default]
    Relevance "relevance", Recent "recent",
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facets {
    pub kind: bool,
    pub organization: bool,
    pub state: bool,
}

/// What is asked, beside the query itself.
#[derive(Clone, Debug)]
pub struct Options {
    /// Empty: every type.
    pub kinds: Vec<Kind>,
    pub organization_id: Option<OrganizationId>,
    pub mode: Mode,
    /// Whether a word that is not found may be one with typos.
    pub fuzzy: bool,
    pub order: Order,
    pub facets: Facets,
    pub limit: usize,
    pub after: Option<Place>,
}

/// Where a hit stands among all: the higher, the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub rank: u64,
    pub id: u128,
}

impl Place {
    pub fn to_bytes(self) -> Vec<u8> {
        [&self.rank.to_be_bytes()[..], &self.id.to_be_bytes()[..]].concat()
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (rank, id) = bytes.split_first_chunk::<8>()?;
        Some(Self { rank: u64::from_be_bytes(*rank), id: u128::from_be_bytes(id.try_into().ok()?) })
    }
}

vocabulary! {
    MatchKind:
    Exact "exact", Prefix "prefix", Fuzzy "fuzzy", Phrase "phrase",
}

/// Why something was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    pub field: &'static str,
    pub value: String,
    pub kind: MatchKind,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub kind: Kind,
    pub id: String,
    pub title: String,
    pub subtitle: Option<String>,
    pub organization: Option<(OrganizationId, String)>,
    pub state: Option<State>,
    pub score: f64,
    pub matched_on: Vec<Match>,
    /// Texts with what matched in `<mark>`, by field; everything else is escaped for HTML.
    pub highlights: Vec<(&'static str, String)>,
    pub updated_at: Timestamp,
}

/// A value and how many hits have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetValue {
    pub value: String,
    /// A name for people, where the value is an id.
    pub label: Option<String>,
    pub count: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FacetCounts {
    pub kind: Option<Vec<FacetValue>>,
    pub organization: Option<Vec<FacetValue>>,
    pub state: Option<Vec<FacetValue>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    pub hits: Vec<Hit>,
    pub total: u64,
    /// The place of the last hit, when there are more behind it.
    pub last: Option<Place>,
    pub facets: FacetCounts,
    pub did_you_mean: Option<String>,
}
