//! An order of new VMs: first the provider, then the rest. The order can be checked without ordering.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_base::access::Scope;

use super::{
    API, OPERATIONS_API, PATH, VMS_API, VMS_PATH,
    fields::number,
    kinds::title_of,
    plan::{InUse, Plan},
    record::Provider,
    refresh::operation_path,
};
use crate::{
    components::{card, curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, or_none, organization_choices, trail},
        records::List,
        tickets::{lines, wrong},
    },
    form::{Control, Fields, Shown},
    query::segment,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

const PAGE: &str = "/vms/new";
/// What a link to the page can fill in.
const PREFILLED: [&str; 8] = ["name", "count", "region", "zone", "size", "image", "network", "organization_id"];
/// The value of the button that orders. A form that is sent in any other way is only checked.
const ORDER: &str = "order";

/// The provider of an order, as far as the reader may see it.
#[derive(Debug)]
struct Chosen {
    id: String,
    name: String,
    kind: String,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    if query.first("provider_id").is_empty() {
        return choose(&visitor, None).await;
    }
    let Some(chosen) = chosen(&visitor, query.first("provider_id")).await? else { return choose(&visitor, Some(&unknown())).await };
    let mut fields = Fields::default();
    fields.set("count", "1");
    for name in PREFILLED.into_iter().filter(|name| !query.first(name).is_empty()) {
        fields.set(name, query.first(name));
    }
    page(&visitor, &chosen, &fields, None, None).await
}

/// Checks the order, or sends it.
pub(super) async fn send(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    let Some(chosen) = chosen(&visitor, fields.get("provider_id")).await? else { return choose(&visitor, Some(&unknown())).await };
    let is_order = fields.get("action") == ORDER;
    let target = if is_order { VMS_API.to_owned() } else { format!("{VMS_API}?dry_run=true") };
    match visitor.act(Method::POST, target, Some(Value::Object(body(&fields)))).await {
        Ok(answer) if is_order => Ok(Reply::SeeOther(operation_path(&answer.body))),
        Ok(answer) => {
            let plan: Plan = parsed(answer.body)?;
            page(&visitor, &chosen, &fields, None, Some(&plan)).await
        }
        Err(refusal) if is_correctable(&refusal) => page(&visitor, &chosen, &fields, Some(&refusal), None).await,
        Err(refusal) => Err(refusal),
    }
}

fn unknown() -> Refusal {
    wrong("provider_id", "No provider has this ID.")
}

/// The provider with an ID. A reader who may not see providers needs the ID.
async fn chosen(visitor: &Visitor<'_>, id: &str) -> Result<Option<Chosen>, Refusal> {
    if !visitor.may(Scope::ProvidersRead) {
        return Ok(Some(Chosen { id: id.to_owned(), name: id.to_owned(), kind: String::new() }));
    }
    let found: Option<Provider> = visitor.read_if_allowed(format!("{API}/{}", segment(id))).await?;
    Ok(found.map(|provider| Chosen { id: provider.id, name: provider.name, kind: provider.kind }))
}

fn body(fields: &Fields) -> Map<String, Value> {
    let mut body = fields.filled(&["provider_id", "name", "region", "zone", "size", "image", "network", "organization_id"]);
    if !fields.get("count").is_empty() {
        body.insert("count".to_owned(), number(fields.get("count")));
    }
    let keys: Vec<Value> = typed_lines(fields, "ssh_keys").map(Value::from).collect();
    if !keys.is_empty() {
        body.insert("ssh_keys".to_owned(), keys.into());
    }
    if !fields.get("user_data").is_empty() {
        body.insert("user_data".to_owned(), lines(fields.get("user_data")).into());
    }
    let tag = |line: &str| {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        (key.trim().to_owned(), Value::from(value.trim()))
    };
    let tags: Map<String, Value> = typed_lines(fields, "tags").map(tag).collect();
    if !tags.is_empty() {
        body.insert("tags".to_owned(), Value::Object(tags));
    }
    body
}

