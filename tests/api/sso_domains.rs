//! Mail domains of identity providers: they take effect once a DNS record or the operator verifies them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, Setup, Tenant, TestApp,
        dns::{Answer, DnsServer},
        example, with_app, with_setup,
    },
    sso::{PROVIDERS, Scene},
};

type Texts = Arc<Mutex<Vec<(String, String)>>>;

/// A server whose DNS returns the texts of the test.
async fn with_dns(test: impl AsyncFnOnce(&TestApp, &Texts)) {
    let texts = Texts::default();
    let shown = texts.clone();
    let dns = DnsServer::start(move |name, _| {
        let found: Vec<String> = shown.lock().unwrap().iter().filter(|(of, _)| *of == name).map(|(_, text)| text.clone()).collect();
        if found.is_empty() { Answer::NoSuchName } else { Answer::Texts(found) }
    })
    .await;
    let setup = Setup::default().with("rate_limits.enabled", false).with("egress.dns_servers", format!("[\"{}\"]", dns.address));
    with_setup(setup, async |app| test(app, &texts).await).await;
}

async fn claim(admin: &Actor, domains: &[&str]) -> crate::harness::Reply {
    let mut body = example("sso/create_identity_provider");
    body["domains"] = json!(domains);
    admin.post(PROVIDERS).json(body).send().await
}

async fn verify(admin: &Actor, provider: &Value, domain: &str) -> crate::harness::Reply {
    let path = format!("{PROVIDERS}/{}/domains/{domain}/verify", provider["id"].as_str().unwrap());
    admin.post(&path).send().await
}

/// Whether people of the domain are redirected to a provider.
async fn leads_somewhere(app: &TestApp, domain: &str) -> bool {
    let reply = app.anonymous().post("/api/auth/sso").json(json!({"domain": domain})).send().await;
    reply.body["code"] != "sso_provider_not_found"
}

async fn events(admin: &Actor) -> Vec<String> {
    let events = admin.get("/api/events?types=identity_provider.*&limit=200").send().await.ok(200)["data"].clone();
    events.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

async fn opened<'a>(app: &'a TestApp, slug: &str) -> (Tenant<'a>, Actor) {
    let tenant = app.tenant(slug).await;
    let key = tenant.key(&["*"]).await;
    (tenant, key)
}

#[tokio::test]
async fn a_domain_is_verified_by_its_dns_record() {
    with_dns(async |app, texts| {
        let (_, admin) = opened(app, "acme").await;
        let provider = claim(&admin, &["acme.com", "acme.org"]).await.ok(201).clone();
        let pending = &provider["domain_claims"][0];
        assert_eq!((&pending["proven"], &pending["record_name"]), (&json!(false), &json!("_tenantd.acme.com")), "{provider}");
        assert!(!leads_somewhere(app, "acme.com").await);
        let refused = verify(&admin, &provider, "acme.com").await;
        assert_eq!((refused.problem(422), &refused.body["record"]["value"]), ("domain_not_proven", &pending["record_value"]));
        let put = |domain: &str, value: &str| texts.lock().unwrap().push((format!("_tenantd.{domain}."), value.to_owned()));
        put("acme.com", "v=spf1 -all");
        put("acme.com", provider["domain_claims"][1]["record_value"].as_str().unwrap());
        assert_eq!(verify(&admin, &provider, "acme.com").await.problem(422), "domain_not_proven", "another domain's token");
        put("acme.com", pending["record_value"].as_str().unwrap());
        let proven = verify(&admin, &provider, "ACME.com.").await;
        let shown = &proven.ok(200)["domain_claims"][0];
        assert_eq!((&shown["proven"], &shown["proven_by"], &shown["record_value"]), (&json!(true), &json!("dns"), &Value::Null));
        assert!(leads_somewhere(app, "acme.com").await && !leads_somewhere(app, "acme.org").await);
        texts.lock().unwrap().clear();
        assert_eq!(verify(&admin, &provider, "acme.com").await.ok(200)["version"], proven.body["version"], "it stays proven");
        assert_eq!(verify(&admin, &provider, "elsewhere.com").await.problem(404), "not_found");
        assert_eq!(events(&admin).await, ["identity_provider.created", "identity_provider.domain_proven"]);
        // A domain that stays remains verified. A domain that was removed and added again must be verified again.
        let path = format!("{PROVIDERS}/{}", provider["id"].as_str().unwrap());
        let kept = admin.put(&path).json(json!({"domains": ["acme.com", "acme.net"]})).send().await;
        assert_eq!(kept.ok(200)["domain_claims"][0]["proven"], true);
        admin.put(&path).json(json!({"domains": ["acme.net"]})).send().await.ok(200);
        let back = admin.put(&path).json(json!({"domains": ["acme.com"]})).send().await;
        assert_eq!(back.ok(200)["domain_claims"][0]["proven"], false);
        assert!(!leads_somewhere(app, "acme.com").await);
    })
    .await;
}

