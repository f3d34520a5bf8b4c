//! Providers as the API answers them.

use maud::Markup;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{API, PATH, verification::Verification};
use crate::{
    components::{Tone, badge, words},
    desk::records::Named,
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) const STATUSES: [&str; 6] = ["verified", "degraded", "invalid", "unreachable", "unverified", "disabled"];

/// A connection to a cloud. The API never answers its credential.
#[derive(Debug, Deserialize)]
pub(super) struct Provider {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) organization: Option<Named>,
    pub(super) enabled: bool,
    #[serde(default)]
    pub(super) config: Map<String, Value>,
    pub(super) credential: CredentialSummary,
    pub(super) status: String,
    pub(super) verification: Option<Verification>,
    pub(super) sync: SyncState,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) version: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct CredentialSummary {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) hint: Option<String>,
    pub(super) set_at: String,
}

/// How tenantd reads the VMs of a provider.
#[derive(Debug, Deserialize)]
pub(super) struct SyncState {
    pub(super) state: String,
    pub(super) last_at: Option<String>,
    pub(super) next_at: Option<String>,
    pub(super) vm_count: u64,
    pub(super) interval_seconds: u64,
    pub(super) error: Option<SyncProblem>,
    pub(super) unreadable: Option<Unreadable>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SyncProblem {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) at: String,
}

/// What the last sync could not read.
#[derive(Debug, Deserialize)]
pub(super) struct Unreadable {
    pub(super) partial: u64,
    pub(super) skipped: u64,
    #[serde(default)]
    pub(super) reasons: Vec<String>,
}

impl Provider {
    pub(super) fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    pub(super) fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    /// What is wrong, in the words of the provider.
    pub(super) fn problem(&self) -> Option<&str> {
        let synced = self.sync.error.as_ref().map(|error| error.message.as_str());
        synced.or_else(|| self.verification.as_ref()?.message.as_deref())
    }
}

/// The provider that the path names.
pub(super) async fn provider(visitor: &Visitor<'_>) -> Result<Provider, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

pub(super) fn status_badge(status: &str) -> Markup {
    let tone = match status {
        "verified" => Tone::Good,
        "degraded" => Tone::Warn,
        "invalid" | "unreachable" => Tone::Bad,
        _ => Tone::Neutral,
    };
    badge(tone, &words(status))
}
