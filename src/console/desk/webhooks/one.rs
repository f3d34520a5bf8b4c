//! The page of an endpoint: how well it works, its last deliveries, its settings, and what one can do with it.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    deliveries,
    delivery::Delivery,
    parts::{button, second},
    record::{Endpoint, disabled_because, endpoint, target},
    stats::stats_card,
};
use crate::{
    components::{card, curl, facts, page_head, words},
    desk::{
        Content, Reply,
        organizations::{counted, trail},
        records::List,
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// The page, with why an action was refused.
pub(super) async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let endpoint = endpoint(visitor).await?;
    let stats = stats_card(visitor, &endpoint).await?;
    let log: List<Delivery> = visitor.read(format!("{}/deliveries?limit=10", target(visitor))).await?;
    let body = html! {
        (trail(&[(super::PATH, "Webhooks")]))
        (head(&endpoint, visitor))
        (Shown { fields: &Fields::default(), refusal }.summary())
        (notes(&endpoint, visitor))
        div.split {
            div {
                (stats)
                (card("Last deliveries", &last_deliveries(&endpoint, &log.data, visitor)))
            }
            div {
                (card("Details", &details(&endpoint, visitor)))
                @if visitor.may(Scope::WebhooksWrite) { (card("State", &state(&endpoint, visitor))) }
                (card("Signing secret", &signing(&endpoint, visitor)))
            }
        }
    };
    let content = Content::new(endpoint.name.clone(), body).live_about("webhook.*", &endpoint.id);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    let path = endpoint.path();
    page_head(
        &html! { (endpoint.name) },
        &html! { (endpoint.state_badge()) " " (endpoint.health.badge()) " " code { (endpoint.url) } },
        &html! {
            (curl(visitor.visit.base_url, "GET", &endpoint.api(), None))
            @if visitor.may(Scope::WebhooksWrite) {
                a.button href={ (path) "/edit" } { "Edit" }
                a.button href={ (path) "/delete" } { "Delete" }
                (button(visitor, &format!("{path}/test"), "primary", "Send a test"))
            }
        },
    )
}

/// What the reader should know before anything else.
fn notes(endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    let query = visitor.query();
    html! {
        @if query.first("headers") == "removed" {
            p.note role="status" {
                "tenantd removed the custom headers, because their values were given for another target. "
                "Edit the endpoint and enter them again."
            }
        }
        @match endpoint.status.as_str() {
            "disabled" => {
                p.note {
                    strong { "This endpoint is disabled. " }
                    @if let Some(reason) = &endpoint.disabled_reason { (disabled_because(reason)) " " }
                    "Events are skipped until it is enabled. You can send them afterwards."
                }
            }
            "paused" => { p.note { strong { "This endpoint is paused. " } "Events wait until it is resumed." } }
            _ if endpoint.health.state == "failing" => {
                p.note {
                    strong { "The last " (counted(endpoint.health.consecutive_failures, "attempt", "attempts")) " failed. " }
                    "tenantd sends one attempt at a time until one succeeds. Correct the receiver, then send a test: if it succeeds, waiting deliveries follow."
                }
            }
            _ => {}
        }
    }
}

fn last_deliveries(endpoint: &Endpoint, log: &[Delivery], visitor: &Visitor<'_>) -> Markup {
    html! {
        @if log.is_empty() {
            p.muted { "No delivery yet. Send a test, or wait for the next event." }
        } @else {
            (deliveries::table(endpoint, log, visitor))
        }
        div.actions {
            a.button href={ (endpoint.path()) "/deliveries" } { "Delivery log" }
            @if visitor.may(Scope::WebhooksWrite) { a.button href={ (endpoint.path()) "/replay" } { "Replay events" } }
        }
    }
}

fn details(endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    let time = |text: Option<&str>| text.map(|text| visitor.clock.relative(text));
    let health = &endpoint.health;
    facts(&[
        ("ID", Some(html! { code { (endpoint.id) } })),
        ("Description", endpoint.description.as_deref().map(|text| html! { div.text { (text) } })),
        ("Events", Some(codes(&endpoint.events))),
        ("Filter", (!endpoint.filter.is_empty()).then(|| filter(endpoint))),
        ("Headers", (!endpoint.header_names.is_empty()).then(|| codes(&endpoint.header_names))),
        ("Order", Some(html! { (order_words(&endpoint.ordering)) })),
        ("Retries", Some(html! { (retry_words(&endpoint.retry)) })),
        ("Timeout", Some(html! { (endpoint.timeout_seconds) " s" })),
        ("Rate limit", endpoint.rate_limit_per_second.map(|limit| html! { (limit) " a second" })),
        ("Certificates", endpoint.ca_certificate_pem.as_ref().map(|_| html! { "Own authorities" })),
        ("Last success", time(health.last_success_at.as_deref())),
        ("Last failure", time(health.last_failure_at.as_deref())),
        ("Last response", health.last_status.map(|status| html! { "HTTP " (status) })),
        ("Waiting", Some(html! { (counted(health.pending, "delivery", "deliveries")) })),
        ("Oldest event", time(health.oldest_pending_at.as_deref())),
        (
            "Given up",
            (health.shed > 0).then(|| html! { (counted(health.shed, "delivery", "deliveries")) ", because too many waited" }),
        ),
        ("Created", time(Some(&endpoint.created_at))),
        ("Changed", time(Some(&endpoint.updated_at))),
    ])
}

fn codes(texts: &[String]) -> Markup {
    html! { @for text in texts { code { (text) } " " } }
}

fn filter(endpoint: &Endpoint) -> Markup {
    let filter = &endpoint.filter;
    html! {
        @if !filter.priorities.is_empty() { div { "Priorities: " (filter.priorities.join(", ")) } }
        @if !filter.organization_ids.is_empty() {
            div { "Only " (counted(filter.organization_ids.len() as u64, "organization", "organizations")) }
        }
        @if !filter.exclude_actor_ids.is_empty() { div { "Not caused by " (codes(&filter.exclude_actor_ids)) } }
    }
}

pub(super) fn order_words(ordering: &str) -> String {
    match ordering {
        "none" => "As fast as possible".to_owned(),
        "per_resource" => "In order for each record".to_owned(),
        other => words(other),
    }
}

pub(super) fn retry_words(retry: &str) -> String {
    match retry {
        "standard" => "Standard: 11 attempts in 76 hours".to_owned(),
        "fast" => "Fast: 9 attempts in 15 minutes".to_owned(),
        "long" => "Long: 14 attempts in a week".to_owned(),
        other => words(other),
    }
}

/// The changes of state that are possible now. Each says what follows from it.
fn state(endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    let (api, path) = (endpoint.api(), endpoint.path());
    let action = |name: &str, title: &str, effect: &str| {
        let call = if name == "disable" {
            curl(visitor.visit.base_url, "PUT", &api, Some(&serde_json::json!({"status": "disabled"})))
        } else {
            curl(visitor.visit.base_url, "POST", &format!("{api}/{name}"), None)
        };
        html! {
            li {
                p { (effect) }
                div.actions { (button(visitor, &format!("{path}/{name}"), "", title)) (call) }
            }
        }
    };
    html! {
        ul.lines {
            @match endpoint.status.as_str() {
                "active" => { (action("pause", "Pause", "Events wait until you resume the endpoint, then tenantd sends them in order.")) }
                "paused" => { (action("resume", "Resume", "Sends the waiting events in order.")) }
                _ => { (action("enable", "Enable", "The endpoint receives events again. tenantd counts the events that it missed, and you can send them.")) }
            }
            @if endpoint.status != "disabled" {
                (action("disable", "Disable", "Events are skipped. The delivery log lists them, so you can send them later."))
            }
        }
    }
}

fn signing(endpoint: &Endpoint, visitor: &Visitor<'_>) -> Markup {
    html! {
        (facts(&[
            ("Secret", Some(html! { code { (endpoint.secret_hint) } })),
            ("Rotated", endpoint.secret_rotated_at.as_deref().map(|at| visitor.clock.relative(at))),
            ("Old secret until", endpoint.previous_secret_expires_at.as_deref().map(|at| second(at, visitor.clock))),
        ]))
        div.actions {
            a.button href={ (super::PATH) "/verify" } { "Verify deliveries" }
            @if visitor.may(Scope::WebhooksWrite) { a.button href={ (endpoint.path()) "/rotate" } { "Rotate the secret" } }
        }
    }
}
