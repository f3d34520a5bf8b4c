//! Finds the record of the directory that a field names.

use tenantd_base::access::Scope;

use crate::{
    desk::records::{List, Named},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// Finds an organization or a device by its ID or its whole name, or a contact by its ID or its e-mail address. A text says why there is none.
pub(super) async fn find(
    visitor: &Visitor<'_>,
    area: &str,
    text: &str,
    organization: Option<&str>,
) -> Result<Result<Named, String>, Refusal> {
    let (noun, prefix, parameter) = match area {
        "devices" => ("device", "dev_", "name"),
        "contacts" => ("contact", "usr_", "email"),
        _ => ("organization", "org_", "name"),
    };
    if !visitor.may(Scope::DirectoryRead) && text.starts_with(prefix) {
        return Ok(Ok(Named { id: text.to_owned(), name: text.to_owned() }));
    }
    if text.is_empty() {
        return Ok(Err(format!("Enter the {} or the ID of the {noun}.", words_of(parameter))));
    }
    if text.starts_with(prefix) {
        let found: Option<Named> = visitor.read_if_allowed(format!("/api/directory/{area}/{}", segment(text))).await?;
        return Ok(found.ok_or_else(|| format!("No {noun} has this ID.")));
    }
    let mut query = Query::default().with(parameter, text).with("limit", "2");
    if let Some(organization) = organization {
        query = query.with("organization_id", organization);
    }
    let found: Option<List<Named>> = visitor.read_if_allowed(query.at(&format!("/api/directory/{area}"))).await?;
    let mut found = found.map_or_else(Vec::new, |list| list.data).into_iter();
    Ok(match (found.next(), found.next()) {
        (Some(record), None) => Ok(record),
        (Some(_), Some(_)) => Err(format!("Several {noun}s have this {}. Enter the ID.", words_of(parameter))),
        (None, _) => Err(format!("No {noun} has this {}.", words_of(parameter))),
    })
}

fn words_of(parameter: &str) -> &str {
    if parameter == "email" { "e-mail address" } else { parameter }
}
