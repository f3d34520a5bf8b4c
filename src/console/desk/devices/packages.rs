//! Who has a program: one row for each device and package that matches.

use maud::{Markup, html};
use serde::Deserialize;

use super::{INVENTORY_API, PATH, filters::filters_only, record::Package};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content,
        organizations::{counted, optional, pages},
        records::{List, Named},
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

#[derive(Debug, Deserialize)]
struct PackageRow {
    id: String,
    name: String,
    organization: Named,
    package: Option<Package>,
}

/// The page of `/devices?rows=software&software=…`.
pub(super) async fn show(visitor: Visitor<'_>, query: &Query, controls: &Markup) -> Result<Content, Refusal> {
    let asked = filters_only(query).with("rows", "software");
    let mut paged = asked.clone().with("limit", "100").with("include_total", "true");
    if !query.first("cursor").is_empty() {
        paged = paged.with("cursor", query.first("cursor"));
    }
    let target = paged.at(INVENTORY_API);
    let list: List<PackageRow> = visitor.read(&target).await?;
    let head = page_head(
        &html! { "Who has this software" },
        &html! {
            @match list.page.total {
                Some(total) => { (counted(total, "package", "packages")) " found" }
                None => { "Packages that match" }
            }
        },
        &html! {
            a.button href=(filters_only(query).at(PATH)) { "List devices" }
            a.button href=(asked.clone().with("format", "csv").at(INVENTORY_API)) download { "CSV" }
            (curl(visitor.visit.base_url, "GET", &target, None))
        },
    );
    let body = html! {
        (head)
        (controls)
        @if list.data.is_empty() {
            (empty("No package matches on this page. Change the software filter, for example to Google*."))
        } @else {
            (table(&list.data))
        }
        (pages(&asked.with("cursor", query.first("cursor")), PATH, list.data.len(), &list.page))
    };
    Ok(Content::new("Who has this software", body))
}

fn table(rows: &[PackageRow]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Packages" {
            table.list data-rows {
                thead { tr { @for head in ["Device", "Organization", "Package", "Version", "Publisher"] { th scope="col" { (head) } } } }
                tbody {
                    @for row in rows {
                        @let package = row.package.as_ref();
                        tr {
                            td.main { a href={ (PATH) "/" (row.id) } data-record { (row.name) } }
                            td { (row.organization.link("organizations")) }
                            td { (optional(package.map(|package| package.name.as_str()))) }
                            td { (optional(package.and_then(|package| package.version.as_deref()))) }
                            td { (optional(package.and_then(|package| package.publisher.as_deref()))) }
                        }
                    }
                }
            }
        }
    }
}
