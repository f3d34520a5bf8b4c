//! Stored secrets stay with the target for which they were provided: no change of the address sends them to another server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{
    cloud::{self, simulated},
    harness::{
        Actor, Endpoint, Receiver, Reply, Script, Setup, TestApp,
        certificates::{Authority, authority, leaf, server},
        dns::DnsServer,
        oidc, with_app, with_setup,
    },
    sso::{self, Scene, ada},
};

const OLD: &str = "canary-old-8f1d";
const NEW: &str = "canary-new-27ce";

/// What receivers got: the `Host` of each request, and the whole request.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Receivers on loopback to which every name resolves.
struct Net {
    ours: Authority,
    theirs: Authority,
    seen: Seen,
    /// Has a certificate of `ours` for both names.
    first: Receiver,
    second: Receiver,
    _dns: DnsServer,
}

async fn secure(ours: &Authority, seen: &Seen) -> Receiver {
    let seen = seen.clone();
    Receiver::secure(server(leaf(&["home.test", "away.test"]), Some(ours)), move |_, received| {
        seen.lock().unwrap().push((received.header("host").to_owned(), format!("{received:?}")));
        Script::status(200)
    })
    .await
}

impl Net {
    async fn with(test: impl AsyncFnOnce(&TestApp, &Self)) {
        let (ours, theirs, seen, dns) = (authority(), authority(), Seen::default(), DnsServer::answering(&["127.0.0.1"]).await);
        let (first, second) = (secure(&ours, &seen).await, secure(&ours, &seen).await);
        let servers = format!("[\"{}\"]", dns.address);
        let setup = Setup::default().with("rate_limits.enabled", false).with("egress.dns_servers", servers);
        let net = Self { ours, theirs, seen, first, second, _dns: dns };
        with_setup(setup, async |app| test(app, &net).await).await;
    }

    fn home(&self) -> String {
        format!("https://home.test:{}", self.first.port())
    }

    /// Every change of a target with its fields, and whether the target stays the same.
    fn moves(&self) -> Vec<(&'static str, Value, bool)> {
        let (home, port) = (self.home(), self.first.port());
        let with_comment = format!("our authority\n{}", self.ours.pem());
        vec![
            ("scheme", json!({"url": format!("http://home.test:{port}/hook")}), false),
            ("host", json!({"url": format!("https://away.test:{port}/hook")}), false),
            ("port", json!({"url": format!("https://home.test:{}/hook", self.second.port())}), false),
            ("default port", json!({"url": "https://home.test/hook"}), false),
            ("authority", json!({"ca_certificate_pem": self.theirs.pem()}), false),
            ("no authority", json!({"ca_certificate_pem": null}), false),
            ("one authority more", json!({"ca_certificate_pem": format!("{}{}", self.ours.pem(), self.theirs.pem())}), false),
            ("path", json!({"url": format!("{home}/elsewhere?a=b")}), true),
            ("case", json!({"url": format!("HTTPS://HOME.Test:{port}/hook")}), true),
            ("trailing dot", json!({"url": format!("https://home.test.:{port}/hook")}), true),
            ("text around the authority", json!({"ca_certificate_pem": with_comment}), true),
        ]
    }

    /// Fails if another server got the old secret, or if the first receiver did not get an expected one.
    fn check(&self, name: &str, old_is_kept: bool) {
        let home = format!("home.test:{}", self.first.port());
        let at_home = |host: &str| host == home || host == home.replace("test:", "test.:");
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        let came: Vec<&String> = seen.iter().filter(|(_, request)| request.contains(OLD)).map(|(host, _)| host).collect();
        assert!(came.iter().all(|host| at_home(host)), "{name}: the secret came to {came:?}");
        assert_eq!(!came.is_empty(), old_is_kept, "{name}: the secret came {} times", came.len());
    }
}

async fn webhook(admin: &Actor, net: &Net) -> Endpoint {
    let more = json!({"headers": {"authorization": OLD}, "ca_certificate_pem": net.ours.pem(), "timeout_seconds": 2});
    Endpoint::of(admin.clone(), &format!("{}/hook", net.home()), more).await
}

