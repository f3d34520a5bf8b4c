//! Finds the record of the directory that a field names.

use crate::{
    desk::records::{List, Named},
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

/// Finds an organization or a device by its ID or its whole name. A text says why there is none.
pub(super) async fn find(
    visitor: &Visitor<'_>,
    area: &str,
    text: &str,
    organization: Option<&str>,
) -> Result<Result<Named, String>, Refusal> {
    let (noun, prefix) = if area == "devices" { ("device", "dev_") } else { ("organization", "org_") };
    if text.is_empty() {
        return Ok(Err(format!("Enter the name or the ID of the {noun}.")));
    }
    if text.starts_with(prefix) {
        let found: Option<Named> = visitor.read_if_allowed(format!("/api/directory/{area}/{}", segment(text))).await?;
        return Ok(found.ok_or_else(|| format!("No {noun} has this ID.")));
    }
    let mut query = Query::default().with("name", text).with("limit", "2");
    if let Some(organization) = organization {
        query = query.with("organization_id", organization);
    }
    let found: Option<List<Named>> = visitor.read_if_allowed(query.at(&format!("/api/directory/{area}"))).await?;
    let mut found = found.map_or_else(Vec::new, |list| list.data).into_iter();
    Ok(match (found.next(), found.next()) {
        (Some(record), None) => Ok(record),
        (Some(_), Some(_)) => Err(format!("Several {noun}s have this name. Enter the ID.")),
        (None, _) => Err(format!("No {noun} has this name.")),
    })
}
