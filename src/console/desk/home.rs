//! Home: what needs the reader now. Each figure leads to the list behind it.

use std::fmt::Display;

use futures_util::future::try_join;
use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::{Identity, Scope, TenantKind};

use super::{
    Content, Reply,
    records::{Count, List, Named},
    tickets::{TicketRow, priority_badge, service_level},
};
use crate::{
    chart::{Chart, Mark},
    components::{Tone, badge, bar, card, curl, empty, page_head},
    refusal::Refusal,
    visitor::Visitor,
};

const TICKETS: &str = "/api/psa/tickets";
const OPEN: &str = "status_category=open";
const MINE: &str = "status_category=open&assignee_id=me";
const UNASSIGNED: &str = "status_category=open&assignee_id=none";
const LATE: &str = "sla_state=breached";
const AT_RISK: &str = "sla_state=at_risk";
/// For each figure, about how many tickets are looked at. A larger figure is shown as `500+`.
const COUNTED: usize = 500;
/// The urgent tickets that the page shows.
const URGENT: usize = 8;
/// An organization with a lower score needs attention.
const LOW_SCORE: u32 = 70;

/// A workflow run that waits for an approval.
#[derive(Debug, Deserialize)]
struct WaitingRun {
    id: String,
    workflow: Named,
    waiting_on: Option<String>,
    started_by: Option<Person>,
    created_at: String,
}

