//! `/api/psa/sla`: the service levels and working hours of the tenant.

use std::sync::Arc;

use poem_openapi::{Object, OpenApi};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Identity, Reach},
    clock::Timestamp,
};
use tenantd_http::{
    input::Lenient,
    need::{Allowed, TicketsRead, TicketsWrite},
    precondition::{IfMatch, IfNoneMatch},
    problem::{Code, Problem},
    reply::{Changed, Found},
};
use tenantd_store::{
    Store,
    events::{Describe, Described},
};

use super::{
    super::{
        service::Service,
        sla::{self, Hours},
    },
    Area,
    vocabulary::Day,
};

/// A span of time within a day, in local time.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SlaSpan {
    /// The start of the span, such as `09:00`.
    #[oai(validator(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub(super) start: String,
    /// The end of the span, such as `17:00`. `24:00` is the end of the day.
    #[oai(validator(pattern = "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    pub(super) end: String,
}

/// The working hours of a week. They must add up to at least an hour. The spans of a day must be in order and must not
/// overlap, and each must end after it starts. A day without spans is a day off.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SlaHours {
    #[oai(validator(max_items = 8))]
    pub(super) monday: Vec<SlaSpan>,
    #[oai(validator(max_items = 8))]
    pub(super) tuesday: Vec<SlaSpan>,
    #[oai(validator(max_items = 8))]
    pub(super) wednesday: Vec<SlaSpan>,
    #[oai(validator(max_items = 8))]
    pub(super) thursday: Vec<SlaSpan>,
    #[oai(validator(max_items = 8))]
    pub(super) friday: Vec<SlaSpan>,
    #[oai(validator(max_items = 8))]
    pub(super) saturday: Vec<SlaSpan>,
    #[oai(validator(max_items = 8))]
    pub(super) sunday: Vec<SlaSpan>,
}

/// The target times for a priority.
#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SlaTarget {
    /// Working minutes until the first response. Must not be longer than `resolution_minutes`.
    #[oai(validator(minimum(value = "1"), maximum(value = "43200")))]
    pub(super) first_response_minutes: u32,
    /// Working minutes until the resolution.
    #[oai(validator(minimum(value = "1"), maximum(value = "43200")))]
    pub(super) resolution_minutes: u32,
    /// Whether all minutes count, not only those within the working hours.
    pub(super) round_the_clock: bool,
}

#[derive(Clone, Debug, Object, Serialize)]
pub(super) struct SlaTargets {
    pub(super) critical: SlaTarget,
    pub(super) high: SlaTarget,
    pub(super) medium: SlaTarget,
    pub(super) low: SlaTarget,
}

/// The service levels of the tenant.
#[skip_serializing_none]
#[derive(Clone, Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct SlaPolicy {
    #[oai(flatten)]
    #[serde(flatten)]
    pub(super) terms: ReplaceSlaPolicy,
    /// When the service levels were last replaced. Absent while the defaults apply.
    pub(super) updated_at: Option<Timestamp>,
    /// The version of the service levels. 0 while the defaults apply.
    pub(super) version: u64,
}

/// The service levels that replace the current ones.
#[derive(Clone, Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct ReplaceSlaPolicy {
    /// The time zone of the working hours: an IANA name such as `Europe/Berlin`.
    #[oai(validator(min_length = 1, max_length = 64))]
    pub(super) time_zone: String,
    pub(super) hours: SlaHours,
    /// Days without work, such as `2026-12-25`.
    #[oai(validator(max_items = 500, unique_items))]
    pub(super) holidays: Vec<Day>,
    /// The targets for each priority.
    pub(super) targets: SlaTargets,
}

