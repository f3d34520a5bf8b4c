//! The query language: parses text into conditions for the index. The parser is total: any text gives a query or a list of
//! errors, in time proportional to its length.
//!
//! All terms must match. The syntax is `"a phrase"`, `a OR b`, `-term`, `prefix*` and `field:value`. There are no
//! parentheses: `OR` joins the terms before and after it.

use tenantd_base::{clock::Timestamp, fault::Fault, vocabulary::nearest};

use super::{
    model::{Attribute, Kind, State},
    text,
};

/// The maximum number of terms in a query.
pub const MOST_TERMS: usize = 16;
/// The minimum number of letters before a `*`.
pub const SHORTEST_PREFIX: usize = 2;

/// The names of the fields, for the documentation and for suggestions.
pub const FIELDS: [&str; 12] =
    ["type", "org", "status", "os", "ip", "mac", "serial", "tag", "assignee", "priority", "number", "updated"];

pub const PRIORITIES: [&str; 4] = ["critical", "high", "medium", "low"];

/// A query. All groups must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub groups: Vec<Group>,
}

/// At least one term must match. A negated group has exactly one term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub any: Vec<Term>,
    pub negated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A word as written, and its normalized words: `srv-dc` is two adjacent words.
    Word {
        raw: String,
        words: Vec<String>,
    },
    /// Adjacent words; the last one is the beginning of a word.
    Prefix {
        words: Vec<String>,
    },
    Phrase {
        words: Vec<String>,
    },
    Field(Condition),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Kind(Kind),
    /// An id, a name, or the beginning of a name.
    Organization(String),
    State(State),
    /// If `prefix` is set, `value` is only the beginning.
    Attribute {
        attribute: Attribute,
        value: String,
        prefix: bool,
    },
    /// From the first to the last address, both [sortable](text::sortable) and inclusive.
    Network {
        first: String,
        last: String,
    },
    /// From the first time (inclusive) to the second (exclusive).
    Updated {
        from: Option<Timestamp>,
        until: Option<Timestamp>,
    },
}

fn fault(code: &str, message: impl Into<String>) -> Fault {
    Fault::parameter("q", code, message)
}

fn among<'a>(fault: Fault, given: &str, known: impl IntoIterator<Item = &'a str>) -> Fault {
    let fault = fault.with_allowed(known);
    let suggestion = nearest(given, fault.allowed.iter().map(String::as_str));
    fault.with_suggestion(suggestion)
}

impl Query {
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut parser = Parser { rest: text, faults: Vec::new() };
        let query = parser.query();
        if !parser.faults.is_empty() {
            return Err(parser.faults);
        }
        match query.groups.iter().map(|group| group.any.len()).sum::<usize>() {
            0 => Err(vec![fault("nothing_to_search", "does not contain a word to search for")]),
            terms if terms > MOST_TERMS => {
                Err(vec![fault("too_many_terms", format!("has {terms} terms; the maximum is {MOST_TERMS}"))])
            }
            _ => Ok(query),
        }
    }

    /// The words of all terms that are neither negated nor a field. They are compared with names.
    pub fn plain_words(&self) -> Vec<&str> {
        let terms = self.groups.iter().filter(|group| !group.negated).flat_map(|group| &group.any);
        let words = terms.filter_map(|term| match term {
            Term::Word { words, .. } | Term::Prefix { words } | Term::Phrase { words } => Some(words),
            Term::Field(_) => None,
        });
        words.flatten().map(String::as_str).collect()
    }

    /// Whether every word must match, so that the words can be compared with a whole name.
    pub fn is_plain(&self) -> bool {
        let plain = |group: &Group| group.negated || group.any.len() == 1;
        self.groups.iter().all(plain)
    }
}

struct Parser<'a> {
    rest: &'a str,
    faults: Vec<Fault>,
}

/// A part of the query between spaces.
enum Piece {
    Or,
    Term(Option<Term>, bool),
}

