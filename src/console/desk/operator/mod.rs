//! The pages of the installation's operator: what the server does, and its tenants.

mod actions;
mod delete;
mod list;
mod metrics;
mod new;
mod one;
mod overview;
mod quotas;

use maud::Markup;
use serde::Deserialize;
use serde_json::Value;

use super::routes::Route;
use crate::{
    components::{Tone, badge, words},
    form::Fields,
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) const ROUTES: &[Route] = &[
    Route::shows("/operator", "list_tenants", |visitor| Box::pin(overview::show(visitor))),
    Route::shows("/operator/tenants", "list_tenants", |visitor| Box::pin(list::list(visitor))),
    Route::both(
        "/operator/tenants/new",
        "create_tenant",
        |visitor| Box::pin(new::new(visitor)),
        |visitor| Box::pin(new::create(visitor)),
    ),
    Route::shows("/operator/tenants/{id}", "read_tenant", |visitor| Box::pin(one::show(visitor))),
    Route::both(
        "/operator/tenants/{id}/quotas",
        "set_tenant_quotas",
        |visitor| Box::pin(quotas::edit(visitor)),
        |visitor| Box::pin(quotas::change(visitor)),
    ),
    Route::both(
        "/operator/tenants/{id}/suspend",
        "suspend_tenant",
        |visitor| Box::pin(actions::show_suspension(visitor)),
        |visitor| Box::pin(actions::suspend(visitor)),
    ),
    Route::acts("/operator/tenants/{id}/resume", "resume_tenant", |visitor| Box::pin(actions::resume(visitor))),
    Route::both(
        "/operator/tenants/{id}/reset",
        "reset_tenant",
        |visitor| Box::pin(actions::show_reset(visitor)),
        |visitor| Box::pin(actions::reset(visitor)),
    ),
    Route::both(
        "/operator/tenants/{id}/clock",
        "advance_tenant_clock",
        |visitor| Box::pin(actions::show_clock(visitor)),
        |visitor| Box::pin(actions::advance(visitor)),
    ),
    Route::both(
        "/operator/tenants/{id}/delete",
        "delete_tenant",
        |visitor| Box::pin(delete::show(visitor)),
        |visitor| Box::pin(delete::delete(visitor)),
    ),
];

const API: &str = "/api/platform/tenants";
const HOME: &str = "/operator";
const PATH: &str = "/operator/tenants";

#[derive(Debug, Deserialize)]
struct Tenant {
    id: String,
    name: String,
    slug: String,
    kind: String,
    status: String,
    created_at: String,
    updated_at: String,
    /// Only an evaluation tenant expires.
    expires_at: Option<String>,
    /// Only an evaluation tenant has a clock of its own.
    clock: Option<TenantClock>,
    activity: Option<Activity>,
    version: u64,
}

#[derive(Debug, Deserialize)]
struct TenantClock {
    now: String,
    ahead_seconds: u64,
}

#[derive(Debug, Deserialize)]
struct Activity {
    events: u64,
    last_event_at: String,
}

impl Tenant {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    fn is_evaluation(&self) -> bool {
        self.kind == "evaluation"
    }

    /// The tenant of the operator itself. It can be neither suspended nor deleted.
    fn is_platform(&self) -> bool {
        self.kind == "platform"
    }

    fn status_badge(&self) -> Markup {
        let tone = match self.status.as_str() {
            "active" => Tone::Good,
            "suspended" => Tone::Warn,
            "deleting" => Tone::Bad,
            _ => Tone::Accent,
        };
        badge(tone, &words(&self.status))
    }
}

/// The tenant that the path names.
async fn tenant(visitor: &Visitor<'_>) -> Result<Tenant, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

/// A number of a field. What is no number goes to the API as it was typed, and the API says what is wrong.
fn number(fields: &Fields, name: &str) -> Value {
    let text = fields.get(name);
    text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_a_number_and_anything_else_stays_text() {
        let mut fields = Fields::default();
        fields.set("a", " 12 ");
        fields.set("b", "1.5");
        assert_eq!((number(&fields, "a"), number(&fields, "b"), number(&fields, "c")), (json!(12), json!("1.5"), json!("")));
    }
}
