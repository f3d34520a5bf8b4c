//! The calendar: when schedules start runs in the next days, in the zone of the reader.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use tenantd_base::clock::Timestamp;

use super::{
    API, CALENDAR, PATH, WORKFLOWS,
    record::{path, status_badge},
};
use crate::{
    components::{card, curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{optional, pages, trail},
        records::List,
        workflows::{next_times, text},
    },
    moment::Clock,
    refusal::Refusal,
    visitor::Visitor,
};

const DAYS: u32 = 7;
/// A schedule with more times in these days is only in the list of schedules.
const MOST_TIMES: usize = 100;

#[derive(Debug, Deserialize)]
struct Workflow {
    id: String,
    name: String,
    triggers: Vec<Value>,
    last_run: Option<LastRun>,
}

#[derive(Debug, Deserialize)]
struct LastRun {
    id: String,
    status: String,
    created_at: String,
}

/// A schedule of a workflow with its next times.
struct Scheduled<'a> {
    workflow: &'a Workflow,
    trigger: &'a Value,
    /// The times in the next days, and the one after them.
    times: Vec<Timestamp>,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().with("enabled", "true").or("limit", "200").at(API);
    let workflows: List<Workflow> = visitor.read(&target).await?;
    let scheduled: Vec<Scheduled<'_>> = workflows.data.iter().flat_map(|workflow| schedules(workflow, visitor.clock.now)).collect();
    let body = html! {
        (trail(&[WORKFLOWS, (PATH, "Runs")]))
        (page_head(
            &html! { "Calendar" },
            &html! { "Runs that schedules start in the next " (DAYS) " days · times in " (visitor.clock.zone_name()) },
            &curl(visitor.visit.base_url, "GET", &target, None),
        ))
        @if scheduled.is_empty() {
            (empty("No enabled workflow has a schedule. Add a trigger of the type schedule to a workflow."))
        } @else {
            (days(&scheduled, visitor.clock))
            (card("Schedules", &table(&scheduled, &visitor)))
        }
        (pages(&query, CALENDAR, workflows.data.len(), &workflows.page))
    };
    Ok(Reply::Page(Content::new("Calendar", body).live("workflow.*")))
}

fn schedules(workflow: &Workflow, now: Timestamp) -> impl Iterator<Item = Scheduled<'_>> {
    let of_schedule = workflow.triggers.iter().filter(|trigger| text(trigger, "type") == "schedule");
    of_schedule.map(move |trigger| Scheduled { workflow, trigger, times: times(trigger, now) })
}

/// The times of a schedule until the first one after the next days.
fn times(trigger: &Value, now: Timestamp) -> Vec<Timestamp> {
    let (end, mut last, mut times) = (now.plus_days(DAYS), now, Vec::new());
    while last <= end
        && times.len() <= MOST_TIMES
        && let Some(next) = next_times(trigger, last, 1).into_iter().next()
    {
        times.push(next);
        last = next;
    }
    times
}

impl Scheduled<'_> {
    /// Whether the schedule has too many times for the calendar.
    fn is_frequent(&self) -> bool {
        self.times.len() > MOST_TIMES
    }
}

/// The times by the days of the reader, each with the workflows that run then.
fn by_day<'a>(scheduled: &'a [Scheduled<'_>], clock: &Clock) -> BTreeMap<String, Vec<(Timestamp, &'a Workflow)>> {
    let mut days: BTreeMap<String, Vec<(Timestamp, &Workflow)>> = BTreeMap::new();
    let end = clock.now.plus_days(DAYS);
    for schedule in scheduled.iter().filter(|schedule| !schedule.is_frequent()) {
        for time in schedule.times.iter().filter(|time| **time <= end) {
            days.entry(clock.day(*time, "%Y-%m-%d")).or_default().push((*time, schedule.workflow));
        }
    }
    for times in days.values_mut() {
        times.sort_by(|(one, first), (other, second)| one.cmp(other).then_with(|| first.name.cmp(&second.name)));
    }
    days
}

fn days(scheduled: &[Scheduled<'_>], clock: &Clock) -> Markup {
    let days = by_day(scheduled, clock);
    html! {
        @if days.is_empty() { (empty("No schedule is due in these days.")) }
        @for times in days.values() {
            @if let Some((first, _)) = times.first() {
                (card(&clock.day(*first, "%A, %-d %B"), &html! {
                    ul.lines {
                        @for (time, workflow) in times {
                            li { time datetime=(time.to_string()) { strong { (clock.day(*time, "%H:%M")) } } " " (link(workflow)) }
                        }
                    }
                }))
            }
        }
    }
}

fn link(workflow: &Workflow) -> Markup {
    html! { a href={ "/workflows/" (workflow.id) } { (workflow.name) } }
}

fn table(scheduled: &[Scheduled<'_>], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Schedules" {
            table.list data-rows {
                thead { tr { @for head in ["Workflow", "Pattern", "Time zone", "Next run", "Missed runs", "Last run"] { th scope="col" { (head) } } } }
                tbody { @for schedule in scheduled { (row(schedule, visitor)) } }
            }
        }
    }
}

fn row(schedule: &Scheduled<'_>, visitor: &Visitor<'_>) -> Markup {
    let Scheduled { workflow, trigger, .. } = schedule;
    let zone = Some(text(trigger, "timezone")).filter(|zone| !zone.is_empty()).unwrap_or("UTC");
    html! {
        tr {
            td.main { a href={ "/workflows/" (workflow.id) } data-record { (workflow.name) } }
            td { code { (text(trigger, "cron")) } }
            td { (zone) }
            td { (next_run(schedule, visitor.clock)) }
            td { @if text(trigger, "catch_up") == "run_once" { "Run once later" } @else { "Skipped" } }
            td {
                @match &workflow.last_run {
                    Some(run) => { a href=(path(&run.id)) { (visitor.clock.relative(&run.created_at)) } " " (status_badge(&run.status)) }
                    None => (optional(None)),
                }
            }
        }
    }
}

fn next_run(schedule: &Scheduled<'_>, clock: &Clock) -> Markup {
    html! {
        @match schedule.times.first() {
            Some(time) => (clock.absolute(&time.to_string())),
            None => span.muted { "Unknown" },
        }
        @if schedule.is_frequent() { " " span.muted { "then too often for the calendar" } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_grouped_by_the_days_of_the_reader() {
        let workflow = |name: &str, cron: &str| -> Workflow {
            let triggers = json!([{"type": "manual"}, {"type": "schedule", "cron": cron}]);
            serde_json::from_value(json!({"id": "wfl_1", "name": name, "triggers": triggers})).unwrap()
        };
        let now = Timestamp::parse("2026-11-18T12:00:00.000Z").unwrap();
        let clock = Clock { now, zone: tenantd_base::zones::find("Asia/Tokyo").unwrap() };
        let workflows = [workflow("Late", "0 20 18 * *"), workflow("Early", "0 20 18 * *"), workflow("Often", "* * * * *")];
        let scheduled: Vec<Scheduled<'_>> = workflows.iter().flat_map(|workflow| schedules(workflow, now)).collect();
        let days = by_day(&scheduled, &clock);
        let names: Vec<&str> = days.values().flatten().map(|(_, workflow)| workflow.name.as_str()).collect();
        assert_eq!(days.keys().collect::<Vec<_>>(), ["2026-11-19"]);
        assert_eq!(names, ["Early", "Late"]);
    }
}
