//! The page of a contact, and its changes.

use http::Method;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use tenantd_base::access::Scope;

use super::{
    CONTACTS_API, Contact, Deletion, PATH, RecordForm, contact_choices, contacts, counted, is_correctable, optional, or_none,
    organization_choices, parts::version_field, portal, tickets, tickets_card, trail,
};
use crate::{
    components::{card, curl, facts, page_head},
    desk::{
        Content, Reply,
        devices::{DEVICES_API, DeviceRow, device_rows},
        records::List,
    },
    form::{Control, Fields, Shown},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// What a change of the organization or the address does.
const ENDS_ACCESS: &str = "Another organization or address ends the contact's access to the portal.";

impl Contact {
    pub(super) fn path(&self) -> String {
        format!("/contacts/{}", self.id)
    }

    pub(super) fn api(&self) -> String {
        format!("{CONTACTS_API}/{}", self.id)
    }

    /// The page above that of the contact.
    fn above(&self) -> String {
        self.organization.as_ref().map_or_else(|| PATH.to_owned(), |organization| format!("{PATH}/{}", organization.id))
    }

    pub(super) fn trail(&self, with_contact: bool) -> Markup {
        let (above, path) = (self.above(), self.path());
        let mut links = vec![(PATH, "Organizations")];
        if let Some(organization) = &self.organization {
            links.push((above.as_str(), organization.name.as_str()));
        }
        if with_contact {
            links.push((path.as_str(), self.name.as_str()));
        }
        trail(&links)
    }
}

/// The contact that the path names.
pub(super) async fn contact(visitor: &Visitor<'_>) -> Result<Contact, Refusal> {
    visitor.read(format!("{CONTACTS_API}/{}", segment(visitor.part("id")))).await
}

pub(crate) async fn show_contact(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

/// The page, with why an action was refused.
pub(super) async fn page(visitor: &Visitor<'_>, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let contact = contact(visitor).await?;
    let access = portal::read(visitor, &contact).await?;
    let fields = Fields::default();
    let open = Query::default().with("contact_id", &contact.id).with("status_category", "open");
    let open_tickets = tickets(visitor, &open).await?;
    let owned = Query::default().with("owner_id", &contact.id).with("sort", "name");
    let devices: List<DeviceRow> =
        visitor.read(owned.clone().with("limit", "20").with("include_total", "true").at(DEVICES_API)).await?;
    let body = html! {
        (contact.trail(false))
        (head(&contact, visitor))
        (Shown { fields: &fields, refusal }.summary())
        div.split {
            div {
                @if let Some(tickets) = &open_tickets { (tickets_card("Open tickets", tickets, &open, visitor)) }
                (card("Devices", &html! {
                    @if devices.data.is_empty() {
                        p.muted { "This contact owns no device." }
                    } @else {
                        (device_rows(&devices.data, false, visitor))
                        p { a href=(owned.at("/devices")) { "Show " (counted(devices.page.total.unwrap_or_default(), "device", "devices")) } }
                    }
                }))
            }
            div {
                (card("Details", &details(&contact, visitor)))
                @if let Some(access) = &access { (portal::access_card(access, &contact, visitor)) }
            }
        }
    };
    let content = Content::new(contact.name.clone(), body);
    Ok(Reply::Page(match refusal {
        Some(refusal) => content.refused(refusal),
        None => content,
    }))
}

fn head(contact: &Contact, visitor: &Visitor<'_>) -> Markup {
    let organization = contact.organization.as_ref();
    let new_ticket = Query::default().with("contact_id", &contact.id);
    let new_ticket = match organization {
        Some(organization) => new_ticket.with("organization_id", &organization.id),
        None => new_ticket,
    };
    page_head(
        &html! { (contact.name) },
        &html! {
            (contacts::status_badge(&contact.status)) " "
            @match organization {
                Some(organization) => { "Contact at " (organization.link("organizations")) }
                None => { "Contact without an organization" }
            }
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", &contact.api(), None))
            @if visitor.may(Scope::DirectoryWrite) {
                a.button href={ (contact.path()) "/edit" } { "Edit" }
                (status_form(contact, visitor))
                a.button href={ (contact.path()) "/delete" } { "Delete" }
            }
            @if visitor.may(Scope::TicketsWrite) { a.button.primary href=(new_ticket.at("/tickets/new")) { "New ticket" } }
        },
    )
}

fn status_form(contact: &Contact, visitor: &Visitor<'_>) -> Markup {
    let (status, words) = if contact.status == "active" { ("disabled", "Disable") } else { ("active", "Enable") };
    html! {
        form method="post" action={ (contact.path()) "/status" } {
            (visitor.tokens())
            (version_field(contact.version))
            input type="hidden" name="status" value=(status);
            button.button { (words) }
        }
    }
}

fn details(contact: &Contact, visitor: &Visitor<'_>) -> Markup {
    facts(&[
        (
            "Email address",
            Some(html! {
                @match &contact.email {
                    Some(email) => { a href={ "mailto:" (email) } { (email) } }
                    None => { (optional(None)) }
                }
            }),
        ),
        ("External ID", contact.external_id.as_deref().map(|id| html! { code { (id) } })),
        ("ID", Some(html! { code { (contact.id) } })),
        ("Created", Some(visitor.clock.absolute(&contact.created_at))),
        ("Changed", Some(visitor.clock.relative(&contact.updated_at))),
    ])
}

pub(crate) async fn edit_contact(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    let mut fields = Fields::default();
    fields.set("name", contact.name.clone());
    fields.set("email", contact.email.clone().unwrap_or_default());
    fields.set("external_id", contact.external_id.clone().unwrap_or_default());
    fields.set("organization_id", contact.organization.as_ref().map(|organization| organization.id.clone()).unwrap_or_default());
    edit_page(&visitor, &contact, &fields, None).await
}

pub(crate) async fn change_contact(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    let fields = visitor.fields();
    let mut body: Map<String, Value> = fields.patch(&["email", "external_id", "organization_id"]);
    body.insert("name".to_owned(), fields.get("name").into());
    match visitor.act(Method::PATCH, contact.api(), Some(Value::Object(body))).await {
        Ok(_) => Ok(Reply::SeeOther(contact.path())),
        Err(refusal) if is_correctable(&refusal) => edit_page(&visitor, &contact, &fields, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

async fn edit_page(visitor: &Visitor<'_>, contact: &Contact, fields: &Fields, refusal: Option<&Refusal>) -> Result<Reply, Refusal> {
    let organizations = or_none("None", organization_choices(visitor, contact.organization.as_ref()).await?);
    let form = RecordForm {
        title: format!("Edit {}", contact.name),
        below: "An import that sends these fields replaces them.",
        trail: contact.trail(true),
        action: format!("{}/edit", contact.path()),
        cancel: contact.path(),
        button: "Save",
        version: Some(contact.version),
        curl: curl(visitor.visit.base_url, "PATCH", &contact.api(), Some(&json!({"name": contact.name}))),
    };
    let shown = Shown { fields, refusal };
    let inputs = html! {
        (contacts::inputs(shown))
        (shown.field("organization_id", "Organization", Control::Choice(&organizations), ENDS_ACCESS, false))
    };
    Ok(form.page(visitor, shown, &inputs))
}

/// Enables or disables the contact.
pub(crate) async fn change_contact_status(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    let fields = visitor.fields();
    visitor.act(Method::PATCH, contact.api(), Some(json!({"status": fields.get("status")}))).await?;
    Ok(Reply::SeeOther(contact.path()))
}

pub(crate) async fn show_contact_deletion(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    Ok(deletion(&visitor, &contact).await?.show(&visitor))
}

pub(crate) async fn delete_contact(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let contact = contact(&visitor).await?;
    deletion(&visitor, &contact).await?.act(&visitor).await
}

async fn deletion<'a>(visitor: &Visitor<'_>, contact: &'a Contact) -> Result<Deletion<'a>, Refusal> {
    let mut heirs = match &contact.organization {
        Some(organization) => contact_choices(visitor, &organization.id, None).await?,
        None => Vec::new(),
    };
    heirs.retain(|(id, _)| *id != contact.id);
    Ok(Deletion {
        name: &contact.name,
        version: contact.version,
        trail: contact.trail(true),
        path: contact.path(),
        api: contact.api(),
        list: contact.above(),
        consequence: "Deletes the contact. This cannot be undone.",
        heir: "Give its open tickets and devices to",
        heirs,
    })
}
