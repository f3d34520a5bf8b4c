//! A canary in every secret of webhook endpoints and cloud providers. The test searches for it in all output of a server: every
//! GET, the log at the level `trace`, its files and a snapshot. Only the deliveries themselves may contain one.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
};

use data_encoding::BASE64;
use reqwest::{Client, Method};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::process::{Server, demo, tenantd};

const WEBHOOKS: &str = "/api/admin/webhooks";
const PROVIDERS: &str = "/api/cloud/providers";
/// The secrets of credentials. One of them is in the response of a cloud that echoes its requests.
const CREDENTIALS: [&str; 3] = ["canary-secret-access-key", "canary-session-token", "canary-of-the-user-data"];
const HEADERS: [&str; 2] = ["canary-of-the-first-header", "Bearer canary-of-the-second-header"];

/// Echoes every request, like a receiver during development.
async fn echo(mut stream: TcpStream, heard: Arc<Mutex<String>>) {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse::<usize>().unwrap() {
            heard.lock().unwrap().push_str(head);
            let status = if text.contains("/failing") { "500 Broken" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            bytes.clear();
        }
    }
}

/// A server that logs everything.
struct Talkative {
    child: Child,
    log: Option<JoinHandle<String>>,
    url: String,
}

impl Talkative {
    fn start(directory: &Path) -> Self {
        let mut command = tenantd();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory);
        command.env("TENANTD_TELEMETRY__LOG_LEVEL", "trace").env("TENANTD_TELEMETRY__LOG_FORMAT", "json");
        command.env("TENANTD_LISTEN__TLS", "false").env("TENANTD_RATE_LIMITS__ENABLED", "false");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, received) = mpsc::channel();
        // The pipe must be read, or the server blocks.
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            while let Some(Ok(line)) = lines.next() {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                if event["message"] == "ready" {
                    sender.send(event["address"].as_str().unwrap().to_owned()).unwrap();
                }
                log.push_str(&line);
                log.push('\n');
            }
            log
        });
        let address = received.recv().unwrap();
        Self { child, log: Some(log), url: format!("http://{address}") }
    }

    /// Shuts down the server and returns its log.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.log.take().unwrap().join().unwrap()
    }
}

