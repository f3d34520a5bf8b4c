//! The list of audit records.

use maud::{Markup, html};

use super::{super::SETTINGS, API, PATH, filter, record::Record};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        organizations::{pages, trail},
        records::List,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const HEADS: [&str; 6] = ["No.", "Time", "Action", "Actor", "Resource", "Changes"];

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    let asked = filter::asked(&query, &visitor.clock.zone);
    let target = asked.clone().or("limit", "50").at(API);
    let records: List<Record> = visitor.read(&target).await?;
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head(&asked, &target, &visitor))
        (filter::form(&query))
        @if records.data.is_empty() {
            (empty(nothing(&query, &records)))
        } @else {
            (table(&records.data, &query, &visitor))
        }
        (pages(&query, PATH, records.data.len(), &records.page))
    };
    Ok(Reply::Page(Content::new("Audit", body)))
}

fn nothing(query: &Query, records: &List<Record>) -> &'static str {
    if records.page.next_cursor.is_some() {
        "No record on this page matches. More records follow on the next page."
    } else if *query == Query::default() {
        "There are no records yet. Administrative changes, sign-ins and exports appear here."
    } else {
        "No record matches. Remove a filter."
    }
}

fn head(asked: &Query, target: &str, visitor: &Visitor<'_>) -> Markup {
    let export = asked.clone().without("cursor").without("limit");
    page_head(
        &html! { "Audit" },
        &html! { "Administrative changes, sign-ins, new secrets and exports. Nobody can change or remove a record unnoticed." },
        &html! {
            a.button href=(export.clone().with("format", "csv").at(API)) download { "CSV" }
            a.button href=(export.with("format", "ndjson").at(API)) download { "JSON lines" }
            (curl(visitor.visit.base_url, "GET", target, None))
            a.button.primary href={ (PATH) "/checkpoint" } { "Verify" }
        },
    )
}

fn table(records: &[Record], query: &Query, visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Audit records" {
            table.list data-rows {
                thead { tr { @for head in HEADS { th scope="col" { (head) } } } }
                tbody { @for record in records { (record.row(query, visitor)) } }
            }
        }
    }
}
