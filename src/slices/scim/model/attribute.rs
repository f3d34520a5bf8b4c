//! The attributes that provisioning supports, and paths that name them. Names are not case-sensitive.

use super::{
    super::error::{Reason, ScimError},
    filter::Filter,
};

/// A type of resource of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    User,
    Group,
}

impl Resource {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
        }
    }

    pub(crate) const fn endpoint(self) -> &'static str {
        match self {
            Self::User => "Users",
            Self::Group => "Groups",
        }
    }

    pub(crate) const fn schema(self) -> &'static str {
        match self {
            Self::User => "urn:ietf:params:scim:schemas:core:2.0:User",
            Self::Group => "urn:ietf:params:scim:schemas:core:2.0:Group",
        }
    }
}

/// How the values of an attribute are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exact,
    Folded,
    Boolean,
    Time,
}

/// The attributes that a filter can name, in lower case.
const USER: &[(&str, Kind)] = &[
    ("id", Kind::Exact),
    ("externalid", Kind::Exact),
    ("username", Kind::Folded),
    ("displayname", Kind::Folded),
    ("name.formatted", Kind::Folded),
    ("name.givenname", Kind::Folded),
    ("name.familyname", Kind::Folded),
    ("emails", Kind::Folded),
    ("emails.value", Kind::Folded),
    ("emails.type", Kind::Folded),
    ("emails.primary", Kind::Boolean),
    ("active", Kind::Boolean),
    ("locale", Kind::Folded),
    ("timezone", Kind::Folded),
    ("meta.created", Kind::Time),
    ("meta.lastmodified", Kind::Time),
];
const GROUP: &[(&str, Kind)] = &[
    ("id", Kind::Exact),
    ("externalid", Kind::Exact),
    ("displayname", Kind::Folded),
    ("meta.created", Kind::Time),
    ("meta.lastmodified", Kind::Time),
];

/// How a filter compares this attribute, which is in lower case. `None` if a filter cannot name it.
pub(crate) fn kind(resource: Resource, name: &str) -> Option<Kind> {
    let known = match resource {
        Resource::User => USER,
        Resource::Group => GROUP,
    };
    known.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// The canonical names of what a client can set.
const WRITABLE: &[&str] = &[
    "userName",
    "externalId",
    "displayName",
    "name",
    "emails",
    "active",
    "locale",
    "timezone",
    "members",
    "formatted",
    "givenName",
    "familyName",
    "value",
    "type",
    "primary",
];

/// Attributes of the core schema that are accepted and not stored.
const IGNORED: &[&str] = &[
    "schemas",
    "title",
    "nickname",
    "profileurl",
    "usertype",
    "preferredlanguage",
    "phonenumbers",
    "addresses",
    "ims",
    "photos",
    "entitlements",
    "roles",
    "x509certificates",
    "password",
    "middlename",
    "honorificprefix",
    "honorificsuffix",
    "display",
    "$ref",
];
/// Attributes that the server sets.
const READ_ONLY: &[&str] = &["id", "meta", "groups"];

/// What a name in a body means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Writable(&'static str),
    Ignored,
    ReadOnly,
    Unknown,
}

pub(crate) fn meaning(name: &str) -> Meaning {
    let folded = name.to_ascii_lowercase();
    if let Some(known) = WRITABLE.iter().find(|known| known.eq_ignore_ascii_case(&folded)) {
        return Meaning::Writable(known);
    }
    match folded.as_str() {
        name if IGNORED.contains(&name) || name.starts_with("urn:") => Meaning::Ignored,
        name if READ_ONLY.contains(&name) => Meaning::ReadOnly,
        _ => Meaning::Unknown,
    }
}

/// Removes the URN of the resource's own schema. Other names stay as they are.
pub(crate) fn without_schema(resource: Resource, path: &str) -> &str {
    let schema = resource.schema();
    match path.get(..schema.len()) {
        Some(start) if start.eq_ignore_ascii_case(schema) => path.get(schema.len() + 1..).unwrap_or_default(),
        _ => path,
    }
}

/// The target of a change: `attribute`, `attribute.part`, `attribute[filter]` or `attribute[filter].part`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    pub(crate) attribute: &'static str,
    pub(crate) filter: Option<Filter>,
    pub(crate) part: Option<&'static str>,
}

