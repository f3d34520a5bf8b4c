//! Documents, search options and results. No store, no index, no wire.
//!
//! **Invariant:** a document contains what a record is found and ranked by. What a hit shows is read from the record itself.

use tenantd_base::{
    access::{Grants, Reach, Scope},
    clock::Timestamp,
    id::{OrganizationId, TenantId},
    vocabulary::vocabulary,
};

/// Vocabularies whose words the index stores as their position in the list.
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
    /// The states that hits are filtered and counted by. For tickets: the status. For devices: the lifecycle. For users:
    /// active or disabled. For workflows and providers: enabled, disabled or archived. For VMs: the state.
    State:
    New "new", Open "open", InProgress "in_progress", WaitingCustomer "waiting_customer", WaitingVendor "waiting_vendor",
    Scheduled "scheduled", OnHold "on_hold", Resolved "resolved", Closed "closed", Cancelled "cancelled", Merged "merged",
    Active "active", Spare "spare", InRepair "in_repair", Retired "retired", Missing "missing",
    Enabled "enabled", Disabled "disabled", Archived "archived",
    Provisioning "provisioning", Starting "starting", Running "running", Stopping "stopping", Stopped "stopped",
    Suspended "suspended", Rebooting "rebooting", Terminating "terminating", Error "error", Unknown "unknown",
}

impl State {
    /// Open states rank above finished ones.
    pub const fn is_open(self) -> bool {
        !matches!(
            self,
            Self::Resolved | Self::Closed | Self::Cancelled | Self::Merged | Self::Retired | Self::Disabled | Self::Archived
        )
    }
}

impl Kind {
    /// The scope that a caller needs for hits of this type, in addition to `search:read`. Organizations need none: every
    /// record that belongs to an organization shows its name.
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

/// The id of a record of any type.
pub type RecordId = [u8; 16];

/// A field of the query language that is compared with a value.
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
    /// An address in a form that sorts like the address itself.
    Address,
}

/// Everything that a record is found by, and what identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub tenant_id: TenantId,
    pub kind: Kind,
    pub id: RecordId,
    /// The id in the form that clients use.
    pub shown_id: String,
    pub name: String,
    pub subtitle: Option<String>,
    /// All other text, by field name.
    pub texts: Vec<(&'static str, String)>,
    /// Exact identifiers, by field name, in their original spelling.
    pub identifiers: Vec<(&'static str, String)>,
    /// Attribute values, folded.
    pub attributes: Vec<(Attribute, String)>,
    /// The names of installed packages.
    pub software: Vec<String>,
    pub organization_id: Option<OrganizationId>,
    pub state: Option<State>,
    pub updated_at: Timestamp,
}

/// Identifies a document, to replace or remove it.
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
pub struct Visibility {
    pub tenant_id: TenantId,
    pub kinds: Vec<Kind>,
    pub reach: Reach,
}

impl Visibility {
    pub fn new(tenant_id: TenantId, grants: Grants, reach: Reach) -> Self {
        let kinds = Kind::ALL.iter().copied().filter(|kind| kind.scope().is_none_or(|scope| grants.allows(scope)));
        Self { tenant_id, kinds: kinds.collect(), reach }
    }

    /// Whether the caller may see a record of this type and organization. An organization belongs to itself. Records of the
    /// tenant as a whole are visible only to callers without an organization restriction.
    pub fn covers(&self, kind: Kind, organization: Option<OrganizationId>) -> bool {
        self.kinds.contains(&kind) && self.reach.covers(organization)
    }
}

vocabulary! {
    /// `Suggest` is for search as you type: it searches names and identifiers only, and the last word may be incomplete.
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

/// The options of a search, in addition to the query.
#[derive(Clone, Debug)]
pub struct Options {
    /// Empty means every type.
    pub kinds: Vec<Kind>,
    pub organization_id: Option<OrganizationId>,
    pub mode: Mode,
    /// Whether a word that is not found is also tried with typos.
    pub fuzzy: bool,
    pub order: Order,
    pub facets: Facets,
    pub limit: usize,
    pub after: Option<Place>,
}

/// The position of a hit in the ranking. Higher places come first.
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

/// Why a record was found.
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
    /// Excerpts by field. Matches are in `<mark>`; everything else is escaped for HTML.
    pub highlights: Vec<(&'static str, String)>,
    pub updated_at: Timestamp,
}

/// A value and the number of hits that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetValue {
    pub value: String,
    /// A readable name, if the value is an id.
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
    /// The place of the last hit, if more hits follow.
    pub last: Option<Place>,
    pub facets: FacetCounts,
    pub did_you_mean: Option<String>,
}
