//! Conventions of every route: errors, methods, media types, sizes, and unknown input.

use serde_json::json;

use crate::harness::{Setup, with_app, with_setup};

const KEYS: &str = "/api/admin/api-keys";

#[tokio::test]
async fn unknown_paths_and_methods_return_problems() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        for path in ["/nothing", "/api/admin/api-keys/", "/api/admin/api-keys/x/y", "/api/events/catalog/x"] {
            assert_eq!(anonymous.get(path).send().await.problem(404), "not_found", "{path}");
        }
        let wrong = anonymous.call("PATCH", KEYS).send().await;
        assert_eq!(wrong.problem(405), "method_not_allowed");
        let mut allowed: Vec<&str> = wrong.header("allow").split(", ").collect();
        allowed.sort_unstable();
        assert_eq!(allowed, ["DELETE", "GET", "HEAD", "POST", "PUT"]);
        assert_eq!(anonymous.post("/status/").send().await.problem(405), "method_not_allowed");
        let reply = anonymous.get("/nothing").send().await;
        assert_eq!(reply.body["type"], format!("{}/documentation/errors/#not-found", app.base_url()));
        assert_eq!(reply.body["instance"], "/nothing");
    })
    .await;
}

#[tokio::test]
async fn head_returns_get_without_a_body() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let head = key.call("HEAD", KEYS).send().await;
        assert_eq!((head.status, head.text.as_str()), (200, ""));
        assert_eq!(key.call("HEAD", "/status/").send().await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn bodies_are_json_of_bounded_size_and_depth() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("limits.body_bytes", 4096);
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let send = |content_type: &'static str, body: String| admin.post(KEYS).text(content_type, body).send();
        let good = json!({"name": "x", "scopes": ["*"]}).to_string();
        assert_eq!(send("text/plain", good.clone()).await.problem(415), "unsupported_media_type");
        assert_eq!(send("application/xml", good.clone()).await.problem(415), "unsupported_media_type");
        assert_eq!(send("application/json", String::new()).await.problem(400), "malformed_json");
        assert_eq!(send("application/json", "{\"name\":".to_owned()).await.problem(400), "malformed_json");
        assert_eq!(
            send("application/json", "{\"name\":\"a\",\"name\":\"b\",\"scopes\":[\"*\"]}".to_owned()).await.problem(400),
            "malformed_json"
        );
        assert_eq!(send("application/json", "[".repeat(4000)).await.problem(400), "malformed_json");
        assert_eq!(send("application/json", " ".repeat(5000)).await.problem(413), "payload_too_large");
        send("application/json; charset=utf-8", good).await.ok(201);
        let unread = admin.post(KEYS).send().await;
        assert_eq!(unread.problem(415), "unsupported_media_type", "a body is needed and none came");
    })
    .await;
}

#[tokio::test]
async fn unacceptable_media_types_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let get = |accept: &'static str| key.get(KEYS).header("accept", accept).send();
        for accept in ["application/json", "*/*", "text/html, application/*;q=0.8", "application/json;q=0.1"] {
            get(accept).await.ok(200);
        }
        for accept in ["text/html", "application/xml", "application/json;q=0"] {
            assert_eq!(get(accept).await.problem(406), "not_acceptable", "{accept}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_id_of_the_wrong_kind_is_reported() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        for id in ["usr_01k9z7w3v5e8g9m2n4p6r8t0x1", "key_x", "1042", "key_01K9Z7W3V5E8G9M2N4P6R8T0X1"] {
            let by_path = key.get(&format!("{KEYS}/{id}")).send().await;
            assert_eq!(by_path.problem(422), "validation_failed", "{id}");
            assert_eq!(by_path.field_errors(), [("id".to_owned(), "wrong_form".to_owned())]);
            let by_query = key.delete(&format!("{KEYS}?id={id}")).send().await;
            assert_eq!(by_query.problem(422), "validation_failed", "{id}");
        }
        assert_eq!(key.get(&format!("{KEYS}/key_01k9z7w3v5e8g9m2n4p6r8t0x1")).send().await.problem(404), "not_found");
    })
    .await;
}

#[tokio::test]
async fn unknown_parameters_are_refused_on_every_operation() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        for (method, path) in [("GET", "/api/auth/session"), ("POST", KEYS), ("GET", "/api/events/catalog"), ("DELETE", KEYS)] {
            let reply = admin.call(method, &format!("{path}?dry_run=true")).json(json!({})).send().await;
            assert_eq!(reply.problem(400), "unknown_parameter", "{method} {path}");
        }
    })
    .await;
}

#[tokio::test]
async fn unexpected_bodies_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let path = format!("/api/platform/tenants/{}/suspend", acme.id);
        let reply = app.local().post(&path).json(json!({"until": "tomorrow"})).send().await;
        assert_eq!(reply.problem(400), "malformed_request");
        acme.key(&["*"]).await.get(KEYS).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn every_response_has_its_id_and_security_headers() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let (first, second) = (key.get(KEYS).send().await, key.get(KEYS).send().await);
        assert!(first.header("x-request-id").starts_with("req_"));
        assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
        let refused = app.anonymous().get(KEYS).send().await;
        for reply in [&first, &refused] {
            assert_eq!(reply.header("x-content-type-options"), "nosniff");
            assert_eq!(reply.header("content-security-policy"), "default-src 'none'; base-uri 'none'; frame-ancestors 'none'");
            assert_eq!(reply.header("referrer-policy"), "no-referrer");
        }
        assert_eq!(first.header("content-type"), "application/json");
    })
    .await;
}
