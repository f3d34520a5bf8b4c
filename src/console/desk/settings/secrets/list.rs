//! The list of secrets.

use maud::{Markup, html};

use super::{API, NamedSecret, PATH, SETTINGS};
use crate::{
    components::{code, curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, optional, pages, trail},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().or("limit", "50").with("include_total", "true").at(API);
    let secrets: List<NamedSecret> = visitor.read(&target).await?;
    let head = page_head(
        &html! { "Secrets" },
        &html! { (counted(secrets.page.total.unwrap_or_default(), "secret", "secrets")) " · tenantd never shows their values" },
        &html! {
            (curl(visitor.visit.base_url, "GET", &target, None))
            a.button.primary href={ (PATH) "/new" } { "New secret" }
        },
    );
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head)
        (filter(&query))
        @if secrets.data.is_empty() {
            (empty(nothing(&query)))
        } @else {
            (table(&secrets.data, &visitor))
        }
        (pages(&query, PATH, secrets.data.len(), &secrets.page))
    };
    Ok(Reply::Page(Content::new("Secrets", body).live("secret.*")))
}

fn nothing(query: &Query) -> &'static str {
    if *query == Query::default() {
        "There are no secrets yet. Create one for each token that your workflows send to another server."
    } else {
        "No secret matches. Use a shorter part of its name."
    }
}

fn filter(query: &Query) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "name" | "cursor"));
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter secrets" {
            label { "Name" input type="search" name="name" value=(query.first("name")) maxlength="64"; }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(secrets: &[NamedSecret], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Secrets" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "Description", "Servers", "Last used", "Value set"] { th scope="col" { (head) } } } }
                tbody {
                    @for secret in secrets {
                        tr {
                            td.main { a href=(secret.path()) data-record { (secret.name) } }
                            td { (optional(secret.description.as_deref())) }
                            td { @for host in &secret.hosts { (code(host)) " " } }
                            td.time {
                                @match &secret.last_used_at {
                                    Some(time) => { "used " (visitor.clock.relative(time)) }
                                    None => { span.muted { "Never used" } }
                                }
                            }
                            td.time {
                                "set " (visitor.clock.relative(secret.rotated_at.as_deref().unwrap_or(&secret.created_at)))
                            }
                        }
                    }
                }
            }
        }
    }
}
