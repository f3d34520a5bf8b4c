//! The page of the service levels: targets, working hours, the next days, and a ticket as an example.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::zones;

use super::{super::SETTINGS, API, DAYS, PATH, PRIORITIES, Policy, TITLE, calendar, hours_words, may_change, policy};
use crate::{
    components::{Tone, badge, card, curl, facts, page_head, table, words},
    desk::{
        Content, Reply,
        organizations::{optional, trail},
        records::List,
        tickets::priority_badge,
    },
    moment::minutes,
    refusal::Refusal,
    visitor::Visitor,
};

/// The newest unfinished ticket with a high priority.
const EXAMPLE: &str = "/api/psa/tickets?priority=high&status_category=open&sort=-created_at&limit=1";

/// A ticket whose due times show what the service levels mean.
#[derive(Debug, Deserialize)]
struct Example {
    #[serde(rename = "ref")]
    reference: String,
    subject: String,
    created_at: String,
    sla: Clocks,
}

#[derive(Debug, Deserialize)]
struct Clocks {
    first_response: Option<Due>,
    resolution: Option<Due>,
}

#[derive(Debug, Deserialize)]
struct Due {
    due_at: Option<String>,
}

pub(crate) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let policy = policy(&visitor).await?;
    let found = visitor.read_if_allowed::<List<Example>>(EXAMPLE).await?;
    let example = found.and_then(|list| list.data.into_iter().next());
    let zone = zones::find(&policy.time_zone).ok();
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head(&policy, &visitor))
        @if visitor.query().first("saved") == "true" { p.note role="status" { "The service levels are saved." } }
        div.split {
            div {
                (card("Targets", &targets(&policy)))
                @if let Some(zone) = zone { (card("The next 14 days", &preview(&policy, &zone, &visitor))) }
            }
            div {
                (card("Working hours", &week(&policy)))
                (card("Holidays", &holidays(&policy)))
                @if let Some(example) = &example { (card("Example", &due_times(example, &visitor))) }
            }
        }
    };
    Ok(Reply::Page(Content::new(TITLE, body).live("sla.*")))
}

fn head(policy: &Policy, visitor: &Visitor<'_>) -> Markup {
    page_head(
        &html! { (TITLE) },
        &html! {
            @match &policy.updated_at {
                Some(at) => { "Changed " (visitor.clock.relative(at)) }
                None => { "The defaults apply." }
            }
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", API, None))
            @if may_change(visitor) { a.button.primary href={ (PATH) "/edit" } { "Edit" } }
        },
    )
}

fn targets(policy: &Policy) -> Markup {
    let known = PRIORITIES.iter().filter_map(|priority| Some((*priority, policy.targets.get(*priority)?)));
    let rows: Vec<Vec<Markup>> = known
        .map(|(priority, target)| {
            let counted = if target.round_the_clock { "Round the clock" } else { "Working hours" };
            vec![
                priority_badge(priority),
                html! { (minutes(target.first_response_minutes)) },
                html! { (minutes(target.resolution_minutes)) },
                html! { (counted) },
            ]
        })
        .collect();
    table("Targets", &["Priority", "First response", "Resolution", "Time that counts"], &rows)
}

fn week(policy: &Policy) -> Markup {
    let of_day = |day: &str| {
        let hours = hours_words(policy.hours_of(day));
        html! { @if hours.is_empty() { span.muted { "Day off" } } @else { (hours) } }
    };
    html! {
        dl.facts-list {
            @for day in DAYS { div { dt { (words(day)) } dd { (of_day(day)) } } }
        }
        (facts(&[("Time zone", Some(html! { (policy.time_zone) }))]))
    }
}

fn holidays(policy: &Policy) -> Markup {
    html! {
        @if policy.holidays.is_empty() {
            p.muted { "None. Add days without work, such as public holidays." }
        } @else {
            ul.lines { @for day in &policy.holidays { li { time datetime=(day) { (day) } } } }
        }
    }
}

fn preview(policy: &Policy, zone: &TimeZone, visitor: &Visitor<'_>) -> Markup {
    let Ok(now) = jiff::Timestamp::from_millisecond(visitor.clock.now.as_millis()) else { return optional(None) };
    let now = now.to_zoned(zone.clone());
    html! {
        p {
            "It is " (now.strftime("%A, %H:%M").to_string()) " in " (policy.time_zone) ". "
            @if calendar::counts(policy, &now) {
                (badge(Tone::Good, "Time counts now"))
            } @else {
                (badge(Tone::Neutral, "Time does not count now")) " except for targets round the clock"
            }
        }
        (calendar::table(&calendar::days(policy, &now)))
    }
}

/// The due times of a ticket as tenantd computed them when its clocks started.
fn due_times(example: &Example, visitor: &Visitor<'_>) -> Markup {
    let due = |clock: Option<&Due>| {
        let at = clock.and_then(|clock| clock.due_at.as_deref());
        at.map(|at| visitor.clock.absolute(at))
    };
    html! {
        p { "The newest open ticket with a high priority:" }
        p { code { (example.reference) } " " a href={ "/tickets/" (example.reference) } { (example.subject) } }
        (facts(&[
            ("Opened", Some(visitor.clock.absolute(&example.created_at))),
            ("First response", due(example.sla.first_response.as_ref())),
            ("Resolution", due(example.sla.resolution.as_ref())),
        ]))
        p.muted { "A change of the service levels does not change due times that exist." }
    }
}
