//! Named secrets: values that workflow steps send to other servers. tenantd never shows a value.

mod edit;
mod list;
mod one;
mod rotate;

use maud::Markup;
use serde::Deserialize;

use super::{PATH as SETTINGS, parts::Limit};
use crate::{
    desk::{
        organizations::{named_choices, trail},
        records::Named,
        tickets::lines,
    },
    form::Fields,
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) use edit::{change, create, edit, new};
pub(super) use list::list;
pub(super) use one::{delete, show, show_deletion};
pub(super) use rotate::{rotate, show_rotation};

const API: &str = "/api/admin/secrets";
const PATH: &str = "/settings/secrets";
const WORKFLOWS_API: &str = "/api/psa/workflows/trigger?limit=200";
const WORKFLOWS: Limit = Limit {
    decision: "reach",
    member: "workflow_ids",
    label: "Used by",
    options: ["All workflows", "Only some workflows"],
    legend: "Workflows",
    hint: "Steps of other workflows that name the secret fail.",
};

/// A secret without its value.
#[derive(Debug, Deserialize)]
struct NamedSecret {
    id: String,
    name: String,
    description: Option<String>,
    hosts: Vec<String>,
    workflow_ids: Option<Vec<String>>,
    created_by: Named,
    created_at: String,
    updated_at: String,
    rotated_at: Option<String>,
    last_used_at: Option<String>,
    version: u64,
}

impl NamedSecret {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    fn trail(&self) -> Markup {
        trail(&[(SETTINGS, "Settings"), (PATH, "Secrets"), (self.path().as_str(), self.name.as_str())])
    }

    /// How workflow steps write the secret.
    fn expression(&self) -> String {
        format!("{{{{ secrets.{} }}}}", self.name)
    }
}

/// The secret that the path names.
async fn secret(visitor: &Visitor<'_>) -> Result<NamedSecret, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

/// The workflows of the tenant: at most 200, and none for a reader who may not see workflows.
async fn workflows(visitor: &Visitor<'_>) -> Result<Vec<(String, String)>, Refusal> {
    named_choices(visitor, WORKFLOWS_API, None).await
}

/// The value as it was typed, with the spaces around it.
fn typed_value(fields: &Fields) -> String {
    fields.all("value").first().map(|value| lines(value)).unwrap_or_default()
}

/// The fields without the value. A page never shows a value, not even to the person who typed it.
fn without_value(mut fields: Fields) -> Fields {
    fields.set("value", "");
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_sent_as_it_was_typed_and_not_shown_again() {
        let fields = Fields::new(&[("value".to_owned(), " a\r\nb ".to_owned()), ("name".to_owned(), "github".to_owned())]);
        assert_eq!(typed_value(&fields), " a\nb ");
        let again = without_value(fields);
        assert_eq!((again.get("value"), again.get("name")), ("", "github"));
    }
}
