//! An endpoint as the API answers it, with what pages show of it.

use maud::{Markup, html};
use serde::Deserialize;

use super::{API, PATH};
use crate::{
    components::{Tone, badge, words},
    desk::organizations::trail,
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

#[derive(Debug, Deserialize)]
pub(super) struct Endpoint {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) url: String,
    pub(super) description: Option<String>,
    pub(super) events: Vec<String>,
    #[serde(default)]
    pub(super) filter: Filter,
    pub(super) header_names: Vec<String>,
    pub(super) status: String,
    pub(super) disabled_reason: Option<String>,
    pub(super) ordering: String,
    pub(super) timeout_seconds: u32,
    pub(super) retry: String,
    pub(super) rate_limit_per_second: Option<u32>,
    pub(super) ca_certificate_pem: Option<String>,
    pub(super) secret_hint: String,
    pub(super) secret_rotated_at: Option<String>,
    pub(super) previous_secret_expires_at: Option<String>,
    pub(super) health: Health,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) version: u64,
}

/// Which events of the subscribed kinds an endpoint receives. An empty list does not filter.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    pub(super) organization_ids: Vec<String>,
    #[serde(default)]
    pub(super) priorities: Vec<String>,
    #[serde(default)]
    pub(super) exclude_actor_ids: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Health {
    pub(super) state: String,
    pub(super) consecutive_failures: u64,
    pub(super) last_success_at: Option<String>,
    pub(super) last_failure_at: Option<String>,
    pub(super) last_status: Option<u16>,
    pub(super) pending: u64,
    pub(super) oldest_pending_at: Option<String>,
    pub(super) shed: u64,
}

/// The page of the endpoint that the path names.
pub(super) fn path(visitor: &Visitor<'_>) -> String {
    format!("{PATH}/{}", segment(visitor.part("id")))
}

/// The endpoint that the path names, in the API.
pub(super) fn target(visitor: &Visitor<'_>) -> String {
    format!("{API}/{}", segment(visitor.part("id")))
}

pub(super) async fn endpoint(visitor: &Visitor<'_>) -> Result<Endpoint, Refusal> {
    visitor.read(target(visitor)).await
}

impl Endpoint {
    pub(super) fn path(&self) -> String {
        format!("{PATH}/{}", segment(&self.id))
    }

    pub(super) fn api(&self) -> String {
        format!("{API}/{}", segment(&self.id))
    }

    /// The pages above a page of the endpoint.
    pub(super) fn trail(&self) -> Markup {
        trail(&[(PATH, "Webhooks"), (self.path().as_str(), self.name.as_str())])
    }

    pub(super) fn state_badge(&self) -> Markup {
        let tone = match self.status.as_str() {
            "active" => Tone::Good,
            "paused" => Tone::Warn,
            _ => Tone::Bad,
        };
        badge(tone, &words(&self.status))
    }
}

impl Filter {
    pub(super) fn is_empty(&self) -> bool {
        self.organization_ids.is_empty() && self.priorities.is_empty() && self.exclude_actor_ids.is_empty()
    }
}

impl Health {
    pub(super) fn badge(&self) -> Markup {
        let tone = match self.state.as_str() {
            "healthy" => Tone::Good,
            "degraded" => Tone::Warn,
            _ => Tone::Bad,
        };
        if self.last_attempt_at().is_none() {
            return html! { span.muted { "No delivery yet" } };
        }
        badge(tone, &words(&self.state))
    }

    /// When an attempt last ended. The API writes all times in UTC with the same number of digits.
    pub(super) fn last_attempt_at(&self) -> Option<&str> {
        self.last_success_at.as_deref().max(self.last_failure_at.as_deref())
    }
}

/// Why an endpoint is disabled, or an event was skipped, in a sentence.
pub(super) fn disabled_because(reason: &str) -> String {
    match reason {
        "gone" => "The receiver answered 410, which means that it is gone.".to_owned(),
        "failures" => "No delivery succeeded for days.".to_owned(),
        "receiver" => "The receiver asked for it with the header webhook-delivery: disable.".to_owned(),
        "operator" => "A user or an API key disabled it.".to_owned(),
        "not_readable" => "The owner of the endpoint may not read the event.".to_owned(),
        other => words(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_is_the_later_of_success_and_failure() {
        let health = |success: Option<&str>, failure: Option<&str>| Health {
            state: "degraded".to_owned(),
            consecutive_failures: 1,
            last_success_at: success.map(str::to_owned),
            last_failure_at: failure.map(str::to_owned),
            last_status: None,
            pending: 0,
            oldest_pending_at: None,
            shed: 0,
        };
        let (early, late) = ("2026-11-18T12:00:00.000Z", "2026-11-18T12:00:01.000Z");
        assert_eq!(health(Some(early), Some(late)).last_attempt_at(), Some(late));
        assert_eq!(health(Some(late), None).last_attempt_at(), Some(late));
        assert!(health(None, None).badge().into_string().contains("No delivery yet"));
    }
}