fn is_space(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

impl Parser<'_> {
    fn query(&mut self) -> Query {
        let mut query = Query::default();
        let mut joins = false;
        while let Some(piece) = self.piece() {
            match piece {
                Piece::Or if joins || query.groups.is_empty() => {
                    self.faults.push(fault("wrong_form", "OR needs a term on both sides"));
                    joins = false;
                }
                Piece::Or => joins = true,
                // The piece contains only punctuation.
                Piece::Term(None, _) => {}
                Piece::Term(Some(term), negated) => {
                    match query.groups.last_mut().filter(|_| joins) {
                        Some(group) if negated || group.negated => {
                            self.faults.push(fault("wrong_form", "OR cannot join a term that begins with -"));
                        }
                        Some(group) => group.any.push(term),
                        None => query.groups.push(Group { any: vec![term], negated }),
                    }
                    joins = false;
                }
            }
        }
        if joins {
            self.faults.push(fault("wrong_form", "OR needs a term on both sides"));
        }
        query
    }

    fn piece(&mut self) -> Option<Piece> {
        self.rest = self.rest.trim_start_matches(is_space);
        if self.rest.is_empty() {
            return None;
        }
        let negated = self.rest.strip_prefix('-').filter(|rest| rest.starts_with(|next| !is_space(next) && next != '-'));
        self.rest = negated.unwrap_or(self.rest);
        if let Some(phrase) = self.quoted() {
            let words = text::tokens(&phrase);
            return Some(Piece::Term((!words.is_empty()).then_some(Term::Phrase { words }), negated.is_some()));
        }
        let mut raw = self.word();
        if text::is_phone_part(&raw) {
            self.phone(&mut raw);
        }
        if raw == "OR" && negated.is_none() {
            return Some(Piece::Or);
        }
        Some(Piece::Term(self.term(&raw), negated.is_some()))
    }

    /// Appends the groups of digits that follow, if all of them together can be a phone number.
    fn phone(&mut self, raw: &mut String) {
        let (mut whole, mut rest) = (raw.clone(), self.rest);
        loop {
            let next = rest.trim_start_matches(is_space);
            let end = next.find(|letter| is_space(letter) || letter == '"').unwrap_or(next.len());
            let (part, behind) = next.split_at_checked(end).unwrap_or((next, ""));
            // A group after a minus is an excluded term, not part of the number.
            if !text::is_phone_part(part) || part.starts_with('-') {
                break;
            }
            whole = format!("{whole} {part}");
            rest = behind;
        }
        if text::phone(&whole).is_some() {
            (*raw, self.rest) = (whole, rest);
        }
    }

    /// Parses a quoted text, if one begins here.
    fn quoted(&mut self) -> Option<String> {
        let inner = self.rest.strip_prefix('"')?;
        if let Some((phrase, rest)) = inner.split_once('"') {
            self.rest = rest;
            return Some(phrase.to_owned());
        }
        self.faults.push(fault("unbalanced_quote", "has a quote without a closing quote"));
        self.rest = "";
        Some(String::new())
    }

    /// Parses up to the next space, including the quoted value of a field.
    fn word(&mut self) -> String {
        let end = self.rest.find(|letter| is_space(letter) || letter == '"').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        let mut word = word.to_owned();
        if word.ends_with(':')
            && field_name(&word).is_some()
            && let Some(value) = self.quoted()
        {
            word.push_str(&value);
        }
        word
    }

    fn term(&mut self, raw: &str) -> Option<Term> {
        if let Some((name, value)) = field_name(raw) {
            return self.field(&name, value);
        }
        let stem = raw.trim_end_matches('*');
        let words = text::tokens(stem);
        let last = words.last()?;
        if stem.len() == raw.len() {
            return Some(Term::Word { raw: raw.to_owned(), words });
        }
        if last.chars().count() < SHORTEST_PREFIX {
            self.faults.push(fault("too_short", format!("{raw} must have at least {SHORTEST_PREFIX} letters before the *")));
            return None;
        }
        Some(Term::Prefix { words })
    }

    fn field(&mut self, name: &str, value: &str) -> Option<Term> {
        let condition = condition(name, value);
        condition.map_err(|fault| self.faults.push(fault)).ok().map(Term::Field)
    }
}

/// The name and value of a `field:value`. Addresses, links, drives and labels such as `Error:` are words, not fields.
fn field_name(raw: &str) -> Option<(String, &str)> {
    let (name, value) = raw.split_once(':')?;
    let named = name.len() >= 2 && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let name = name.to_ascii_lowercase();
    let known = FIELDS.contains(&name.as_str());
    let is_address = text::ip(raw).is_some() || text::mac(raw).is_some() || text::mac_beginning(raw).is_some();
    let is_field = named && (known || !value.is_empty()) && !value.starts_with("//") && !is_address;
    is_field.then_some((name, value))
}

