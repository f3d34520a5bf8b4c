//! Changes of the state of an endpoint. A refused change shows the page of the endpoint with the reason.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_http::pages::ApiAnswer;

use super::{
    one,
    record::{path, target},
};
use crate::{
    desk::{Reply, organizations::is_correctable},
    query::Query,
    refusal::Refusal,
    visitor::{Visitor, parsed},
};

/// The answer to a request that enables an endpoint.
#[derive(Debug, Deserialize)]
struct Enabled {
    missed: Option<Missed>,
}

/// Events that the endpoint missed while it was disabled.
#[derive(Debug, Deserialize)]
struct Missed {
    events: u64,
    replay: Offer,
}

#[derive(Debug, Deserialize)]
struct Offer {
    body: Range,
}

#[derive(Debug, Deserialize)]
struct Range {
    only: String,
    from_seq: Option<u64>,
    to_seq: Option<u64>,
}

pub(super) async fn pause(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::POST, format!("{}/pause", target(&visitor)), None).await;
    finish(visitor, outcome).await
}

pub(super) async fn resume(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::POST, format!("{}/resume", target(&visitor)), None).await;
    finish(visitor, outcome).await
}

pub(super) async fn disable(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::PUT, target(&visitor), Some(json!({"status": "disabled"}))).await;
    finish(visitor, outcome).await
}

/// Enables the endpoint. If it missed events, the form that sends them follows.
pub(super) async fn enable(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let outcome = visitor.act(Method::POST, format!("{}/enable", target(&visitor)), None).await;
    let Ok(answer) = &outcome else { return finish(visitor, outcome).await };
    match offered(answer.body.clone())? {
        Some(query) => Ok(Reply::SeeOther(query.at(&format!("{}/replay", path(&visitor))))),
        None => finish(visitor, outcome).await,
    }
}

/// The values of the form that sends the missed events; nothing if there are none.
fn offered(answer: Value) -> Result<Option<Query>, Refusal> {
    let enabled: Enabled = parsed(answer)?;
    let Some(Missed { events, replay }) = enabled.missed.filter(|missed| missed.events > 0) else { return Ok(None) };
    let range = replay.body;
    let numbers = [("from_seq", range.from_seq), ("to_seq", range.to_seq), ("missed", Some(events))];
    let query = Query::default().with("only", &range.only);
    let given = numbers.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Ok(Some(given.fold(query, |query, (name, value)| query.with(name, &value.to_string()))))
}

async fn finish(visitor: Visitor<'_>, outcome: Result<ApiAnswer, Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Ok(_) => Ok(Reply::SeeOther(path(&visitor))),
        Err(refusal) if is_correctable(&refusal) => one::page(&visitor, Some(&refusal)).await,
        Err(refusal) => Err(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_events_are_offered_and_no_missed_events_are_not() {
        let body = json!({"from_seq": 5, "to_seq": 9, "only": "missing"});
        let answer = |events: u64| json!({"missed": {"events": events, "more": false, "replay": {"body": body}}});
        let query = offered(answer(2)).unwrap().unwrap();
        assert_eq!(query.text(), "only=missing&from_seq=5&to_seq=9&missed=2");
        assert!(offered(answer(0)).unwrap().is_none() && offered(json!({})).unwrap().is_none());
    }
}