#[tokio::test]
async fn changing_a_webhook_target_removes_its_headers() {
    Net::with(async |app, net| {
        let admin = app.evaluation_tenant("acme").await.key(&["*"]).await;
        for (name, change, same) in net.moves() {
            let endpoint = webhook(&admin, net).await;
            let changed = admin.put(&endpoint.path).json(change.clone()).send().await;
            let expected = if same { json!(["authorization"]) } else { json!([]) };
            assert_eq!(changed.ok(200)["header_names"], expected, "{name}");
            endpoint.ask("test").await.ok(200);
            net.check(name, same);
            // Restoring the original target does not restore the secret.
            let back = json!({"url": format!("{}/hook", net.home()), "ca_certificate_pem": net.ours.pem()});
            assert_eq!(admin.put(&endpoint.path).json(back).send().await.ok(200)["header_names"], expected, "{name}");
            assert_eq!(endpoint.ask("test").await.ok(200)["status"], 200, "{name}");
            net.check(name, same);

            let mut with_new = change.clone();
            with_new["headers"] = json!({"authorization": NEW});
            let changed = admin.put(&endpoint.path).json(with_new).send().await;
            assert_eq!(changed.ok(200)["header_names"], json!(["authorization"]), "{name}");
            endpoint.ask("test").await.ok(200);
            net.check(name, false);
            assert_eq!(admin.delete(&endpoint.path).send().await.status, 204);
        }
    })
    .await;
}

#[tokio::test]
async fn an_explicit_default_port_is_the_same_target() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        for (from, to) in [
            ("https://192.0.43.8/a", "https://192.0.43.8:443/a"),
            ("http://192.0.43.8:80/a", "http://192.0.43.8/a"),
            ("https://192.0.43.8/a", "https://0xC0002B08/a"),
        ] {
            let endpoint = Endpoint::of(admin.clone(), from, json!({"headers": {"x-token": OLD}})).await;
            let changed = admin.put(&endpoint.path).json(json!({"url": to})).send().await;
            assert_eq!(changed.ok(200)["header_names"], json!(["x-token"]), "{to}");
        }
    })
    .await;
}

#[tokio::test]
async fn redirects_do_not_get_the_headers() {
    with_app(async |app| {
        let admin = app.evaluation_tenant("acme").await.key(&["*"]).await;
        let away = Receiver::always(200).await;
        let place = away.url();
        let home = Receiver::start(move |_, _| Script::with_header(307, &format!("location: {place}"))).await;
        let endpoint = Endpoint::of(admin, &home.url(), json!({"headers": {"authorization": OLD}})).await;
        assert_eq!(endpoint.ask("test").await.ok(200)["status"], 307);
        assert_eq!(home.next().await.header("authorization"), OLD);
        assert_eq!(away.connections(), 0);
    })
    .await;
}

/// A kind of cloud, and the configuration field with the receiver's address.
struct Kind {
    name: &'static str,
    field: &'static str,
    config: fn(&Net) -> Value,
    credential: fn(&str) -> Value,
}

const KINDS: [Kind; 5] = [
    Kind { name: "hetzner", field: "endpoint", config: |_| json!({}), credential: |secret| json!({"api_token": secret}) },
    Kind { name: "digitalocean", field: "endpoint", config: |_| json!({}), credential: |secret| json!({"api_token": secret}) },
    Kind {
        name: "proxmox",
        field: "endpoint",
        config: |_| json!({}),
        credential: |secret| json!({"token_id": "a@pve!b", "token_secret": secret}),
    },
    Kind {
        name: "azure",
        field: "auth_url",
        config: |_| json!({}),
        credential: |secret| json!({"tenant_id": "t", "client_id": "c", "client_secret": secret, "subscription_id": "s"}),
    },
    Kind {
        name: "openstack",
        field: "auth_url",
        config: |net| json!({"endpoint": format!("{}/nova", net.home())}),
        credential: |secret| json!({"username": "u", "password": secret, "project_name": "p"}),
    },
];

