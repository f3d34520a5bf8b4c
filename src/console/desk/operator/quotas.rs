//! The quotas of a tenant: its use, its limits, and the form that sets limits of its own.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_base::quotas::Quota;

use super::{HOME, PATH, Tenant, number, tenant};
use crate::{
    components::curl,
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, name_of, trail},
        settings::{Standings, quotas_table},
    },
    form::{Control, Fields, Shown},
    refusal::Refusal,
    visitor::Visitor,
};

fn api(tenant: &Tenant) -> String {
    format!("{}/quotas", tenant.api())
}

pub(super) async fn standings(visitor: &Visitor<'_>, tenant: &Tenant) -> Result<Option<Standings>, Refusal> {
    visitor.read_if_allowed(api(tenant)).await
}

pub(super) fn overview(standings: &Standings, tenant: &Tenant, visitor: &Visitor<'_>) -> Markup {
    html! {
        (quotas_table(&standings.quotas))
        div.actions {
            @if !tenant.is_platform() && tenant.status != "deleting" { a.button href={ (tenant.path()) "/quotas" } { "Set limits" } }
            (curl(visitor.visit.base_url, "GET", &api(tenant), None))
        }
    }
}

pub(super) async fn edit(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    let standings: Standings = visitor.read(api(&tenant)).await?;
    let mut fields = Fields::default();
    for standing in standings.quotas.iter().filter(|standing| standing.own_limit) {
        fields.set(&standing.quota, standing.limit.to_string());
    }
    Ok(page(&visitor, &tenant, &fields, None))
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    let fields = visitor.fields();
    match visitor.act(Method::PUT, api(&tenant), Some(limits(&fields))).await {
        Ok(_) => Ok(Reply::SeeOther(tenant.path())),
        Err(refusal) if is_correctable(&refusal) => Ok(page(&visitor, &tenant, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

/// The limits that the form sets. The API gives a quota that is missing the limit of the installation.
fn limits(fields: &Fields) -> Value {
    let given = Quota::NAMES.iter().filter(|quota| !fields.get(quota).is_empty());
    Value::Object(given.map(|quota| ((*quota).to_owned(), number(fields, quota))).collect::<Map<_, _>>())
}

fn page(visitor: &Visitor<'_>, tenant: &Tenant, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let form = RecordForm {
        title: format!("Limits of {}", tenant.name),
        below: "An empty field has the limit of the installation. A limit below the current use removes nothing.",
        trail: trail(&[(HOME, "Operator"), (PATH, "Tenants"), (tenant.path().as_str(), tenant.name.as_str())]),
        action: format!("{}/quotas", tenant.path()),
        cancel: tenant.path(),
        button: "Save",
        version: None,
        curl: curl(visitor.visit.base_url, "PUT", &api(tenant), Some(&json!({"records": 1_000_000}))),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        @for quota in Quota::ALL {
            @let hint = if *quota == Quota::StoredBytes { "In bytes." } else { "" };
            (shown.field(quota.name(), &name_of(quota.name()), Control::Input("number"), hint, false))
        }
    };
    form.page(visitor, shown, &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_are_given_are_set() {
        let mut fields = Fields::default();
        fields.set("records", "1000");
        fields.set("workflows", "");
        fields.set("streams", "many");
        assert_eq!(limits(&fields), json!({"records": 1000, "streams": "many"}));
    }
}
