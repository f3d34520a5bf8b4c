//! The backup score of an organization, explained.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{Organization, counted};
use crate::{
    components::{Tone, badge, bar, card, facts, words},
    desk::records::{List, Named},
    refusal::Refusal,
    visitor::Visitor,
};

/// The parts of a score: the most points, and what they are for.
pub(crate) const PARTS: [(&str, u32, &str); 5] = [
    ("Coverage", 25, "devices that are protected"),
    ("Recency", 30, "devices with a restore point that is new enough"),
    ("Success", 15, "jobs of the last 7 days that succeeded"),
    ("Verification", 20, "a recent restore test"),
    ("Resilience", 10, "copies, media, an offsite and an immutable copy"),
];

#[derive(Debug, Deserialize)]
pub(super) struct Protection {
    state: String,
    score: Option<u32>,
    score_parts: Option<ScoreParts>,
    caps: Vec<Cap>,
    devices: Devices,
    last: Last,
    issues: Vec<Issue>,
}

#[derive(Debug, Deserialize)]
struct ScoreParts {
    coverage: u32,
    recency: u32,
    success: u32,
    verification: u32,
    resilience: u32,
}

/// A reason why the score is limited.
#[derive(Debug, Deserialize)]
struct Cap {
    code: String,
    most: u32,
}

#[derive(Debug, Deserialize)]
struct Devices {
    eligible: u64,
    protected: u64,
    unprotected: u64,
}

#[derive(Debug, Deserialize)]
struct Last {
    success_at: Option<String>,
    failure_at: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Issue {
    pub(crate) code: String,
    pub(crate) severity: String,
    pub(crate) device: Named,
    pub(crate) since: String,
    pub(crate) ticket: Option<String>,
}

/// The backup status of an organization; nothing if the reader may not read backups.
pub(super) async fn protection(visitor: &Visitor<'_>, organization: &Organization) -> Result<Option<Protection>, Refusal> {
    if !visitor.may(Scope::BackupRead) {
        return Ok(None);
    }
    let target = format!("/api/backup/customer-aggregate?organization_id={}&limit=1", organization.id);
    let found = visitor.read_if_allowed::<List<Protection>>(target).await?;
    Ok(found.and_then(|list| list.data.into_iter().next()))
}

impl Protection {
    pub(super) fn card(&self, organization: &Organization, visitor: &Visitor<'_>) -> Markup {
        let unprotected = format!("/devices?organization_id={}&protected=false", organization.id);
        let time = |text: Option<&str>| text.map(|text| visitor.clock.relative(text));
        let body = html! {
            p.score {
                @if let Some(score) = self.score { strong { (score) } " of 100 " }
                (badge(state_tone(&self.state), &words(&self.state)))
            }
            (facts(&[
                ("Protected", Some(html! { (self.devices.protected) " of " (counted(self.devices.eligible, "device", "devices")) })),
                ("Not protected", (self.devices.unprotected > 0).then(|| html! { a href=(unprotected) { (counted(self.devices.unprotected, "device", "devices")) } })),
                ("Last success", time(self.last.success_at.as_deref())),
                ("Last failure", time(self.last.failure_at.as_deref())),
            ]))
            @if let Some(parts) = &self.score_parts { (parts.show()) }
            @for cap in &self.caps { p { (cap_words(&cap.code)) ": the score is at most " (cap.most) "." } }
            @if self.score.is_none() { p.muted { "There is no score: no device must be backed up, or there was never a backup job." } }
            @if !self.issues.is_empty() { (issues(&self.issues, visitor)) }
            p { a href={ "/backups/" (organization.id) } { "Backups of each device" } }
        };
        card("Backups", &body)
    }
}

impl ScoreParts {
    fn show(&self) -> Markup {
        let points = [self.coverage, self.recency, self.success, self.verification, self.resilience];
        html! {
            dl.facts-list {
                @for ((name, most, purpose), points) in PARTS.iter().zip(points) {
                    @let percent = points * 100 / most;
                    div {
                        dt { (name) " " small { (purpose) } }
                        dd { (bar(percent, part_tone(percent), &format!("{points} of {most}"))) }
                    }
                }
            }
        }
    }
}

pub(crate) fn issues(issues: &[Issue], visitor: &Visitor<'_>) -> Markup {
    html! {
        h3 { "Devices with problems" }
        ul.lines {
            @for issue in issues {
                li {
                    (badge(if issue.severity == "critical" { Tone::Bad } else { Tone::Warn }, issue_words(&issue.code))) " "
                    (issue.device.link("devices")) " "
                    span.muted { "since " (visitor.clock.relative(&issue.since)) }
                    @if let Some(ticket) = &issue.ticket { " " a href={ "/tickets/" (ticket) } { "Ticket" } }
                }
            }
        }
    }
}

pub(crate) fn state_tone(state: &str) -> Tone {
    match state {
        "healthy" => Tone::Good,
        "warning" => Tone::Warn,
        "critical" | "unprotected" => Tone::Bad,
        _ => Tone::Neutral,
    }
}

pub(crate) fn part_tone(percent: u32) -> Tone {
    match percent {
        80.. => Tone::Good,
        60..80 => Tone::Warn,
        _ => Tone::Bad,
    }
}

pub(crate) fn cap_words(code: &str) -> String {
    match code {
        "restore_test_too_old" => "No restore test within 90 days".to_owned(),
        "server_rpo_breached_twice" => "The newest restore point of a server is more than twice as old as allowed".to_owned(),
        "unprotected_server" => "A server has no restore point from the last 30 days".to_owned(),
        other => words(other),
    }
}

pub(crate) fn issue_words(code: &str) -> &str {
    match code {
        "rpo_breached" => "Restore point too old",
        "rpo_at_risk" => "Restore point almost too old",
        "unprotected" => "Not protected",
        "missed" => "Backup missed",
        "failed" => "Backup failed",
        other => other,
    }
}
