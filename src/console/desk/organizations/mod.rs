//! Organizations and their contacts, and what all pages of the directory share.

mod backup;
mod contact;
mod contacts;
mod delete;
mod edit;
mod list;
mod one;
mod parts;
mod portal;

use serde::Deserialize;

use super::records::{List, Named};
use crate::{query::segment, refusal::Refusal, visitor::Visitor};

pub(super) use backup::{
    Issue as BackupIssue, PARTS as SCORE_PARTS, cap_words, issue_words, issues as backup_issues, part_tone, state_tone,
};
pub(super) use contact::{
    change_contact, change_contact_status, delete_contact, edit_contact, show_contact, show_contact_deletion,
};
pub(super) use contacts::{contacts, create_contact, new_contact, status_badge};
pub(super) use delete::Deletion;
pub(super) use edit::{change, create, delete, edit, new, show_deletion};
pub(super) use list::list;
pub(super) use one::show;
pub(super) use parts::{
    RecordForm, choices, counted, is_correctable, name_of, optional, or_none, pages, tickets, tickets_card, trail, version_field,
};
pub(super) use portal::{give_portal_access, may_open_portal, remove_portal_access};

const API: &str = "/api/directory/organizations";
const PATH: &str = "/organizations";
pub(super) const CONTACTS_API: &str = "/api/directory/contacts";

#[derive(Debug, Deserialize)]
struct Organization {
    id: String,
    external_id: Option<String>,
    name: String,
    created_at: String,
    updated_at: String,
    version: u64,
}

impl Organization {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }
}

/// The organization that the path names.
async fn organization(visitor: &Visitor<'_>) -> Result<Organization, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

#[derive(Debug, Deserialize)]
struct Contact {
    id: String,
    external_id: Option<String>,
    name: String,
    email: Option<String>,
    organization: Option<Named>,
    status: String,
    created_at: String,
    updated_at: String,
    version: u64,
}

/// The organizations that a field offers, by name: at most 200. The one that is chosen is always among them.
pub(super) async fn organization_choices(visitor: &Visitor<'_>, chosen: Option<&Named>) -> Result<Vec<(String, String)>, Refusal> {
    named_choices(visitor, &format!("{API}?sort=name&limit=200"), chosen).await
}

/// The contacts of an organization that a field offers, by name: at most 200.
pub(super) async fn contact_choices(
    visitor: &Visitor<'_>,
    organization_id: &str,
    chosen: Option<&Named>,
) -> Result<Vec<(String, String)>, Refusal> {
    let target = format!("{CONTACTS_API}?organization_id={}&status=active&sort=name&limit=200", segment(organization_id));
    named_choices(visitor, &target, chosen).await
}

/// The records of a list as choices. Nothing that the reader may not read is offered.
pub(super) async fn named_choices(
    visitor: &Visitor<'_>,
    target: &str,
    chosen: Option<&Named>,
) -> Result<Vec<(String, String)>, Refusal> {
    let found = visitor.read_if_allowed::<List<Named>>(target).await?.map_or_else(Vec::new, |list| list.data);
    let mut choices: Vec<(String, String)> = found.into_iter().map(|named| (named.id, named.name)).collect();
    if let Some(chosen) = chosen
        && !choices.iter().any(|(id, _)| *id == chosen.id)
    {
        choices.insert(0, (chosen.id.clone(), chosen.name.clone()));
    }
    Ok(choices)
}
