//! The devices of an organization with the state of their backups.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::access::Scope;

use super::{CONFIG_PATH, PATH, record::Row};
use crate::{
    components::{Tone, badge, card as titled, curl},
    desk::{
        devices::{BackupState, DEVICES_API, pairs, select},
        organizations::{BackupIssue, issue_words, name_of, optional, or_none, pages},
        records::List,
    },
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// A report names at most this many devices with problems, the worst first.
const MOST_ISSUES: usize = 20;
const PROTECTED: [(&str, &str); 2] = [("false", "Not protected"), ("true", "Protected")];
/// The parameters of the page that filter the devices.
const PARAMETERS: [&str; 4] = ["q", "protected", "sort", "cursor"];

#[derive(Debug, Deserialize)]
struct Device {
    id: String,
    name: String,
    class: String,
    backup: Option<BackupState>,
}

/// The devices; nothing if the reader may not read devices.
pub(super) async fn card(visitor: &Visitor<'_>, row: &Row) -> Result<Option<Markup>, Refusal> {
    if !visitor.may(Scope::DirectoryRead) {
        return Ok(None);
    }
    let query = visitor.query();
    let wanted = query.pairs().filter(|(name, _)| PARAMETERS.contains(name));
    let asked = wanted.fold(Query::default(), |asked, (name, value)| asked.with(name, value));
    let target = asked.with("organization_id", &row.organization.id).or("sort", "name").with("limit", "50").at(DEVICES_API);
    let devices: List<Device> = visitor.read(&target).await?;
    let path = format!("{PATH}/{}", segment(&row.organization.id));
    let body = html! {
        (filter(&query, &path))
        @if devices.data.is_empty() {
            p.muted { "No device matches. Remove a filter." }
        } @else {
            (table(&devices.data, row, visitor))
        }
        (pages(&query, &path, devices.data.len(), &devices.page))
        (curl(visitor.visit.base_url, "GET", &target, None))
    };
    Ok(Some(titled("Devices", &body)))
}

fn filter(query: &Query, path: &str) -> Markup {
    html! {
        form.filter method="get" action=(path) role="search" aria-label="Filter devices" data-filter {
            label { "Words" input type="search" name="q" value=(query.first("q")) maxlength="200"; }
            (select(query, "protected", "Backup", or_none("Any", pairs(&PROTECTED))))
            button { "Apply" }
        }
    }
}

fn table(devices: &[Device], row: &Row, visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Devices" {
            table.list data-rows {
                thead { tr { @for head in ["Device", "Class", "Backup", "Restore point", "Last success", "Problem", "Settings"] { th scope="col" { (head) } } } }
                tbody {
                    @for device in devices {
                        @let issue = row.issues.iter().find(|issue| issue.device.id == device.id);
                        tr {
                            td.main { a href={ "/devices/" (device.id) } data-record { (device.name) } }
                            td { (name_of(&device.class)) }
                            td { @match &device.backup { Some(state) => { (state.badge()) } None => { (optional(None)) } } }
                            td { (age(device, issue, row.issues.len() < MOST_ISSUES)) }
                            td.time { (last_success(device, visitor)) }
                            td { (problem(issue, visitor)) }
                            td { a href=(Query::default().with("scope", &device.id).at(CONFIG_PATH)) aria-label={ "Backup settings of " (device.name) } { "Settings" } }
                        }
                    }
                }
            }
        }
    }
}

fn last_success(device: &Device, visitor: &Visitor<'_>) -> Markup {
    let time = device.backup.as_ref().and_then(|state| state.last_success_at.as_deref());
    time.map_or_else(|| optional(None), |time| visitor.clock.relative(time))
}

/// Whether the newest restore point is within the recovery point objective.
fn age(device: &Device, issue: Option<&BackupIssue>, are_all_known: bool) -> Markup {
    let Some(state) = device.backup.as_ref().filter(|state| state.eligible) else { return optional(None) };
    match age_words(issue.map(|issue| issue.code.as_str()), state.last_success_at.is_some(), are_all_known) {
        Some((tone, words)) => badge(tone, words),
        None => optional(None),
    }
}

/// `code` is the most severe problem of the device. Nothing is said about a device that the report would not name.
fn age_words(code: Option<&str>, has_success: bool, are_all_known: bool) -> Option<(Tone, &'static str)> {
    match code {
        Some("rpo_breached") => Some((Tone::Bad, "Too old")),
        Some("rpo_at_risk") => Some((Tone::Warn, "Almost too old")),
        _ if !has_success => Some((Tone::Neutral, "None yet")),
        // Both are less severe than a restore point that is too old.
        Some("failed" | "missed") => Some((Tone::Good, "Within objective")),
        None if are_all_known => Some((Tone::Good, "New enough")),
        _ => None,
    }
}

fn problem(issue: Option<&BackupIssue>, visitor: &Visitor<'_>) -> Markup {
    let Some(issue) = issue else { return optional(None) };
    html! {
        (issue_words(&issue.code)) " " span.muted { (visitor.clock.relative(&issue.since)) }
        @if let Some(ticket) = &issue.ticket { " " a href={ "/tickets/" (ticket) } { "Ticket" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_restore_point_is_only_said_if_the_report_shows_it() {
        let words = |code, has_success, are_all_known| age_words(code, has_success, are_all_known).map(|(_, words)| words);
        assert_eq!(words(Some("rpo_breached"), false, true), Some("Too old"), "a device without any backup can be too late too");
        assert_eq!(words(Some("unprotected"), false, true), Some("None yet"));
        assert_eq!(words(Some("missed"), true, true), Some("Within objective"));
        assert_eq!(words(None, true, true), Some("New enough"));
        assert_eq!(words(None, true, false), None, "the report names 20 devices at most");
    }
}
