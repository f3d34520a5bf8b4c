//! `egress.only_targets`: what is not listed is refused when it is saved and when it is sent, for every feature that connects.

use serde_json::json;
use tenantd_base::clock::Timestamp;

use crate::{
    harness::{Receiver, Setup, TestApp, WEBHOOKS},
    sso::PROVIDERS,
    workflows::Desk,
};

fn setup() -> Setup {
    Setup::default().with("rate_limits.enabled", false)
}

async fn start(directory: tempfile::TempDir, setup: &Setup) -> TestApp {
    TestApp::start(directory, setup, Timestamp::from_millis(1_767_225_600_000)).await
}

#[tokio::test]
async fn only_listed_targets_are_saved_and_contacted() {
    let (listed, other) = (Receiver::always(200).await, Receiver::always(200).await);
    let hook = |url: &str| json!({"name": "Hook", "url": url, "events": ["ticket.created"]});
    let open = start(tempfile::tempdir().unwrap(), &setup()).await;
    let desk = Desk::new(&open, "acme").await;
    let saved = desk.key.post(WEBHOOKS).json(hook(&other.url())).send().await.ok(201)["id"].as_str().unwrap().to_owned();
    let (directory, _) = open.stop().await;

    let only = format!("[\"127.0.0.1:{}\", \"*.example.com:443\"]", listed.port());
    let app = start(directory, &setup().with("egress.only_targets", only)).await;
    let desk = desk.at(&app);
    let key = &desk.key;
    let refused = key.post(WEBHOOKS).json(hook(&other.url())).send().await;
    assert_eq!(refused.problem(422), "target_not_allowed");
    assert_eq!(refused.field_errors(), [("/url".to_owned(), "target_not_allowed".to_owned())]);
    let path = format!("{WEBHOOKS}/{saved}");
    let moved = key.put(&path).json(json!({"url": format!("{}/else", other.url())})).send().await;
    assert_eq!(moved.problem(422), "target_not_allowed");
    assert_eq!(key.post(&format!("{path}/test")).send().await.ok(200)["error"], "blocked", "saved before the list");
    let made = key.post(WEBHOOKS).json(hook(&listed.url())).send().await.ok(201).clone();
    let tested = key.post(&format!("{WEBHOOKS}/{}/test", made["id"].as_str().unwrap())).send().await;
    assert_eq!(tested.ok(200)["status"], 200, "{}", tested.text);

    let provider = |issuer: String| json!({"name": "Acme", "issuer": issuer, "client_id": "tenantd", "client_secret": "change-this-4711", "domains": ["acme.example"]});
    for issuer in
        [format!("http://127.0.0.1:{}", other.port()), "https://id.acme.example".to_owned(), "https://example.com".to_owned()]
    {
        let refused = key.post(PROVIDERS).json(provider(issuer.clone())).send().await;
        assert_eq!(refused.field_errors(), [("/issuer".to_owned(), "target_not_allowed".to_owned())], "{issuer}: {}", refused.text);
    }
    key.post(PROVIDERS).json(provider(format!("http://127.0.0.1:{}", listed.port()))).send().await.ok(201);

    let cloud = json!({"name": "x", "kind": "aws", "config": {"endpoint": format!("http://127.0.0.1:{}/", other.port())},
        "credential": {"access_key_id": "a", "secret_access_key": "b"}});
    let refused = key.post("/api/cloud/providers").json(cloud).send().await;
    assert_eq!(refused.field_errors(), [("/config/endpoint".to_owned(), "target_not_allowed".to_owned())], "{}", refused.text);

    for (name, receiver, status) in [("listed", &listed, "succeeded"), ("other", &other, "failed")] {
        desk.workflow(name, json!([{"id": "call", "type": "http.request", "with": {"url": receiver.url()}}])).await;
        let run = desk.start(name, json!({})).await;
        let ended = desk.status(&run, status).await;
        assert_eq!(ended["error"]["code"] == "http_blocked", status == "failed", "{ended}");
    }
    assert!(other.is_quiet().await, "a target that is not listed was contacted");
    drop(app.stop().await);
}
