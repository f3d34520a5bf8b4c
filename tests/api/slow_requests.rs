//! Requests with slow bodies: rights are checked at their end, and their memory is not taken from other tenants.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Actor, Setup, TestApp, with_setup};

const KEYS: &str = "/api/admin/api-keys";
const TICKETS: &str = "/api/psa/tickets";

/// A request whose body has not been sent yet.
struct Slow(TcpStream);

impl Slow {
    async fn begin(app: &TestApp, key: &str, (path, media): (&str, &str), length: usize) -> Self {
        let mut connection = TcpStream::connect(app.running().addresses.api).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        Self(connection)
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn answer(mut self) -> String {
        let mut answer = Vec::new();
        // A refusal can close the connection before everything was sent.
        drop(self.0.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A key with its record, and an actor that can revoke it.
async fn key(app: &TestApp) -> (Actor, Value) {
    let tenant = app.tenant("acme").await;
    let (_, record) = tenant.new_key("slow", &["*"]).await;
    (tenant.key(&["*"]).await, record)
}

/// Sends other requests until an earlier request no longer counts as new.
#[allow(clippy::disallowed_methods, reason = "the server measures in monotonic time, too")]
async fn until_late(admin: &Actor) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(100) {
        admin.get("/api/auth/session").send().await.ok(200);
    }
}

async fn revoke(admin: &Actor, record: &Value) {
    let revoked = admin.delete(&format!("{KEYS}/{}", record["id"].as_str().unwrap())).send().await;
    assert!([200, 204].contains(&revoked.status), "{}", revoked.text);
}

#[tokio::test]
async fn a_body_of_a_revoked_key_changes_nothing() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let (admin, record) = key(app).await;
        let plaintext = record["key"].as_str().unwrap();
        let body = json!({"name": "heir", "scopes": ["*"]}).to_string();
        let mut slow = Slow::begin(app, plaintext, (KEYS, "application/json"), body.len()).await;
        slow.send(&body[..10]).await;
        until_late(&admin).await;
        revoke(&admin, &record).await;
        slow.send(&body[10..]).await;
        let answer = slow.answer().await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        let page = admin.get(&format!("{KEYS}?limit=200")).send().await.ok(200).clone();
        assert!(page["data"].as_array().unwrap().iter().all(|key| key["name"] != "heir"));
    })
    .await;
}

#[tokio::test]
async fn revoking_a_key_ends_its_import() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let (admin, record) = key(app).await;
        let line =
            |number: usize| format!("{}\n", json!({"kind": "organization", "external_id": format!("o{number}"), "name": "O"}));
        let path = ("/internal/ingest?answer=errors", "application/x-ndjson");
        let mut slow = Slow::begin(app, record["key"].as_str().unwrap(), path, 100_000).await;
        slow.send(&line(1)).await;
        let created = async || {
            let feed = admin.get("/api/events?types=organization.created").send().await.ok(200).clone();
            feed["data"].as_array().unwrap().len()
        };
        let first = async { while created().await == 0 {} };
        tokio::time::timeout(Duration::from_mins(1), first).await.unwrap();
        until_late(&admin).await;
        revoke(&admin, &record).await;
        slow.send(&line(2)).await;
        let answer = slow.answer().await;
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.ends_with("0\r\n\r\n"), "it breaks off: {answer}");
        assert_eq!(created().await, 1, "the second line came too late");
    })
    .await;
}

#[tokio::test]
async fn slow_bodies_do_not_block_other_tenants() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("limits.buffered_body_bytes", 1 << 20);
    with_setup(setup, async |app| {
        let (_, record) = key(app).await;
        let other = app.tenant("other").await;
        let (organization, other) = (other.organization("Other").await, other.key(&["tickets:*"]).await);
        let mut held = Vec::new();
        for _ in 0..40 {
            let plaintext = record["key"].as_str().unwrap();
            let mut slow = Slow::begin(app, plaintext, (TICKETS, "application/json"), 60_001).await;
            slow.send(&" ".repeat(60_000)).await;
            held.push(slow);
            let ticket = json!({"subject": "A", "organization_id": organization, "description": "x".repeat(50_000)});
            other.post(TICKETS).json(ticket).send().await.ok(201);
        }
        let answers = futures_util::future::join_all(held.into_iter().map(|mut slow| async move {
            slow.send("x").await;
            slow.answer().await
        }));
        let refused = answers.await.iter().filter(|answer| answer.starts_with("HTTP/1.1 503")).count();
        assert!(refused > 30, "{refused} were refused");
    })
    .await;
}
