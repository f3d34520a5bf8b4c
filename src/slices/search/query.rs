//! The query language: read from text into conditions that the index can plan. Total: any text gives a query or a list of what is wrong
//! with it, in time that grows with its length.
//!
//! Terms are AND-ed. `"a phrase"`, `a OR b`, `-term`, `prefix*`, `field:value`. There are no parentheses: `OR` joins its two neighbours.

use tenantd_base::{clock::Timestamp, fault::Fault, vocabulary::nearest};

use super::{
    model::{Attribute, Kind, State},
    text,
};

/// The most terms of a query.
pub const MOST_TERMS: usize = 16;
/// The fewest letters before a `*`.
pub const SHORTEST_PREFIX: usize = 2;

/// The names of fields, for the documentation and for suggestions.
pub const FIELDS: [&str; 12] =
    ["type", "org", "status", "os", "ip", "mac", "serial", "tag", "assignee", "priority", "number", "updated"];

pub const PRIORITIES: [&str; 4] = ["critical", "high", "medium", "low"];

/// All of these hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub groups: Vec<Group>,
}

/// One of the terms holds; a negated term stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub any: Vec<Term>,
    pub negated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A word as it was written, and the words of it: `srv-dc` is two that stand side by side.
    Word {
        raw: String,
        words: Vec<String>,
    },
    /// Words side by side, the last of which goes on.
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
    /// An id or a name, or the beginning of one.
    Organization(String),
    State(State),
    /// Whether the value is only how it begins.
    Attribute {
        attribute: Attribute,
        value: String,
        prefix: bool,
    },
    /// From the first address up to the last, both [sortable](text::sortable).
    Network {
        first: String,
        last: String,
    },
    /// From the first time up to, but not at, the second.
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
            0 => Err(vec![fault("nothing_to_search", "has no word to search for")]),
            terms if terms > MOST_TERMS => {
                Err(vec![fault("too_many_terms", format!("has {terms} terms; at most {MOST_TERMS} are searched for"))])
            }
            _ => Ok(query),
        }
    }

    /// The words of the terms that are not negated and name no field: what names are compared with.
    pub fn plain_words(&self) -> Vec<&str> {
        let terms = self.groups.iter().filter(|group| !group.negated).flat_map(|group| &group.any);
        let words = terms.filter_map(|term| match term {
            Term::Word { words, .. } | Term::Prefix { words } | Term::Phrase { words } => Some(words),
            Term::Field(_) => None,
        });
        words.flatten().map(String::as_str).collect()
    }

    /// Whether its words all must be there, so that they can be compared with a whole name.
    pub fn is_plain(&self) -> bool {
        let plain = |group: &Group| group.negated || group.any.len() == 1;
        self.groups.iter().all(plain)
    }
}

struct Parser<'a> {
    rest: &'a str,
    faults: Vec<Fault>,
}

/// A piece of the text between spaces.
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
                // Nothing but signs.
                Piece::Term(None, _) => {}
                Piece::Term(Some(term), negated) => {
                    match query.groups.last_mut().filter(|_| joins) {
                        Some(group) if negated || group.negated => {
                            self.faults.push(fault("wrong_form", "a term with - cannot be joined by OR"));
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

    /// Takes the groups that follow, if all of them together can be a phone number.
    fn phone(&mut self, raw: &mut String) {
        let (mut whole, mut rest) = (raw.clone(), self.rest);
        loop {
            let next = rest.trim_start_matches(is_space);
            let end = next.find(|letter| is_space(letter) || letter == '"').unwrap_or(next.len());
            let (part, behind) = next.split_at_checked(end).unwrap_or((next, ""));
            // A part with a minus before it is left out, not a part of the number.
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

    /// A text in quotes, when one begins here.
    fn quoted(&mut self) -> Option<String> {
        let inner = self.rest.strip_prefix('"')?;
        if let Some((phrase, rest)) = inner.split_once('"') {
            self.rest = rest;
            return Some(phrase.to_owned());
        }
        self.faults.push(fault("unbalanced_quote", "has a quote that is not closed"));
        self.rest = "";
        Some(String::new())
    }

    /// Up to the next space; a quoted value of a field belongs to it.
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
            self.faults.push(fault("too_short", format!("{raw} needs at least {SHORTEST_PREFIX} letters before the *")));
            return None;
        }
        Some(Term::Prefix { words })
    }

    fn field(&mut self, name: &str, value: &str) -> Option<Term> {
        let condition = condition(name, value);
        condition.map_err(|fault| self.faults.push(fault)).ok().map(Term::Field)
    }
}

/// The name and value of a `field:value`. Addresses, links, drives and labels such as `Error:` are words.
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
        let message = format!("there is no field {name}; put the text in quotes to search for it");
        return Err(among(fault("unknown_field", message), name, FIELDS));
    }
    let value = value.trim();
    if text::fold(value).is_empty() {
        return Err(fault("required", format!("{name}: needs a value")));
    }
    let unknown =
        |known: &[&str]| among(fault("unknown_value", format!("{value} is no {name}")), &text::fold(value), known.iter().copied());
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

/// An address, a network, or how an address begins.
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
        format!("{value} is neither an address such as 10.0.0.5, nor a network such as 10.0.0.0/8, nor a beginning such as 10.0.*"),
    ))
}

/// A hardware address, or how one begins, in any spelling.
fn mac_beginning(value: &str) -> String {
    value.chars().filter(|letter| !matches!(letter, ':' | '-' | '.')).collect::<String>().to_ascii_lowercase()
}

fn number(value: &str) -> Result<Condition, Fault> {
    let digits = value.strip_prefix(['T', 't']).and_then(|rest| rest.strip_prefix('-')).unwrap_or(value);
    match digits.parse::<u64>() {
        Ok(number) => Ok(attribute(Attribute::Number, number.to_string(), false)),
        Err(_) => Err(fault("wrong_form", format!("{value} is no number of a ticket such as 1042 or T-1042"))),
    }
}

/// `2026-01-31`, a time, or either behind `>`, `>=`, `<` or `<=`. A day without a comparison is that whole day.
fn updated(value: &str) -> Result<Condition, Fault> {
    let (comparison, given) = [">=", "<=", ">", "<"]
        .into_iter()
        .find_map(|sign| value.strip_prefix(sign).map(|rest| (sign, rest)))
        .unwrap_or(("", value));
    let wrong =
        || fault("wrong_form", format!("{given} is neither a day such as 2026-01-31 nor a time such as 2026-01-31T09:30:00Z"));
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
