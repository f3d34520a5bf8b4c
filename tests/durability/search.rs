//! The index of a server that is killed repeatedly: every acknowledged document is found once, with its latest name.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use tenantd_base::entropy::Entropy;

use crate::{
    clients::http_client,
    process::{Server, demo, tenantd},
};

const LIVES: usize = 8;
const DEVICES: u64 = 60;
const SEED: u64 = 20_260_412;

async fn send(server: &Server, lines: &[Value]) -> bool {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let request = http_client().post(format!("{}/internal/ingest", server.url)).bearer_auth(&server.api_key);
    match request.header("content-type", "application/x-ndjson").body(body).send().await {
        Ok(response) => response.text().await.is_ok_and(|text| text.contains("_end")),
        Err(_) => false,
    }
}

async fn found(server: &Server, q: &str) -> Value {
    loop {
        let request = http_client().get(format!("{}/api/search?limit=100&q={q}", server.url)).bearer_auth(&server.api_key);
        let response = request.send().await.unwrap();
        // The server reports this while it opens or builds the index.
        if response.status() == 503 {
            continue;
        }
        return serde_json::from_str(&response.text().await.unwrap()).unwrap();
    }
}

fn device(id: u64, name: &str) -> Value {
    json!({"kind": "device", "external_id": format!("d{id}"), "name": name, "organization_external_id": "acme"})
}

#[tokio::test]
async fn a_kill_while_indexing_loses_no_hit() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Entropy::from_seed(SEED);
    let mut server = Server::start(demo(tenantd(), directory.path()));
    assert!(send(&server, &[json!({"kind": "organization", "external_id": "acme", "name": "Acme"})]).await);
    let mut known: Vec<Option<String>> = vec![None; usize::try_from(DEVICES).unwrap()];
    for life in 0..LIVES {
        let kill_after = random.below(40);
        for round in 0..=kill_after {
            let id = random.below(DEVICES);
            let name = format!("quokka{life}x{round}");
            assert!(send(&server, &[device(id, &name)]).await);
            known[usize::try_from(id).unwrap()] = Some(name.clone());
            if random.below(4) == 0 {
                assert_eq!(found(&server, &name).await["page"]["total"], 1);
            }
        }
        // A large batch keeps the index busy during the kill.
        let batch: Vec<Value> = (0..500).map(|number| device(1_000 + number, &format!("wombat{number}"))).collect();
        let pid = server.pid();
        if random.below(2) == 0 {
            assert!(send(&server, &batch).await);
        }
        kill_process(pid, Signal::KILL).unwrap();
        server.was_killed();
        server = Server::start(demo(tenantd(), directory.path()));
        for name in known.iter().flatten() {
            let answer = found(&server, name).await;
            assert_eq!((&answer["page"]["total"], &answer["data"][0]["title"]), (&json!(1), &json!(name)), "life {life}");
        }
        let expected = known.iter().flatten().count();
        assert_eq!(found(&server, "quokka*").await["page"]["total"], expected, "old names are gone, life {life}");
    }
    kill_process(server.pid(), Signal::KILL).unwrap();
    server.was_killed();
}