impl Drop for Talkative {
    fn drop(&mut self) {
        // After `stop` the process is gone, which is not an error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends requests and stores all responses to GET.
struct Reader {
    client: Client,
    server: String,
    key: String,
    sent: u32,
    said: Vec<(String, Vec<u8>)>,
}

impl Reader {
    async fn send(&mut self, method: Method, path: &str, body: Option<Value>) -> Value {
        self.sent += 1;
        let mut request = self.client.request(method, format!("{}{path}", self.server)).bearer_auth(&self.key);
        // The response to a request with such a key is stored.
        request = request.header("idempotency-key", format!("canary-{}", self.sent));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn get(&mut self, path: &str) -> Value {
        let response = self.client.get(format!("{}{path}", self.server)).bearer_auth(&self.key).send().await.unwrap();
        let bytes = response.bytes().await.unwrap().to_vec();
        let value = serde_json::from_slice(&bytes).unwrap_or_default();
        self.said.push((format!("GET {path}"), bytes));
        value
    }

    /// Sends every GET of the document. Path parameters are taken from the list before.
    async fn get_all(&mut self) {
        let document = self.get("/api/openapi.json").await;
        let paths: Vec<String> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, item)| item.get("get").is_some())
            .map(|(path, _)| path.clone())
            .collect();
        assert!(paths.len() > 20, "{paths:?}");
        for template in paths {
            let mut places = vec![String::new()];
            for part in template.split('/').skip(1) {
                let mut next = Vec::new();
                for place in places {
                    if !part.starts_with('{') {
                        next.push(format!("{place}/{part}"));
                        continue;
                    }
                    let list = self.get(&place).await;
                    let ids = list["data"].as_array().into_iter().flatten().filter_map(|record| record["id"].as_str());
                    next.extend(ids.map(|id| format!("{place}/{id}")));
                }
                places = next;
            }
            for place in places {
                self.get(&place).await;
            }
        }
        for path in
            ["/api/events?limit=200", "/api/psa/tickets?format=ndjson", "/api/psa/tickets?format=csv", "/status/", "/metrics"]
        {
            self.get(path).await;
        }
    }
}

fn files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Creates providers with secrets, one of which echoes requests for its VMs, and an order with user data.
async fn order_from_clouds(reader: &mut Reader, echoing: &str) {
    let credential = json!({"access_key_id": "AKIACANARY", "secret_access_key": CREDENTIALS[0], "session_token": CREDENTIALS[1]});
    let body = json!({"name": "Echoing cloud", "kind": "aws", "config": {"endpoint": format!("{echoing}/failing")}, "credential": credential});
    let created = reader.send(Method::POST, PROVIDERS, Some(body)).await;
    assert_ne!(created["status"], "verified", "{created}");
    reader.send(Method::POST, PROVIDERS, Some(json!({"action": "verify", "id": created["id"]}))).await;
    let simulated = reader.send(Method::POST, PROVIDERS, Some(json!({"name": "Canary cloud", "kind": "simulated"}))).await;
    let order = json!({"provider_id": simulated["id"], "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13", "user_data": CREDENTIALS[2]});
    let order = reader.send(Method::POST, "/api/cloud/vms", Some(order)).await;
    reader.get(&format!("/api/operations/{}?wait_seconds=10", order["operation"]["id"].as_str().unwrap())).await;
}

#[tokio::test]
async fn endpoint_secrets_appear_in_deliveries_only() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let directory = tempfile::tempdir().unwrap();
    let evaluation = Server::start(demo(tenantd(), directory.path()));
    let key = evaluation.api_key.clone();
    kill_process(evaluation.pid(), Signal::TERM).unwrap();
    assert!(evaluation.wait().0.success());
    let server = Talkative::start(directory.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver = format!("http://{}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(String::new()));
    let hearing = heard.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream, hearing.clone()));
        }
    });
    let client = Client::builder().no_proxy().build().unwrap();
    let mut reader = Reader { client, server: server.url.clone(), key, sent: 0, said: Vec::new() };
    let mut secrets = Vec::new();
    for place in ["well", "failing"] {
        let body = json!({"name": "Canary endpoint", "url": format!("{receiver}/{place}"), "events": ["*"], "headers": {"X-Token": HEADERS[0]}});
        let created = reader.send(Method::POST, WEBHOOKS, Some(body)).await;
        let path = format!("{WEBHOOKS}/{}", created["id"].as_str().unwrap());
        reader.send(Method::POST, &format!("{path}/test"), None).await;
        reader.send(Method::PUT, &path, Some(json!({"headers": {"Authorization": HEADERS[1]}}))).await;
        let rotated = reader.send(Method::POST, &format!("{path}/rotate-secret"), Some(json!({}))).await;
        let tested = reader.send(Method::POST, &format!("{path}/test"), None).await;
        assert!(tested["response_body"].as_str().unwrap().contains("****"), "{tested}");
        secrets.extend([created, rotated].map(|shown| shown["secret"].as_str().unwrap().to_owned()));
    }
    order_from_clouds(&mut reader, &receiver).await;
    let received = HEADERS.iter().all(|canary| heard.lock().unwrap().contains(canary));
    assert!(received, "the receiver did not get the headers");
    reader.get_all().await;
    let snapshot = directory.path().join("snapshot").display().to_string();
    let backup = tenantd().args(["backup", &snapshot, "--data-dir"]).arg(directory.path()).output().unwrap();
    assert!(backup.status.success());
    let log = server.stop();
    assert!(log.contains("rotate_webhook_secret"), "the log tells little: {log}");
    let mut found = std::mem::take(&mut reader.said);
    assert!(found.iter().any(|(path, bytes)| path.contains("/deliveries/") && holds(bytes, b"****")), "no attempt was read");
    found.push(("the log".to_owned(), log.into_bytes()));
    files(directory.path(), &mut found);
    let in_store = found.iter().any(|(name, bytes)| name.ends_with("tenantd.redb") && holds(bytes, b"Canary endpoint"));
    assert!(in_store, "the search works: what is no secret is found");
    for (name, bytes) in &found {
        for secret in HEADERS.into_iter().chain(CREDENTIALS) {
            assert!(!holds(bytes, secret.as_bytes()), "{name} holds {secret}");
        }
        for secret in &secrets {
            let text = secret.strip_prefix("whsec_").unwrap();
            let raw = BASE64.decode(text.as_bytes()).unwrap();
            assert!(!holds(bytes, text.as_bytes()) && !holds(bytes, &raw), "{name} holds a signing secret");
        }
    }
    println!("{} answers and files searched", found.len());
}
