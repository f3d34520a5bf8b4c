//! A ticket: its vocabularies, its statuses and their transitions, and its priority from impact and urgency. No store, no
//! clock: `sla` contains what depends on time.

use std::{collections::BTreeMap, str::FromStr};

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{CommentId, DeviceId, OrganizationId, TenantId, TicketId, TimeEntryId, UserId},
    vocabulary::vocabulary,
};
use tenantd_store::events::Actor;

use super::sla::Sla;

/// Vocabularies whose words are stored in index keys as their position in the list.
macro_rules! in_keys {
    ($($type:ty),*) => {$(
        impl $type {
            pub const fn code(self) -> u8 {
                self as u8
            }
        }
    )*};
}

in_keys!(Status, Priority, TicketType, Source, SlaState);

vocabulary! {
    #[derive(Default)]
    Status:
    #[default] New "new", Open "open", InProgress "in_progress", WaitingCustomer "waiting_customer", WaitingVendor "waiting_vendor",
    Scheduled "scheduled", OnHold "on_hold", Resolved "resolved", Closed "closed", Cancelled "cancelled", Merged "merged",
}

vocabulary! {
    StatusCategory:
    Open "open", Waiting "waiting", Done "done",
}

vocabulary! {
    /// Ordered from the most to the least urgent.
    #[derive(Default)]
    Priority:
    Critical "critical", High "high", #[default] Medium "medium", Low "low",
}

vocabulary! {
    /// The level of impact or urgency.
    Level:
    High "high", Medium "medium", Low "low",
}

vocabulary! {
    #[derive(Default)]
    TicketType:
    #[default] Incident "incident", ServiceRequest "service_request", Problem "problem", Change "change", Task "task", Alert "alert",
    Question "question",
}

vocabulary! {
    #[derive(Default)]
    Source:
    #[default] Api "api", Portal "portal", Email "email", Phone "phone", Chat "chat", Monitoring "monitoring", Workflow "workflow",
    Backup "backup", Cloud "cloud", Import "import",
}

vocabulary! {
    ResolutionCode:
    Fixed "fixed", Workaround "workaround", Duplicate "duplicate", NotReproducible "not_reproducible",
    UserEducation "user_education", NoAction "no_action", Vendor "vendor", FalseAlarm "false_alarm",
}

vocabulary! {
    #[derive(Default)]
    SlaState:
    #[default] None "none", OnTrack "on_track", AtRisk "at_risk", Breached "breached", Met "met", Paused "paused",
}

vocabulary! {
    Visibility:
    Internal "internal", Public "public",
}

vocabulary! {
    /// What to do with a new ticket if an unfinished one has the same `dedup_key`.
    #[derive(Default)]
    OnDuplicate:
    #[default] Comment "comment", Ignore "ignore", Reject "reject", Create "create",
}

impl Status {
    pub const fn category(self) -> StatusCategory {
        match self {
            Self::New | Self::Open | Self::InProgress => StatusCategory::Open,
            Self::WaitingCustomer | Self::WaitingVendor | Self::Scheduled | Self::OnHold => StatusCategory::Waiting,
            Self::Resolved | Self::Closed | Self::Cancelled | Self::Merged => StatusCategory::Done,
        }
    }

    pub fn is_unfinished(self) -> bool {
        self.category() != StatusCategory::Done
    }

    /// Whether a ticket may change from this status to `to`. Keeping the status is not a change.
    pub fn may_become(self, to: Self) -> bool {
        match self {
            Self::Closed | Self::Cancelled | Self::Merged => false,
            Self::Resolved => matches!(to, Self::Open | Self::InProgress | Self::Closed | Self::Merged),
            _ => to != self && to != Self::Closed,
        }
    }

    pub fn transitions(self) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|to| self.may_become(*to)).collect()
    }
}

impl StatusCategory {
    pub fn statuses(self) -> impl Iterator<Item = Status> {
        Status::ALL.iter().copied().filter(move |status| status.category() == self)
    }
}

impl Priority {
    pub const fn from_matrix(impact: Level, urgency: Level) -> Self {
        match (impact, urgency) {
            (Level::High, Level::High) => Self::Critical,
            (Level::High, Level::Medium) | (Level::Medium, Level::High) => Self::High,
            (Level::Medium, Level::Medium) | (Level::High, Level::Low) | (Level::Low, Level::High) => Self::Medium,
            (Level::Medium | Level::Low, Level::Low) | (Level::Low, Level::Medium) => Self::Low,
        }
    }

    /// The given priority, else the one that follows from impact and urgency.
    pub fn choose(given: Option<Self>, impact: Option<Level>, urgency: Option<Level>) -> Option<Self> {
        given.or_else(|| Some(Self::from_matrix(impact?, urgency?)))
    }
}

