//! The list of organizations.

use maud::{Markup, html};

use tenantd_base::access::Scope;

use super::{API, Organization, PATH, counted, optional, pages};
use crate::{
    components::{curl, empty, page_head},
    desk::{Content, Reply, records::List},
    form::options,
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const SORTS: [(&str, &str); 5] = [
    ("name", "Name"),
    ("-name", "Name, from the end"),
    ("-updated_at", "Last changed"),
    ("-created_at", "Newest"),
    ("created_at", "Oldest"),
];

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let sorted = query.clone().or("sort", "name");
    let target = sorted.clone().or("limit", "50").with("include_total", "true").at(API);
    let organizations: List<Organization> = visitor.read(&target).await?;
    let may_write = visitor.may(Scope::DirectoryWrite);
    let total = organizations.page.total.unwrap_or_default();
    let head = page_head(
        &html! { "Organizations" },
        &html! { (counted(total, "organization", "organizations")) },
        &html! {
            a.button href=(sorted.without("cursor").without("limit").with("format", "csv").at(API)) download { "CSV" }
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if may_write { a.button.primary href="/organizations/new" { "New organization" } }
        },
    );
    let body = html! {
        (head)
        (filter(&query))
        @if organizations.data.is_empty() {
            (empty(nothing(&query, may_write)))
        } @else {
            (table(&organizations.data, &visitor))
        }
        (pages(&query, PATH, organizations.data.len(), &organizations.page))
    };
    Ok(Reply::Page(Content::new("Organizations", body).live("organization.*")))
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => "There are no organizations yet. Create one, or import them with the command tenantd import.",
        (true, false) => "There are no organizations that you may see.",
        (false, _) => "No organization matches. Use fewer words.",
    }
}

fn filter(query: &Query) -> Markup {
    let sorts: Vec<(String, String)> = SORTS.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect();
    let kept = query.pairs().filter(|(name, _)| !matches!(*name, "q" | "sort" | "cursor"));
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter organizations" data-filter {
            label { "Words" input type="search" name="q" value=(query.first("q")) maxlength="200"; }
            label { "Sort" select name="sort" { (options(&sorts, query.first("sort"))) } }
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(organizations: &[Organization], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Organizations" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "External ID", "Created", "Changed"] { th scope="col" { (head) } } } }
                tbody {
                    @for organization in organizations {
                        tr {
                            td.main { a href=(organization.path()) data-record { (organization.name) } }
                            td { (optional(organization.external_id.as_deref())) }
                            td.time { (visitor.clock.relative(&organization.created_at)) }
                            td.time { (visitor.clock.relative(&organization.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}
