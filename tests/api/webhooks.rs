//! Webhook endpoints: their fields, their secret, and access.

use data_encoding::BASE64;
use serde_json::json;
use standardwebhooks::Webhook as Verifier;

use crate::harness::{Received, Receiver, Script, Setup, TestApp, with_app};

const PATH: &str = "/api/admin/webhooks";

fn verify(secret: &str, received: &Received) -> Result<(), String> {
    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, received.header(name).parse().unwrap());
    }
    let verifier = Verifier::new(secret).unwrap();
    verifier.verify(received.body.as_bytes(), &headers).map_err(|error| error.to_string())
}

/// Replaces the letter at this position with another of the same kind.
fn flip(text: &str, place: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes[place] ^= 1;
    String::from_utf8(bytes).unwrap()
}

/// A changed bit of the body, id, time or secret makes a delivery invalid.
fn refuse_forgeries(secret: &str, received: &Received) {
    for place in (0..received.body.len()).step_by(7) {
        let forged = Received { body: flip(&received.body, place), ..received.clone() };
        verify(secret, &forged).unwrap_err();
    }
    for name in ["webhook-id", "webhook-timestamp"] {
        let mut forged = received.clone();
        let value = flip(received.header(name), received.header(name).len() - 1);
        forged.headers.insert(name.to_owned(), value);
        verify(secret, &forged).unwrap_err();
    }
    let mut key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
    key[31] ^= 1;
    verify(&format!("whsec_{}", BASE64.encode(&key)), received).unwrap_err();
}

#[tokio::test]
async fn an_endpoint_is_created_read_changed_and_deleted() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let body = json!({"name": "Chat", "url": "https://hooks.example.com/a?b=c", "events": ["api_key.created", "webhook.*"]});
        let created = admin.post(PATH).json(body).send().await;
        let webhook = created.ok(201).clone();
        assert_eq!(created.header("cache-control"), "no-store");
        assert_eq!(webhook["secret"].as_str().unwrap().len(), "whsec_".len() + 44);
        assert_eq!(webhook["status"], "active");
        assert_eq!(
            (&webhook["timeout_seconds"], &webhook["retry"], &webhook["ordering"]),
            (&json!(20), &json!("standard"), &json!("none"))
        );
        let path = format!("{PATH}/{}", webhook["id"].as_str().unwrap());
        assert_eq!(created.header("location"), path);
        let read = admin.get(&path).send().await;
        assert!(read.ok(200).get("secret").is_none() && read.body["secret_hint"].as_str().unwrap().starts_with("whsec_"));
        assert_eq!(read.header("etag"), "\"v1\"");
        let change = json!({"id": webhook["id"], "events": ["*"], "timeout_seconds": 5, "description": "room"});
        let changed = admin.put(PATH).header("if-match", "\"v1\"").json(change).send().await;
        assert_eq!((&changed.ok(200)["timeout_seconds"], &changed.body["version"]), (&json!(5), &json!(2)));
        let stale = admin.put(&path).header("if-match", "\"v1\"").json(json!({"name": "x"})).send().await;
        assert_eq!(stale.problem(412), "version_conflict");
        let listed = admin.get(&format!("{PATH}?include_total=true&status=active")).send().await;
        assert_eq!((&listed.ok(200)["page"]["total"], &listed.body["data"][0]["name"]), (&json!(1), &json!("Chat")));
        admin.delete(&format!("{PATH}?id={}", webhook["id"].as_str().unwrap())).send().await.ok(204);
        assert_eq!(admin.get(&path).send().await.problem(404), "not_found");
        let feed = admin.get("/api/events?types=webhook.*").send().await;
        let kinds: Vec<&str> =
            feed.ok(200)["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["webhook.created", "webhook.updated", "webhook.deleted"]);
        assert!(!feed.text.contains(webhook["secret"].as_str().unwrap()));
    })
    .await;
}