impl Path {
    /// `None` if the path names something that is accepted and not stored.
    pub(crate) fn parse(resource: Resource, text: &str) -> Result<Option<Self>, ScimError> {
        let bad = |detail: String| ScimError::new(Reason::InvalidPath, detail);
        let text = without_schema(resource, text.trim());
        if text.to_ascii_lowercase().starts_with("urn:") {
            return Ok(None);
        }
        let (head, filter, rest) = match text.split_once('[') {
            Some((head, rest)) => {
                let (inner, rest) = rest.rsplit_once(']').ok_or_else(|| bad("The path has a `[` without a `]`.".to_owned()))?;
                let rest = match rest.strip_prefix('.') {
                    Some(part) => Some(part),
                    None if rest.is_empty() => None,
                    None => return Err(bad("Only `.` and a name can follow a `]` in a path.".to_owned())),
                };
                (head, Some(inner), rest)
            }
            None => match text.split_once('.') {
                Some((head, rest)) => (head, None, Some(rest)),
                None => (text, None, None),
            },
        };
        let known = |name: &str| match meaning(name) {
            Meaning::Writable(name) => Ok(Some(name)),
            Meaning::Ignored => Ok(None),
            Meaning::ReadOnly => Err(ScimError::new(Reason::Mutability, "The attribute is read-only.")),
            Meaning::Unknown => Err(bad(format!("The path names an unknown attribute: {}.", shown(name)))),
        };
        let Some(attribute) = known(head)? else { return Ok(None) };
        let part = match rest {
            Some(rest) => match known(rest)? {
                Some(part) => Some(part),
                None => return Ok(None),
            },
            None => None,
        };
        let allowed: &[&str] = match (resource, attribute) {
            (Resource::User, "name") => &["formatted", "givenName", "familyName"],
            (Resource::User, "emails") | (Resource::Group, "members") => &["value", "type", "primary"],
            (Resource::User, "userName" | "active" | "locale" | "timezone") | (_, "externalId" | "displayName") => &[],
            _ => return Err(bad(format!("A {} has no attribute {attribute}.", resource.name()))),
        };
        if part.is_some_and(|part| !allowed.contains(&part)) {
            return Err(bad(format!("{attribute} has no such part.")));
        }
        let filter = match filter {
            Some(_) if !matches!(attribute, "emails" | "members") => {
                return Err(bad(format!("{attribute} has one value, so a path cannot filter it.")));
            }
            Some(inner) => Some(Filter::parse_within(attribute, inner)?),
            None => None,
        };
        Ok(Some(Self { attribute, filter, part }))
    }
}

/// A name for an error, cut if it is long.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Path>, Reason> {
        Path::parse(Resource::User, text).map_err(|error| match error {
            ScimError::Refused { reason, .. } => reason,
            other => panic!("{other}"),
        })
    }

    #[test]
    fn paths_name_attributes_in_any_case() {
        let path = parse("NAME.givenname").unwrap().unwrap();
        assert_eq!((path.attribute, path.part, path.filter.is_none()), ("name", Some("givenName"), true));
        let path = parse("urn:ietf:params:scim:schemas:core:2.0:User:emails[type eq \"work\"].value").unwrap().unwrap();
        assert_eq!((path.attribute, path.part, path.filter.is_some()), ("emails", Some("value"), true));
        assert_eq!(parse("userName").unwrap().unwrap().attribute, "userName");
    }

    #[test]
    fn attributes_that_are_not_stored_are_ignored() {
        for path in ["title", "phoneNumbers[type eq \"work\"].value", "name.honorificPrefix", "password"] {
            assert_eq!(parse(path), Ok(None), "{path}");
        }
        assert_eq!(parse("urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department"), Ok(None));
    }

    #[test]
    fn wrong_paths_are_refused() {
        for path in [
            "",
            "shoeSize",
            "members",
            "userName[value eq \"x\"]",
            "emails[type eq \"work\"",
            "name.value",
            "emails[value eq \"x\"]x",
        ] {
            assert_eq!(parse(path), Err(Reason::InvalidPath), "{path}");
        }
        for path in ["id", "groups", "meta.created"] {
            assert_eq!(parse(path), Err(Reason::Mutability), "{path}");
        }
        assert_eq!(parse("emails[shoeSize eq 4]"), Err(Reason::InvalidFilter));
    }
}
