//! The kinds of events. Each slice declares its own as constants and lists them in its interface; the composition root collects
//! them. Subscriptions and filters accept an exact kind, `area.*` or `*`.
//!
//! **Invariant:** a kind names the scopes that read its subject. A caller that lacks one of them sees no event of that kind: not
//! in the feed, through a webhook, as a trigger or in a replay. Events are only for credentials of the whole tenant, because the
//! scopes for them are tenant-wide, so a kind needs no organization.

use std::{collections::BTreeSet, sync::Arc};

use tenantd_base::{access::Grants, vocabulary::nearest};

/// A kind of event and the content of its `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind {
    /// For example `ticket.created`.
    pub name: &'static str,
    /// One sentence for the event catalog.
    pub summary: &'static str,
    /// The member of `data` that contains the record, such as `ticket`.
    pub subject: &'static str,
    /// The record's schema in the OpenAPI document, such as `Ticket`.
    pub schema: &'static str,
    /// The scopes that a reader needs in addition to the scope of the feed: those that read the record itself.
    pub reads: Grants,
    /// Whether `data.changes` lists the changed fields.
    pub has_changes: bool,
}

/// All event kinds of the installation.
#[derive(Clone, Debug, Default)]
pub struct Kinds(Vec<EventKind>, Vec<Member>);

/// An additional record in `data`, beside the subject of the event.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The kind of event.
    pub kind: &'static str,
    pub name: &'static str,
    /// The record's schema in the OpenAPI document.
    pub schema: &'static str,
}

/// A text that is neither a kind nor a pattern of kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is not an event kind")]
pub struct UnknownKind {
    pub given: String,
    pub suggestion: Option<String>,
}

/// The kinds that a reader may see.
#[derive(Clone, Debug)]
pub struct Readable {
    names: Arc<BTreeSet<&'static str>>,
    all: bool,
}

impl Readable {
    pub fn has(&self, kind: &str) -> bool {
        self.all || self.names.contains(kind)
    }
}

/// The area patterns that match a kind, such as `workflow.*` and `workflow.run.*`.
fn areas_of(kind: &str) -> impl Iterator<Item = String> {
    kind.match_indices('.').filter_map(|(dot, _)| kind.get(..dot)).map(|area| format!("{area}.*"))
}

/// A filter for event kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventPattern {
    All,
    /// Every kind of an area, which is the text before `.*`.
    Area(String),
    Exact(String),
}

impl EventPattern {
    pub fn matches(&self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Area(area) => kind.strip_prefix(area.as_str()).is_some_and(|rest| rest.starts_with('.')),
            Self::Exact(name) => kind == name,
        }
    }
}

impl Kinds {
    pub fn new(kinds: impl IntoIterator<Item = &'static EventKind>) -> Self {
        let mut kinds: Vec<EventKind> = kinds.into_iter().copied().collect();
        kinds.sort_by_key(|kind| kind.name);
        Self(kinds, Vec::new())
    }

    /// Adds the additional members of `data`.
    #[must_use]
    pub fn with_members(mut self, members: &[Member]) -> Self {
        self.1.extend_from_slice(members);
        self
    }

    /// The additional members of a kind's `data`.
    pub fn members(&self, kind: &EventKind) -> impl Iterator<Item = &Member> {
        self.1.iter().filter(|member| member.kind == kind.name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &EventKind> {
        self.0.iter()
    }

    /// The scopes that a reader of this kind needs. A kind of another release is visible only to callers that may read every
    /// kind.
    pub fn reads(&self, kind: &str) -> Grants {
        match self.0.binary_search_by_key(&kind, |known| known.name) {
            Ok(place) => self.0.get(place).map_or(Grants::NONE, |known| known.reads),
            Err(_) => self.0.iter().map(|known| known.reads).fold(Grants::NONE, Grants::union),
        }
    }

    /// The kinds that these scopes can read.
    pub fn readable(&self, held: Grants) -> Readable {
        let names = self.0.iter().filter(|kind| held.covers(kind.reads)).map(|kind| kind.name).collect();
        Readable { names: Arc::new(names), all: self.0.iter().all(|kind| held.covers(kind.reads)) }
    }

    /// The missing scopes for a pattern. `None` if the reader can read at least one of its kinds.
    pub fn lacking(&self, pattern: &EventPattern, held: Grants) -> Option<Grants> {
        let mut matched = self.0.iter().filter(|kind| pattern.matches(kind.name)).map(|kind| kind.reads.without(held));
        let first = matched.next()?;
        let least = matched.fold(first, |least, other| if other.iter().count() < least.iter().count() { other } else { least });
        (least != Grants::NONE).then_some(least)
    }

    /// Parses a kind or a pattern. If no kind matches it, the error suggests a similar text.
    pub fn parse(&self, text: &str) -> Result<EventPattern, UnknownKind> {
        let pattern = match (text, text.strip_suffix(".*")) {
            ("*", _) => EventPattern::All,
            (_, Some(area)) => EventPattern::Area(area.to_owned()),
            (exact, None) => EventPattern::Exact(exact.to_owned()),
        };
        if self.0.iter().any(|kind| pattern.matches(kind.name)) {
            return Ok(pattern);
        }
        let areas: BTreeSet<String> = self.0.iter().flat_map(|kind| areas_of(kind.name)).collect();
        let known = self.0.iter().map(|kind| kind.name).chain(areas.iter().map(String::as_str));
        Err(UnknownKind { given: text.to_owned(), suggestion: nearest(text, known) })
    }
}