fn condition(name: &str, value: &str) -> Result<Condition, Fault> {
    if !FIELDS.contains(&name) {
        let message = format!("unknown field {name}; to search for this text, put it in quotes");
        return Err(among(fault("unknown_field", message), name, FIELDS));
    }
    let value = value.trim();
    if text::fold(value).is_empty() {
        return Err(fault("required", format!("{name}: needs a value")));
    }
    let unknown = |known: &[&str]| {
        among(fault("unknown_value", format!("{value} is not a {name}")), &text::fold(value), known.iter().copied())
    };
    let folded = text::fold(value);
    match name {
        "type" => {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Kind::parse(&folded).map(Condition::Kind).ok_or_else(|| unknown(&names))
        }
        "status" => {
            let names: Vec<&str> = State::ALL.iter().map(|state| state.name()).collect();
            State::parse(&folded).map(Condition::State).ok_or_else(|| unknown(&names))
        }
        "priority" => {
            let known = PRIORITIES.contains(&folded.as_str());
            if known { Ok(attribute(Attribute::Priority, folded, false)) } else { Err(unknown(&PRIORITIES)) }
        }
        "number" => number(value),
        "updated" => updated(value),
        "org" => Ok(Condition::Organization(value.to_owned())),
        "assignee" => Ok(attribute(Attribute::Assignee, value.to_owned(), false)),
        "os" => Ok(beginning(Attribute::Os, &text::whole(value), value)),
        "tag" => Ok(beginning(Attribute::Tag, &folded, value)),
        "serial" => Ok(beginning(Attribute::Serial, &text::serial(value), value)),
        "ip" => address(value),
        _ => Ok(beginning(Attribute::Mac, &mac_beginning(value), value)),
    }
}

fn attribute(attribute: Attribute, value: String, prefix: bool) -> Condition {
    Condition::Attribute { attribute, value, prefix }
}

fn beginning(of: Attribute, normal: &str, given: &str) -> Condition {
    attribute(of, normal.trim_end_matches('*').to_owned(), given.ends_with('*'))
}

/// An address, a network, or the beginning of an address.
fn address(value: &str) -> Result<Condition, Fault> {
    if let Some((first, last)) = text::network(value) {
        return Ok(Condition::Network { first, last });
    }
    let stem = value.trim_end_matches('*');
    let is_beginning = stem.len() < value.len() && stem.chars().all(|letter| letter.is_ascii_hexdigit() || ".:".contains(letter));
    if is_beginning || text::ip(value).is_some() {
        return Ok(beginning(Attribute::Ip, &text::identifier(value), value));
    }
    Err(fault(
        "wrong_form",
        format!("{value} must be an address (10.0.0.5), a network (10.0.0.0/8) or the beginning of an address (10.0.*)"),
    ))
}

/// A hardware address in any spelling, or the beginning of one.
fn mac_beginning(value: &str) -> String {
    value.chars().filter(|letter| !matches!(letter, ':' | '-' | '.')).collect::<String>().to_ascii_lowercase()
}

fn number(value: &str) -> Result<Condition, Fault> {
    let digits = value.strip_prefix(['T', 't']).and_then(|rest| rest.strip_prefix('-')).unwrap_or(value);
    match digits.parse::<u64>() {
        Ok(number) => Ok(attribute(Attribute::Number, number.to_string(), false)),
        Err(_) => Err(fault("wrong_form", format!("{value} must be a ticket number such as 1042 or T-1042"))),
    }
}

/// `2026-01-31` or a time, optionally after `>`, `>=`, `<` or `<=`. A day without a comparison means the whole day.
fn updated(value: &str) -> Result<Condition, Fault> {
    let (comparison, given) = [">=", "<=", ">", "<"]
        .into_iter()
        .find_map(|sign| value.strip_prefix(sign).map(|rest| (sign, rest)))
        .unwrap_or(("", value));
    let wrong = || fault("wrong_form", format!("{given} must be a day (2026-01-31) or a time (2026-01-31T09:30:00Z)"));
    let day = Timestamp::parse(&format!("{given}T00:00:00Z")).filter(|_| given.len() == 10);
    let (first, after) = if let Some(day) = day {
        (day, day.plus_days(1))
    } else {
        let time = Timestamp::parse(given).ok_or_else(wrong)?;
        (time, Timestamp::from_millis(time.as_millis().saturating_add(1)))
    };
    let (from, until) = match comparison {
        ">" => (Some(after), None),
        ">=" => (Some(first), None),
        "<" => (None, Some(first)),
        "<=" => (None, Some(after)),
        _ => (Some(first), Some(after)),
    };
    Ok(Condition::Updated { from, until })
}

#[cfg(test)]
mod tests;
