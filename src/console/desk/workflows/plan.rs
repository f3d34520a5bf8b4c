//! What a run would do, step by step.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::definition::written;
use crate::components::{Tone, badge, card, code_block, words};

/// The answer to a dry run.
#[derive(Debug, Deserialize)]
pub(super) struct Plan {
    steps: Vec<PlannedStep>,
    error: Option<Failure>,
    output: Option<Value>,
    truncated: bool,
}

#[derive(Debug, Deserialize)]
struct PlannedStep {
    path: String,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    summary: Option<String>,
    input: Option<Value>,
    output: Option<Value>,
    error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    message: String,
    step: Option<String>,
}

impl Plan {
    pub(super) fn card(&self) -> Markup {
        let body = html! {
            @match &self.error {
                Some(error) => {
                    div.alert role="alert" tabindex="-1" {
                        strong { "The run would fail" @if let Some(step) = &error.step { " in the step " code { (step) } } "." }
                        p { (error.message) }
                    }
                }
                None => { p.note role="status" { "The run would succeed. Nothing was changed." } }
            }
            (self.table())
            @if self.truncated { p.muted { "The run would have more steps or items than the plan shows." } }
            @if let Some(output) = &self.output {
                h3 { "Output of the run" }
                (code_block("json", &written(output)))
            }
        };
        card("Plan", &body)
    }

    fn table(&self) -> Markup {
        html! {
            div.scroll tabindex="0" role="group" aria-label="Planned steps" {
                table {
                    thead { tr { @for head in ["Step", "Outcome", "About"] { th scope="col" { (head) } } } }
                    tbody {
                        @for step in &self.steps {
                            tr {
                                td { code { (step.path) } br; small { (step.kind) } }
                                td { (badge(tone(&step.status), &words(&step.status))) }
                                td { (step.about()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl PlannedStep {
    fn about(&self) -> Markup {
        html! {
            @if let Some(summary) = &self.summary { p { (summary) } }
            @if let Some(error) = &self.error { p.problem { (error.message) } }
            @if self.status == "unknown" { p.muted { "Depends on the result of another step." } }
            (value("Input", self.input.as_ref()))
            (value("Expected output", self.output.as_ref()))
        }
    }
}

fn value(name: &str, value: Option<&Value>) -> Markup {
    html! { @if let Some(value) = value { details { summary { (name) } (code_block("json", &written(value))) } } }
}

fn tone(status: &str) -> Tone {
    match status {
        "planned" => Tone::Good,
        "failed" => Tone::Bad,
        "unknown" => Tone::Warn,
        _ => Tone::Neutral,
    }
}