#[tokio::test]
async fn a_cloud_target_change_needs_the_credential() {
    Net::with(async |app, net| {
        let admin = app.evaluation_tenant("acme").await.key(&["*"]).await;
        for Kind { name: kind, field, config, credential } in KINDS {
            let mut home = config(net);
            home[field] = json!(format!("{}/hook", net.home()));
            home["ca_certificate_pem"] = json!(net.ours.pem());
            let body = json!({"name": kind, "kind": kind, "enabled": false, "config": home, "credential": credential(OLD)});
            let provider = admin.post(&format!("{}?verify=skip", cloud::PROVIDERS)).json(body).send().await.ok(201).clone();
            let path = cloud::path(&provider);
            let verify = async || admin.post(&format!("{path}/verify")).send().await;
            for (name, change, same) in net.moves() {
                let name = format!("{kind}, {name}");
                let mut moved = home.clone();
                for (part, value) in change.as_object().unwrap() {
                    moved[if part == "url" { field } else { part.as_str() }] = value.clone();
                }
                moved.as_object_mut().unwrap().retain(|_, value| !value.is_null());
                let changed = admin.put(&path).json(json!({"config": moved})).send().await;
                if same {
                    changed.ok(200);
                } else {
                    assert_eq!(changed.problem(422), "validation_failed", "{name}");
                    assert_eq!(changed.field_errors(), [("/credential".to_owned(), "required".to_owned())], "{name}");
                }
                verify().await.ok(200);
                net.check(&name, true);
                let with_new = json!({"config": moved, "credential": credential(NEW)});
                admin.put(&path).json(with_new).send().await.ok(200);
                verify().await.ok(200);
                net.check(&name, false);
                admin.put(&path).json(json!({"config": home, "credential": credential(OLD)})).send().await.ok(200);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_or_pin_change_needs_the_credential() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let create =
            async |body: Value| admin.post(&format!("{}?verify=skip", cloud::PROVIDERS)).json(body).send().await.ok(201).clone();
        let refused = |reply: &Reply| {
            assert_eq!(reply.field_errors(), [("/credential".to_owned(), "required".to_owned())], "{}", reply.text);
        };
        let token = json!({"api_token": OLD});
        let usual = create(json!({"name": "usual", "kind": "hetzner", "enabled": false, "credential": token})).await;
        let change = json!({"config": {"endpoint": "https://evil.example"}});
        refused(&admin.put(&cloud::path(&usual)).json(change.clone()).send().await);
        let by_query = format!("{}?id={}", cloud::PROVIDERS, usual["id"].as_str().unwrap());
        refused(&admin.put(&by_query).json(change).send().await);
        let regions = json!({"config": {"regions": ["fsn1"]}});
        assert_eq!(admin.put(&cloud::path(&usual)).json(regions).send().await.ok(200)["credential"], usual["credential"]);
        let pin = |digit: &str| json!({"endpoint": "https://192.0.43.8:8006", "tls_fingerprint": digit.repeat(64)});
        let credential = json!({"token_id": "a@pve!b", "token_secret": OLD});
        let body = json!({"name": "pinned", "kind": "proxmox", "enabled": false, "config": pin("a"), "credential": credential});
        let pinned = cloud::path(&create(body).await);
        refused(&admin.put(&pinned).json(json!({"config": pin("b")})).send().await);
        refused(&admin.put(&pinned).json(json!({"config": {"endpoint": "https://192.0.43.8:8006"}})).send().await);
        admin.put(&pinned).json(json!({"config": pin("A")})).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_simulated_provider_changes_without_a_credential() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let path = cloud::path(&cloud::create(&admin, simulated("Sim", json!({"seed": 1}))).await);
        admin.put(&path).json(json!({"config": {"seed": 2}})).send().await.ok(200);
        assert_eq!(admin.post(&format!("{path}/verify")).send().await.ok(200)["outcome"], "valid");
    })
    .await;
}

#[tokio::test]
async fn an_issuer_change_needs_the_client_secret() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let body = json!({
            "name": "Acme", "issuer": "https://192.0.43.8/realm", "client_id": "c", "client_secret": OLD, "domains": ["acme.example"],
        });
        let created = admin.post(sso::PROVIDERS).json(body).send().await;
        let path = format!("{}/{}", sso::PROVIDERS, created.ok(201)["id"].as_str().unwrap());
        for same in ["https://192.0.43.8:443/realm", "HTTPS://192.0.43.8/realm", "https://192.0.43.8/other/realm"] {
            admin.put(&path).json(json!({"issuer": same})).send().await.ok(200);
        }
        for other in ["https://192.0.43.8:8443/realm", "https://192.0.43.9/realm", "https://id.example.com./realm"] {
            let refused = admin.put(&path).json(json!({"issuer": other})).send().await;
            assert_eq!(refused.problem(422), "validation_failed", "{other}");
            assert_eq!(refused.field_errors(), [("/client_secret".to_owned(), "required".to_owned())], "{other}");
        }
        let by_name = json!({"issuer": "https://ID.example.com", "client_secret": NEW});
        admin.put(&path).json(by_name).send().await.ok(200);
        admin.put(&path).json(json!({"issuer": "https://id.example.com.:443/a"})).send().await.ok(200);
        let plain = admin.put(&path).json(json!({"issuer": "http://id.example.com"})).send().await;
        assert_eq!(plain.field_errors(), [("/issuer".to_owned(), "wrong_form".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn a_client_secret_stays_with_its_issuer() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let path = format!("{}/{}", sso::PROVIDERS, scene.record["id"].as_str().unwrap());
        let evil = oidc::Provider::start(app.now().as_seconds()).await;
        let refused = scene.admin.put(&path).json(json!({"issuer": evil.issuer()})).send().await;
        assert_eq!(refused.field_errors(), [("/client_secret".to_owned(), "required".to_owned())]);
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        assert_eq!((scene.provider.requests("/token"), evil.requests("/token")), (1, 0));
        let moved = json!({"issuer": evil.issuer(), "client_secret": NEW});
        scene.admin.put(&path).json(moved).send().await.ok(200);
        let started = scene.begin(json!({})).await;
        let callback = evil.authorize(started.body["redirect_url"].as_str().unwrap(), ada());
        // The provider refuses the wrong secret. It must not be the old one.
        assert_eq!(app.anonymous().with("cookie", &started.cookie).get(&callback).send().await.status, 401);
        assert_eq!((scene.provider.requests("/token"), evil.requests("/token")), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn open_orders_prevent_a_target_change() {
    with_app(async |app| {
        let admin = app.evaluation_tenant("acme").await.key(&["*"]).await;
        let silent = Receiver::start(|_, _| Script::Silence).await;
        let config = json!({"endpoint": silent.url(), "regions": ["us-east-1"]});
        let credential = |secret: &str| json!({"access_key_id": "AKIA", "secret_access_key": secret});
        let body = json!({"name": "Slow", "kind": "aws", "config": config, "credential": credential(OLD)});
        let created = admin.post(&format!("{}?verify=skip", cloud::PROVIDERS)).json(body).send().await;
        let order = json!({
            "provider_id": created.ok(201)["id"], "name": "web", "region": "us-east-1", "size": "t3.micro", "image": "ami-1",
            "user_data": OLD,
        });
        admin.post("/api/cloud/vms").json(order).send().await.ok(202);
        let away = Receiver::always(200).await;
        let moved = json!({"config": {"endpoint": away.url(), "regions": ["us-east-1"]}, "credential": credential(NEW)});
        let refused = admin.put(&cloud::path(&created.body)).json(moved).send().await;
        assert_eq!(refused.problem(409), "in_use");
        assert_eq!(away.connections(), 0);
    })
    .await;
}

#[tokio::test]
async fn events_show_urls_without_queries() {
    with_app(async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let admin = tenant.key(&["*"]).await;
        let receiver = Receiver::always(200).await;
        let url = |token: &str| format!("{}?token={token}", receiver.url());
        let endpoint = Endpoint::of(admin.clone(), &url(OLD), json!({"events": ["webhook.*"]})).await;
        assert_eq!(admin.put(&endpoint.path).json(json!({"url": url(NEW)})).send().await.ok(200)["url"], url(NEW));
        endpoint.ask("test").await.ok(200);
        admin.put(&endpoint.path).json(json!({"status": "disabled"})).send().await.ok(200);
        assert_eq!(endpoint.read().await["url"], url(NEW));
        assert_eq!(admin.delete(&endpoint.path).send().await.status, 204);
        let feed = admin.get("/api/events?types=webhook.*&limit=200").send().await;
        let events: HashMap<&str, &Value> = feed.ok(200)["data"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .map(|event| (event["type"].as_str().unwrap(), &event["data"]))
            .collect();
        for kind in ["webhook.created", "webhook.updated", "webhook.test", "webhook.disabled", "webhook.deleted"] {
            assert_eq!(events[kind]["webhook"]["url"], receiver.url(), "{kind}");
        }
        assert_eq!(events["webhook.updated"]["changes"]["url"], json!({"from": receiver.url(), "to": receiver.url()}));
        assert!(!feed.text.contains(OLD) && !feed.text.contains(NEW), "{}", feed.text);
        let trail = admin.get("/api/admin/audit?limit=200").send().await;
        assert!(!trail.ok(200).to_string().contains(OLD) && !trail.text.contains(NEW), "{}", trail.text);
    })
    .await;
}
