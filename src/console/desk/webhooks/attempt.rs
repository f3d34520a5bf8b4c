//! One attempt to deliver an event: the response, the times, and what follows from it.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::parts::second;
use crate::{
    components::{Tone, badge, code_block, facts, pretty, words},
    moment::Clock,
};

#[derive(Debug, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u32,
    trigger: String,
    pub(super) started_at: String,
    dns_ms: u32,
    connect_ms: u32,
    tls_ms: u32,
    first_byte_ms: u32,
    total_ms: u32,
    remote_ip: Option<String>,
    status: Option<u16>,
    error: Option<String>,
    response_body: Option<String>,
    response_body_encoding: Option<String>,
    #[serde(default)]
    response_body_truncated: bool,
    retry_after: Option<u32>,
    decision: String,
    next_attempt_at: Option<String>,
}

impl Attempt {
    /// The response or the error, as a badge.
    pub(super) fn result(&self) -> Markup {
        result(self.status, self.error.as_deref())
    }

    /// The attempt, folded away unless it is the one that matters.
    pub(super) fn folded(&self, is_open: bool, clock: &Clock) -> Markup {
        html! {
            details open[is_open] {
                summary {
                    "Attempt " (self.number) " " (self.result()) " "
                    span.muted { (trigger_words(&self.trigger)) ", " (clock.relative(&self.started_at)) }
                }
                (self.show(clock))
            }
        }
    }

    pub(super) fn show(&self, clock: &Clock) -> Markup {
        html! {
            (facts(&[
                ("Started", Some(second(&self.started_at, clock))),
                ("Reason", Some(html! { (trigger_words(&self.trigger)) })),
                ("Response", Some(self.result())),
                ("Decision", Some(html! { (decision_words(&self.decision)) })),
                ("Next attempt", self.next_attempt_at.as_deref().map(|at| second(at, clock))),
                ("Retry-After", self.retry_after.map(|seconds| html! { (seconds) " s" })),
                ("Address", self.remote_ip.as_deref().map(|address| html! { code { (address) } })),
                ("Times", Some(self.times())),
            ]))
            (self.response())
        }
    }

    fn times(&self) -> Markup {
        html! {
            "DNS " (self.dns_ms) " ms, connection " (self.connect_ms) " ms, TLS " (self.tls_ms) " ms, first byte after "
            (self.first_byte_ms) " ms, " strong { "total " (self.total_ms) " ms" }
        }
    }

    fn response(&self) -> Markup {
        let Some(body) = &self.response_body else { return html! { p.muted { "The response had no body." } } };
        let json = serde_json::from_str::<Value>(body).ok().filter(|_| !self.response_body_truncated);
        html! {
            p.muted {
                "Body of the response"
                @if self.response_body_encoding.as_deref() == Some("base64") { ", in base64 because it is not text" }
                @if self.response_body_truncated { ", its first 4 KiB" }
            }
            @match json {
                Some(value) => { (code_block("json", &pretty(&value))) }
                None => { (code_block("", body)) }
            }
        }
    }
}

/// The status of a response, or why there was none.
pub(super) fn result(status: Option<u16>, error: Option<&str>) -> Markup {
    match (status, error) {
        (Some(status @ 200..300), _) => badge(Tone::Good, &format!("HTTP {status}")),
        (Some(status), _) => badge(Tone::Bad, &format!("HTTP {status}")),
        (None, Some(error)) => badge(Tone::Bad, &error_words(error)),
        (None, None) => html! { span.muted { "–" } },
    }
}

fn error_words(error: &str) -> String {
    match error {
        "dns" => "Name not found".to_owned(),
        "blocked" => "Address not allowed".to_owned(),
        "connect" => "No connection".to_owned(),
        "tls" => "TLS failed".to_owned(),
        "timeout" => "Timed out".to_owned(),
        "reset" => "Connection reset".to_owned(),
        "protocol" => "Not valid HTTP".to_owned(),
        "interrupted" => "tenantd stopped".to_owned(),
        other => words(other),
    }
}

fn trigger_words(trigger: &str) -> String {
    match trigger {
        "auto" => "By the schedule".to_owned(),
        "manual" => "Redelivery".to_owned(),
        "probe" => "Probe of a failing endpoint".to_owned(),
        other => words(other),
    }
}

fn decision_words(decision: &str) -> String {
    match decision {
        "delivered" => "Delivered".to_owned(),
        "retry" => "tenantd retries it".to_owned(),
        "exhausted" => "No retries left".to_owned(),
        "aborted" => "The receiver asked to stop".to_owned(),
        "disabled" => "The endpoint was disabled".to_owned(),
        "failed" => "Failed: tests are not retried".to_owned(),
        other => words(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_the_status_or_the_reason_why_there_is_none() {
        let shown = |status, error| result(status, error).into_string();
        assert!(shown(Some(204), None).contains("good\">HTTP 204"));
        assert!(shown(Some(301), None).contains("bad\">HTTP 301"), "a redirect is a failure");
        assert!(shown(None, Some("tls")).contains("TLS failed"));
        assert!(shown(None, Some("<new>")).contains("&lt;new&gt;"));
    }
}
