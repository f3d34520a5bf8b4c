//! The newest checkpoint of the audit, and how to verify the audit with it.

use maud::{Markup, html};
use serde::Deserialize;

use super::{super::SETTINGS, API, PATH};
use crate::{
    components::{card, code, code_block, curl, empty, facts, page_head},
    desk::{Content, Reply, organizations::trail},
    refusal::Refusal,
    visitor::Visitor,
};

/// A signature over all records.
#[derive(Debug, Deserialize)]
struct Checkpoint {
    first: u64,
    number: u64,
    hash: String,
    at: String,
    signature: String,
    public_key: String,
}

pub(crate) async fn checkpoint(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let api = format!("{API}/checkpoint");
    let checkpoint: Option<Checkpoint> = visitor.read_if_allowed(&api).await?;
    let body = html! {
        (trail(&[(SETTINGS, "Settings"), (PATH, "Audit")]))
        (page_head(
            &html! { "Verify the audit" },
            &html! { "Each record contains the hash of the record before it. A checkpoint is a signature over all of them." },
            &html! {
                a.button href=(api) download="checkpoint.json" { "Download checkpoint" }
                (curl(visitor.visit.base_url, "GET", &api, None))
            },
        ))
        @match &checkpoint {
            Some(checkpoint) => {
                (card("Newest checkpoint", &show(checkpoint, &visitor)))
                (card("How to verify", &steps(checkpoint)))
            }
            None => { (empty("The audit is empty. The first change or sign-in makes a checkpoint.")) }
        }
    };
    Ok(Reply::Page(Content::new("Verify the audit", body)))
}

fn show(checkpoint: &Checkpoint, visitor: &Visitor<'_>) -> Markup {
    html! {
        (facts(&[
            ("Records", Some(html! { (checkpoint.first) " to " (checkpoint.number) })),
            ("Made", Some(visitor.clock.absolute(&checkpoint.at))),
            ("Hash", Some(code(&checkpoint.hash))),
            ("Signature", Some(code(&checkpoint.signature))),
            ("Public key", Some(code(&checkpoint.public_key))),
        ]))
        p { "Keep checkpoints on another host. With an old checkpoint you can prove later that no record was changed or removed." }
    }
}

fn steps(checkpoint: &Checkpoint) -> Markup {
    let export = format!("{API}?format=ndjson");
    let verify =
        format!("tenantd audit verify audit.ndjson --checkpoint checkpoint.json \\\n  --public-key {}", checkpoint.public_key);
    html! {
        h3 { "With an export, on any host" }
        ol {
            li { a href=(export) download="audit.ndjson" { "Download all records" } " as JSON lines. Filters and missing scopes make an export that cannot be verified." }
            li { "Take a checkpoint that you kept, or the newest one from this page." }
            li { "Get the public key from the operator on another way than this page: " code { "tenantd audit public-key" } "." }
            li { "Run this command. It names the first record that was changed or removed." }
        }
        (code_block("sh", &verify))
        h3 { "On the server" }
        p { "The operator can verify the records of all tenants, also while the server runs:" }
        (code_block("sh", "tenantd audit verify --checkpoint checkpoint.json"))
    }
}
