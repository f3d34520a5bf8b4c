//! The result of verifying a provider: what its credential may do, which checks passed, and how to fix the others.

use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    components::{Tone, badge, words},
    desk::organizations::optional,
    moment::Clock,
};

#[derive(Debug, Deserialize)]
pub(super) struct Verification {
    outcome: String,
    transient: bool,
    identity: Option<String>,
    pub(super) message: Option<String>,
    checks: Vec<Check>,
    capabilities: Capabilities,
    #[serde(default)]
    warnings: Vec<Warning>,
    verified_at: String,
}

#[derive(Debug, Deserialize)]
struct Capabilities {
    read: bool,
    provision: bool,
}

#[derive(Debug, Deserialize)]
struct Warning {
    code: String,
}

/// A check of a verification or of a dry run.
#[derive(Debug, Deserialize)]
pub(super) struct Check {
    name: String,
    status: String,
    ms: u64,
    code: Option<String>,
    message: Option<String>,
    remedy: Option<String>,
}

impl Verification {
    pub(super) fn show(&self, clock: &Clock) -> Markup {
        html! {
            p {
                (badge(outcome_tone(&self.outcome), outcome_words(&self.outcome)))
                @if let Some(identity) = &self.identity { " as " (identity) }
                " " span.muted { (clock.relative(&self.verified_at)) }
            }
            @if self.transient { p { "The problem may be temporary. Verify the provider again later." } }
            (self.matrix())
            @if !self.warnings.is_empty() {
                h3 { "Warnings" }
                ul { @for warning in &self.warnings { li { (warning_words(&warning.code)) } } }
            }
            h3 { "Checks" }
            (checks(&self.checks))
        }
    }

    /// Whether the credential may create VMs. `None` if the cloud has no way to check it.
    pub(super) fn may_provision(&self) -> Option<bool> {
        let is_unknown = self.warnings.iter().any(|warning| warning.code == "provision_not_checked");
        if is_unknown { None } else { Some(self.capabilities.provision) }
    }

    fn matrix(&self) -> Markup {
        let failed = self.checks.iter().find(|check| check.status == "failed");
        let remedy = failed.and_then(|check| check.remedy.as_deref());
        let rows = [("List VMs", Some(self.capabilities.read)), ("Create VMs", self.may_provision())];
        html! {
            div.scroll tabindex="0" role="group" aria-label="Capabilities of the credential" {
                table.list {
                    thead { tr { @for head in ["Capability", "Allowed", "What to do"] { th scope="col" { (head) } } } }
                    tbody {
                        @for (name, allowed) in rows {
                            tr {
                                th scope="row" { (name) }
                                td { (allowed_badge(allowed)) }
                                td.wide {
                                    @match allowed {
                                        Some(false) => { (optional(remedy)) }
                                        Some(true) => { "Nothing." }
                                        None => { "Check an order without ordering, or look at the permissions in the cloud." }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a credential may do something, as a badge.
pub(super) fn allowed_badge(allowed: Option<bool>) -> Markup {
    match allowed {
        Some(true) => badge(Tone::Good, "Yes"),
        Some(false) => badge(Tone::Bad, "No"),
        None => badge(Tone::Neutral, "Not known"),
    }
}

/// Checks as a table, with what to do about those that failed.
pub(super) fn checks(checks: &[Check]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Checks" {
            table.list {
                thead { tr { @for head in ["Check", "Result", "Time", "Answer", "What to do"] { th scope="col" { (head) } } } }
                tbody {
                    @for check in checks {
                        tr {
                            th scope="row" { (check_words(&check.name)) }
                            td { (check_badge(&check.status)) }
                            td.time { @if check.status == "skipped" { (optional(None)) } @else { (check.ms) " ms" } }
                            td.wide {
                                (optional(check.message.as_deref()))
                                @if let Some(code) = &check.code { " " code { (code) } }
                            }
                            td.wide { (optional(check.remedy.as_deref())) }
                        }
                    }
                }
            }
        }
    }
}

fn check_badge(status: &str) -> Markup {
    let tone = match status {
        "passed" => Tone::Good,
        "failed" => Tone::Bad,
        _ => Tone::Neutral,
    };
    badge(tone, &words(status))
}

fn check_words(name: &str) -> String {
    match name {
        "dns" => "Name lookup".to_owned(),
        "tcp" => "Connection".to_owned(),
        "tls" => "Encryption (TLS)".to_owned(),
        "authenticate" => "Sign-in".to_owned(),
        "list_vms" => "List VMs".to_owned(),
        "provision" => "Create VMs".to_owned(),
        other => words(other),
    }
}

fn outcome_tone(outcome: &str) -> Tone {
    match outcome {
        "valid" => Tone::Good,
        "valid_limited" => Tone::Warn,
        _ => Tone::Bad,
    }
}

fn outcome_words(outcome: &str) -> &str {
    match outcome {
        "valid" => "Valid",
        "valid_limited" => "Valid, but may not create VMs",
        "invalid_credentials" => "The credential does not work",
        "insufficient_permissions" => "Permissions are missing",
        "unreachable" => "The cloud cannot be reached",
        "tls_error" => "The certificate is not trusted",
        "clock_skew" => "The clock of this server is wrong",
        "rate_limited" => "The cloud limits requests",
        "provider_error" => "The cloud reported an error",
        "timeout" => "The cloud did not answer in time",
        other => other,
    }
}

fn warning_words(code: &str) -> &str {
    match code {
        "empty_inventory" => "No VMs were found. Check the project, the subscription and the regions.",
        "provision_not_checked" => "This cloud has no way to check whether the credential may create VMs.",
        "incomplete_inventory" => "Some VMs could not be read completely.",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verification(provision: bool, warnings: &[&str]) -> Verification {
        let warnings: Vec<_> = warnings.iter().map(|code| json!({"code": code})).collect();
        serde_json::from_value(json!({
            "outcome": "valid_limited", "transient": false, "verified_at": "2026-11-19T01:56:10.090Z", "warnings": warnings,
            "capabilities": {"read": true, "provision": provision},
            "checks": [
                {"name": "list_vms", "status": "passed", "ms": 1},
                {"name": "provision", "status": "failed", "ms": 1, "code": "not_permitted", "remedy": "Give <it> the permission."},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_capability_that_is_missing_has_the_remedy_of_the_failed_check() {
        let matrix = verification(false, &[]).matrix().into_string();
        assert!(matrix.contains("Give &lt;it&gt; the permission.") && matrix.contains(">No<"), "{matrix}");
        assert!(!verification(true, &[]).matrix().into_string().contains("permission"));
    }

    #[test]
    fn a_capability_that_no_check_covers_is_not_known() {
        assert_eq!(verification(true, &["provision_not_checked"]).may_provision(), None);
        assert_eq!(verification(true, &["empty_inventory"]).may_provision(), Some(true));
    }
}
