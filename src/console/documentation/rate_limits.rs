//! The rate limits that are in force.

use maud::html;
use serde_json::{Value, json};

use tenantd_http::rate::{RateClass, RateLimits};

use super::{Content, contents};
use crate::components::{code, table};

pub(super) const PATH: &str = "/api/rate-limits/";

/// Each limit: its class, what requests are counted for, and how many a minute are allowed.
fn rows(rates: &RateLimits) -> (bool, Vec<(RateClass, &'static str, u32)>) {
    let settings = rates.settings();
    let rows = vec![
        (RateClass::Read, "credential", settings.read.credential),
        (RateClass::Read, "tenant", settings.read.tenant),
        (RateClass::Search, "credential", settings.search.credential),
        (RateClass::Search, "tenant", settings.search.tenant),
        (RateClass::Report, "credential", settings.report.credential),
        (RateClass::Report, "tenant", settings.report.tenant),
        (RateClass::Write, "credential", settings.write.credential),
        (RateClass::Write, "tenant", settings.write.tenant),
        (RateClass::Provision, "credential", settings.provision.credential),
        (RateClass::Provision, "tenant", settings.provision.tenant),
        (RateClass::SignIn, "address", settings.sign_in_per_address),
        (RateClass::Public, "address", settings.public_per_address),
    ];
    (settings.enabled, rows)
}

pub(super) fn json(rates: &RateLimits) -> Value {
    let (enabled, rows) = rows(rates);
    let limits: Vec<Value> =
        rows.iter().map(|(class, per, limit)| json!({"class": class.name(), "per": per, "requests_per_minute": limit})).collect();
    json!({"enabled": enabled, "limits": limits})
}

pub(super) fn content(rates: &RateLimits) -> Content {
    let (enabled, rows) = rows(rates);
    let rows: Vec<_> = rows
        .iter()
        .map(|(class, per, limit)| vec![code(class.name()), html! { (class.description()) }, html! { (per) }, html! { (limit) }])
        .collect();
    Content::new(
        "Rate limits",
        html! {
            h1 { "Rate limits" }
            @if enabled {
                p.lead { "tenantd counts requests for each credential, each tenant, and each address without a credential." }
                p {
                    "Each limit is a bucket that refills evenly over a minute. A request that finds its bucket empty gets "
                    code { "429" } " with " code { "Retry-After" } "."
                }
            } @else {
                p.lead { "Rate limits are switched off on this installation." }
            }
            p {
                "Each answer says how much is left: " code { "RateLimit-Policy" } ", " code { "RateLimit" } ", " code { "X-RateLimit-Limit" } ", "
                code { "X-RateLimit-Remaining" } " and " code { "X-RateLimit-Reset" } ". The last one is the number of seconds until the bucket is full."
            }
            (table("Rate limits", &["class", "applies to", "counted per", "requests a minute"], &rows))
        },
    )
    .below(contents::PATH, "Documentation")
}