#[tokio::test]
async fn a_claim_does_not_block_the_verified_owner() {
    with_dns(async |app, texts| {
        let ((tenant, acme), (_, evil)) = (opened(app, "acme").await, opened(app, "evil").await);
        let theirs = claim(&evil, &["acme.com"]).await.ok(201).clone();
        let ours = claim(&acme, &["acme.com"]).await.ok(201).clone();
        let value = ours["domain_claims"][0]["record_value"].as_str().unwrap().to_owned();
        assert_ne!(value, theirs["domain_claims"][0]["record_value"].as_str().unwrap());
        texts.lock().unwrap().push(("_tenantd.acme.com.".to_owned(), value));
        assert_eq!(verify(&evil, &theirs, "acme.com").await.problem(422), "domain_not_proven", "it is not their token");
        verify(&acme, &ours, "acme.com").await.ok(200);
        let late = theirs["domain_claims"][0]["record_value"].as_str().unwrap().to_owned();
        texts.lock().unwrap().push(("_tenantd.acme.com.".to_owned(), late));
        let refused = verify(&evil, &theirs, "acme.com").await;
        assert_eq!(refused.problem(409), "already_exists");
        assert!(!refused.text.contains("tnt_"), "{}", refused.text);
        // The provider of another tenant, and its domains, are not found.
        assert_eq!(verify(&evil, &ours, "acme.com").await.problem(404), "not_found");
        let some = tenant.key(&["users:*"]).await;
        assert_eq!(verify(&some, &ours, "acme.com").await.problem(403), "insufficient_scope");
    })
    .await;
}

#[tokio::test]
async fn a_domain_with_staff_elsewhere_needs_approval() {
    with_app(async |app| {
        let (acme, admin) = opened(app, "acme").await;
        acme.admin().await;
        let (other, stranger) = opened(app, "other").await;
        let refused = claim(&stranger, &["acme.example"]).await;
        assert_eq!(refused.problem(409), "already_exists");
        assert!(!refused.text.contains(&acme.id) && !refused.text.contains("staff"), "{}", refused.text);
        // The tenant's own staff does not conflict.
        let provider = claim(&admin, &["acme.example"]).await.ok(201).clone();
        assert!(!leads_somewhere(app, "acme.example").await, "a standard tenant has no domain for nothing");
        let approve = |tenant: &str, domain: &str| {
            app.local().post(&format!("/internal/admin/tenants/{tenant}/domains/{domain}/approve")).send()
        };
        assert_eq!(approve(&other.id, "acme.example").await.problem(404), "not_found");
        assert_eq!(approve(&acme.id, "nobody").await.problem(422), "validation_failed");
        // If another tenant gets staff with such an address, the operator can still approve the domain.
        let new = json!({"name": "Bo", "role": "viewer", "email": "bo@acme.example"});
        stranger.post("/api/admin/users").json(new).send().await.ok(201);
        let approved = approve(&acme.id, "acme.example").await;
        assert_eq!(approved.ok(200)["domain_claims"][0]["proven_by"], "operator");
        assert_eq!(approved.body["id"], provider["id"]);
        assert!(leads_somewhere(app, "acme.example").await);
        assert_eq!(events(&admin).await, ["identity_provider.created", "identity_provider.domain_approved"]);
        assert_eq!(claim(&stranger, &["acme.example"]).await.problem(409), "already_exists");
    })
    .await;
}

