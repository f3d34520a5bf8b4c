//! The settings of a level, and the level that each of them comes from.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{
    CONFIG_PATH, EDIT_PATH,
    scope::{self, Config, Level, TENANT},
    settings::{SETTINGS, lines},
};
use crate::{
    components::{curl, page_head},
    desk::{Content, Reply, organizations::organization_choices},
    form::options,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let scope = scope::named(&visitor);
    let config = scope::config(&visitor, &scope).await?;
    let level = scope::level(&visitor, &scope).await?;
    let chooser = chooser(&visitor, &scope, &level).await?;
    let body = html! {
        (level.trail())
        (head(&scope, &config, &level, &visitor))
        (level.chips())
        (chooser)
        (table(&config, &level))
        p.muted {
            "Each setting comes as a whole from the nearest level that sets it: the device, its organization, the tenant, or the defaults. "
            a href="/documentation/guides/backups/" { "More about the settings" }
        }
    };
    Ok(Reply::Page(Content::new(format!("Backup settings of {}", level.name()), body).live("backup.config.updated")))
}

fn head(scope: &str, config: &Config, level: &Level, visitor: &Visitor<'_>) -> Markup {
    let edit = Query::default().with("scope", scope).at(EDIT_PATH);
    page_head(
        &html! { "Backup settings of " (level.name()) },
        &html! {
            @match &config.updated_at {
                Some(time) => { "Changed " (visitor.clock.relative(time)) }
                None => { "Everything is inherited" }
            }
        },
        &html! {
            (curl(visitor.visit.base_url, "GET", &scope::target(scope), None))
            @if visitor.may(Scope::BackupWrite) { a.button.primary href=(edit) { "Change" } }
        },
    )
}

/// The way to the settings of another level.
async fn chooser(visitor: &Visitor<'_>, scope: &str, level: &Level) -> Result<Markup, Refusal> {
    let mut levels = organization_choices(visitor, level.organization.as_ref()).await?;
    levels.insert(0, (TENANT.to_owned(), "The tenant".to_owned()));
    if let Some(device) = &level.device {
        levels.insert(1, (device.id.clone(), format!("Device: {}", device.name)));
    }
    Ok(html! {
        form.filter method="get" action=(CONFIG_PATH) aria-label="Choose a level" {
            label { "Settings of" select name="scope" { (options(&levels, scope)) } }
            button { "Show" }
        }
    })
}

fn table(config: &Config, level: &Level) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Settings" {
            table.list {
                thead { tr { @for head in ["Setting", "Value", "Comes from"] { th scope="col" { (head) } } } }
                tbody {
                    @for (name, title) in &SETTINGS {
                        tr {
                            td.main { (title) }
                            td { (lines(&config.effective.text(name))) }
                            td { (level.source(config, name)) }
                        }
                    }
                }
            }
        }
    }
}
