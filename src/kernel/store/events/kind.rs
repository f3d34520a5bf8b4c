//! The kinds of events. Each slice declares its own as constants and lists them in its face; the composition root collects them.
//! Subscriptions and filters take an exact kind, `area.*` or `*`.
//!
//! **Invariant:** a kind names the scopes that read its subject. Whoever lacks one of them sees no event of that kind: in the feed, through
//! a webhook, as a trigger or in a replay. Events are for credentials of the whole tenant only, because the scopes that lead to them are
//! tenant-wide, so a kind needs no organization.

use std::{collections::BTreeSet, sync::Arc};

use tenantd_base::{access::Grants, vocabulary::nearest};

/// A kind of event, and what its `data` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind {
    /// Such as `ticket.created`.
    pub name: &'static str,
    /// One sentence for the catalogue.
    pub summary: &'static str,
    /// The member of `data` that holds the record, such as `ticket`.
    pub subject: &'static str,
    /// The record's schema in the published document, such as `Ticket`.
    pub schema: &'static str,
    /// What a reader must hold beside the scope of the feed: the scopes that read the record itself.
    pub reads: Grants,
    /// Whether `data.changes` tells what was changed.
    pub has_changes: bool,
}

/// All kinds of the installation.
#[derive(Clone, Debug, Default)]
pub struct Kinds(Vec<EventKind>, Vec<Member>);

/// A record that stands in `data` beside the one that the event is about.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The kind of event.
    pub kind: &'static str,
    pub name: &'static str,
    /// The record's schema in the published document.
    pub schema: &'static str,
}

/// A text that is neither a kind nor a pattern of kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} is no kind of event")]
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

/// The patterns of areas that a kind falls under, such as `workflow.*` and `workflow.run.*`.
fn areas_of(kind: &str) -> impl Iterator<Item = String> {
    kind.match_indices('.').filter_map(|(dot, _)| kind.get(..dot)).map(|area| format!("{area}.*"))
}

/// Which kinds are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventPattern {
    All,
    /// Every kind of an area: the text before the dot and star.
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

    /// With what stands in `data` beside the records that the events are about.
    #[must_use]
    pub fn with_members(mut self, members: &[Member]) -> Self {
        self.1.extend_from_slice(members);
        self
    }

    /// What stands in `data` of a kind beside the record that the event is about.
    pub fn members(&self, kind: &EventKind) -> impl Iterator<Item = &Member> {
        self.1.iter().filter(|member| member.kind == kind.name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &EventKind> {
        self.0.iter()
    }

    /// What a reader of this kind must hold. A kind of another release is read by those only who may read everything.
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

    /// What is missing to read anything that a pattern stands for; `None` if one of its kinds is readable.
    pub fn lacking(&self, pattern: &EventPattern, held: Grants) -> Option<Grants> {
        let mut matched = self.0.iter().filter(|kind| pattern.matches(kind.name)).map(|kind| kind.reads.without(held));
        let first = matched.next()?;
        let least = matched.fold(first, |least, other| if other.iter().count() < least.iter().count() { other } else { least });
        (least != Grants::NONE).then_some(least)
    }

    /// Reads a kind or a pattern; one that no kind matches is refused with a close one that one does.
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
