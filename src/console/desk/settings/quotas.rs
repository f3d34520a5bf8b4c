//! The quotas of the tenant: what it uses of each limit.

use maud::{Markup, html};
use serde::Deserialize;

use tenantd_base::quotas::Quota;

use super::PATH;
use crate::{
    components::{Tone, badge, bar, curl, grouped, page_head},
    desk::{
        Content, Reply,
        devices::memory_size,
        organizations::{name_of, optional, trail},
    },
    refusal::Refusal,
    visitor::Visitor,
};

const API: &str = "/api/admin/quotas";

#[derive(Debug, Deserialize)]
pub(crate) struct Standings {
    pub(crate) quotas: Vec<Standing>,
}

/// The limit and the use of a quota. tenantd does not count the use of streams.
#[derive(Debug, Deserialize)]
pub(crate) struct Standing {
    pub(crate) quota: String,
    pub(crate) limit: u64,
    used: Option<u64>,
    percent: Option<u64>,
    status: String,
    /// Whether the operator set the limit for this tenant.
    pub(crate) own_limit: bool,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let standings: Standings = visitor.read(API).await?;
    let head = page_head(
        &html! { "Quotas" },
        &html! { "What " (visitor.reader.tenant_name) " uses of its limits. tenantd sends the event " code { "quota.warning" } " at 80 %." },
        &curl(visitor.visit.base_url, "GET", API, None),
    );
    let body = html! {
        (trail(&[(PATH, "Settings")]))
        (head)
        (table(&standings.quotas))
        p.muted {
            "At a limit, requests that create something fail with " code { "quota_exceeded" }
            ". Changes work for another 10 %, and deletions always work. The operator sets the limits."
        }
    };
    Ok(Reply::Page(Content::new("Quotas", body).live("quota.*")))
}

pub(crate) fn table(standings: &[Standing]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Quotas" {
            table.list {
                thead { tr { @for head in ["Quota", "Use", "Status", "Limit set for"] { th scope="col" { (head) } } } }
                tbody {
                    @for standing in standings {
                        tr {
                            td.main { strong { (name_of(&standing.quota)) } @if let Some(purpose) = purpose(&standing.quota) { br; small { (purpose) } } }
                            td { (standing.used()) }
                            td { (standing.badge()) }
                            td { @if standing.own_limit { "This tenant" } @else { "All tenants" } }
                        }
                    }
                }
            }
        }
    }
}

impl Standing {
    fn used(&self) -> Markup {
        let limit = self.amount(self.limit);
        let Some(used) = self.used else { return html! { "At most " (limit) } };
        let percent = u32::try_from(self.percent.unwrap_or_default()).unwrap_or(u32::MAX);
        bar(percent, self.tone(), &format!("{} of {limit} ({percent} %)", self.amount(used)))
    }

    fn amount(&self, count: u64) -> String {
        if self.quota == Quota::StoredBytes.name() { memory_size(count) } else { grouped(count) }
    }

    fn tone(&self) -> Tone {
        match self.status.as_str() {
            "ok" => Tone::Good,
            "near" => Tone::Warn,
            _ => Tone::Bad,
        }
    }

    /// How close the use is to the limit, and what helps.
    fn badge(&self) -> Markup {
        let words = match self.status.as_str() {
            "ok" => "OK",
            "near" => "Near the limit",
            _ => "Limit reached",
        };
        let advice = Quota::parse(&self.quota).filter(|_| self.status != "ok").map(Quota::advice);
        html! {
            @if self.used.is_some() { (badge(self.tone(), words)) } @else { (optional(None)) }
            @if let Some(advice) = advice { br; small { (advice) } }
        }
    }
}

fn purpose(quota: &str) -> Option<&'static str> {
    Quota::parse(quota).map(|quota| match quota {
        Quota::EventsPerDay => "Events since midnight UTC.",
        Quota::Records => "Records of all kinds.",
        Quota::StoredBytes => "The space that records and events use.",
        Quota::Workflows => "Workflows that are not archived.",
        Quota::ConcurrentRuns => "Runs that have not ended.",
        Quota::Streams => "Imports, and exports of each kind, that run at the same time.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(quota: &str, used: Option<u64>, percent: Option<u64>, status: &str) -> Standing {
        Standing { quota: quota.to_owned(), limit: 1_048_576, used, percent, status: status.to_owned(), own_limit: false }
    }

    #[test]
    fn a_quota_shows_its_use_in_its_unit_and_what_helps_near_the_limit() {
        let full = standing("stored_bytes", Some(943_718), Some(90), "near");
        assert!(full.used().into_string().contains("921.6 KiB of 1 MiB (90 %)"), "{}", full.used().into_string());
        assert!(full.badge().into_string().contains("Delete records that you no longer need."));
        let counted = standing("records", Some(2_000), Some(0), "ok");
        assert!(counted.used().into_string().contains("2,000 of 1,048,576 (0 %)"));
        assert!(!counted.badge().into_string().contains("Delete"));
    }

    #[test]
    fn a_quota_that_is_not_counted_shows_only_its_limit() {
        assert_eq!(standing("streams", None, None, "ok").used().into_string(), "At most 1,048,576");
    }
}