/// How a caller names a ticket: by its id, or by its number as `T-1042` or `1042`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TicketRef {
    Id(TicketId),
    Number(u64),
}

impl TicketRef {
    /// The regular expression for the input of [`TicketRef::from_str`].
    pub fn pattern() -> String {
        format!("^(tkt_{}|[Tt]-[1-9][0-9]{{0,17}}|[1-9][0-9]{{0,17}})$", "[0-7][0-9a-hjkmnp-tv-z]{25}")
    }
}

impl FromStr for TicketRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("T-").or_else(|| text.strip_prefix("t-")).unwrap_or(text);
        let plain = digits.len() <= 18 && !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(number) if plain => Ok(Self::Number(number)),
            _ => text.parse().map(Self::Id).map_err(|_| "expected a ticket such as T-1042, 1042 or tkt_…".to_owned()),
        }
    }
}

impl std::fmt::Display for TicketRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Number(number) => f.write_str(&reference(*number)),
        }
    }
}

/// The ticket reference for a number.
pub fn reference(number: u64) -> String {
    format!("T-{number}")
}

/// A reference to another ticket, by number and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketLink {
    pub id: TicketId,
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FieldValue {
    Text(String),
    Integer(i64),
    Number(f64),
    Flag(bool),
}

pub type CustomFields = BTreeMap<String, FieldValue>;

pub const MAX_CUSTOM_FIELDS: usize = 100;

/// The largest number in a custom field, 2^53 - 1. Every JSON reader represents integers up to this limit exactly.
pub const MAX_FIELD_NUMBER: u64 = 9_007_199_254_740_991;
pub const MAX_FIELD_FLOAT: f64 = 9_007_199_254_740_991.0;

/// The maximum size of a description or a comment in bytes.
pub const MAX_TEXT_BYTES: usize = 65_536;

/// Whether a text is a valid name of a custom field: `[a-z0-9_]{1,64}`.
pub fn is_field_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalRef {
    pub system: String,
    pub id: String,
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub code: ResolutionCode,
    pub summary: String,
    pub resolved_by: Actor,
    pub resolved_at: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ticket {
    #[serde(skip)]
    pub tenant_id: TenantId,
    #[serde(skip)]
    pub number: u64,
    pub id: TicketId,
    pub subject: String,
    pub description: Option<String>,
    pub kind: TicketType,
    pub status: Status,
    pub priority: Priority,
    pub impact: Option<Level>,
    pub urgency: Option<Level>,
    pub source: Source,
    pub queue: Option<String>,
    pub category: Option<String>,
    pub organization_id: OrganizationId,
    pub contact_id: Option<UserId>,
    pub assignee_id: Option<UserId>,
    pub device_ids: Vec<DeviceId>,
    pub tags: Vec<String>,
    pub custom_fields: CustomFields,
    pub external_refs: Vec<ExternalRef>,
    pub dedup_key: Option<String>,
    pub occurrences: u64,
    pub parent: Option<TicketLink>,
    pub merged_into: Option<TicketLink>,
    pub sla: Sla,
    pub resolution: Option<Resolution>,
    pub comment_count: u64,
    pub reopen_count: u64,
    pub time_spent_minutes: u64,
    pub due_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub status_changed_at: Timestamp,
    pub first_responded_at: Option<Timestamp>,
    pub resolved_at: Option<Timestamp>,
    pub closed_at: Option<Timestamp>,
    pub created_by: Actor,
    pub version: u64,
    /// The sequence number of the newest event about the ticket.
    pub last_seq: u64,
    /// When the next timer action of the ticket is due.
    pub timer_at: Option<Timestamp>,
}

impl Ticket {
    pub fn link(&self) -> TicketLink {
        TicketLink { id: self.id, number: self.number }
    }

    pub fn reference(&self) -> String {
        reference(self.number)
    }

    /// The approximate size of the ticket as JSON in answers and events. A stored ticket is smaller.
    pub fn json_bytes(&self) -> usize {
        let summary = self.resolution.as_ref().map(|resolution| &resolution.summary);
        let single = [
            Some(&self.subject),
            self.description.as_ref(),
            self.queue.as_ref(),
            self.category.as_ref(),
            self.dedup_key.as_ref(),
            summary,
        ];
        let references =
            self.external_refs.iter().flat_map(|found| [Some(&found.system), Some(&found.id), found.url.as_ref()]).flatten();
        let texts: usize = single.into_iter().flatten().chain(&self.tags).chain(references).map(|text| text_bytes(text)).sum();
        let fields: usize = self.custom_fields.iter().map(|(name, value)| text_bytes(name) + value.json_bytes()).sum();
        TICKET_BYTES + DEVICE_BYTES * self.device_ids.len() + texts + fields
    }
}

/// The size of the parts of a ticket that are not free text: ids, times, statuses and field names.
const TICKET_BYTES: usize = 2 << 10;
/// The size of a device with its id and name.
const DEVICE_BYTES: usize = 320;
/// The size of the author, ids and times of a comment.
const COMMENT_BYTES: usize = 512;
/// The size of the longest number.
const NUMBER_BYTES: usize = 24;

impl FieldValue {
    /// False for a number that some JSON readers would round.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Integer(number) => number.unsigned_abs() <= MAX_FIELD_NUMBER,
            Self::Number(number) => number.abs() <= MAX_FIELD_FLOAT,
            Self::Text(_) | Self::Flag(_) => true,
        }
    }

    fn json_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text_bytes(text),
            Self::Integer(_) | Self::Number(_) | Self::Flag(_) => NUMBER_BYTES,
        }
    }
}

