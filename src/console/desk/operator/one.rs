//! The page of a tenant: its state and what the operator can do with it. It shows none of the tenant's content.

use maud::{Markup, html};

use super::{HOME, PATH, Tenant, quotas, tenant};
use crate::{
    components::{card, code, code_block, curl, facts, page_head, words},
    desk::{
        Content, Reply,
        organizations::{is_correctable, trail},
    },
    form::{Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    page(&visitor, &tenant, None).await
}

/// The page of the tenant again if the refusal of a form on it can be shown there.
pub(super) async fn refused(visitor: &Visitor<'_>, tenant: &Tenant, refusal: Refusal) -> Result<Reply, Refusal> {
    if is_correctable(&refusal) { page(visitor, tenant, Some(&refusal)).await } else { Err(refusal) }
}

async fn page(visitor: &Visitor<'_>, tenant: &Tenant, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let standings = quotas::standings(visitor, tenant).await?;
    let fields = Fields::default();
    let body = html! {
        (trail(&[(HOME, "Operator"), (PATH, "Tenants")]))
        (head(tenant, visitor))
        (Shown { fields: &fields, refusal }.summary())
        @if tenant.status == "preparing" { p.note role="note" { "tenantd removes the data of the tenant, before it writes the sample data again." } }
        @if tenant.status == "filling" { p.note role="note" { "tenantd writes the sample data. The credentials can read, and can change something when the tenant is active." } }
        @if tenant.status == "deleting" { p.note role="note" { "tenantd deletes this tenant. It disappears when all of its records are removed." } }
        div.split {
            div {
                @if let Some(standings) = &standings { (card("Quotas", &quotas::overview(standings, tenant, visitor))) }
                (card("On the server", &commands(tenant)))
            }
            div { (card("Details", &details(tenant, visitor))) }
        }
    };
    let content = Content::new(tenant.name.clone(), body).live_about("tenant.*", &tenant.id);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(tenant: &Tenant, visitor: &Visitor<'_>) -> Markup {
    let is_active = tenant.status == "active";
    let link = |part: &str, title: &str| html! { a.button href={ (tenant.path()) "/" (part) } { (title) } };
    page_head(
        &html! { (tenant.name) },
        &html! { (tenant.status_badge()) " " (words(&tenant.kind)) " tenant" },
        &html! {
            (curl(visitor.visit.base_url, "GET", &tenant.api(), None))
            @if tenant.is_evaluation() && is_active { (link("clock", "Advance clock")) (link("reset", "Reset")) }
            @if tenant.status == "suspended" { (resume(tenant, visitor)) }
            @if !tenant.is_platform() {
                @if is_active { (link("suspend", "Suspend")) }
                @if tenant.status != "deleting" { (link("delete", "Delete")) }
            }
        },
    )
}

fn resume(tenant: &Tenant, visitor: &Visitor<'_>) -> Markup {
    html! {
        form method="post" action={ (tenant.path()) "/resume" } { (visitor.tokens()) button.primary { "Resume" } }
    }
}

fn details(tenant: &Tenant, visitor: &Visitor<'_>) -> Markup {
    let activity = tenant.activity.as_ref();
    facts(&[
        ("ID", Some(code(&tenant.id))),
        ("Slug", Some(code(&tenant.slug))),
        ("Created", Some(visitor.clock.absolute(&tenant.created_at))),
        ("Changed", Some(visitor.clock.relative(&tenant.updated_at))),
        ("Expires", tenant.expires_at.as_deref().map(|at| visitor.clock.absolute(at))),
        (
            "Its clock",
            tenant.clock.as_ref().map(|clock| html! { (visitor.clock.absolute(&clock.now)) " (" (ahead(clock.ahead_seconds)) ")" }),
        ),
        ("Events", activity.map(|activity| html! { (activity.events) })),
        ("Last event", activity.map(|activity| visitor.clock.relative(&activity.last_event_at))),
    ])
}

/// How far the clock of a tenant is ahead, in words.
pub(super) fn ahead(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "min")];
    let parts: Vec<String> = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count} {unit}")).collect();
    if parts.is_empty() { "not advanced".to_owned() } else { format!("{} ahead", parts.join(" ")) }
}

/// What only the host can do.
fn commands(tenant: &Tenant) -> Markup {
    let role = if tenant.is_platform() { "operator" } else { "admin" };
    let user = format!("tenantd user create ada@example.com --tenant {} --role {role}", tenant.slug);
    html! {
        p { "Create a user. The command prints the password:" }
        (code_block("sh", &user))
        @if !tenant.is_platform() {
            p { "Export the tenant to a file that another installation can import:" }
            (code_block("sh", &format!("tenantd export --tenant {0} --output {0}.ndjson", tenant.slug)))
            p { "Approve a mail domain for single sign-on without a DNS record:" }
            (code_block("sh", &format!("tenantd domain approve example.com --tenant {}", tenant.slug)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_ahead_by_days_hours_and_minutes() {
        assert_eq!((ahead(0), ahead(59)), ("not advanced".to_owned(), "not advanced".to_owned()));
        assert_eq!(ahead(3 * 86_400 + 60), "3 d 1 min ahead");
        assert_eq!(ahead(25 * 3_600), "1 d 1 h ahead");
    }
}
