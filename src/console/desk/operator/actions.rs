//! Suspends, resumes and resets a tenant, and advances its clock.

use http::Method;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    HOME, PATH, Tenant,
    one::{ahead, refused},
    tenant,
};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, trail},
        tickets::{renamed, wrong},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

const AMOUNT: &str = "amount";
/// The units of a span of time, with their seconds.
const UNITS: [(&str, u64, &str); 3] = [("minutes", 60, "Minutes"), ("hours", 3_600, "Hours"), ("days", 86_400, "Days")];

/// An operation that a page asks about before it is done.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// The last part of the path, both of the page and of the operation.
    part: &'static str,
    verb: &'static str,
    consequence: &'static str,
}

const SUSPENSION: Question = Question {
    part: "suspend",
    verb: "Suspend",
    consequence: "tenantd refuses all requests and sign-ins of the tenant until you resume it. Webhook deliveries wait, workflow runs \
                  pause, and events and schedules start no workflows. Nothing is removed.",
};
const RESET: Question = Question {
    part: "reset",
    verb: "Reset",
    consequence: "Removes all changes made by visitors, and writes the sample data again. The credentials of the tenant keep working.",
};

impl Question {
    fn page(self, visitor: &Visitor<'_>, tenant: &Tenant, refusal: Option<&Refusal>) -> Reply {
        let fields = Fields::default();
        let form = RecordForm {
            title: format!("{} {}", self.verb, tenant.name),
            below: self.consequence,
            trail: trail_of(tenant),
            action: format!("{}/{}", tenant.path(), self.part),
            cancel: tenant.path(),
            button: self.verb,
            version: None,
            curl: curl(visitor.visit.base_url, "POST", &self.api(tenant), None),
        };
        form.page(visitor, Shown { fields: &fields, refusal }, &html! {})
    }

    fn api(self, tenant: &Tenant) -> String {
        format!("{}/{}", tenant.api(), self.part)
    }

    async fn show(self, visitor: &Visitor<'_>) -> Result<Reply, Refusal> {
        let tenant = tenant(visitor).await?;
        Ok(self.page(visitor, &tenant, None))
    }

    async fn act(self, visitor: &Visitor<'_>) -> Result<Reply, Refusal> {
        let tenant = tenant(visitor).await?;
        match visitor.act(Method::POST, self.api(&tenant), None).await {
            Ok(_) => Ok(Reply::SeeOther(tenant.path())),
            Err(refusal) if is_correctable(&refusal) => Ok(self.page(visitor, &tenant, Some(&refusal))),
            Err(refusal) => Err(refusal),
        }
    }
}

fn trail_of(tenant: &Tenant) -> Markup {
    trail(&[(HOME, "Operator"), (PATH, "Tenants"), (tenant.path().as_str(), tenant.name.as_str())])
}

pub(super) async fn show_suspension(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    SUSPENSION.show(&visitor).await
}

pub(super) async fn suspend(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    SUSPENSION.act(&visitor).await
}

pub(super) async fn show_reset(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    RESET.show(&visitor).await
}

pub(super) async fn reset(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    RESET.act(&visitor).await
}

pub(super) async fn resume(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    match visitor.act(Method::POST, format!("{}/resume", tenant.api()), None).await {
        Ok(_) => Ok(Reply::SeeOther(tenant.path())),
        Err(refusal) => refused(&visitor, &tenant, refusal).await,
    }
}

pub(super) async fn show_clock(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    let mut fields = Fields::default();
    fields.set(AMOUNT, "1");
    fields.set("unit", "days");
    Ok(clock_page(&visitor, &tenant, &fields, None))
}

pub(super) async fn advance(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    let fields = visitor.fields();
    let outcome = match seconds(&fields) {
        Ok(body) => visitor.act(Method::POST, clock_api(&tenant), Some(body)).await,
        Err(refusal) => Err(refusal),
    };
    match outcome.map_err(|refusal| renamed(refusal, &[("/advance_seconds", AMOUNT)])) {
        Ok(_) => Ok(Reply::SeeOther(tenant.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(clock_page(&visitor, &tenant, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn clock_api(tenant: &Tenant) -> String {
    format!("{}/clock", tenant.api())
}

/// The body that advances a clock by the time in the form.
fn seconds(fields: &Fields) -> Result<Value, Refusal> {
    let unit = UNITS.iter().find(|(unit, ..)| *unit == fields.get("unit")).map_or(1, |(_, seconds, _)| *seconds);
    let amount = fields.get(AMOUNT).parse::<u64>().ok().and_then(|amount| amount.checked_mul(unit));
    let seconds = amount.ok_or_else(|| wrong(AMOUNT, "Enter a whole number."))?;
    Ok(json!({"advance_seconds": seconds}))
}

fn clock_page(visitor: &Visitor<'_>, tenant: &Tenant, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let units: Vec<(String, String)> = UNITS.iter().map(|(unit, _, name)| ((*unit).to_owned(), (*name).to_owned())).collect();
    let form = RecordForm {
        title: format!("Advance the clock of {}", tenant.name),
        below: "Everything in this tenant that becomes due by then happens at once. A clock cannot be set back.",
        trail: trail_of(tenant),
        action: format!("{}/clock", tenant.path()),
        cancel: tenant.path(),
        button: "Advance",
        version: None,
        curl: curl(visitor.visit.base_url, "POST", &clock_api(tenant), Some(&json!({"advance_seconds": 86_400}))),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        @if let Some(clock) = &tenant.clock {
            p { "It is " (visitor.clock.absolute(&clock.now)) " in the tenant: " (ahead(clock.ahead_seconds)) "." }
        }
        (shown.field(AMOUNT, "Advance by", Control::Input("number"), "At most 366 days each time.", true))
        (shown.field("unit", "Unit", Control::Choice(&units), "", true))
    };
    form.page(visitor, shown, &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_and_a_unit_are_seconds() {
        let of = |amount: &str, unit: &str| {
            let mut fields = Fields::default();
            fields.set(AMOUNT, amount);
            fields.set("unit", unit);
            seconds(&fields)
        };
        assert_eq!(of("3", "days").unwrap(), json!({"advance_seconds": 259_200}));
        assert_eq!(of("90", "minutes").unwrap(), json!({"advance_seconds": 5_400}));
        for wrong in ["", "-1", "1.5", "99999999999999999999"] {
            assert!(of(wrong, "days").unwrap_err().about(AMOUNT).is_some(), "{wrong}");
        }
    }
}
