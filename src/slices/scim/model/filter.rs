//! The filter language of RFC 7644. **Invariant:** a filter is small, so evaluating it on a resource is cheap: at most 1,000
//! characters, 20 terms and a depth of 10.

use serde_json::Value;

use tenantd_base::clock::Timestamp;

use super::{
    super::error::{Reason, ScimError},
    attribute::{Kind, Resource, kind, shown, without_schema},
};

const MAX_LENGTH: usize = 1000;
const MAX_TERMS: usize = 20;
const MAX_DEPTH: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Contains,
    StartsWith,
    EndsWith,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Operator {
    fn parse(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "eq" => Self::Equal,
            "ne" => Self::NotEqual,
            "co" => Self::Contains,
            "sw" => Self::StartsWith,
            "ew" => Self::EndsWith,
            "gt" => Self::Greater,
            "ge" => Self::GreaterOrEqual,
            "lt" => Self::Less,
            "le" => Self::LessOrEqual,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Null,
    Boolean(bool),
    Text { text: String, kind: Kind },
    Time(Timestamp),
}

/// Paths are in lower case, with `.` between their parts. Within brackets they begin at the value that the filter selects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
    Present(String),
    Compare { path: String, operator: Operator, operand: Operand },
    Within { attribute: String, filter: Box<Filter> },
}

impl Filter {
    pub(crate) fn parse(resource: Resource, text: &str) -> Result<Self, ScimError> {
        Parser::new(resource, "", text)?.whole()
    }

    /// The filter of a path, such as `type eq "work"` in `emails[type eq "work"]`.
    pub(crate) fn parse_within(attribute: &str, text: &str) -> Result<Self, ScimError> {
        let resource = if attribute == "members" { Resource::Group } else { Resource::User };
        Parser::new(resource, attribute, text)?.whole()
    }

    /// Whether a resource, or a value of one of its attributes, matches.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        match self {
            Self::And(parts) => parts.iter().all(|part| part.matches(value)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(value)),
            Self::Not(part) => !part.matches(value),
            Self::Present(path) => found(value, path).into_iter().any(is_present),
            Self::Compare { path, operator, operand } => {
                let found = found(value, path);
                match (operator, operand) {
                    (Operator::Equal, Operand::Null) => !found.into_iter().any(is_present),
                    (Operator::NotEqual, Operand::Null) => found.into_iter().any(is_present),
                    (Operator::NotEqual, _) => !found.into_iter().any(|value| compare(value, Operator::Equal, operand)),
                    _ => found.into_iter().any(|value| compare(value, *operator, operand)),
                }
            }
            Self::Within { attribute, filter } => found(value, attribute).into_iter().any(|value| filter.matches(value)),
        }
    }

    /// The text that this attribute must equal, so that an index can find all resources that match.
    pub(crate) fn equal_text(&self, name: &str) -> Option<&str> {
        match self {
            Self::Compare { path, operator: Operator::Equal, operand: Operand::Text { text, .. } } if path == name => Some(text),
            Self::And(parts) => parts.iter().find_map(|part| part.equal_text(name)),
            _ => None,
        }
    }

    /// The texts that an attribute must equal, if the filter says nothing else: `value eq "a" or value eq "b"`.
    pub(crate) fn only_equal_texts(&self, name: &str) -> Option<Vec<&str>> {
        match self {
            Self::Or(parts) => {
                parts.iter().map(|part| part.only_equal_texts(name)).try_fold(Vec::new(), |all, texts| Some([all, texts?].concat()))
            }
            Self::Compare { path, operator: Operator::Equal, operand: Operand::Text { text, .. } } if path == name => {
                Some(vec![text.as_str()])
            }
            _ => None,
        }
    }

    /// The values that something matching must have: the comparisons with `eq`, if the filter consists of them.
    pub(crate) fn conditions(&self) -> Option<Vec<(&str, Value)>> {
        match self {
            Self::And(parts) => {
                parts.iter().map(Self::conditions).try_fold(Vec::new(), |all, conditions| Some([all, conditions?].concat()))
            }
            Self::Compare { path, operator: Operator::Equal, operand } => {
                let value = match operand {
                    Operand::Text { text, .. } => text.as_str().into(),
                    Operand::Boolean(value) => (*value).into(),
                    Operand::Null | Operand::Time(_) => return None,
                };
                Some(vec![(path.as_str(), value)])
            }
            _ => None,
        }
    }
}

fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// The values at a path. An attribute with several values has several.
fn found<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut values = vec![value];
    for name in path.split('.') {
        let member =
            |value: &'a Value| value.as_object()?.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let next: Vec<&Value> = values.into_iter().filter_map(member).collect();
        values =
            next.into_iter().flat_map(|value| value.as_array().map_or_else(|| vec![value], |list| list.iter().collect())).collect();
    }
    values
}

fn compare(value: &Value, operator: Operator, operand: &Operand) -> bool {
    // A value with parts stands for its main part.
    let value = value.get("value").unwrap_or(value);
    match (operand, value) {
        (Operand::Boolean(wanted), Value::Bool(value)) => operator == Operator::Equal && value == wanted,
        (Operand::Text { text, kind }, Value::String(value)) => {
            let (value, text) =
                if *kind == Kind::Exact { (value.clone(), text.clone()) } else { (value.to_lowercase(), text.to_lowercase()) };
            match operator {
                Operator::Equal => value == text,
                Operator::NotEqual => value != text,
                Operator::Contains => value.contains(&text),
                Operator::StartsWith => value.starts_with(&text),
                Operator::EndsWith => value.ends_with(&text),
                Operator::Greater => value > text,
                Operator::GreaterOrEqual => value >= text,
                Operator::Less => value < text,
                Operator::LessOrEqual => value <= text,
            }
        }
        (Operand::Time(wanted), Value::String(value)) => {
            let Some(value) = Timestamp::parse(value) else { return false };
            match operator {
                Operator::Equal => value == *wanted,
                Operator::NotEqual => value != *wanted,
                Operator::Greater => value > *wanted,
                Operator::GreaterOrEqual => value >= *wanted,
                Operator::Less => value < *wanted,
                Operator::LessOrEqual => value <= *wanted,
                Operator::Contains | Operator::StartsWith | Operator::EndsWith => false,
            }
        }
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Open,
    Close,
    OpenValue,
    CloseValue,
}

fn bad(detail: impl Into<String>) -> ScimError {
    ScimError::new(Reason::InvalidFilter, detail)
}

/// Splits a filter into tokens. A text is a JSON string.
fn tokens(text: &str) -> Result<Vec<Token>, ScimError> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(letter) = rest.chars().next() {
        let taken = match letter {
            ' ' | '\t' | '\r' | '\n' => 1,
            '(' | ')' | '[' | ']' => {
                tokens.push(match letter {
                    '(' => Token::Open,
                    ')' => Token::Close,
                    '[' => Token::OpenValue,
                    _ => Token::CloseValue,
                });
                1
            }
            '"' => {
                let mut read = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let found = read.next().and_then(Result::ok).ok_or_else(|| bad("The filter has a text without an end."))?;
                tokens.push(Token::Text(found));
                read.byte_offset()
            }
            _ => {
                let end = rest.find([' ', '\t', '\r', '\n', '(', ')', '[', ']', '"']).unwrap_or(rest.len());
                tokens.push(Token::Word(rest.get(..end).unwrap_or_default().to_owned()));
                end
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(tokens)
}

struct Parser {
    resource: Resource,
    /// The attribute whose values the filter is about. Empty for a whole resource.
    within: String,
    tokens: std::vec::IntoIter<Token>,
    next: Option<Token>,
    terms: usize,
}

impl Parser {
    fn new(resource: Resource, within: &str, text: &str) -> Result<Self, ScimError> {
        if text.chars().count() > MAX_LENGTH {
            return Err(bad(format!("A filter has at most {MAX_LENGTH} characters.")));
        }
        let mut tokens = tokens(text)?.into_iter();
        let next = tokens.next();
        Ok(Self { resource, within: within.to_ascii_lowercase(), tokens, next, terms: 0 })
    }

    fn take(&mut self) -> Option<Token> {
        std::mem::replace(&mut self.next, self.tokens.next())
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_next = matches!(&self.next, Some(Token::Word(next)) if next.eq_ignore_ascii_case(word));
        if is_next {
            self.take();
        }
        is_next
    }

    fn expect(&mut self, token: &Token, sign: &str) -> Result<(), ScimError> {
        if self.take().as_ref() == Some(token) { Ok(()) } else { Err(bad(format!("The filter lacks a `{sign}`."))) }
    }

    fn whole(mut self) -> Result<Filter, ScimError> {
        let filter = self.any(0)?;
        if self.next.is_some() { Err(bad("The filter goes on where it should end.")) } else { Ok(filter) }
    }

    fn any(&mut self, depth: usize) -> Result<Filter, ScimError> {
        if depth > MAX_DEPTH {
            return Err(bad(format!("A filter has at most {MAX_DEPTH} levels.")));
        }
        let mut parts = vec![self.all(depth)?];
        while self.takes_word("or") {
            parts.push(self.all(depth)?);
        }
        Ok(joined(parts, Filter::Or))
    }

    fn all(&mut self, depth: usize) -> Result<Filter, ScimError> {
        let mut parts = vec![self.one(depth)?];
        while self.takes_word("and") {
            parts.push(self.one(depth)?);
        }
        Ok(joined(parts, Filter::And))
    }

    fn one(&mut self, depth: usize) -> Result<Filter, ScimError> {
        match self.take() {
            Some(Token::Open) => {
                let filter = self.any(depth + 1)?;
                self.expect(&Token::Close, ")")?;
                Ok(filter)
            }
            Some(Token::Word(word)) if word.eq_ignore_ascii_case("not") && self.next == Some(Token::Open) => {
                self.take();
                let filter = self.any(depth + 1)?;
                self.expect(&Token::Close, ")")?;
                Ok(Filter::Not(Box::new(filter)))
            }
            Some(Token::Word(name)) => self.term(&name, depth),
            _ => Err(bad("A filter consists of terms such as `userName eq \"ada@example.com\"`.")),
        }
    }

    fn term(&mut self, name: &str, depth: usize) -> Result<Filter, ScimError> {
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err(bad(format!("A filter has at most {MAX_TERMS} terms.")));
        }
        let path = without_schema(self.resource, name).to_ascii_lowercase();
        if self.next == Some(Token::OpenValue) {
            return self.values(path, depth);
        }
        let unknown = || bad(format!("A filter cannot use the attribute {}.", shown(name)));
        let kind = self.kind(&path).ok_or_else(unknown)?;
        let Some(Token::Word(word)) = self.take() else { return Err(bad(format!("An operator must follow {}.", shown(name)))) };
        if word.eq_ignore_ascii_case("pr") {
            return Ok(Filter::Present(path));
        }
        let operator = Operator::parse(&word).ok_or_else(|| bad(format!("{} is not an operator.", shown(&word))))?;
        let operand = self.operand(kind, operator)?;
        Ok(Filter::Compare { path, operator, operand })
    }

    /// `emails[type eq "work" and value co "@example.com"]`
    fn values(&mut self, attribute: String, depth: usize) -> Result<Filter, ScimError> {
        if !self.within.is_empty() || attribute != "emails" || self.resource != Resource::User {
            return Err(bad("Only `emails` has values that a filter can select."));
        }
        self.take();
        self.within.clone_from(&attribute);
        let filter = self.any(depth + 1)?;
        self.within.clear();
        self.expect(&Token::CloseValue, "]")?;
        Ok(Filter::Within { attribute, filter: Box::new(filter) })
    }

    fn kind(&self, path: &str) -> Option<Kind> {
        match self.within.as_str() {
            "" => kind(self.resource, path),
            "members" => matches!(path, "value" | "type").then_some(Kind::Exact),
            within => kind(self.resource, &format!("{within}.{path}")),
        }
    }

    fn operand(&mut self, kind: Kind, operator: Operator) -> Result<Operand, ScimError> {
        let is_equality = matches!(operator, Operator::Equal | Operator::NotEqual);
        match (self.take(), kind) {
            (Some(Token::Word(word)), _) if word.eq_ignore_ascii_case("null") && is_equality => Ok(Operand::Null),
            (Some(Token::Word(word) | Token::Text(word)), Kind::Boolean) if is_equality => match word.to_ascii_lowercase().as_str()
            {
                "true" => Ok(Operand::Boolean(true)),
                "false" => Ok(Operand::Boolean(false)),
                _ => Err(bad("The attribute is compared with true or false.")),
            },
            (Some(_), Kind::Boolean) => Err(bad("true and false can only be compared with eq and ne.")),
            (Some(Token::Text(text)), Kind::Time) => {
                if matches!(operator, Operator::Contains | Operator::StartsWith | Operator::EndsWith) {
                    return Err(bad("Times cannot be compared with co, sw and ew."));
                }
                let at = Timestamp::parse(&text).ok_or_else(|| bad("A time looks like \"2026-01-31T09:30:00Z\"."))?;
                Ok(Operand::Time(at))
            }
            (Some(Token::Text(text)), kind) => Ok(Operand::Text { text, kind }),
            _ => Err(bad("A text in quotation marks must follow the operator.")),
        }
    }
}

fn joined(mut parts: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Filter, ScimError> {
        Filter::parse(Resource::User, text)
    }

    #[test]
    fn filters_match_resources() {
        let ada = json!({"id": "usr_1", "userName": "Ada@Example.com", "externalId": "X7", "name": {"givenName": "Ada", "familyName": "Byron"},
            "active": true, "emails": [{"value": "ada@example.com", "type": "work", "primary": true}, {"value": "a@home.example", "type": "home"}],
            "meta": {"lastModified": "2026-02-01T10:00:00.000Z"}});
        for filter in [
            "userName eq \"ada@example.com\"",
            "USERNAME EQ \"ADA@EXAMPLE.COM\"",
            "urn:ietf:params:scim:schemas:core:2.0:User:userName sw \"ada\"",
            "externalId eq \"X7\" and active eq true",
            "active eq \"True\"",
            "not (externalId eq \"x7\")",
            "name.familyName co \"yro\" or name.familyName eq \"x\"",
            "name.familyName ew \"on\" and (active eq false or id pr)",
            "emails eq \"a@home.example\"",
            "emails.type eq \"home\"",
            "emails[type eq \"work\" and value co \"@example\"]",
            "meta.lastModified gt \"2026-01-01T00:00:00Z\"",
            "displayName eq null",
            "not (displayName pr)",
            "userName ne \"eve\"",
            "name.givenName ge \"ada\" and name.givenName le \"ada\"",
        ] {
            assert!(parse(filter).unwrap().matches(&ada), "{filter}");
        }
        for filter in
            ["userName eq \"eve\"", "emails[type eq \"home\" and primary eq true]", "externalId eq \"x7\"", "displayName pr"]
        {
            assert!(!parse(filter).unwrap().matches(&ada), "{filter}");
        }
    }

    #[test]
    fn and_binds_more_strongly_than_or() {
        let filter = parse("userName eq \"a\" or userName eq \"b\" and active eq false").unwrap();
        assert!(filter.matches(&json!({"userName": "a", "active": true})));
        assert!(!filter.matches(&json!({"userName": "b", "active": true})));
    }

    #[test]
    fn wrong_and_large_filters_are_refused() {
        let deep = format!("{}id pr{}", "(".repeat(11), ")".repeat(11));
        let many = vec!["id pr"; 21].join(" or ");
        let long = format!("userName eq \"{}\"", "x".repeat(1000));
        for filter in [
            "",
            "userName",
            "userName eq",
            "userName is \"x\"",
            "userName eq x",
            "userName eq \"x",
            "shoeSize eq \"4\"",
            "groups eq \"x\"",
            "userName eq \"x\" and",
            "(userName eq \"x\"",
            "userName eq \"x\")",
            "active gt true",
            "active eq \"maybe\"",
            "meta.created co \"2026\"",
            "meta.created gt \"yesterday\"",
            "userName[value eq \"x\"]",
            "emails[emails[value eq \"x\"]]",
            "not userName pr",
            &deep,
            &many,
            &long,
        ] {
            let refused = parse(filter).unwrap_err();
            assert!(matches!(refused, ScimError::Refused { reason: Reason::InvalidFilter, .. }), "{filter}: {refused}");
        }
        assert!(parse(&vec!["id pr"; 20].join(" or ")).is_ok());
        assert!(parse(&format!("{}id pr{}", "(".repeat(10), ")".repeat(10))).is_ok());
    }

    #[test]
    fn equal_texts_lead_to_an_index() {
        let filter = parse("active eq true and userName eq \"ada\"").unwrap();
        assert_eq!(filter.equal_text("username"), Some("ada"));
        assert_eq!(parse("userName eq \"a\" or id pr").unwrap().equal_text("username"), None);
        let members = Filter::parse_within("members", "value eq \"a\" or value eq \"b\"").unwrap();
        assert_eq!(members.only_equal_texts("value"), Some(vec!["a", "b"]));
    }
}
