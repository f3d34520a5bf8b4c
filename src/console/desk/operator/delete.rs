//! The page that asks before a tenant is deleted. The operator confirms with the slug of the tenant.

use http::Method;
use maud::html;

use super::{HOME, PATH, Tenant, tenant};
use crate::{
    components::{code_block, curl},
    desk::{
        Reply,
        organizations::{RecordForm, is_correctable, trail},
    },
    form::{Control, Fields, Shown, list_field},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const CONFIRM: &str = "confirm";

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    Ok(page(&visitor, &tenant, &Fields::default(), None))
}

pub(super) async fn delete(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let tenant = tenant(&visitor).await?;
    // The form was sent before, and tenantd still removes the records of the tenant.
    if let Some(list) = visitor.list_without().filter(|_| tenant.status == "deleting") {
        return Ok(Reply::SeeOther(list));
    }
    let fields = visitor.fields();
    // Without a word in the field the API refuses the request, because it names no tenant.
    let target = Query::default().with(CONFIRM, fields.get(CONFIRM)).at(&tenant.api());
    match visitor.act(Method::DELETE, target, None).await {
        // A small tenant is gone before its page could be shown.
        Ok(_) => Ok(Reply::SeeOther(PATH.to_owned())),
        Err(refusal) if is_correctable(&refusal) => Ok(page(&visitor, &tenant, &fields, Some(&refusal))),
        Err(refusal) => Err(refusal),
    }
}

fn page(visitor: &Visitor<'_>, tenant: &Tenant, fields: &Fields, refusal: Option<&Refusal>) -> Reply {
    let confirmed = Query::default().with(CONFIRM, &tenant.slug).at(&tenant.api());
    let form = RecordForm {
        title: format!("Delete {}", tenant.name),
        below: "Deletes the tenant with all of its data. This cannot be undone. The tenant stops working at once.",
        trail: trail(&[(HOME, "Operator"), (PATH, "Tenants"), (tenant.path().as_str(), tenant.name.as_str())]),
        action: format!("{}/delete", tenant.path()),
        cancel: tenant.path(),
        button: "Delete the tenant",
        version: Some(tenant.version),
        curl: curl(visitor.visit.base_url, "DELETE", &confirmed, None),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        (list_field(PATH))
        p { "Export the tenant first if you may need its data. Run this on the server:" }
        (code_block("sh", &format!("tenantd export --tenant {0} --output {0}.ndjson", tenant.slug)))
        p { "Enter the slug " code { (tenant.slug) } " to confirm that you delete the right tenant." }
        (shown.field(CONFIRM, "Slug of the tenant", Control::Input("text"), "", true))
    };
    form.page(visitor, shown, &inputs)
}
