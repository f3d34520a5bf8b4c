//! The backups of an organization: the score explained, its devices, its jobs and the settings that apply.

use maud::{Markup, html};

use tenantd_base::access::Scope;
use tenantd_http::problem::Code;

use super::{
    API, CONFIG_PATH, EVENTS, PATH, devices,
    record::{Report, Row},
    scope, score, settings,
};
use crate::{
    components::{Tone, badge, card, curl, facts, page_head, table},
    desk::{
        Content, Reply,
        devices::size,
        organizations::{backup_issues, counted, optional, trail},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = Query::default().with("organization_id", visitor.part("id"));
    let target = query.clone().with("explain", "true").with("limit", "1").at(API);
    let report: Report = visitor.read(&target).await?;
    let Some(row) = report.data.into_iter().next() else {
        return Err(Refusal::new(Code::NotFound, "There is no such organization, or you may not see it."));
    };
    let config = scope::config(&visitor, &row.organization.id).await?;
    let devices = devices::card(&visitor, &row).await?;
    let body = html! {
        (trail(&[(PATH, "Backups")]))
        (head(&row, &target, &query, &visitor))
        div.split {
            div {
                (card("Score", &score::explained(&row)))
                @if let Some(devices) = &devices { (devices) }
            }
            div {
                (card("Protection", &protection(&row, &visitor)))
                @if !row.issues.is_empty() { (card("Problems", &backup_issues(&row.issues, &visitor))) }
                (card("Jobs", &jobs(&row)))
                (card("Storage", &storage(&row, &visitor)))
                (card("Settings", &html! {
                    (settings::list(&config.effective))
                    p { a href=(settings_path(&row)) { "Where each setting comes from" } }
                }))
            }
        }
    };
    Ok(Reply::Page(Content::new(format!("Backups of {}", row.organization.name), body).live(EVENTS)))
}

fn settings_path(row: &Row) -> String {
    Query::default().with("scope", &row.organization.id).at(CONFIG_PATH)
}

fn head(row: &Row, target: &str, query: &Query, visitor: &Visitor<'_>) -> Markup {
    let evidence = query.clone().with("view", "evidence").at(API);
    page_head(
        &html! { "Backups of " (row.organization.name) },
        &html! {
            "As of " (visitor.clock.absolute(&row.as_of))
            @if visitor.may(Scope::DirectoryRead) { " · " a href={ "/organizations/" (row.organization.id) } { "Organization" } }
        },
        &html! {
            a.button href=(settings_path(row)) { "Settings" }
            a.button href=(evidence) download="backup-evidence.json" { "Evidence" }
            (curl(visitor.visit.base_url, "GET", target, None))
        },
    )
}

fn protection(row: &Row, visitor: &Visitor<'_>) -> Markup {
    let time = |text: &Option<String>| text.as_deref().map(|text| visitor.clock.relative(text));
    let count = |count: u64| (count > 0).then(|| html! { (counted(count, "device", "devices")) });
    facts(&[
        ("Devices", Some(html! { (row.devices.total) ", " (row.devices.eligible) " to be backed up" })),
        ("Protected", Some(html! { (counted(row.devices.protected, "device", "devices")) })),
        ("Not protected", count(row.devices.unprotected)),
        ("Never backed up", count(row.last.never_backed_up)),
        ("New enough", count(row.rpo.ok)),
        ("Almost too old", count(row.rpo.at_risk)),
        ("Too old", count(row.rpo.breached)),
        ("No backup yet", count(row.rpo.pending)),
        ("Last success", time(&row.last.success_at)),
        ("Last failure", time(&row.last.failure_at)),
    ])
}

fn jobs(row: &Row) -> Markup {
    let rows: Vec<Vec<Markup>> = row
        .jobs
        .windows()
        .map(|(window, counts)| {
            let good = counts.success_percent.map(|percent| format!("{percent} %"));
            vec![
                html! { (window) },
                html! { (counts.succeeded) },
                html! { (counts.warning) },
                html! { (counts.failed) },
                html! { (counts.missed) },
                optional(good.as_deref()),
            ]
        })
        .collect();
    table("Jobs by result", &["Last", "Good", "Warning", "Failed", "Missed", "Success"], &rows)
}

fn storage(row: &Row, visitor: &Visitor<'_>) -> Markup {
    let rule = &row.rule_321;
    let yes_no = |is_so: bool| html! { (if is_so { "Yes" } else { "No" }) };
    let growth = row.storage.growth_30d_bytes;
    let sign = if growth < 0 { "−" } else { "+" };
    facts(&[
        ("Protected data", Some(html! { (size(row.storage.protected_bytes)) })),
        ("In 30 days", Some(html! { (sign) (size(growth.unsigned_abs())) })),
        ("3-2-1 rule", Some(if rule.compliant { badge(Tone::Good, "Met") } else { badge(Tone::Warn, "Not met") })),
        ("Copies", Some(html! { (rule.copies) " on " (counted(rule.media, "kind of media", "kinds of media")) })),
        ("Offsite copy", Some(yes_no(rule.offsite))),
        ("Immutable copy", Some(yes_no(rule.immutable))),
        (
            "Restore test",
            Some(html! {
                @match &row.verification.last_restore_test_at {
                    Some(time) => { (visitor.clock.relative(time)) }
                    None => { "Never" }
                }
            }),
        ),
    ])
}
