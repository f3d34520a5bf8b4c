//! The page of analytics.

use maud::{Markup, html};

use tenantd_base::clock::Timestamp;

use super::{
    API,
    axis::Axis,
    controls,
    panel::{Names, Panel},
    report::{Range, Report},
    request,
};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, organization_choices},
    },
    form::{Fields, Shown},
    moment::Clock,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// A small report with all metrics that the reader may read.
const CATALOG: &str = "/api/analytics/tenant?range=24h&bucket=day";
const EXPLANATION: &str = "/documentation/analytics/";

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let catalog: Report = visitor.read(CATALOG).await?;
    let known = catalog.metrics();
    let chosen = request::chosen(&query, &known);
    let asked = request::asked(&query, &chosen, visitor.clock);
    let outcome = if known.is_empty() { Ok(None) } else { visitor.read::<Report>(asked.at(API)).await.map(Some) };
    let (report, refusal) = match outcome {
        Ok(report) => (report, None),
        Err(refusal) if is_correctable(&refusal) => (None, Some(refusal)),
        Err(refusal) => return Err(refusal),
    };
    let names = names(&visitor, &query).await?;
    let fields = Fields::default();
    let body = html! {
        (head(&asked, report.as_ref(), &visitor))
        (Shown { fields: &fields, refusal: refusal.as_ref() }.summary())
        (controls::form(&query, &known, &chosen))
        @if let Some(report) = &report { (panels(report, &names)) }
        @if known.is_empty() { (empty("Your scopes do not allow any metric. Ask an administrator for the scopes of the records that you want to count.")) }
    };
    let content = Content::new("Analytics", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(&refusal),
        None => content,
    }))
}

fn head(asked: &Query, report: Option<&Report>, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { "Analytics" },
        &html! {
            @match report {
                Some(report) => { (visitor.reader.tenant_name) ": " (period(&report.range, visitor.clock)) }
                None => { (visitor.reader.tenant_name) }
            }
        },
        &html! {
            a.button href=(EXPLANATION) { "Overview and explanation" }
            @if report.is_some() { a.button href=(asked.clone().with("format", "csv").at(API)) download="analytics.csv" { "CSV" } }
            (curl(visitor.visit.base_url, "GET", &asked.at(API), None))
        },
    )
}

/// The period in words, such as `21 Oct 2026 to 19 Nov 2026, by day, Europe/Berlin`.
fn period(range: &Range, clock: &Clock) -> String {
    let zone = tenantd_base::zones::find(&range.timezone).unwrap_or_else(|_| clock.zone.clone());
    let clock = Clock { now: clock.now, zone };
    let day = |at: Timestamp| clock.day(at, "%-d %b %Y");
    let last = Timestamp::from_millis(range.to.as_millis().saturating_sub(1));
    format!("{} to {}, by {}, {}", day(range.from), day(last), controls::bucket_words(&range.bucket), range.timezone)
}

/// The names of the groups, if the API answers their IDs.
async fn names(visitor: &Visitor<'_>, query: &Query) -> Result<Names, Refusal> {
    if query.first("group_by") != "organization" {
        return Ok(Names::new());
    }
    Ok(organization_choices(visitor, None).await?.into_iter().collect())
}

fn panels(report: &Report, names: &Names) -> Markup {
    let axis = Axis::of(report);
    let metrics = report.metrics();
    html! {
        @if metrics.is_empty() {
            (empty("There is nothing in this period. Choose a longer one, other metrics or another group."))
        } @else {
            div.charts { @for metric in metrics { (Panel::of(report, metric).card(&axis, names)) } }
        }
    }
}