/// The size of a text in JSON, with its quotes and a comma. Escapes can make it six times as long.
fn text_bytes(text: &str) -> usize {
    let escape = |byte: u8| -> usize {
        match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
            control if control < b' ' => 5,
            _ => 0,
        }
    };
    text.len() + text.bytes().map(escape).sum::<usize>() + 3
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    #[serde(skip)]
    pub id: CommentId,
    pub body: String,
    pub visibility: Visibility,
    /// The contact who wrote the comment, if someone else submitted it.
    pub contact_id: Option<UserId>,
    pub created_at: Timestamp,
    pub created_by: Actor,
}

impl Comment {
    /// The approximate size of the comment as JSON.
    pub fn json_bytes(&self) -> usize {
        COMMENT_BYTES + text_bytes(&self.body)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeEntry {
    #[serde(skip)]
    pub id: TimeEntryId,
    pub minutes: u32,
    pub billable: bool,
    pub work_type: String,
    pub note: Option<String>,
    pub started_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub created_by: Actor,
}

/// The unique words of a text without case and accents, for searching.
pub fn words(text: &str) -> Vec<String> {
    use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};
    const LONGEST: usize = 40;
    const MOST: usize = 40;
    let folded: String = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        text.nfkd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase).collect()
    };
    let mut words: Vec<String> = folded
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(LONGEST).collect())
        .collect();
    words.sort_unstable();
    words.dedup();
    words.truncate(MOST);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_matrix_is_as_documented() {
        use Level::{High, Low, Medium};
        for (impact, urgency, priority) in [
            (High, High, Priority::Critical),
            (High, Medium, Priority::High),
            (Medium, High, Priority::High),
            (Medium, Medium, Priority::Medium),
            (High, Low, Priority::Medium),
            (Low, High, Priority::Medium),
            (Medium, Low, Priority::Low),
            (Low, Medium, Priority::Low),
            (Low, Low, Priority::Low),
        ] {
            assert_eq!(Priority::from_matrix(impact, urgency), priority, "{impact:?} {urgency:?}");
        }
        assert_eq!(Priority::choose(Some(Priority::Low), Some(High), Some(High)), Some(Priority::Low));
        assert_eq!(Priority::choose(None, Some(High), None), None);
    }

    #[test]
    fn transitions_depend_on_the_current_status() {
        for from in Status::ALL.iter().copied() {
            for to in Status::ALL.iter().copied() {
                let expected = match from.name() {
                    "closed" | "cancelled" | "merged" => false,
                    "resolved" => ["open", "in_progress", "closed", "merged"].contains(&to.name()),
                    _ => to != from && to != Status::Closed,
                };
                assert_eq!(from.may_become(to), expected, "{} → {}", from.name(), to.name());
            }
        }
    }

    #[test]
    fn a_reference_is_an_id_or_a_number() {
        for (text, number) in [("T-1042", 1042), ("t-7", 7), ("1042", 1042)] {
            assert_eq!(text.parse(), Ok(TicketRef::Number(number)));
        }
        let id = TicketId::from_bytes([1; 16]);
        assert_eq!(id.to_string().parse(), Ok(TicketRef::Id(id)));
        for bad in ["", "T-", "T-0", "T-01", "-1", "T--1", "0", "T-1x", "9999999999999999999", "usr_01k9z7w3v5e8g9m2n4p6r8t0x1"] {
            assert!(bad.parse::<TicketRef>().is_err(), "{bad}");
        }
    }

    #[test]
    fn text_bytes_equals_the_json_length() {
        for text in ["", "plain", "ä€", "\"quoted\"", "back\\slash", "a\nb\rc\td", "\u{8}\u{c}", "\u{0}\u{1f}", "\u{7f}"] {
            assert_eq!(text_bytes(text), serde_json::to_string(text).unwrap().len() + 1, "{text:?}");
        }
    }

    #[test]
    fn words_lose_case_and_accents() {
        assert_eq!(words("Drücker: ÉCOLE défaut, défaut #42"), ["42", "defaut", "drucker", "ecole"]);
    }
}
