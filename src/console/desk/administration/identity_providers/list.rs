//! The list of identity providers.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{API, PATH, Provider, SETTINGS, TITLE, sections::state_badge};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{counted, optional, or_none, pages, trail},
        records::List,
    },
    form::options,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const STATES: [(&str, &str); 2] = [("true", "Enabled"), ("false", "Disabled")];

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let target = query.clone().or("limit", "50").with("include_total", "true").at(API);
    let providers: List<Provider> = visitor.read(&target).await?;
    let may_write = visitor.may(Scope::UsersWrite);
    let total = providers.page.total.unwrap_or_default();
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (page_head(
            &html! { (TITLE) },
            &html! { (counted(total, "provider", "providers")) " for single sign-on" },
            &html! {
                (curl(visitor.visit.base_url, "GET", &target, None))
                @if may_write { a.button.primary href={ (PATH) "/new" } { "New provider" } }
            },
        ))
        (filter(&query))
        @if providers.data.is_empty() {
            (empty(nothing(&query, may_write)))
        } @else {
            (table(&providers.data, &visitor))
        }
        (pages(&query, PATH, providers.data.len(), &providers.page))
        p.muted { a href="/documentation/guides/single-sign-on/" { "Guide to single sign-on" } }
    };
    Ok(Reply::Page(Content::new(TITLE, body).live("identity_provider.*")))
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => {
            "There is no provider yet. People sign in with passwords. Create a provider to let them sign in through it."
        }
        (true, false) => "There is no provider yet. People sign in with passwords.",
        (false, _) => "No provider matches. Remove the filter.",
    }
}

fn filter(query: &Query) -> Markup {
    let states = STATES.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "enabled" | "cursor"));
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter providers" data-filter {
            label { "State" select name="enabled" { (options(&or_none("Any", states), query.first("enabled"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(providers: &[Provider], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(TITLE) {
            table.list data-rows {
                thead { tr { @for head in ["Name", "State", "Domains", "Issuer", "Last sign-in"] { th scope="col" { (head) } } } }
                tbody {
                    @for provider in providers {
                        tr {
                            td.main { a href=(provider.path()) data-record { (provider.name) } }
                            td { (state_badge(provider.enabled)) }
                            td { (proof(provider)) }
                            td { (provider.issuer) }
                            td.time {
                                @match provider.sign_on.as_ref().and_then(|history| history.success_at.as_deref()) {
                                    Some(at) => { (visitor.clock.relative(at)) }
                                    None => { (optional(None)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The domains, and how many of them still need a proof.
fn proof(provider: &Provider) -> String {
    let missing = provider.domain_claims.iter().filter(|claim| !claim.proven).count();
    let domains = provider.domains.join(", ");
    if missing == 0 { domains } else { format!("{domains} ({missing} not proven)") }
}