#[tokio::test]
async fn all_errors_are_reported_at_once() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let create = async |body: serde_json::Value| admin.post(PATH).json(body).send().await;
        let wrong = create(json!({
            "name": "x", "url": "ftp://example.com/", "events": ["*"], "headers": {"Host": "a", "Webhook-Id": "b", "x-ok": "c"},
            "ca_certificate_pem": "nothing"
        }))
        .await;
        assert_eq!(wrong.problem(422), "validation_failed");
        let pointers: Vec<String> = wrong.field_errors().into_iter().map(|(place, _)| place).collect();
        assert_eq!(pointers, ["/ca_certificate_pem", "/headers", "/headers", "/url"]);
        let unknown = create(json!({"name": "x", "url": "https://example.com/", "events": ["*", "api_key.creatd"]})).await;
        assert_eq!(unknown.problem(422), "validation_failed");
        assert_eq!(unknown.body["errors"][0]["pointer"], "/events/1");
        assert_eq!(unknown.body["errors"][0]["suggestion"], "api_key.created");
        for url in ["https://user:pass@example.com/", "https://example.com/#part", "//example.com", "https://"] {
            let reply = create(json!({"name": "x", "url": url, "events": ["*"]})).await;
            assert_eq!(reply.field_errors(), [("/url".to_owned(), "wrong_form".to_owned())], "{url}");
        }
        for url in ["http://127.0.0.1/", "http://[::1]:80/", "http://169.254.169.254/latest", "http://10.0.0.1/", "http://0x7f.1/"]
        {
            let reply = create(json!({"name": "x", "url": url, "events": ["*"]})).await;
            assert_eq!(reply.problem(422), "target_not_allowed", "{url}");
            assert!(!reply.text.contains("loopback") && !reply.text.contains("private"), "{}", reply.text);
        }
        assert_eq!(create(json!({"name": "", "url": "https://example.com/", "events": []})).await.field_errors().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn filters_with_unknown_names_are_refused() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let (north, foreign) = (acme.organization("North").await, globex.organization("South").await);
        let admin = acme.key(&["*"]).await;
        let (_, robot) = acme.new_key("robot", &["*"]).await;
        let filter = json!({
            "organization_ids": [north, foreign, "org_x"],
            "priorities": ["high", "hihg", "urgent"],
            "exclude_actor_ids": [robot["id"], "zzz", "usr_01k9z7w3v5e8g9m2n4p6r8t0x1", "key_1", "system", "wfl_01k9z7w3v5e8g9m2n4p6r8t0x1"],
        });
        let body = json!({"name": "x", "url": "ftp://example.com/", "events": ["tickets.*"], "filter": filter});
        let found = |places: &[(&str, &str)]| -> Vec<(String, String)> {
            places.iter().map(|(place, code)| ((*place).to_owned(), (*code).to_owned())).collect()
        };
        let in_filter = [
            ("/filter/exclude_actor_ids/1", "wrong_form"),
            ("/filter/exclude_actor_ids/2", "unknown_reference"),
            ("/filter/exclude_actor_ids/3", "wrong_form"),
            ("/filter/exclude_actor_ids/5", "unknown_reference"),
            ("/filter/organization_ids/1", "unknown_reference"),
            ("/filter/organization_ids/2", "wrong_form"),
            ("/filter/priorities/1", "not_allowed"),
            ("/filter/priorities/2", "not_allowed"),
        ];
        let refused = admin.post(PATH).json(body).send().await;
        assert_eq!(refused.problem(422), "validation_failed");
        let all = [&[("/events/0", "unknown_event")][..], &in_filter[..], &[("/url", "wrong_form")]].concat();
        assert_eq!(refused.field_errors(), found(&all));
        let errors = refused.body["errors"].as_array().unwrap();
        let at = |place: &str| errors.iter().find(|error| error["pointer"] == place).unwrap();
        assert_eq!(at("/events/0")["suggestion"], "ticket.*");
        let typo = at("/filter/priorities/1");
        assert_eq!((&typo["suggestion"], &typo["allowed"]), (&json!("high"), &json!(["critical", "high", "medium", "low"])));
        assert!(at("/filter/priorities/2").get("suggestion").is_none());
        let right = json!({"organization_ids": [north], "priorities": ["low"], "exclude_actor_ids": [robot["id"], "local_operator"]});
        let body = json!({"name": "x", "url": "https://example.com/", "events": ["ticket.*"], "filter": right});
        let created = admin.post(PATH).json(body).send().await.ok(201).clone();
        let path = format!("{PATH}/{}", created["id"].as_str().unwrap());
        let changed = admin.put(&path).json(json!({"filter": filter})).send().await;
        assert_eq!(changed.field_errors(), found(&in_filter));
        assert_eq!(admin.get(&path).send().await.ok(200)["filter"], right);
    })
    .await;
}

#[tokio::test]
async fn tenants_do_not_see_each_other_s_endpoints() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let admin = acme.key(&["*"]).await;
        let stranger = globex.key(&["*"]).await;
        let body = json!({"name": "Chat", "url": "https://hooks.example.com/", "events": ["*"]});
        let id = admin.post(PATH).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        for operation in ["", "/deliveries", "/stats"] {
            assert_eq!(stranger.get(&format!("{PATH}/{id}{operation}")).send().await.problem(404), "not_found");
        }
        for operation in ["/test", "/pause", "/resume", "/enable", "/rotate-secret"] {
            assert_eq!(stranger.post(&format!("{PATH}/{id}{operation}")).send().await.problem(404), "not_found", "{operation}");
        }
        assert_eq!(stranger.delete(&format!("{PATH}/{id}")).send().await.problem(404), "not_found");
        assert_eq!(stranger.get(PATH).send().await.ok(200)["data"], json!([]));
    })
    .await;
}

