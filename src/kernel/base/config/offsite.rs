//! The settings of off-site backups, and their constraints.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The upper limits of the intervals and of the number of backups that are kept.
const MAX_HOURS: u32 = 24 * 366;
const MAX_SECONDS: u32 = 86_400;
const MAX_DAYS: u32 = 366;
const MAX_KEPT: u32 = 10_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offsite {
    #[serde(with = "super::empty_is_none")]
    pub url: Option<String>,
    #[serde(with = "super::empty_is_none")]
    pub endpoint: Option<String>,
    pub region: String,
    #[serde(with = "super::empty_is_none")]
    pub credentials_file: Option<PathBuf>,
    pub recipients: Vec<String>,
    pub unencrypted: bool,
    pub every_hours: u32,
    pub max_age_hours: u32,
    pub journal_seconds: u32,
    pub journal_days: u32,
    pub keep_last: u32,
    pub keep_daily: u32,
    pub keep_weekly: u32,
    pub keep_monthly: u32,
}

impl Offsite {
    /// Whether commits are sent between two backups.
    pub fn sends_commits(&self) -> bool {
        self.url.is_some() && self.journal_seconds > 0
    }

    /// The first setting that is not valid by itself.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(url) = self.url.as_deref()
            && !["s3://", "file:///"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme))
        {
            return Some(format!("offsite.url: {url} is neither s3://BUCKET/PREFIX nor file:///DIRECTORY"));
        }
        if let Some(endpoint) = self.endpoint.as_deref()
            && !["https://", "http://"].iter().any(|scheme| endpoint.starts_with(scheme))
        {
            return Some(format!("offsite.endpoint: {endpoint} must start with https:// or http://"));
        }
        // Credentials belong in their own file, because settings are shown and logged.
        if let Some((key, _)) = [("url", &self.url), ("endpoint", &self.endpoint)]
            .into_iter()
            .find(|(_, value)| value.as_deref().is_some_and(|value| !value.starts_with("file:") && value.contains('@')))
        {
            return Some(format!("offsite.{key} must not contain a user or a password; put them in offsite.credentials_file"));
        }
        if self.recipients.iter().any(|recipient| recipient.to_ascii_uppercase().starts_with("AGE-SECRET-KEY")) {
            return Some(
                "offsite.recipients contains an identity, which must not be on this host; use its recipient, which starts with age1".to_owned(),
            );
        }
        if let Some(odd) = self.recipients.iter().find(|recipient| !recipient.starts_with("age1")) {
            return Some(format!(
                "offsite.recipients: {odd} is not an age recipient; create one with `tenantd backup-key`, it starts with age1"
            ));
        }
        if self.keep_last == 0 {
            return Some("offsite.keep_last is 0, but must be at least 1".to_owned());
        }
        let most = [
            ("every_hours", self.every_hours, MAX_HOURS),
            ("max_age_hours", self.max_age_hours, MAX_HOURS),
            ("journal_seconds", self.journal_seconds, MAX_SECONDS),
            ("journal_days", self.journal_days, MAX_DAYS),
            ("keep_last", self.keep_last, MAX_KEPT),
            ("keep_daily", self.keep_daily, MAX_KEPT),
            ("keep_weekly", self.keep_weekly, MAX_KEPT),
            ("keep_monthly", self.keep_monthly, MAX_KEPT),
        ];
        let (key, value, most) = most.into_iter().find(|(_, value, most)| value > most)?;
        Some(format!("offsite.{key} is {value}, but must be at most {most}"))
    }

    /// The first conflict between settings.
    pub(super) fn conflict(&self) -> Option<&'static str> {
        let url = self.url.as_deref()?;
        match (self.recipients.is_empty(), self.unencrypted) {
            (true, false) => Some(
                "offsite.url is set, but offsite.recipients is empty: backups would leave the host unencrypted. Create a key with \
                 `tenantd backup-key FILE`, or set offsite.unencrypted = true",
            ),
            (false, true) => Some("offsite.unencrypted and offsite.recipients contradict each other: set one of them"),
            _ if url.starts_with("s3://") && self.credentials_file.is_none() => {
                Some("offsite.url is an S3 bucket, but offsite.credentials_file is empty")
            }
            _ => None,
        }
    }
}
