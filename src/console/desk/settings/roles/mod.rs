//! Roles that the tenant creates: a name for a set of scopes. The built-in roles are listed with them, but cannot change.

mod edit;
mod list;
mod one;

use maud::Markup;
use serde::Deserialize;

use tenantd_base::access::Grants;

use super::PATH as SETTINGS;
use crate::{
    desk::{organizations::trail, records::List},
    query::segment,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) use edit::{change, create, edit, new};
pub(super) use list::list;
pub(super) use one::{delete, show, show_deletion};

const API: &str = "/api/admin/roles";
const PATH: &str = "/settings/roles";

#[derive(Debug, Deserialize)]
pub(super) struct Role {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
    scopes: Vec<String>,
    granted_scopes: Vec<String>,
    created_at: String,
    updated_at: String,
    version: u64,
}

impl Role {
    fn path(&self) -> String {
        format!("{PATH}/{}", self.id)
    }

    fn api(&self) -> String {
        format!("{API}/{}", self.id)
    }

    fn trail(&self) -> Markup {
        trail(&[(SETTINGS, "Settings"), (PATH, "Roles"), (self.path().as_str(), self.name.as_str())])
    }

    /// The scopes that the role grants.
    pub(super) fn grants(&self) -> Grants {
        Grants::from_patterns(self.granted_scopes.iter().map(String::as_str))
    }

    /// The page with the members of the role.
    fn members(&self) -> String {
        format!("/settings/users?role={}", self.id)
    }
}

/// The role that the path names.
async fn role(visitor: &Visitor<'_>) -> Result<Role, Refusal> {
    visitor.read(format!("{API}/{}", segment(visitor.part("id")))).await
}

/// All roles of the tenant, of which there are at most 100. A reader who cannot see them gets none.
pub(super) async fn all(visitor: &Visitor<'_>) -> Result<Vec<Role>, Refusal> {
    let list = visitor.read_if_allowed::<List<Role>>(format!("{API}?limit=200")).await?;
    Ok(list.map_or_else(Vec::new, |list| list.data))
}
