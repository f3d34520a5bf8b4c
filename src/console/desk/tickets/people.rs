//! People in the fields of forms: who can be assigned, and who can be the contact.

use maud::Markup;
use serde::Deserialize;

use tenantd_base::access::{Identity, Scope};

use crate::{
    desk::records::{List, Named},
    form::{Control, Shown},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

/// Values of a field with their words.
pub(super) type Choices = Vec<(String, String)>;

#[derive(Debug, Deserialize)]
struct Counted {
    counts: Counts,
}

#[derive(Debug, Deserialize)]
struct Counts {
    #[serde(default)]
    assignee: Vec<AssigneeCount>,
}

#[derive(Debug, Deserialize)]
struct AssigneeCount {
    value: String,
    name: Option<String>,
}

/// Who a ticket can be assigned to, by name. A reader who may not list users can choose themselves and everyone who has a ticket.
pub(super) async fn assignees(visitor: &Visitor<'_>) -> Result<Choices, Refusal> {
    let mut people: Choices = if visitor.may(Scope::UsersRead) {
        let staff: List<Named> = visitor.read("/api/admin/users?kind=staff&status=active&limit=200").await?;
        staff.data.into_iter().map(|person| (person.id, person.name)).collect()
    } else {
        let counted: Counted = visitor.read("/api/psa/tickets?counts_by=assignee&limit=1").await?;
        counted.counts.assignee.into_iter().filter_map(|count| Some((count.value, count.name?))).collect()
    };
    if let Identity::User { id, name, .. } = &visitor.reader.identity {
        with(&mut people, &id.to_string(), name);
    }
    people.sort_by_key(|(_, name)| name.to_lowercase());
    Ok(people)
}

/// The contacts of an organization, by name. Nothing if the reader may not see them.
pub(super) async fn contacts(visitor: &Visitor<'_>, organization: &str) -> Result<Option<Choices>, Refusal> {
    if !visitor.may(Scope::DirectoryRead) {
        return Ok(None);
    }
    let query = Query::default().with("organization_id", organization).with("sort", "name").with("limit", "200");
    let found = visitor.read_if_allowed::<List<Named>>(query.at("/api/directory/contacts")).await?;
    Ok(found.map(|list| list.data.into_iter().map(|contact| (contact.id, contact.name)).collect()))
}

/// The most contacts that a field offers. A longer list is entered by its e-mail address.
const MOST_CONTACTS: usize = 200;

/// The field for the contact of a ticket.
pub(super) fn contact_field(form: &Shown<'_>, contacts: &[(String, String)], hint: &str) -> Markup {
    if contacts.len() < MOST_CONTACTS {
        return form.field("contact_id", "Contact", Control::Choice(&or_none("Nobody", contacts)), hint, false);
    }
    form.field("contact_id", "Contact", Control::Input("text"), "The e-mail address or the ID. Empty: nobody.", false)
}

/// Adds a person unless the choices have them.
pub(super) fn with(choices: &mut Choices, id: &str, name: &str) {
    if !choices.iter().any(|(known, _)| known == id) {
        choices.push((id.to_owned(), name.to_owned()));
    }
}

/// The choices after one for no value.
pub(super) fn or_none(none: &str, choices: &[(String, String)]) -> Choices {
    let mut all = vec![(String::new(), none.to_owned())];
    all.extend_from_slice(choices);
    all
}
