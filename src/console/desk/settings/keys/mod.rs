//! API keys: the credentials of programs. tenantd shows the key itself once, when it makes it.

mod actions;
mod cards;
mod created;
mod inputs;
mod list;
mod new;
mod one;

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::{Grants, Identity};

use super::PATH as SETTINGS;
use crate::{
    components::{Tone, badge, words},
    desk::{organizations::trail, records::Named},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) use created::shown_once;

pub(super) use actions::{change_status, revoke, rotate, show_revocation, show_rotation, take_over};
pub(super) use list::list;
pub(super) use new::{change, create, edit, new};
pub(super) use one::show;

const API: &str = "/api/admin/api-keys";
const PATH: &str = "/settings/keys";

/// A key without its plaintext.
#[derive(Debug, Deserialize)]
struct Key {
    id: String,
    name: String,
    description: Option<String>,
    prefix: String,
    last_four: String,
    scopes: Vec<String>,
    organization_ids: Option<Vec<String>>,
    allowed_ips: Option<Vec<String>>,
    /// Whether the key acts for its owner alone.
    #[serde(default)]
    personal: bool,
    status: String,
    paused: Option<Pause>,
    legacy_until: Option<String>,
    owner: Named,
    created_by: Named,
    created_at: String,
    updated_at: String,
    expires_at: String,
    last_used_at: Option<String>,
    last_used_ip: Option<String>,
    use_count: u64,
    rotated_at: Option<String>,
    previous_expires_at: Option<String>,
    revoked_at: Option<String>,
    version: u64,
}

/// Why tenantd paused a key.
#[derive(Debug, Deserialize)]
struct Pause {
    reason: String,
    at: String,
}

impl Key {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    fn trail(&self) -> Markup {
        trail(&[(SETTINGS, "Settings"), (PATH, "API keys"), (self.path().as_str(), self.name.as_str())])
    }

    fn is_revoked(&self) -> bool {
        self.status == "revoked"
    }

    fn grants(&self) -> Grants {
        Grants::from_patterns(self.scopes.iter().map(String::as_str))
    }

    /// What people recognize the key by.
    fn hint(&self) -> Markup {
        html! { code { (self.prefix) "…" (self.last_four) } }
    }

    fn badge(&self) -> Markup {
        let tone = match self.status.as_str() {
            "active" => Tone::Good,
            "expiring" => Tone::Warn,
            "expired" | "revoked" => Tone::Bad,
            _ if self.paused.is_some() => Tone::Warn,
            _ => Tone::Neutral,
        };
        let text = if self.paused.is_some() { "Paused".to_owned() } else { words(&self.status) };
        badge(tone, &text)
    }

    /// Whether the reader is responsible for the key.
    fn is_owned_by(&self, visitor: &Visitor<'_>) -> bool {
        let reader = match &visitor.reader.identity {
            Identity::User { id, .. } | Identity::Contact { id, .. } => id.to_string(),
            Identity::ApiKey { id, .. } => id.to_string(),
            Identity::LocalOperator => return false,
        };
        reader == self.owner.id
    }
}

/// The key that the path names.
async fn key(visitor: &Visitor<'_>) -> Result<Key, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}
