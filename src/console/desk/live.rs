//! What tells an open page that something changed: server-sent events from the tenant's feed.
//!
//! An answer ends with the first events, or after [`WAIT_SECONDS`] without one. The browser then asks again on its own, from the last
//! number it has seen. So nothing is missed, and every request is checked and counted like any other.

use serde::Deserialize;
use serde_json::json;

use super::Reply;
use crate::{query::Query, refusal::Refusal, visitor::Visitor};

const FEED: &str = "/api/events";
const WAIT_SECONDS: &str = "25";
/// How long the browser waits before it asks again.
const PAUSE_MILLISECONDS: u32 = 1_000;

#[derive(Debug, Deserialize)]
struct Feed {
    data: Vec<Event>,
    next_after: u64,
}

#[derive(Debug, Deserialize)]
struct Event {
    seq: u64,
    resource: Resource,
}

#[derive(Debug, Deserialize)]
struct Resource {
    id: String,
}

/// Answers with the ids of the records of the next events of the kinds `types`. A browser that has seen nothing yet learns from where to
/// follow.
pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let asked = visitor.query();
    let types = asked.pairs().filter(|(name, _)| *name == "types").map(|(_, value)| value);
    let wanted = types.fold(Query::default(), |query, value| query.and("types", value));
    let last_seen = visitor.visit.headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let Some(last_seen) = last_seen else {
        let newest: Feed = visitor.read(wanted.with("order", "desc").with("limit", "1").at(FEED)).await?;
        return Ok(Reply::Events(events(newest.data.first().map_or(0, |event| event.seq), &[])));
    };
    let after = wanted.with("after", &last_seen.to_string()).with("wait_seconds", WAIT_SECONDS).with("limit", "100");
    let feed: Feed = visitor.read(after.at(FEED)).await?;
    let mut ids: Vec<&str> = feed.data.iter().map(|event| event.resource.id.as_str()).collect();
    ids.dedup();
    Ok(Reply::Events(events(feed.next_after, &ids)))
}

/// An event without data moves the browser on, and its page hears nothing of it.
fn events(last_seen: u64, ids: &[&str]) -> String {
    let data = if ids.is_empty() { String::new() } else { format!("data: {}\n", json!(ids)) };
    format!("retry: {PAUSE_MILLISECONDS}\nid: {last_seen}\n{data}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_records_and_where_to_go_on() {
        assert_eq!(events(7, &["tkt_1", "tkt_2"]), "retry: 1000\nid: 7\ndata: [\"tkt_1\",\"tkt_2\"]\n\n");
        assert_eq!(events(0, &[]), "retry: 1000\nid: 0\n\n");
    }
}
