//! The timeline of a run: its steps with their results.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    definition,
    record::{Decision, Effect, Failure, Run, Step, record_link, status_badge, took},
    values::json_details,
};
use crate::{
    components::{Tone, badge},
    desk::organizations::{counted, name_of},
    visitor::Visitor,
};

/// The steps of one page.
const PAGE_LENGTH: usize = 100;

/// The steps of a run from its beginning, and those that come after them.
pub(super) fn timeline(run: &Run, to_come: &[&Value], visitor: &Visitor<'_>) -> Markup {
    let page = visitor.query().first("page").parse::<usize>().ok().filter(|page| *page > 0).unwrap_or(1);
    let before = (page - 1).saturating_mul(PAGE_LENGTH);
    let shown = run.steps.iter().skip(before).take(PAGE_LENGTH);
    let has_more = run.steps.len() > before.saturating_add(PAGE_LENGTH);
    let other = |number: usize| format!("{}?page={number}#steps", run.path());
    html! {
        @if run.steps.is_empty() { p.muted { "No step has started yet." } }
        ol.timeline.steps #steps {
            @if page > 1 { li.gap { a.button href=(other(page - 1)) rel="prev" { "Earlier steps" } } }
            @for step in shown { (entry(step, visitor)) }
            @if has_more {
                li.gap { a.button href=(other(page + 1)) rel="next" { "Later steps" } }
            } @else {
                @if run.steps_truncated { li.gap { p.muted { "The API returns no more steps of this run." } } }
                (definition::pending(to_come))
            }
        }
    }
}

fn entry(step: &Step, visitor: &Visitor<'_>) -> Markup {
    let clock = visitor.clock;
    let duration = took(&step.started_at, step.ended_at.as_deref(), clock.now).filter(|_| step.status != "skipped");
    html! {
        li.entry {
            div {
                h3 { code { (step.path) } " " (status_badge(&step.status)) }
                p.muted {
                    (step.kind) " · " (clock.relative(&step.started_at))
                    @if let Some(duration) = duration { " · " (if step.ended_at.is_some() { "took " } else { "for " }) (duration) }
                    @if step.attempts > 1 { " · " (counted(u64::from(step.attempts), "attempt", "attempts")) }
                    @if let Some(next) = &step.next_attempt_at { " · next attempt " (clock.relative(next)) }
                }
                @if let Some(error) = &step.error { (failure(error)) }
                @if !step.effects.is_empty() { p { "Changed: " @for effect in &step.effects { (changed(effect, visitor)) " " } } }
                (decisions(&step.decisions, visitor))
                (json_details("Input", step.input.as_ref()))
                (json_details("Output", step.output.as_ref()))
            }
        }
    }
}

pub(super) fn failure(error: &Failure) -> Markup {
    html! { p.problem { (error.message) " " code { (error.code) } } }
}

fn changed(effect: &Effect, visitor: &Visitor<'_>) -> Markup {
    html! {
        (record_link(&effect.id, None, visitor))
        @if !matches!(effect.kind.as_str(), "ticket" | "run") { " " span.muted { (name_of(&effect.kind)) } }
    }
}

/// Who approved or rejected a step.
pub(super) fn decisions(decisions: &[Decision], visitor: &Visitor<'_>) -> Markup {
    html! {
        @if !decisions.is_empty() {
            ul.plain {
                @for decision in decisions {
                    li {
                        (if decision.approved { badge(Tone::Good, "Approved") } else { badge(Tone::Bad, "Rejected") })
                        " by " strong { (decision.by.name) } " " span.muted { (visitor.clock.relative(&decision.at)) }
                        @if let Some(comment) = &decision.comment { div.text { (comment) } }
                    }
                }
            }
        }
    }
}
