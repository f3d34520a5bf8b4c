//! The organizations with the worst backups first.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    API, CONFIG_PATH, EVENTS, PATH,
    record::{Jobs, Report, Row, Summary},
    score,
};
use crate::{
    components::{Tone, badge, bar, curl, empty, page_head, words},
    desk::{
        Content, Reply,
        devices::{any_of, pairs, select},
        home::figure,
        organizations::{counted, optional, or_none, organization_choices, pages, state_tone},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const STATES: [&str; 5] = ["critical", "warning", "healthy", "unprotected", "unknown"];
const AGES: [(&str, &str); 3] = [("breached", "Too old"), ("at_risk", "Almost too old"), ("ok", "New enough")];
const WINDOWS: [(&str, &str); 3] = [("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days")];
const SORTS: [(&str, &str); 8] = [
    ("score", "Worst first"),
    ("-score", "Best first"),
    ("coverage", "Lowest coverage"),
    ("-coverage", "Highest coverage"),
    ("last_success_at", "Longest without a backup"),
    ("-last_success_at", "Newest backup"),
    ("name", "Name"),
    ("-name", "Name, from the end"),
];
/// The parameters with a field in the form.
const FIELDS: [&str; 7] = ["state", "organization_id", "rpo", "score_lt", "coverage_lt", "window", "sort"];
/// The most organizations that a statement can be about.
const MOST_IN_EVIDENCE: &str = "200";

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let asked = query.clone().or("sort", "score").or("window", "7d");
    let target = asked.clone().or("limit", "50").at(API);
    let report: Report = visitor.read(&target).await?;
    let organizations = or_none("Any", organization_choices(&visitor, None).await?);
    let whole = asked.without("cursor").without("limit");
    let evidence = whole.clone().without("window").without("explain").with("view", "evidence").with("limit", MOST_IN_EVIDENCE);
    let head = page_head(
        &html! { "Backups" },
        &html! { (counted(report.summary.organizations, "organization", "organizations")) },
        &html! {
            a.button href=(CONFIG_PATH) { "Settings" }
            a.button href=(evidence.at(API)) download="backup-evidence.json" { "Evidence" }
            a.button href=(whole.with("format", "csv").at(API)) download { "CSV" }
            (curl(visitor.visit.base_url, "GET", &target, None))
        },
    );
    let body = html! {
        (head)
        (figures(&report.summary, &visitor))
        (filter(&query, &organizations))
        @if report.data.is_empty() {
            (empty(if query == Query::default() {
                "There are no backups yet. Create organizations and devices, and send backup jobs from your backup systems."
            } else {
                "No organization matches. Remove a filter."
            }))
        } @else {
            (table(&report.data, &visitor))
        }
        (pages(&query, PATH, report.data.len(), &report.page))
        p.muted {
            "Evidence is a signed statement about at most " (MOST_IN_EVIDENCE) " organizations that match. "
            a href="/documentation/guides/backups/" { "How the score is made and how to verify a statement" }
        }
    };
    Ok(Reply::Page(Content::new("Backups", body).live(EVENTS)))
}

/// Figures over all organizations that match, each with the way to what is behind it.
fn figures(summary: &Summary, visitor: &Visitor<'_>) -> Markup {
    let of_state = |state: &str| Query::default().with("state", state).at(PATH);
    let breached = Query::default().with("rpo", "breached").at(PATH);
    let unprotected = if visitor.may(Scope::DirectoryRead) { "/devices?protected=false".to_owned() } else { PATH.to_owned() };
    html! {
        div.figures {
            @if let Some(score) = summary.mean_score {
                (figure("Mean score", score, PATH, &html! { span.muted { "of 100" } }))
            }
            (figure("Critical", summary.states.critical, &of_state("critical"), &html! {
                @if summary.states.unprotected > 0 { (badge(Tone::Bad, &format!("{} unprotected", summary.states.unprotected))) " " }
                @if summary.states.unknown > 0 { span.muted { (summary.states.unknown) " unknown" } }
            }))
            (figure("Devices not protected", summary.devices.unprotected, &unprotected, &html! {
                span.muted { "of " (counted(summary.devices.eligible, "device", "devices")) }
            }))
            (figure("Restore points too old", summary.rpo.breached, &breached, &html! {
                @if summary.rpo.at_risk > 0 { (badge(Tone::Warn, &format!("{} almost", summary.rpo.at_risk))) }
            }))
        }
    }
}

fn filter(query: &Query, organizations: &[(String, String)]) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name) && *name != "cursor");
    let shown = query.clone().or("sort", "score").or("window", "7d");
    let number = |name: &str, label: &str| {
        html! { label { (label) input type="number" name=(name) value=(query.first(name)) min="1" max="101"; } }
    };
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter organizations by their backups" data-filter {
            (select(query, "organization_id", "Organization", organizations.to_vec()))
            (select(query, "state", "State", any_of(&STATES)))
            (select(query, "rpo", "Restore points", or_none("Any", pairs(&AGES))))
            (number("score_lt", "Score below"))
            (number("coverage_lt", "Coverage below, %"))
            (select(&shown, "window", "Jobs of", pairs(&WINDOWS)))
            (select(&shown, "sort", "Sort", pairs(&SORTS)))
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(rows: &[Row], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Organizations by their backups" {
            table.list data-rows {
                thead { tr { @for head in ["Organization", "State", "Score", "Devices", "Restore points", "Jobs", "Last backup"] { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            td.main {
                                a href={ (PATH) "/" (row.organization.id) } data-record { (row.organization.name) }
                                details { summary { "Why" } (score::summary(row)) }
                            }
                            td { (badge(state_tone(&row.state), &words(&row.state))) }
                            td { @match row.score { Some(score) => { (bar(score, state_tone(&row.state), &score.to_string())) } None => { (optional(None)) } } }
                            td.name { (row.devices.protected) " of " (row.devices.eligible) " protected" }
                            td { (ages(row)) }
                            td { (jobs(&row.jobs)) }
                            td.time { @match &row.last.success_at { Some(time) => { (visitor.clock.relative(time)) } None => { (optional(None)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn ages(row: &Row) -> Markup {
    html! {
        @if row.rpo.breached > 0 { (badge(Tone::Bad, &format!("{} too old", row.rpo.breached))) " " }
        @if row.rpo.at_risk > 0 { (badge(Tone::Warn, &format!("{} almost", row.rpo.at_risk))) " " }
        @if row.rpo.breached + row.rpo.at_risk == 0 {
            @if row.rpo.ok > 0 { (badge(Tone::Good, "New enough")) } @else { (optional(None)) }
        }
    }
}

fn jobs(jobs: &Jobs) -> Markup {
    let Some((window, counts)) = jobs.windows().next() else { return optional(None) };
    html! {
        @match counts.success_percent {
            Some(percent) => { (percent) " % good in " (window) }
            None => { span.muted { "no jobs in " (window) } }
        }
    }
}