fn clock_text(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Parses a text that the schema has validated.
fn clock_minutes(text: &str) -> u16 {
    let (hours, minutes) = text.split_once(':').unwrap_or_default();
    hours.parse::<u16>().unwrap_or(0) * 60 + minutes.parse::<u16>().unwrap_or(0)
}

impl From<sla::SlaPolicy> for SlaPolicy {
    fn from(policy: sla::SlaPolicy) -> Self {
        let span = |(start, end): Hours| SlaSpan { start: clock_text(start), end: clock_text(end) };
        let [monday, tuesday, wednesday, thursday, friday, saturday, sunday] =
            policy.week.map(|hours| hours.into_iter().map(span).collect());
        let [critical, high, medium, low] = policy.targets.map(|target| SlaTarget {
            first_response_minutes: target.first_response_minutes,
            resolution_minutes: target.resolution_minutes,
            round_the_clock: target.round_the_clock,
        });
        let terms = ReplaceSlaPolicy {
            time_zone: policy.time_zone,
            hours: SlaHours { monday, tuesday, wednesday, thursday, friday, saturday, sunday },
            holidays: policy.holidays.into_iter().map(Day).collect(),
            targets: SlaTargets { critical, high, medium, low },
        };
        Self { terms, updated_at: policy.updated_at, version: policy.version }
    }
}

impl From<ReplaceSlaPolicy> for sla::SlaPolicy {
    fn from(body: ReplaceSlaPolicy) -> Self {
        let SlaHours { monday, tuesday, wednesday, thursday, friday, saturday, sunday } = body.hours;
        let span = |span: SlaSpan| (clock_minutes(&span.start), clock_minutes(&span.end));
        let week = [monday, tuesday, wednesday, thursday, friday, saturday, sunday];
        let SlaTargets { critical, high, medium, low } = body.targets;
        let target = |target: SlaTarget| sla::Target {
            first_response_minutes: target.first_response_minutes,
            resolution_minutes: target.resolution_minutes,
            round_the_clock: target.round_the_clock,
        };
        Self {
            time_zone: body.time_zone,
            week: week.map(|spans| spans.into_iter().map(span).collect()),
            holidays: body.holidays.into_iter().map(|day| day.0).collect(),
            targets: [critical, high, medium, low].map(target),
            updated_at: None,
            version: 0,
        }
    }
}

impl Describe for sla::SlaPolicy {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&SlaPolicy::from(self.clone()))
    }
}

pub(crate) struct SlaApi {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/psa", tag = "Area::Tickets")]
impl SlaApi {
    /// Read the service levels
    ///
    /// Returns the time zone, the working hours, the holidays and the target times for each priority.
    #[oai(path = "/sla", method = "get", operation_id = "read_sla")]
    async fn read_sla(&self, auth: Allowed<TicketsRead>, if_none_match: IfNoneMatch) -> Result<Found<SlaPolicy>, Problem> {
        let policy = self.store.read(|tx| self.service.policy(tx, auth.principal.tenant_id))?;
        let version = policy.version;
        Ok(if if_none_match.knows(version) { Found::not_modified(version) } else { Found::new(&SlaPolicy::from(policy), version) })
    }

    /// Replace the service levels
    ///
    /// Replaces the service levels of the tenant. Administrators and API keys with the scope can do this. The new service
    /// levels apply to tickets that are created from now on, and to clocks that start from now on: after a wait, after
    /// reopening, or with a new priority. Existing due times do not change.
    #[oai(path = "/sla", method = "put", operation_id = "replace_sla")]
    async fn replace_sla(
        &self,
        auth: Allowed<TicketsWrite>,
        if_match: IfMatch,
        body: Lenient<ReplaceSlaPolicy>,
    ) -> Result<Changed<SlaPolicy>, Problem> {
        if matches!(&auth.principal.identity, Identity::User { role, .. } if !role.administers()) {
            return Err(Problem::plain(Code::AdminRequired));
        }
        if auth.principal.reach != Reach::Everything {
            let detail =
                "The service levels apply to the whole tenant. An API key that is restricted to organizations cannot replace them.";
            return Err(Problem::new(Code::InsufficientScope, detail));
        }
        let new = sla::SlaPolicy::from(body.0);
        let (service, intent) = (self.service.clone(), auth.context.intent(&auth.principal));
        let policy = self.store.write(move |tx| service.replace_policy(tx, &mut intent.begin(), &if_match, &new)).await?;
        let version = policy.version;
        Ok(Changed::new(&SlaPolicy::from(policy), version))
    }
}