/// The lines of a field that are not empty.
fn typed_lines<'a>(fields: &'a Fields, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    fields.get(name).lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The first step: the provider.
async fn choose(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let list: Option<List<Provider>> = visitor.read_if_allowed(format!("{API}?limit=200")).await?;
    let providers = list.map(|list| list.data.into_iter().filter(|provider| provider.enabled).collect::<Vec<_>>());
    let query = visitor.query();
    let kept = query.pairs().filter(|(name, _)| *name != "provider_id");
    let mut fields = Fields::default();
    fields.set("provider_id", query.first("provider_id"));
    let body = html! {
        (trail(&[(VMS_PATH, "Virtual machines")]))
        (page_head(&html! { "Order VMs" }, &html! { "First choose the provider." }, &html! {}))
        @if providers.as_ref().is_some_and(Vec::is_empty) {
            p.empty { "No provider accepts orders. " @if visitor.may(Scope::ProvidersWrite) { a href={ (PATH) "/new" } { "Connect a provider" } } }
        } @else {
            form.stack method="get" action=(PAGE) {
                @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                (provider_input(Shown { fields: &fields, refusal }, providers.as_deref()))
                div.actions { button.primary { "Continue" } a.button href=(VMS_PATH) { "Cancel" } }
            }
        }
    };
    let content = Content::new("Order VMs", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn provider_input(shown: Shown<'_>, providers: Option<&[Provider]>) -> Markup {
    let words = |provider: &Provider| (provider.id.clone(), format!("{} ({})", provider.name, title_of(&provider.kind)));
    let choices = providers.map(|providers| or_none("Choose a provider", providers.iter().map(words).collect()));
    html! {
        (shown.summary())
        @match &choices {
            Some(choices) => { (shown.field("provider_id", "Provider", Control::Choice(choices), "", true)) }
            None => { (shown.field("provider_id", "Provider", Control::Input("text"), "The ID of the provider, such as prv_01k9z7w3v5e8g9m2n4p6r8t0x1.", true)) }
        }
    }
}

/// The second step: everything else, with the plan if the order was checked.
async fn page(
    visitor: &Visitor<'_>,
    chosen: &Chosen,
    fields: &Fields,
    refusal: Option<&Refusal>,
    plan: Option<&Plan>,
) -> Result<Reply, Refusal> {
    let organizations = or_none("That of the provider", organization_choices(visitor, None).await?);
    let in_use = InUse::read(visitor, &chosen.id).await?;
    let example = json!({"provider_id": chosen.id, "name": "web", "region": "…", "size": "…", "image": "…", "count": 1});
    let shown = Shown { fields, refusal };
    let body = html! {
        (trail(&[(VMS_PATH, "Virtual machines")]))
        (page_head(
            &html! { "Order VMs" },
            &html! { "From " (chosen.name) @if !chosen.kind.is_empty() { " (" (title_of(&chosen.kind)) ")" } " · " a href=(PAGE) { "Choose another provider" } },
            &curl(visitor.visit.base_url, "POST", VMS_API, Some(&example)),
        ))
        @if let Some(plan) = plan { (card("Plan", &plan.show())) }
        form.stack method="post" action=(PAGE) {
            (visitor.tokens())
            input type="hidden" name="provider_id" value=(chosen.id);
            (shown.summary())
            (inputs(shown, &in_use, &chosen.kind))
            (shown.field("organization_id", "Organization", Control::Choice(&organizations), "The organization that the VMs belong to.", false))
            div.actions {
                button.button name="action" value="check" { "Check without ordering" }
                button.primary name="action" value=(ORDER) { "Order" }
                a.button href=(VMS_PATH) { "Cancel" }
            }
            p.hint { "An order costs money at the cloud. It continues in the background at " code { (OPERATIONS_API) } ", and never creates a VM twice." }
        }
    };
    let content = Content::new("Order VMs", body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn inputs(shown: Shown<'_>, in_use: &InUse, kind: &str) -> Markup {
    let line =
        |name: &str, label: &str, hint: &str, required: bool| shown.field(name, label, Control::Input("text"), hint, required);
    let keys = match kind {
        "azure" | "gcp" | "proxmox" => "One public key on each line.",
        _ => "The name or the ID of a key at the provider, one on each line.",
    };
    let is_azure = kind == "azure";
    html! {
        (line("name", "Name", "Letters, digits and hyphens. Several VMs get numbers at the end, such as web-1.", true))
        (shown.field("count", "Number of VMs", Control::Input("number"), "1 to 20.", true))
        (line("region", "Region", &InUse::hint(&in_use.regions, "Such as eu-west-1."), true))
        (line("size", "Size", &InUse::hint(&in_use.sizes, "Such as t3.small."), true))
        (line("image", "Image", &InUse::hint(&in_use.images, "The ID or the name of the image at the provider."), true))
        (line("zone", "Zone", "Only for clouds that have zones.", false))
        (line("network", "Network", if is_azure { "The ID of the subnet." } else { "The ID of the network or subnet. Without it, the default of the provider." }, is_azure))
        (shown.field("tags", "Tags", Control::Text { rows: 3 }, "One tag on each line, such as role=web.", false))
        (shown.field("ssh_keys", "SSH keys", Control::Text { rows: 3 }, keys, false))
        (shown.field("user_data", "User data", Control::Text { rows: 6 }, "A script or configuration for the first start. tenantd encrypts it, and deletes it when the operation ends.", false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_the_fields_that_were_filled_in() {
        let typed = [
            ("provider_id", "prv_1"),
            ("name", "web"),
            ("count", "2"),
            ("zone", ""),
            ("ssh_keys", "ada\r\n\r\n grace "),
            ("tags", "role = web\r\nbilled\r\nurl=http://a?b=c"),
            ("user_data", "#!/bin/sh\r\ntrue\r\n"),
            ("action", "order"),
        ];
        let typed = typed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let expected = json!({
            "provider_id": "prv_1", "name": "web", "count": 2, "ssh_keys": ["ada", "grace"], "user_data": "#!/bin/sh\ntrue",
            "tags": {"role": "web", "billed": "", "url": "http://a?b=c"},
        });
        assert_eq!(Value::Object(body(&Fields::new(&typed))), expected);
    }
}