#[tokio::test]
async fn domains_are_normalized_and_exclude_subdomains() {
    with_dns(async |app, texts| {
        let ((_, acme), (_, other)) = (opened(app, "acme").await, opened(app, "other").await);
        for email in ["bo@m\u{fc}nchen.test", "bo@SUB.acme.com"] {
            acme.post("/api/admin/users").json(json!({"name": "Bo", "role": "viewer", "email": email})).send().await.ok(201);
        }
        for taken in ["m\u{fc}nchen.test", "M\u{dc}NCHEN.test.", "xn--mnchen-3ya.TEST", "sub.acme.com", "Sub.Acme.Com."] {
            assert_eq!(claim(&other, &[taken]).await.problem(409), "already_exists", "{taken}");
        }
        let provider = claim(&other, &["ACME.com."]).await.ok(201).clone();
        let value = provider["domain_claims"][0]["record_value"].as_str().unwrap().to_owned();
        texts.lock().unwrap().push(("_tenantd.acme.com.".to_owned(), value));
        verify(&other, &provider, "Acme.COM").await.ok(200);
        assert!(leads_somewhere(app, "acme.com.").await && leads_somewhere(app, "ACME.COM").await);
        for elsewhere in ["sub.acme.com", "www.acme.com", "xacme.com"] {
            assert!(!leads_somewhere(app, elsewhere).await, "{elsewhere}");
        }
        assert_eq!(verify(&other, &provider, "sub.acme.com").await.problem(404), "not_found");
        assert_eq!(verify(&other, &provider, "acme").await.problem(422), "validation_failed");
    })
    .await;
}

#[tokio::test]
async fn the_operator_assigns_an_unclaimable_domain() {
    with_app(async |app| {
        let ((acme, admin), (_, other)) = (opened(app, "acme").await, opened(app, "other").await);
        other.post("/api/admin/users").json(json!({"name": "Bo", "role": "viewer", "email": "bo@acme.com"})).send().await.ok(201);
        let approve = |domain: &str, query: &str| {
            app.local().post(&format!("/internal/admin/tenants/{}/domains/{domain}/approve{query}", acme.id)).send()
        };
        assert_eq!(approve("acme.com", "").await.problem(404), "not_found", "there is no provider");
        assert_eq!(claim(&admin, &["acme.com"]).await.problem(409), "already_exists");
        let first = claim(&admin, &["acme.net"]).await.ok(201).clone();
        let approved = approve("ACME.com.", "").await.ok(200).clone();
        assert_eq!((&approved["id"], &approved["domains"]), (&first["id"], &json!(["acme.net", "acme.com"])));
        assert!(leads_somewhere(app, "acme.com").await && !leads_somewhere(app, "acme.net").await);
        let second = claim(&admin, &["acme.org"]).await.ok(201).clone();
        assert_eq!(approve("acme.info", "").await.problem(404), "not_found", "one of two has to be named");
        let named = format!("?identity_provider_id={}", second["id"].as_str().unwrap());
        assert_eq!(approve("acme.info", &named).await.ok(200)["id"], second["id"]);
        assert_eq!(approve("acme.com", &named).await.problem(409), "already_exists", "the first has it");
        let stranger = claim(&other, &["other.com"]).await.ok(201).clone();
        let foreign = format!("?identity_provider_id={}", stranger["id"].as_str().unwrap());
        assert_eq!(approve("acme.biz", &foreign).await.problem(404), "not_found", "another tenant's provider");
    })
    .await;
}

#[tokio::test]
async fn losing_a_domain_ends_pending_sign_ons() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"domains": ["acme.example", "acme.test"]})).await;
        let claims = || json!({"sub": "1", "email": "ada@acme.example", "email_verified": true, "name": "Ada"});
        let started = scene.begin(json!({})).await;
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&path).json(json!({"domains": ["acme.test"]})).send().await.ok(200);
        assert_ne!(scene.come_back(&started, claims()).await.status, 303);
        // A domain that is claimed again but not verified has no effect either.
        let started = scene.begin(json!({"domain": "acme.test"})).await;
        let change = json!({"domains": ["acme.test", "acme.com"]});
        scene.admin.put(&path).json(change).send().await.ok(200);
        let unproven = json!({"sub": "1", "email": "ada@acme.com", "email_verified": true, "name": "Ada"});
        assert_ne!(scene.come_back(&started, unproven).await.status, 303);
        assert_eq!(scene.reasons().await, ["foreign_domain", "foreign_domain"]);
        let started = scene.begin(json!({"domain": "acme.test"})).await;
        let proven = json!({"sub": "1", "email": "ada@acme.test", "email_verified": true, "name": "Ada"});
        assert_eq!(scene.come_back(&started, proven).await.status, 303);
    })
    .await;
}

#[tokio::test]
async fn an_unresponsive_dns_server_is_reported() {
    let dns = DnsServer::start(|_, _| Answer::Failure).await;
    let setup = Setup::default().with("rate_limits.enabled", false).with("egress.dns_servers", format!("[\"{}\"]", dns.address));
    with_setup(setup, async |app| {
        let (_, admin) = opened(app, "acme").await;
        let provider = claim(&admin, &["acme.com"]).await.ok(201).clone();
        assert_eq!(verify(&admin, &provider, "acme.com").await.problem(502), "provider_error");
    })
    .await;
}
