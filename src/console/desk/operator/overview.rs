//! The overview of the installation: its tenants, its metrics, and what the operator does on the host.

use futures_util::future::try_join3;
use maud::{Markup, html};

use super::{API, PATH, Tenant, metrics};
use crate::{
    components::{card, code_block, curl, facts, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, optional},
        records::List,
    },
    refusal::Refusal,
    visitor::Visitor,
};

/// What the operator does with the program on the host, and the command for it.
const COMMANDS: [(&str, &str); 7] = [
    ("Write a snapshot of the running server", "tenantd backup /var/backups/tenantd/today.snapshot"),
    ("Test that the newest snapshot can be restored", "tenantd drill"),
    ("Verify every record and index of the store", "tenantd check"),
    ("Verify the audit of all tenants", "tenantd audit verify"),
    ("Replace the installation key", "tenantd rotate-key"),
    ("Show what an upgrade will do", "tenantd upgrade check"),
    ("Reload certificates, limits and the log level", "tenantd reload"),
];

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let newest = format!("{API}?limit=1&include_total=true");
    let tenants: List<Tenant> = visitor.read(newest).await?;
    let (report, kinds, states) =
        try_join3(metrics::report(&visitor), metrics::tenants_by(&visitor, "kind"), metrics::tenants_by(&visitor, "status"))
            .await?;
    let total = tenants.page.total.unwrap_or_default();
    let body = html! {
        (head(report.as_ref(), &visitor))
        div.columns {
            (card("Tenants", &html! {
                p.score { strong { (total) } " " a href=(PATH) { (if total == 1 { "tenant" } else { "tenants" }) } }
                (counts(&kinds))
                (counts(&states))
            }))
            @if let Some(report) = &report { (card("The last 24 hours", &report.figures())) }
        }
        @if let Some(report) = &report { (card("Charts", &report.charts(visitor.clock))) }
        (card("On the server", &commands()))
    };
    Ok(Reply::Page(Content::new("Operator", body).live("tenant.*")))
}

fn head(report: Option<&metrics::Report>, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { "Operator" },
        &html! {
            @match report {
                Some(report) => {
                    "tenantd " (optional(report.version.as_deref()))
                    @if let Some(at) = &report.started_at { ", started " (visitor.clock.relative(at)) }
                }
                None => { "This installation" }
            }
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", &metrics::target(visitor.clock), None))
            a.button href="/status/" { "Health and incidents" }
            a.button href=(PATH) { "Tenants" }
            a.button.primary href={ (PATH) "/new" } { "New tenant" }
        },
    )
}

fn counts(counts: &[(String, u64)]) -> Markup {
    let rows: Vec<(&str, Option<Markup>)> =
        counts.iter().map(|(name, count)| (name.as_str(), Some(html! { (counted(*count, "tenant", "tenants")) }))).collect();
    facts(&rows)
}

fn commands() -> Markup {
    html! {
        p { "These need the host. Everything else about it, such as the disk, is at " a href="/status/" { "Health and incidents" } "." }
        ul.lines { @for (purpose, command) in COMMANDS { li { (purpose) (code_block("sh", command)) } } }
        p.muted { a href="/documentation/guides/" { "Guides for operators" } }
    }
}
