//! A named secret: its name, its permitted servers and its permitted workflows.

use serde::{Deserialize, Serialize};

use tenantd_base::{
    clock::Timestamp,
    id::{SecretId, TenantId, WorkflowId},
    secrets::Sealed,
};
use tenantd_egress::{SecretTarget, TargetUrl, UrlProblem};
use tenantd_store::events::Actor;

pub(super) const MAX_SECRETS: usize = 100;
const MAX_NAME: usize = 64;
/// The maximum length of a value in bytes. The API limit counts characters, and a character takes up to four bytes.
pub(super) const MAX_VALUE: usize = 4 * 8192;

/// Whether a text is a valid secret name: one identifier of the expression language.
pub fn is_name(text: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.len() <= MAX_NAME && text.chars().next().is_some_and(is_first) && text.chars().all(is_part)
}

/// A server to which a secret may be sent: scheme, host and port in canonical form, such as `https://api.example.com:443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Host(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    #[error("must be a host without a path")]
    Path,
    #[error("must not contain a wildcard: list each host separately")]
    Wildcard,
    #[error("the host {0}")]
    Url(#[from] UrlProblem),
}

impl Host {
    /// Parses `api.example.com`, `api.example.com:8443` or, for a server without TLS, `http://api.example.com`.
    pub(super) fn parse(text: &str) -> Result<Self, HostProblem> {
        if text.contains('*') {
            return Err(HostProblem::Wildcard);
        }
        let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        if url.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?'])) {
            return Err(HostProblem::Path);
        }
        Ok(Self(TargetUrl::parse(&url)?.origin()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is(&self, url: &TargetUrl) -> bool {
        self.0 == url.origin()
    }

    /// The short form for people: without the `https` scheme and the default port.
    pub(super) fn shown(&self) -> &str {
        match self.0.strip_prefix("https://") {
            Some(rest) => rest.strip_suffix(":443").unwrap_or(rest),
            None => self.0.strip_suffix(":80").unwrap_or(&self.0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamedSecret {
    #[serde(skip)]
    pub(super) id: SecretId,
    #[serde(skip)]
    pub(super) tenant_id: TenantId,
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// Sorted, without duplicates.
    pub(super) hosts: Vec<Host>,
    /// The workflows that may use the secret; `None` means all workflows of the tenant.
    pub(super) workflow_ids: Option<Vec<WorkflowId>>,
    pub(super) value: Sealed,
    pub(super) created_at: Timestamp,
    pub(super) created_by: Actor,
    pub(super) updated_at: Timestamp,
    pub(super) rotated_at: Option<Timestamp>,
    pub(super) version: u64,
}

impl NamedSecret {
    pub(super) fn permits(&self, workflow: WorkflowId) -> bool {
        self.workflow_ids.as_ref().is_none_or(|ids| ids.contains(&workflow))
    }
}

/// The target to which a value is bound.
pub(super) fn target(hosts: &[Host]) -> SecretTarget {
    hosts.iter().fold(SecretTarget::default(), |target, host| target.url("hosts", Some(&host.0)))
}

/// Sorts the list and removes duplicates.
pub(super) fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_expression_identifiers() {
        for good in ["github", "_x", "API_KEY_2", "a"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "2fa", "a-b", "a.b", "a b", "ä", &"a".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn hosts_are_canonical_and_default_to_https() {
        for (given, shown) in [
            ("api.example.com", "api.example.com"),
            ("API.Example.com.:443", "api.example.com"),
            ("https://api.example.com", "api.example.com"),
            ("api.example.com:8443", "api.example.com:8443"),
            ("http://api.example.com:80", "http://api.example.com"),
            ("http://127.0.0.1:9", "http://127.0.0.1:9"),
            ("münchen.example", "xn--mnchen-3ya.example"),
        ] {
            assert_eq!(Host::parse(given).unwrap().shown(), shown, "{given}");
        }
        for bad in [
            "",
            "a b",
            "api.example.com/",
            "https://api.example.com/x",
            "api.example.com?x",
            "a@b.example",
            "ftp://x",
            "*",
            "*.example.com",
        ] {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
        let host = Host::parse("api.example.com").unwrap();
        let is = |url: &str| host.is(&TargetUrl::parse(url).unwrap());
        assert!(is("https://API.example.com/x") && is("https://api.example.com.:443/?a=b"));
        assert!(
            !is("http://api.example.com/") && !is("https://api.example.com:444/") && !is("https://api.example.com.evil.example/")
        );
    }
}
