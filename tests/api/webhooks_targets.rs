//! Allowed targets of deliveries: creating, changing, testing and delivering apply the same rules, for every spelling of an address
//! and every resolved name.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::harness::{
    Actor, Endpoint, Receiver, Setup, TestApp, WEBHOOKS,
    dns::{Answer, DnsServer},
};

const SPELLINGS: &str = include_str!("../../src/kernel/egress/policy/spellings.json");
/// Concurrent requests of a test.
const AT_ONCE: usize = 4;

fn setup() -> Setup {
    Setup::default().with("rate_limits.enabled", false).with("webhooks.max_endpoints", 1000)
}

async fn start(directory: tempfile::TempDir, setup: &Setup) -> TestApp {
    TestApp::start(directory, setup, tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000)).await
}

fn body(url: &str) -> Value {
    json!({"name": "Test", "url": url, "events": ["api_key.created"], "timeout_seconds": 1})
}

/// The error code of the URL, or nothing.
fn refusal(reply: &crate::harness::Reply) -> Option<String> {
    if reply.status < 300 {
        return None;
    }
    assert_eq!(reply.status, 422, "{}", reply.text);
    let [(place, code)] = &reply.field_errors()[..] else { panic!("{}", reply.text) };
    assert_eq!(place, "/url", "{}", reply.text);
    for word in ["loopback", "private", "reserved", "link-local", "metadata", "allowed_"] {
        assert!(!reply.text.contains(word), "the tenant learns why: {}", reply.text);
    }
    Some(code.clone())
}

/// An endpoint that was created while its URL was still allowed.
struct Made {
    url: String,
    path: String,
    /// `None`: the spelling is ambiguous and only a gateway's operator knows its meaning, so all four ways only have to agree.
    closed: Option<bool>,
}

/// Compares all four ways with the expected result.
async fn judge_four_times(admin: &Actor, made: &Made) {
    let created = admin.post(WEBHOOKS).json(body(&made.url)).send().await;
    let closed = made.closed.unwrap_or(created.status >= 300);
    let expected = closed.then(|| "target_not_allowed".to_owned());
    assert_eq!(refusal(&created), expected, "create {}", made.url);
    let updated = admin.put(&made.path).json(json!({"url": made.url})).send().await;
    assert_eq!(refusal(&updated), expected, "update {}", made.url);
    let tested = admin.post(&format!("{}/test", made.path)).send().await.ok(200).clone();
    assert_eq!(tested["error"] == "blocked", closed, "test {}: {tested}", made.url);
    let endpoint = Endpoint { admin: admin.clone(), path: made.path.clone() };
    let of_event = |found: &[Value]| found.iter().find(|delivery| delivery["type"] == "api_key.created").cloned();
    let found = endpoint.until(|found| of_event(found).is_some_and(|delivery| delivery["attempt_count"] == 1)).await;
    let attempt = endpoint.attempts(&of_event(&found).unwrap()).await.remove(0);
    assert_eq!(attempt["error"] == "blocked", closed, "delivery {}: {attempt}", made.url);
    for attempt in [tested, attempt] {
        assert!(!closed || attempt.get("remote_ip").is_none(), "{}: {attempt}", made.url);
        assert!(!made.url.contains("//127.0.0.1:") || closed || attempt["status"] == 200, "{}: {attempt}", made.url);
    }
}

#[tokio::test]
async fn every_spelling_of_a_forbidden_address_is_refused() {
    let groups: BTreeMap<String, Vec<String>> = serde_json::from_str(SPELLINGS).unwrap();
    let receiver = Receiver::always(200).await;
    let url = |host: &str| format!("http://{host}:{}/hook", receiver.port());
    let closed = ["loopback", "unspecified", "link_local", "metadata", "multicast", "broadcast", "reserved", "private"];
    let hosts: Vec<(&str, &str)> =
        closed.iter().flat_map(|group| groups[*group].iter().map(move |host| (*group, host.as_str()))).collect();
    let address = |host: &str| url::Url::parse(&url(host)).unwrap().host_str().unwrap().trim_matches(['[', ']']).to_owned();
    let addresses: Vec<String> = hosts.iter().map(|(_, host)| address(host)).collect();
    let open = start(tempfile::tempdir().unwrap(), &setup().with("egress.allowed_addresses", format!("{addresses:?}"))).await;
    let mut made: BTreeMap<&str, (String, Vec<Made>)> = BTreeMap::new();
    for kind in ["standard", "evaluation"] {
        let tenant = if kind == "standard" { open.tenant(kind).await } else { open.evaluation_tenant(kind).await };
        let (admin, key) = tenant.new_key("admin", &["*"]).await;
        let endpoints = stream::iter(&hosts).map(|(group, host)| {
            let (admin, url) = (admin.clone(), url(host));
            async move {
                let created = admin.post(WEBHOOKS).json(body(&url)).send().await;
                let path = format!("{WEBHOOKS}/{}", created.ok(201)["id"].as_str().unwrap());
                let ambiguous = kind == "evaluation" && host.starts_with("[64:ff9b:1:");
                Made { url, path, closed: (!ambiguous).then_some(kind == "standard" || *group != "loopback") }
            }
        });
        let endpoints = endpoints.buffer_unordered(AT_ONCE).collect().await;
        made.insert(kind, (key["key"].as_str().unwrap().to_owned(), endpoints));
    }
    let (directory, _) = open.stop().await;
    let shut = start(directory, &setup()).await;
    let mut judged = 0;
    for (key, endpoints) in made.values() {
        let admin = shut.anonymous().bearer(key);
        admin.post("/api/admin/api-keys").json(json!({"name": "event", "scopes": ["*"]})).send().await.ok(201);
        stream::iter(endpoints).for_each_concurrent(AT_ONCE, |made| judge_four_times(&admin, made)).await;
        judged += endpoints.len();
        for host in &groups["public"] {
            let reply = admin.post(WEBHOOKS).json(body(&url(host))).send().await;
            assert_eq!(refusal(&reply), None, "{host}");
            let path = format!("{WEBHOOKS}/{}", reply.body["id"].as_str().unwrap());
            assert_eq!(refusal(&admin.put(&path).json(json!({"url": url(host)})).send().await), None, "{host}");
            admin.delete(&path).send().await.ok(204);
        }
        for host in &groups["no_url"] {
            let url = format!("https://{host}/hook");
            assert_eq!(refusal(&admin.post(WEBHOOKS).json(body(&url)).send().await).as_deref(), Some("wrong_form"), "{host:?}");
            let updated = admin.put(&endpoints[0].path).json(json!({"url": url})).send().await;
            assert_eq!(refusal(&updated).as_deref(), Some("wrong_form"), "{host:?}");
        }
    }
    println!("{judged} endpoints judged four times each");
    assert!(judged >= 240);
    drop(shut.stop().await);
}

