//! The level whose settings a page shows: the tenant, an organization or a device, with the settings as the API answers them.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{API, CONFIG_API, CONFIG_PATH, PATH, settings::Policy};
use crate::{
    desk::{
        devices::DEVICES_API,
        organizations::trail,
        records::{List, Named},
    },
    query::{Query, segment},
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) const TENANT: &str = "tenant";

/// The settings of a level.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    pub(super) own: Map<String, Value>,
    pub(super) effective: Policy,
    /// The level that each inherited setting comes from, by the name of the setting.
    pub(super) inherited_from: BTreeMap<String, String>,
    /// Absent if the level never had settings of its own.
    pub(super) updated_at: Option<String>,
    pub(super) version: u64,
    /// Only of a change that was not applied.
    pub(super) impact: Option<Impact>,
}

/// What a change would do.
#[derive(Debug, Deserialize)]
pub(super) struct Impact {
    pub(super) devices_affected: u64,
    pub(super) newly_breaching: u64,
    pub(super) newly_breaching_device_ids: Vec<String>,
    pub(super) newly_missed: u64,
    pub(super) restore_points_expiring: u64,
}

/// Where a level is.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) organization: Option<Named>,
    pub(super) device: Option<Named>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    organization: Named,
}

#[derive(Debug, Deserialize)]
struct Device {
    id: String,
    name: String,
    organization: Named,
}

/// The request for the settings of a level.
pub(super) fn target(scope: &str) -> String {
    Query::default().with("scope", scope).at(CONFIG_API)
}

pub(super) async fn config(visitor: &Visitor<'_>, scope: &str) -> Result<Config, Refusal> {
    visitor.read(target(scope)).await
}

/// The level that the query names.
pub(super) fn named(visitor: &Visitor<'_>) -> String {
    visitor.query().or("scope", TENANT).first("scope").to_owned()
}

/// The names of the level and of the one above it. What the reader may not see has its ID as its name.
pub(super) async fn level(visitor: &Visitor<'_>, scope: &str) -> Result<Level, Refusal> {
    let unnamed = || Named { id: scope.to_owned(), name: scope.to_owned() };
    if scope.starts_with("org_") {
        let target = Query::default().with("organization_id", scope).with("limit", "1").at(API);
        let found = visitor.read_if_allowed::<List<Owner>>(target).await?.and_then(|list| list.data.into_iter().next());
        let organization = found.map_or_else(unnamed, |owner| owner.organization);
        return Ok(Level { organization: Some(organization), device: None });
    }
    if scope.starts_with("dev_") {
        let found = visitor.read_if_allowed::<Device>(format!("{DEVICES_API}/{}", segment(scope))).await?;
        return Ok(match found {
            Some(Device { id, name, organization }) => Level { organization: Some(organization), device: Some(Named { id, name }) },
            None => Level { organization: None, device: Some(unnamed()) },
        });
    }
    Ok(Level::default())
}

/// The page with the settings of a level.
pub(super) fn path(scope: &str) -> String {
    Query::default().with("scope", scope).at(CONFIG_PATH)
}

impl Level {
    /// The level in a sentence, such as `the tenant`.
    pub(super) fn name(&self) -> &str {
        self.device.as_ref().or(self.organization.as_ref()).map_or("the tenant", |named| &named.name)
    }

    /// The pages above the page with the settings.
    pub(super) fn trail(&self) -> Markup {
        let organization =
            self.organization.as_ref().map(|organization| (format!("{PATH}/{}", organization.id), &organization.name));
        let mut links = vec![(PATH, "Backups")];
        if let Some((path, name)) = &organization {
            links.push((path.as_str(), name.as_str()));
        }
        trail(&links)
    }

    /// The levels from the tenant down to this one.
    pub(super) fn chips(&self) -> Markup {
        let here = self.device.as_ref().or(self.organization.as_ref()).map_or(TENANT, |named| &named.id);
        let chip = |scope: &str, kind: &str, name: &str| {
            let is_here = (scope == here).then_some("page");
            html! { a.chip href=(path(scope)) aria-current=[is_here] { (kind) @if !name.is_empty() { ": " (name) } } }
        };
        html! {
            nav.chips aria-label="Levels of settings" {
                (chip(TENANT, "Tenant", ""))
                @if let Some(organization) = &self.organization { (chip(&organization.id, "Organization", &organization.name)) }
                @if let Some(device) = &self.device { (chip(&device.id, "Device", &device.name)) }
            }
        }
    }

    /// The level that a setting comes from, as a link.
    pub(super) fn source(&self, config: &Config, setting: &str) -> Markup {
        match config.inherited_from.get(setting).map(String::as_str) {
            None => html! { strong { "Set for " (self.name()) } },
            Some("default") => html! { span.muted { "Default" } },
            Some(TENANT) => html! { "Inherited from " a href=(path(TENANT)) { "the tenant" } },
            Some(id) => {
                let known = self.organization.as_ref().filter(|organization| organization.id == id);
                html! { "Inherited from " a href=(path(id)) { (known.map_or(id, |organization| &organization.name)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_setting_names_the_level_that_it_comes_from() {
        let named = |id: &str, name: &str| Some(Named { id: id.to_owned(), name: name.to_owned() });
        let level = Level { organization: named("org_1", "Acme <b>"), device: named("dev_1", "srv-1") };
        let config: Config = serde_json::from_value(json!({
            "own": {}, "version": 0, "effective": crate::desk::backups::settings::example(),
            "inherited_from": {"enabled": "default", "retention": "tenant", "schedule": "org_1"}
        }))
        .unwrap();
        let source = |setting: &str| level.source(&config, setting).into_string();
        assert!(source("enabled").contains("Default"));
        assert!(source("retention").contains("href=\"/backups/config?scope=tenant\""));
        assert!(source("schedule").contains("scope=org_1\">Acme &lt;b&gt;"));
        assert!(source("targets").contains("Set for srv-1"));
    }
}