async fn rotation(app: &TestApp) {
    let receiver = Receiver::always(204).await;
    let acme = app.evaluation_tenant("acme").await;
    let admin = acme.admin().await;
    let body = json!({"name": "Chat", "url": receiver.url(), "events": ["api_key.*"], "headers": {"X-Token": "canary-header"}});
    let webhook = admin.post(PATH).json(body).send().await.ok(201).clone();
    let first = webhook["secret"].as_str().unwrap().to_owned();
    let path = format!("{PATH}/{}", webhook["id"].as_str().unwrap());
    acme.new_key("one", &["*"]).await;
    let received = receiver.next().await;
    assert_eq!(received.header("x-token"), "canary-header");
    assert_eq!(received.header("content-type"), "application/json");
    assert!(received.header("user-agent").starts_with("tenantd/"));
    assert_eq!(received.header("webhook-id"), received.json()["id"].as_str().unwrap());
    verify(&first, &received).unwrap();
    refuse_forgeries(&first, &received);
    let rotate = admin.post(&format!("{path}/rotate-secret")).json(json!({"grace_seconds": 60})).send().await;
    let second = rotate.ok(200)["secret"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    acme.new_key("two", &["*"]).await;
    let received = receiver.next().await;
    assert_eq!(received.header("webhook-signature").split(' ').count(), 2);
    verify(&first, &received).unwrap();
    verify(&second, &received).unwrap();
    refuse_forgeries(&first, &received);
    refuse_forgeries(&second, &received);
    app.advance(std::time::Duration::from_mins(1));
    acme.new_key("three", &["*"]).await;
    let received = receiver.next().await;
    assert_eq!(received.header("webhook-signature").split(' ').count(), 1);
    verify(&first, &received).unwrap_err();
    verify(&second, &received).unwrap();
    for path in [path.clone(), PATH.to_owned(), format!("{path}/deliveries"), "/api/events?limit=200".to_owned()] {
        let shown = admin.get(&path).send().await.text;
        for secret in [first.as_str(), second.as_str(), "canary-header"] {
            assert!(!shown.contains(secret), "{path} shows a secret");
        }
    }
}

#[tokio::test]
async fn signatures_verify_with_the_official_library() {
    // The library compares the time of a delivery with the system clock.
    let now = tenantd_base::clock::Clock::System.now();
    let app = TestApp::start(tempfile::tempdir().unwrap(), &Setup::default().with("rate_limits.enabled", false), now).await;
    rotation(&app).await;
    drop(app.stop().await);
}

#[tokio::test]
async fn a_test_sends_immediately_and_returns_the_response() {
    with_app(async |app| {
        let receiver = Receiver::start(|number, _| if number == 0 { Script::status(200) } else { Script::status(503) }).await;
        let acme = app.evaluation_tenant("acme").await;
        let admin = acme.admin().await;
        let body = json!({"name": "Chat", "url": receiver.url(), "events": ["*"]});
        let id = admin.post(PATH).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let attempt = admin.post(&format!("{PATH}/{id}/test")).send().await.ok(200).clone();
        assert_eq!(
            (&attempt["trigger"], &attempt["status"], &attempt["decision"]),
            (&json!("test"), &json!(200), &json!("delivered"))
        );
        assert_eq!((&attempt["succeeded"], &attempt["message"]), (&json!(true), &json!("The receiver answered 200.")));
        assert_eq!((&attempt["remote_ip"], &attempt["response_body"]), (&json!("127.0.0.1"), &json!("ok")));
        assert_eq!(receiver.next().await.json()["type"], "webhook.test");
        let failed = admin.post(&format!("{PATH}/{id}/test")).send().await.ok(200).clone();
        assert_eq!((&failed["status"], &failed["decision"], &failed["succeeded"]), (&json!(503), &json!("failed"), &json!(false)));
        assert_eq!(failed["message"], "The receiver answered 503. Only a status from 200 to 299 is a success.");
        assert_eq!(failed["response_body"], "ok");
        let health = admin.get(&format!("{PATH}/{id}")).send().await.ok(200)["health"].clone();
        assert_eq!((&health["state"], &health["pending"]), (&json!("healthy"), &json!(0)));
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        admin.put(&format!("{PATH}/{id}")).json(json!({"url": format!("http://{closed}/")})).send().await.ok(200);
        let unreached = admin.post(&format!("{PATH}/{id}/test")).send().await.ok(200).clone();
        assert_eq!((&unreached["succeeded"], &unreached["error"]), (&json!(false), &json!("connect")));
        assert!(unreached["message"].as_str().unwrap().contains("could not connect"), "{unreached}");
    })
    .await;
}

#[tokio::test]
async fn a_tenant_has_at_most_a_hundred_endpoints() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        for number in 0..100 {
            let body = json!({"name": format!("{number}"), "url": "https://hooks.example.com/", "events": ["*"]});
            admin.post(PATH).json(body).send().await.ok(201);
        }
        let body = json!({"name": "more", "url": "https://hooks.example.com/", "events": ["*"]});
        assert_eq!(admin.post(PATH).json(body).send().await.problem(422), "limit_reached");
        let first = admin.get(&format!("{PATH}?limit=60")).send().await.ok(200).clone();
        let cursor = first["page"]["next_cursor"].as_str().unwrap();
        let second = admin.get(&format!("{PATH}?limit=60&cursor={cursor}")).send().await.ok(200).clone();
        assert_eq!((first["data"].as_array().unwrap().len(), second["data"].as_array().unwrap().len()), (60, 40));
    })
    .await;
}
