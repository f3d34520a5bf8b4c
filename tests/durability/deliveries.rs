//! The real binary, killed repeatedly under load while a webhook receiver keeps running: every acknowledged ticket is received, no
//! uncommitted one is, and a duplicate has the same id and bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use tenantd_base::entropy::Entropy;

use crate::{
    books::Caller,
    clients::http_client,
    process::{Server, demo, tenantd},
};

const KILLS: u64 = 40;
const CLIENTS: u64 = 8;
/// The latest moment of a kill, in acknowledged tickets of one life.
const LATEST: u64 = 60;
const SEED: u64 = 20_260_214;
/// One of this many events is refused the first time.
const REFUSED: u64 = 16;
const TICKETS: &str = "/api/psa/tickets";
const WEBHOOKS: &str = "/api/admin/webhooks";

/// The deliveries of one `webhook-id`.
struct Heard {
    body: String,
    times: u64,
}

/// A receiver that outlives the servers.
#[derive(Default)]
struct Receiver {
    heard: Mutex<BTreeMap<String, Heard>>,
    /// Incorrect deliveries.
    faults: Mutex<Vec<String>>,
    news: Notify,
}

impl Receiver {
    async fn start() -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (receiver, address) = (Arc::new(Self::default()), listener.local_addr().unwrap());
        let hearing = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, hearing.clone()));
            }
        });
        (receiver, address)
    }

    fn ids(&self) -> BTreeSet<String> {
        self.heard.lock().unwrap().keys().cloned().collect()
    }

    /// Records a delivery and returns the status of the response.
    fn hear(&self, id: &str, body: &str) -> &'static str {
        let event: Value = serde_json::from_str(body).unwrap_or_default();
        let mut heard = self.heard.lock().unwrap();
        let known = heard.entry(id.to_owned()).or_insert(Heard { body: body.to_owned(), times: 0 });
        known.times += 1;
        if known.body != body || event["id"] != id {
            self.faults.lock().unwrap().push(format!("{id} came with {body} and with {}", known.body));
        }
        if known.times == 1 && is_refused(&event) { "503 Later" } else { "200 OK" }
    }
}

fn is_refused(event: &Value) -> bool {
    event["seq"].as_u64().is_some_and(|seq| seq % REFUSED == 0)
}

/// Responds until the connection ends, which a kill can cause at any byte.
async fn serve(mut stream: TcpStream, receiver: Arc<Receiver>) {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap();
        if body.len() < header("content-length").parse().unwrap() {
            continue;
        }
        let status = receiver.hear(header("webhook-id"), body);
        if stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.is_err() {
            return;
        }
        bytes.clear();
        receiver.news.notify_one();
    }
}

fn start(directory: &Path) -> Server {
    Server::start(demo(tenantd(), directory))
}

/// One life of the server: clients create tickets until it is killed. Returns the acknowledged ids.
async fn live(caller: &Caller, server: &Server, organization: &str, life: u64, at: u64) -> Vec<String> {
    let (pid, acknowledged) = (server.pid(), AtomicU64::new(0));
    let clients = (0..CLIENTS).map(|client| {
        let acknowledged = &acknowledged;
        async move {
            let mut created = Vec::new();
            loop {
                let subject = format!("life {life}, client {client}, ticket {}", created.len());
                let body = json!({"subject": subject, "organization_id": organization});
                let Ok(answer) = caller.send(Method::POST, TICKETS, "", Some(&body)).await else { return created };
                assert!(answer.status.is_success(), "{}", answer.body);
                created.push(answer.body["id"].as_str().unwrap().to_owned());
                if acknowledged.fetch_add(1, Ordering::SeqCst) + 1 == at {
                    kill_process(pid, Signal::KILL).unwrap();
                }
            }
        }
    });
    join_all(clients).await.concat()
}

/// The created tickets in the log, by the ids of their events.
async fn logged(caller: &Caller) -> BTreeMap<String, String> {
    let (mut events, mut after) = (BTreeMap::new(), 0);
    loop {
        let page = caller.get(&format!("/api/events?types=ticket.created&limit=200&after={after}")).await;
        for event in page["data"].as_array().unwrap() {
            events.insert(event["id"].as_str().unwrap().to_owned(), event["resource"]["id"].as_str().unwrap().to_owned());
        }
        after = page["next_after"].as_u64().unwrap();
        if page["more"] == false {
            return events;
        }
    }
}

/// Creates an organization for tickets.
async fn organization(caller: &Caller, directory: &Path) -> String {
    let file = directory.join("organizations.ndjson");
    std::fs::write(&file, "{\"external_id\":\"acme\",\"name\":\"Acme\"}\n").unwrap();
    let mut import = tenantd();
    import.arg("import").arg(&file).args(["--kind", "organization", "--tenant", "demo", "--data-dir"]).arg(directory);
    assert!(import.output().unwrap().status.success());
    let feed = caller.get("/api/events?types=organization.created&limit=200").await;
    feed["data"].as_array().unwrap().last().unwrap()["resource"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "an attempt must last for a while")]