#[derive(Debug, Deserialize)]
struct Person {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Session {
    tenant: OwnTenant,
}

#[derive(Debug, Deserialize)]
struct OwnTenant {
    expires_at: Option<String>,
    /// Whether the sample data is incomplete.
    #[serde(default)]
    filling: bool,
}

#[derive(Debug, Deserialize)]
struct Protection {
    organization: Named,
    score: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Analytics {
    series: Vec<Series>,
}

#[derive(Debug, Deserialize)]
struct Series {
    points: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    t: String,
    v: Option<f64>,
}

/// A list of which only the length matters.
#[derive(Debug, Deserialize)]
struct Anything {}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let (desk, rest) = try_join(desk(&visitor), beside(&visitor)).await?;
    let body = html! {
        (head(&visitor))
        @if visitor.reader.tenant_kind == TenantKind::Evaluation {
            (evaluation(&visitor).await?)
        }
        (desk)
        (rest)
    };
    Ok(Reply::Page(Content::new("Home", body).live("ticket.*")))
}

/// How long the evaluation still runs.
async fn evaluation(visitor: &Visitor<'_>) -> Result<Markup, Refusal> {
    let session: Session = visitor.read("/api/auth/session").await?;
    let left = session.tenant.expires_at.as_deref().and_then(|end| visitor.clock.left(end));
    Ok(html! {
        p.note role="note" {
            strong { "Evaluation" @if let Some((left, _)) = left { ", " (left) } ". " }
            "What " (visitor.reader.tenant_name) " shows is made up, and ends with it."
            @if session.tenant.filling { " More sample data arrives while you look around. You can make changes when it is complete." }
        }
    })
}

fn head(visitor: &Visitor<'_>) -> Markup {
    let greeting = match visitor.clock.hour() {
        5..12 => "Good morning",
        12..18 => "Good afternoon",
        _ => "Good evening",
    };
    let name = visitor.name();
    let name = if matches!(visitor.reader.identity, Identity::User { .. }) { name.split(' ').next().unwrap_or(name) } else { name };
    let zone = visitor.clock.zone_name();
    page_head(
        &html! { (greeting) ", " (name) },
        &html! { (visitor.clock.day(visitor.clock.now, "%A, %-d %B")) " · " (zone) },
        &html! {
            @if visitor.may(Scope::TicketsRead) { (curl(visitor.visit.base_url, "GET", &visitor.shared(&format!("{TICKETS}?{MINE}")), None)) }
            @if visitor.may(Scope::TicketsWrite) { a.button.primary href="/tickets/new" { "New ticket" } }
        },
    )
}

/// How many records a list has; nothing if the reader may not read it.
async fn count(visitor: &Visitor<'_>, target: &str) -> Result<Option<Count>, Refusal> {
    Ok(visitor.read_if_allowed::<List<Anything>>(format!("{target}&limit=1")).await?.map(|list| list.count()))
}

async fn tickets(visitor: &Visitor<'_>, query: &str, limit: usize) -> Result<Vec<TicketRow>, Refusal> {
    let list: List<TicketRow> = visitor.read(format!("{TICKETS}?{query}&limit={limit}")).await?;
    Ok(list.data)
}

/// The tickets that are late, then those that soon are, and if `all`, then the others: each by priority.
async fn most_urgent(visitor: &Visitor<'_>, query: &str, all: bool) -> Result<Vec<TicketRow>, Refusal> {
    let states = [Some(LATE), Some(AT_RISK), all.then_some("")];
    let mut found: Vec<TicketRow> = Vec::new();
    for state in states.into_iter().flatten() {
        if found.len() < URGENT {
            for ticket in tickets(visitor, &format!("{query}&{state}&sort=priority"), URGENT).await? {
                if !found.iter().any(|known| known.id == ticket.id) {
                    found.push(ticket);
                }
            }
        }
    }
    found.truncate(URGENT);
    Ok(found)
}

/// The tickets: figures, the next ones, and the last 30 days.
async fn desk(visitor: &Visitor<'_>) -> Result<Markup, Refusal> {
    if !visitor.may(Scope::TicketsRead) {
        return Ok(html! {});
    }
    let of = |query: String| async move { count(visitor, &format!("{TICKETS}?{query}&count_up_to={COUNTED}")).await };
    let mine = of(MINE.to_owned()).await?.unwrap_or_default();
    let (late, risk) = try_join(of(format!("{MINE}&{LATE}")), of(format!("{MINE}&{AT_RISK}"))).await?;
    let unassigned = of(UNASSIGNED.to_owned()).await?.unwrap_or_default();
    let oldest = tickets(visitor, &format!("{UNASSIGNED}&sort=created_at"), 1).await?;
    let (all_late, all_risk) = try_join(of(format!("{OPEN}&{LATE}")), of(format!("{OPEN}&{AT_RISK}"))).await?;
    // Somebody without tickets of their own helps where it is most urgent.
    let (title, query) = if mine.is_some() { ("Needs me now", MINE) } else { ("Most urgent", OPEN) };
    let urgent = most_urgent(visitor, query, mine.is_some()).await?;
    let opened = charted(visitor, "tickets_created").await?;
    Ok(html! {
        div.figures {
            (figure("My open tickets", mine, &format!("/tickets?{MINE}"), &html! {
                (tagged(Tone::Bad, late, "breached")) (tagged(Tone::Warn, risk, "at risk"))
            }))
            (figure("Unassigned", unassigned, &format!("/tickets?{UNASSIGNED}"), &html! {
                @if let Some(ticket) = oldest.first() { span.muted { "oldest " (visitor.clock.relative(&ticket.created_at)) } }
            }))
            (figure("Breached", all_late.unwrap_or_default(), &format!("/tickets?{OPEN}&{LATE}"), &html! { span.muted { "all open tickets" } }))
            (figure("At risk", all_risk.unwrap_or_default(), &format!("/tickets?{OPEN}&{AT_RISK}"), &html! { span.muted { "all open tickets" } }))
        }
        (card(title, &html! {
            @if urgent.is_empty() { (empty("Nothing is open here.")) } @else {
                div.scroll tabindex="0" role="group" aria-label=(title) {
                    table.list data-rows { tbody { @for ticket in &urgent { tr {
                        td.main { code { (ticket.reference) } " " a href={ "/tickets/" (ticket.reference) } data-record { (ticket.subject) } }
                        td { (ticket.organization.name) }
                        td { (service_level(&ticket.sla, &ticket.created_at, visitor.clock)) }
                        td { (priority_badge(&ticket.priority)) }
                    } } } }
                }
                p { a href={ "/tickets?" (query) "&sort=priority" } { "All open tickets by priority" } }
            }
        }))
        @if let Some(chart) = opened { (card("New tickets, last 30 days", &chart.render())) }
    })
}

/// Approvals, deliveries, backups and clouds that need somebody.
async fn beside(visitor: &Visitor<'_>) -> Result<Markup, Refusal> {
    let runs = visitor.read_if_allowed::<List<WaitingRun>>("/api/psa/workflows/trigger?view=runs&status=waiting&limit=20").await?;
    let runs: Vec<WaitingRun> = runs.map_or_else(Vec::new, |list| list.data);
    let runs: Vec<&WaitingRun> = runs.iter().filter(|run| run.waiting_on.as_deref() == Some("approval")).take(5).collect();
    let worst = visitor.read_if_allowed::<List<Protection>>("/api/backup/customer-aggregate?sort=score&limit=5").await?;
    let stopped =
        count(visitor, "/api/admin/webhooks?status=disabled&status=paused&include_total=true").await?.unwrap_or_default().found;
    let clouds = "/api/cloud/providers?status=degraded&status=invalid&status=unreachable&limit=5";
    let clouds = visitor.read_if_allowed::<List<Named>>(clouds).await?.map_or_else(Vec::new, |list| list.data);
    Ok(html! {
        div.columns {
            @if !runs.is_empty() {
                (card("Waiting for approval", &html! { ul.lines { @for run in runs { li {
                    a href={ "/workflows/runs/" (run.id) } { strong { (run.workflow.name) } }
                    p.muted { "asked by " (run.started_by.as_ref().map_or("somebody", |person| &person.name)) " " (visitor.clock.relative(&run.created_at)) }
                } } } }))
            }
            @if let Some(worst) = worst.filter(|worst| !worst.data.is_empty()) {
                (card("Backups, worst first", &html! { ul.lines { @for protection in &worst.data { li.row {
                    (protection.organization.link("backups"))
                    @match protection.score { Some(score) => (bar(score, score_tone(score), &score.to_string())), None => span.muted { "no devices" } }
                } } } }))
            }
            @if stopped > 0 || !clouds.is_empty() {
                (card("Connections", &html! { ul.lines {
                    @if stopped > 0 { li { (badge(Tone::Warn, "stopped")) " " a href="/webhooks" { (stopped) @if stopped == 1 { " webhook" } @else { " webhooks" } } } }
                    @for cloud in &clouds { li { (badge(Tone::Bad, "error")) " " (cloud.link("clouds")) } }
                } }))
            }
        }
    })
}

fn score_tone(score: u32) -> Tone {
    match score {
        0..50 => Tone::Bad,
        50..LOW_SCORE => Tone::Warn,
        _ => Tone::Good,
    }
}

/// A metric of the last 30 days, if the reader may read it.
async fn charted(visitor: &Visitor<'_>, metric: &str) -> Result<Option<Chart>, Refusal> {
    let zone = visitor.clock.zone_name();
    let target = format!("/api/analytics/tenant?range=30d&bucket=day&metrics={metric}&timezone={}", crate::query::segment(zone));
    let Some(analytics) = visitor.read_if_allowed::<Analytics>(target).await? else { return Ok(None) };
    let points = analytics.series.into_iter().next().map(|series| series.points).unwrap_or_default();
    let marks = points.into_iter().map(|point| Mark { label: point.t.chars().take(10).collect(), value: point.v }).collect();
    Ok(Some(Chart {
        id: metric.replace('_', "-"),
        title: "New tickets a day".to_owned(),
        description: "One bar for each of the last 30 days.".to_owned(),
        unit: "tickets",
        marks,
        floor: 0.0,
    }))
}

pub(super) fn figure(title: &str, count: impl Display, path: &str, below: &Markup) -> Markup {
    html! { a.figure href=(path) { span.muted { (title) } strong { (count.to_string()) } span.below { (below) } } }
}

fn tagged(tone: Tone, count: Option<Count>, word: &str) -> Markup {
    html! { @if let Some(count) = count.filter(|count| count.is_some()) { (badge(tone, &format!("{count} {word}"))) " " } }
}
