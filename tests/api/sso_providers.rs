//! Identity providers as administrators manage them: domains, the client secret, and who may change them.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Setup, with_app, with_setup},
    sso::PROVIDERS,
};

const SECRET: &str = "s3cret-of-the-client";

fn provider(domain: &str) -> Value {
    json!({"name": "Acme", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": SECRET, "domains": [domain]})
}

async fn create(admin: &Actor, body: Value) -> crate::harness::Reply {
    admin.post(PROVIDERS).json(body).send().await
}

#[tokio::test]
async fn the_secret_of_a_provider_is_never_shown() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let created = create(&admin, provider("ACME.example.")).await;
        let record = created.ok(201).clone();
        let path = format!("{PROVIDERS}/{}", record["id"].as_str().unwrap());
        assert_eq!((created.header("location"), created.header("etag")), (path.as_str(), "\"v1\""));
        assert_eq!(
            (&record["domains"], &record["type"], &record["enabled"]),
            (&json!(["acme.example"]), &json!("oidc"), &json!(true))
        );
        assert_eq!((&record["default_role"], &record["auto_provision"]), (&json!("viewer"), &json!(false)));
        assert_eq!(record["scopes"], json!(["openid", "email", "profile"]));
        let change =
            json!({"domains": ["acme.example", "bücher.example"], "client_secret": "another-secret", "default_role": "technician"});
        let changed = admin.put(&path).header("if-match", "\"v1\"").json(change.clone()).send().await;
        assert_eq!(changed.ok(200)["domains"], json!(["acme.example", "xn--bcher-kva.example"]));
        assert_eq!(admin.put(&path).header("if-match", "\"v1\"").json(change).send().await.problem(412), "version_conflict");
        let by_query =
            admin.put(&format!("{PROVIDERS}?id={}", record["id"].as_str().unwrap())).json(json!({"name": "Other"})).send().await;
        assert_eq!(by_query.ok(200)["version"], 3);
        let listed = admin.get(&format!("{PROVIDERS}?include_total=true&enabled=true")).send().await;
        assert_eq!((&listed.ok(200)["data"][0]["name"], &listed.body["page"]["total"]), (&json!("Other"), &json!(1)));
        assert_eq!(admin.get(&path).header("if-none-match", "\"v3\"").send().await.status, 304);
        let gone = admin.delete(PROVIDERS).json(json!({"id": record["id"]})).send().await;
        assert_eq!(gone.status, 204, "{}", gone.text);
        assert_eq!(admin.get(&path).send().await.problem(404), "not_found");
        let events = admin.get("/api/events?types=identity_provider.*").send().await;
        let kinds: Vec<&str> =
            events.ok(200)["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["identity_provider.created", "identity_provider.updated", "identity_provider.updated", "identity_provider.deleted"]
        );
        let changes = &events.body["data"][1]["data"]["changes"];
        assert_eq!(changes["client_secret"], json!({"from": "hidden", "to": "hidden"}));
        for text in [created.text, changed.text, listed.text, events.text] {
            assert!(!text.contains(SECRET) && !text.contains("another-secret") && !text.contains("\"client_secret\":\""), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_domain_belongs_to_one_provider() {
    with_app(async |app| {
        let (acme, other) = (app.tenant("acme").await, app.tenant("other").await);
        let (admin, stranger) = (acme.admin().await, other.admin().await);
        let record = create(&admin, provider("acme.test")).await.ok(201).clone();
        let approve =
            |tenant: &str| app.local().post(&format!("/internal/admin/tenants/{tenant}/domains/acme.test/approve")).send();
        approve(&acme.id).await.ok(200);
        let taken = create(&stranger, provider("acme.TEST")).await;
        assert_eq!(taken.problem(409), "already_exists");
        assert!(!taken.text.contains(&acme.id) && !taken.text.contains(record["id"].as_str().unwrap()), "{}", taken.text);
        let own = create(&stranger, provider("other.example")).await.ok(201).clone();
        let path = |record: &Value| format!("{PROVIDERS}/{}", record["id"].as_str().unwrap());
        let grab = stranger.put(&path(&own)).json(json!({"domains": ["other.example", "acme.test"]})).send().await;
        assert_eq!(grab.problem(409), "already_exists");
        assert_eq!(approve(&other.id).await.problem(409), "already_exists", "not even the operator gives it to another");
        assert_eq!(
            create(&admin, provider("acme.test")).await.problem(409),
            "already_exists",
            "nor does the tenant claim it twice"
        );
        assert_eq!(stranger.get(&path(&record)).send().await.problem(404), "not_found");
        assert_eq!(admin.delete(&path(&record)).send().await.status, 204);
        let free = stranger.put(&path(&own)).json(json!({"domains": ["acme.test"]})).send().await;
        assert_eq!(free.ok(200)["domain_claims"][0]["proven"], false);
    })
    .await;
}

#[tokio::test]
async fn all_errors_are_reported_at_once() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let mut body = provider("ada@acme.example");
        body["issuer"] = json!("http://id.acme.example");
        body["scopes"] = json!(["email", "a b"]);
        body["domains"] = json!(["ada@acme.example", "ok.example", "127.0.0.1"]);
        let reply = create(&admin, body).await;
        assert_eq!(reply.problem(422), "validation_failed");
        let places: Vec<String> = reply.field_errors().into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["/domains/0", "/domains/2", "/issuer", "/scopes", "/scopes/1"]);
        let operator = json!({"default_role": "operator"});
        let mut body = provider("acme.example");
        body.as_object_mut().unwrap().extend(operator.as_object().unwrap().clone());
        assert_eq!(create(&admin, body).await.field_errors(), [("/default_role".to_owned(), "not_allowed".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn a_loopback_provider_needs_approval() {
    let local = || {
        let mut body = provider("acme.example");
        body["issuer"] = json!("http://127.0.0.1:9");
        body
    };
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        assert_eq!(create(&admin, local()).await.problem(422), "target_not_allowed");
    })
    .await;
    let opened = Setup::default().with("rate_limits.enabled", false).with("egress.allowed_addresses", "[\"127.0.0.1\"]");
    with_setup(opened, async |app| {
        let admin = app.tenant("acme").await.admin().await;
        create(&admin, local()).await.ok(201);
    })
    .await;
}

#[tokio::test]
async fn changing_sign_in_needs_all_rights() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let record = create(&admin, provider("acme.example")).await.ok(201).clone();
        let path = format!("{PROVIDERS}/{}", record["id"].as_str().unwrap());
        let some = acme.key(&["users:*"]).await;
        some.get(&path).send().await.ok(200);
        assert_eq!(create(&some, provider("b.example")).await.problem(403), "insufficient_scope");
        assert_eq!(
            some.put(&path).json(json!({"issuer": "https://evil.example", "client_secret": "another"})).send().await.problem(403),
            "insufficient_scope"
        );
        assert_eq!(some.delete(&path).send().await.status, 204, "to end one is free");
        let technician = acme.user("technician").await;
        assert_eq!(create(&technician, provider("c.example")).await.problem(403), "admin_required");
    })
    .await;
}