async fn interrupted_deliveries_are_resent_with_the_same_id() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut command = demo(tenantd(), directory.path());
    command.env("TENANTD_WEBHOOKS__SHUTDOWN_SECONDS", "0");
    let server = Server::start(command);
    let caller = Caller::new(&http_client(), &server);
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let body = json!({"name": "Silent", "url": url, "events": ["webhook.created"], "timeout_seconds": 60});
    let endpoint = caller.send(Method::POST, WEBHOOKS, "", Some(&body)).await.unwrap().body;
    let other = json!({"name": "Other", "url": "https://192.0.43.8/", "events": ["ticket.created"]});
    caller.send(Method::POST, WEBHOOKS, "", Some(&other)).await.unwrap();
    // Reads a request and does not respond.
    let take = async || {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"}}}") {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0);
        }
        let text = String::from_utf8(bytes).unwrap();
        let id = text.lines().find_map(|line| line.strip_prefix("webhook-id: ")).unwrap().to_owned();
        (stream, id, text.split_once("\r\n\r\n").unwrap().1.to_owned())
    };
    let (first, id, body) = take().await;
    // An attempt is stored only if it takes a while.
    let (path, taken) = (format!("{WEBHOOKS}/{}/deliveries", endpoint["id"].as_str().unwrap()), Instant::now());
    while taken.elapsed() < Duration::from_secs(1) {
        assert_eq!(caller.get(&path).await["data"], json!([]), "nothing came of it yet");
    }
    kill_process(server.pid(), Signal::TERM).unwrap();
    let (status, output) = server.wait();
    assert!(status.success(), "{output}");
    drop(first);
    let server = start(directory.path());
    let (_again, second_id, second_body) = take().await;
    assert_eq!((id, body), (second_id, second_body));
    let caller = Caller::new(&http_client(), &server);
    let delivery = caller.get(&path).await["data"][0]["id"].as_str().unwrap().to_owned();
    let attempts = caller.get(&format!("{path}/{delivery}")).await["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1);
    assert_eq!((&attempts[0]["error"], &attempts[0]["decision"]), (&json!("interrupted"), &json!("retry")));
    drop(server);
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the report says how long it took")]
async fn kills_lose_no_delivery_of_an_acknowledged_ticket() {
    let (directory, client, started) = (tempfile::tempdir().unwrap(), http_client(), Instant::now());
    let (mut random, (receiver, address)) = (Entropy::from_seed(SEED), Receiver::start().await);
    let mut server = start(directory.path());
    let caller = Caller::new(&client, &server);
    let organization = organization(&caller, directory.path()).await;
    let body = json!({"name": "Witness", "url": format!("http://{address}/"), "events": ["ticket.created"], "retry": "fast"});
    let endpoint = caller.send(Method::POST, WEBHOOKS, "", Some(&body)).await.unwrap().body;
    let mut acknowledged = BTreeSet::new();
    for life in 1..=KILLS {
        let caller = Caller::new(&client, &server);
        acknowledged.extend(live(&caller, &server, &organization, life, 1 + random.below(LATEST)).await);
        server.was_killed();
        server = start(directory.path());
    }
    let caller = Caller::new(&client, &server);
    let logged = logged(&caller).await;
    let committed: BTreeSet<String> = logged.keys().cloned().collect();
    let opened: BTreeSet<&String> = logged.values().collect();
    assert_eq!(opened.len(), logged.len(), "a ticket was opened twice");
    assert!(acknowledged.iter().all(|ticket| opened.contains(ticket)), "an acknowledged ticket is not in the log");
    let all = async {
        while receiver.ids() != committed {
            let foreign: Vec<String> = receiver.ids().difference(&committed).cloned().collect();
            assert!(foreign.is_empty(), "events were received that did not commit: {foreign:?}");
            receiver.news.notified().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), all).await;
    let missing = committed.difference(&receiver.ids()).count();
    waited.unwrap_or_else(|_| panic!("{missing} of {} events were not received", committed.len()));
    // Refused deliveries are retried, and then nothing is left to send.
    let path = format!("{WEBHOOKS}/{}", endpoint["id"].as_str().unwrap());
    let settled = async { while caller.get(&path).await["health"]["pending"] != 0 {} };
    tokio::time::timeout(Duration::from_mins(1), settled).await.expect("deliveries wait for ever");
    assert_eq!(*receiver.faults.lock().unwrap(), [""; 0]);
    let heard = receiver.heard.lock().unwrap();
    let repeated = heard.values().filter(|heard| heard.times > 1).count();
    let refused = heard.values().filter(|heard| is_refused(&serde_json::from_str(&heard.body).unwrap()));
    assert!(refused.clone().all(|heard| heard.times > 1), "what was refused did not come again");
    println!(
        "{KILLS} kills in {:?}: {} tickets acknowledged, {} in the log, all received; {repeated} came more than once, {} of them refused at first",
        started.elapsed(),
        acknowledged.len(),
        committed.len(),
        refused.count(),
    );
}
