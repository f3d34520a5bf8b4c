//! The analytics of a server that is killed repeatedly equal the counts of a client that reads the whole log from the feed.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use tenantd_base::entropy::Entropy;

use crate::{
    clients::http_client,
    process::{Server, demo, tenantd},
};

const LIVES: usize = 12;
const SEED: u64 = 20_260_815;
const FIGURES: &str = "/api/analytics/tenant?range=24h&bucket=hour&metrics=tickets_created,tickets_resolved,sla_met_percent";
const BY_PRIORITY: &str = "/api/analytics/tenant?range=24h&metrics=tickets_created,tickets_resolved&group_by=priority";

async fn call(server: &Server, method: &str, path: &str, body: Option<(&str, String)>) -> Option<Value> {
    let mut request = http_client().request(method.parse().unwrap(), format!("{}{path}", server.url)).bearer_auth(&server.api_key);
    if let Some((kind, body)) = body {
        request = request.header("content-type", kind).body(body);
    }
    let text = request.send().await.ok()?.text().await.ok()?;
    text.lines().next().and_then(|line| serde_json::from_str(line).ok())
}

/// Creates a ticket, and resolves some.
async fn work(server: &Server, organization: &str, number: u64) {
    let priority = ["critical", "high", "medium", "low"][usize::try_from(number % 4).unwrap()];
    let ticket = json!({"subject": format!("{number}"), "organization_id": organization, "priority": priority}).to_string();
    let Some(made) = call(server, "POST", "/api/psa/tickets", Some(("application/json", ticket))).await else { return };
    if !number.is_multiple_of(3) {
        let done = json!({"status": "resolved", "resolution": {"code": "fixed", "summary": "Done."}}).to_string();
        let path = format!("/api/psa/tickets/{}", made["id"].as_str().unwrap());
        call(server, "PATCH", &path, Some(("application/json", done))).await;
    }
}

/// Counts the events of the log.
async fn recount(server: &Server) -> BTreeMap<(String, String), u64> {
    let (mut counts, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = call(server, "GET", &format!("/api/events?after={after}&limit=200"), None).await.unwrap();
        let events = page["data"].as_array().unwrap();
        for event in events {
            let kind = event["type"].as_str().unwrap();
            if matches!(kind, "ticket.created" | "ticket.resolved") {
                let priority = event["data"]["ticket"]["priority"].as_str().unwrap().to_owned();
                *counts.entry((kind.replace("ticket.", "tickets_"), priority)).or_default() += 1;
            }
        }
        let next = page["next_after"].as_u64().unwrap();
        if events.is_empty() && next == after {
            return counts;
        }
        after = next;
    }
}

#[tokio::test]
async fn analytics_survive_kills_without_errors() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Entropy::from_seed(SEED);
    let mut server = Server::start(demo(tenantd(), directory.path()));
    let line = json!({"kind": "organization", "external_id": "acme", "name": "Acme"}).to_string();
    let made = call(&server, "POST", "/internal/ingest?answer=all", Some(("application/x-ndjson", line))).await.unwrap();
    let organization = made["id"].as_str().unwrap().to_owned();
    let mut number = 0;
    for _ in 0..LIVES {
        let (pid, rounds) = (server.pid(), 1 + random.below(30));
        for _ in 0..rounds {
            number += 4;
            join_all((number..number + 4).map(|number| work(&server, &organization, number))).await;
        }
        // The kill interrupts some of the last requests, and the log reader has processed part of the log.
        let ((), ()) = tokio::join!(work(&server, &organization, number + 4), async {
            drop(call(&server, "GET", FIGURES, None).await);
            kill_process(pid, Signal::KILL).unwrap();
        });
        number += 4;
        server.was_killed();
        server = Server::start(demo(tenantd(), directory.path()));
    }
    let counts = recount(&server).await;
    let happened = counts.values().sum::<u64>() as f64;
    assert!(happened > 100.0, "too little happened: {happened}");
    let report = loop {
        let first = call(&server, "GET", BY_PRIORITY, None).await.unwrap();
        let reported: f64 =
            ["tickets_created", "tickets_resolved"].iter().map(|name| first["totals"][name]["value"].as_f64().unwrap()).sum();
        // The reader never passes the end of the log: equal counts mean that it has read everything.
        assert!(reported <= happened, "more was counted than happened: {reported} of {happened}");
        if reported >= happened {
            break first;
        }
    };
    let mut reported = BTreeMap::new();
    for series in report["series"].as_array().unwrap() {
        let sum: f64 = series["points"].as_array().unwrap().iter().map(|point| point["v"].as_f64().unwrap()).sum();
        let key = (series["metric"].as_str().unwrap().to_owned(), series["group"].as_str().unwrap().to_owned());
        reported.insert(key, sum);
    }
    let expected: BTreeMap<(String, String), f64> = counts.into_iter().map(|(key, count)| (key, count as f64)).collect();
    assert_eq!(reported, expected);
    kill_process(server.pid(), Signal::KILL).unwrap();
    server.was_killed();
}