#[tokio::test]
async fn names_are_checked_by_their_resolved_addresses() {
    let turned = Arc::new(AtomicBool::new(false));
    let is_turned = turned.clone();
    let answers: [(&str, &[&str]); 8] = [
        ("loopback", &["127.0.0.1"]),
        ("private", &["10.0.0.1"]),
        ("metadata", &["169.254.169.254"]),
        ("mixed", &["192.0.43.8", "169.254.169.254"]),
        ("mixed-private", &["10.0.0.1", "192.0.43.8"]),
        ("mixed-families", &["192.0.43.8", "fe80::1"]),
        ("mapped", &["::ffff:10.0.0.1"]),
        ("own", &["127.0.0.1"]),
    ];
    let dns = DnsServer::start(move |name, _| {
        let answer =
            answers.iter().find(|(turns_to, _)| name.starts_with(&format!("{turns_to}.")) && is_turned.load(Ordering::SeqCst));
        let addresses = answer.map_or(&["192.0.43.8"][..], |(_, addresses)| *addresses);
        Answer::Addresses(addresses.iter().map(|address| address.parse().unwrap()).collect(), 0)
    })
    .await;
    let app = start(tempfile::tempdir().unwrap(), &setup().with("egress.dns_servers", format!("[\"{}\"]", dns.address))).await;
    let receiver = Receiver::always(200).await;
    let own_port = app.running().addresses.api.port();
    for kind in ["standard", "evaluation"] {
        turned.store(false, Ordering::SeqCst);
        let tenant = if kind == "standard" { app.tenant(kind).await } else { app.evaluation_tenant(kind).await };
        let admin = tenant.key(&["*"]).await;
        let mut made = Vec::new();
        for (name, _) in answers {
            let port = if name == "own" { own_port } else { receiver.port() };
            let url = format!("http://{name}.test:{port}/hook");
            let created = admin.post(WEBHOOKS).json(body(&url)).send().await;
            let path = format!("{WEBHOOKS}/{}", created.ok(201)["id"].as_str().unwrap());
            made.push(Made { url, path, closed: Some(kind == "standard" || name != "loopback") });
        }
        let before = receiver.connections();
        turned.store(true, Ordering::SeqCst);
        tenant.new_key("event", &["*"]).await;
        stream::iter(&made).for_each_concurrent(AT_ONCE, |made| judge_four_times(&admin, made)).await;
        assert_eq!(receiver.connections() > before, kind == "evaluation", "only an evaluation reaches this machine");
    }
    drop(app.stop().await);
}

#[tokio::test]
async fn the_server_itself_is_never_a_target() {
    let app = start(tempfile::tempdir().unwrap(), &setup()).await;
    let port = app.running().addresses.api.port();
    let tenants = [app.tenant("standard").await, app.evaluation_tenant("evaluation").await];
    for tenant in &tenants {
        let admin = tenant.key(&["*"]).await;
        let elsewhere = Endpoint::of(admin.clone(), "https://192.0.43.8/", json!({})).await;
        for host in ["127.0.0.1", "127.1", "0x7f.1", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST.", "hooks.localhost", "0.0.0.0"]
        {
            let url = format!("http://{host}:{port}/api/admin/webhooks");
            let created = admin.post(WEBHOOKS).json(body(&url)).send().await;
            assert_eq!(refusal(&created).as_deref(), Some("target_not_allowed"), "{host}");
            let updated = admin.put(&elsewhere.path).json(json!({"url": url})).send().await;
            assert_eq!(refusal(&updated).as_deref(), Some("target_not_allowed"), "{host}");
            let path = format!("/internal/admin/tenants/{}/webhooks", tenant.id);
            let local = app.local().post(&path).json(body(&url)).send().await;
            assert_eq!(refusal(&local).as_deref(), Some("target_not_allowed"), "{host}");
        }
    }
    drop(app.stop().await);
}
