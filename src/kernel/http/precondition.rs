//! Versions as entity tags: `ETag: "v7"`, `If-Match` on changes, `If-None-Match` on reads.

use std::ops::Deref;

use http::HeaderMap;
use poem::Request;
use poem_openapi::registry::MetaSchema;

use tenantd_base::versions::{ExpectedVersion, Stale};

use super::{
    context::header,
    input::header_parameter,
    problem::{Code, FieldError, Place, Problem},
};

pub fn etag(version: u64) -> String {
    format!("\"v{version}\"")
}

fn parse_tags(text: &str) -> Option<ExpectedVersion> {
    if text.trim() == "*" {
        return Some(ExpectedVersion::Any);
    }
    let version = |tag: &str| tag.trim().trim_start_matches("W/").strip_prefix("\"v")?.strip_suffix('"')?.parse().ok();
    text.split(',').map(version).collect::<Option<Vec<u64>>>().map(ExpectedVersion::OneOf)
}

/// The pattern of what [`parse_tags`] accepts.
const TAGS_PATTERN: &str = r#"^(\*|(W/)?"v[0-9]{1,19}"( *, *(W/)?"v[0-9]{1,19}")*)$"#;

fn tag_schema(pattern: Option<&str>) -> MetaSchema {
    let (pattern, min_length) = (pattern.map(str::to_owned), pattern.map(|_| 1));
    MetaSchema { example: Some("\"v7\"".into()), pattern, min_length, ..MetaSchema::new("string") }
}

/// `If-Match`: the change happens only if the record still has this version.
#[derive(Clone, Debug)]
pub struct IfMatch(ExpectedVersion);

impl Deref for IfMatch {
    type Target = ExpectedVersion;

    fn deref(&self) -> &ExpectedVersion {
        &self.0
    }
}

impl From<IfMatch> for ExpectedVersion {
    fn from(if_match: IfMatch) -> Self {
        if_match.0
    }
}

impl From<Stale> for Problem {
    fn from(stale: Stale) -> Self {
        Self::new(Code::VersionConflict, format!("The record now has version {}.", stale.current))
            .with("current_version", stale.current)
            .header(http::header::ETAG, &etag(stale.current))
    }
}

/// The versions that `If-Match` names.
pub(super) fn expected(headers: &HeaderMap) -> Result<ExpectedVersion, Problem> {
    let malformed = || {
        let place = Place::Header("If-Match".to_owned());
        Problem::invalid(vec![FieldError::new(place, "wrong_form", "If-Match must be an ETag of this API, such as \"v7\"")])
    };
    match headers.get(http::header::IF_MATCH) {
        None => Ok(ExpectedVersion::Unspecified),
        Some(value) => value.to_str().ok().and_then(parse_tags).ok_or_else(malformed),
    }
}

fn read_if_match(request: &Request) -> poem::Result<IfMatch> {
    Ok(IfMatch(expected(request.headers())?))
}

header_parameter!(IfMatch, tag_schema(Some(TAGS_PATTERN)), read_if_match);

/// `If-None-Match`: the record is sent only if it no longer has this version. A tag of another form matches nothing.
#[derive(Clone, Debug)]
pub struct IfNoneMatch(ExpectedVersion);

impl IfNoneMatch {
    pub fn knows(&self, current: u64) -> bool {
        match &self.0 {
            ExpectedVersion::Any => true,
            ExpectedVersion::OneOf(versions) => versions.contains(&current),
            ExpectedVersion::Unspecified => false,
        }
    }
}

/// The versions that `If-None-Match` names.
pub(super) fn known(headers: &HeaderMap) -> IfNoneMatch {
    IfNoneMatch(header(headers, "if-none-match").and_then(parse_tags).unwrap_or(ExpectedVersion::Unspecified))
}

header_parameter!(IfNoneMatch, tag_schema(None), |request| Ok(known(request.headers())));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_in_every_form_that_http_allows() {
        assert_eq!(parse_tags("\"v7\""), Some(ExpectedVersion::OneOf(vec![7])));
        assert_eq!(parse_tags("W/\"v7\", \"v8\""), Some(ExpectedVersion::OneOf(vec![7, 8])));
        assert_eq!(parse_tags("*"), Some(ExpectedVersion::Any));
        for bad in ["v7", "7", "\"7\"", "\"v\"", "\"vx\"", ""] {
            assert_eq!(parse_tags(bad), None, "{bad}");
        }
    }
}
