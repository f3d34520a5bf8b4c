//! Pages for people and probes for machines, all made by the running binary.

use serde_json::json;

use crate::harness::{Setup, with_app, with_setup};

#[tokio::test]
async fn every_page_is_there_for_people_and_as_json_and_loads_nothing_from_elsewhere() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        for path in [
            "/api/rate-limits/",
            "/documentation/",
            "/documentation/errors/",
            "/documentation/events/",
            "/documentation/scopes/",
            "/documentation/changelog/",
            "/status/",
        ] {
            let page = anonymous.get(path).send().await;
            assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
            assert!(page.text.starts_with("<!doctype html>") && page.text.ends_with("</html>"), "{path}");
            for forbidden in ["<script", "src=", "<link", "@import", "url("] {
                assert!(!page.text.contains(forbidden), "{path} has {forbidden}");
            }
            assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
            let without_slash = anonymous.get(path.trim_end_matches('/')).send().await;
            assert_eq!((without_slash.status, without_slash.header("location")), (308, path));
            if path != "/documentation/" {
                let data = anonymous.get(path).header("accept", "application/json").send().await;
                assert!(data.ok(200).is_object(), "{path}");
            }
        }
        assert_eq!(anonymous.get("/").send().await.header("location"), "/documentation/");
    })
    .await;
}

#[tokio::test]
async fn the_reference_has_every_operation_and_the_error_page_every_code() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        let document = anonymous.get("/api/openapi.json").send().await.ok(200).clone();
        let reference = anonymous.get("/documentation/").send().await.text;
        for operation in document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values()) {
            let anchor = format!("<section id=\"{}\">", operation["operationId"].as_str().unwrap());
            assert!(reference.contains(&anchor), "{anchor}");
        }
        let errors = anonymous.get("/documentation/errors/").send().await.text;
        let problem = anonymous.get("/nothing").send().await;
        let anchor = problem.body["type"].as_str().unwrap().split('#').nth(1).unwrap().to_owned();
        assert!(errors.contains(&format!("<section id=\"{anchor}\">")));
    })
    .await;
}

#[tokio::test]
async fn the_page_of_scopes_tells_what_each_role_may() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let page = app.anonymous().get("/documentation/scopes/").send().await.text;
        let told = app.anonymous().get("/documentation/scopes/").header("accept", "application/json").send().await;
        let roles = told.ok(200)["roles"].as_array().unwrap();
        assert_eq!(roles.len(), 4);
        for told in roles {
            let role = told["role"].as_str().unwrap();
            let actor = if role == "operator" { app.operator().await } else { acme.user(role).await };
            let me = actor.get("/api/auth/session").send().await.ok(200).clone();
            assert_eq!((&me["role"], &me["scopes"]), (&told["role"], &told["scopes"]), "what is told is what is held");
            let scopes: Vec<&str> = told["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
            assert!(page.contains(&format!("<td>{role}</td><td>{}</td>", scopes.join(", "))), "{role}: {page}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_document_is_public_cacheable_and_complete() {
    with_app(async |app| {
        let reply = app.anonymous().get("/api/openapi.json").send().await;
        let document = reply.ok(200);
        assert_eq!(document["openapi"], "3.1.0");
        let etag = reply.header("etag").to_owned();
        let again = app.anonymous().get("/api/openapi.json").header("if-none-match", &etag).send().await;
        assert_eq!((again.status, again.text.as_str()), (304, ""));
        for (path, methods) in document["paths"].as_object().unwrap() {
            assert!(path.starts_with("/api/"), "{path}");
            for (method, operation) in methods.as_object().unwrap() {
                let label = format!("{method} {path}");
                for status in ["400", "406", "422", "429", "500", "503"] {
                    assert!(operation["responses"].get(status).is_some(), "{label} lacks {status}");
                }
                let bodies = operation["responses"].as_object().unwrap().values().chain(operation.get("requestBody"));
                for media in bodies.filter_map(|body| body.get("content")).flat_map(|content| content.as_object().unwrap()) {
                    assert!(!media.0.contains("charset"), "{label}");
                    assert!(media.1.get("example").is_some(), "{label} has a body without an example");
                }
                assert!(
                    operation["summary"].is_string() && operation["operationId"].is_string() && operation["tags"].is_array(),
                    "{label}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn probes_tell_life_and_readiness_and_metrics_stay_at_home() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        assert_eq!(anonymous.get("/healthz").send().await.ok(200), &json!({"status": "alive"}));
        assert_eq!(anonymous.get("/readyz").send().await.ok(200), &json!({"status": "ready"}));
        let metrics = anonymous.get("/metrics").send().await;
        let content_type = metrics.header("content-type");
        assert_eq!((metrics.status, content_type), (200, "text/plain; version=0.0.4; charset=utf-8"));
        assert!(metrics.text.contains("# HELP tenantd_connections_open Connections that are open."), "{}", metrics.text);
        let status = anonymous.get("/status/").header("accept", "application/json").send().await;
        assert_eq!(status.ok(200)["state"], "operational");
        let names: Vec<_> = status.body["components"].as_array().unwrap().iter().map(|part| part["name"].clone()).collect();
        assert!(names.contains(&json!("storage")) && names.contains(&json!("api")));
    })
    .await;
}

#[tokio::test]
async fn metrics_need_the_token_from_elsewhere() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret-token\n").unwrap();
    let setup = Setup::default()
        .with("rate_limits.enabled", false)
        .with("telemetry.metrics_token_file", token.path().display())
        .with("listen.trusted_proxies", "[\"127.0.0.1/32\"]");
    with_setup(setup, async |app| {
        let remote = app.anonymous().with("x-forwarded-for", "203.0.113.9");
        assert_eq!(remote.get("/metrics").send().await.problem(401), "missing_credentials");
        assert_eq!(remote.clone().bearer("wrong").get("/metrics").send().await.problem(401), "missing_credentials");
        assert_eq!(remote.bearer("s3cret-token").get("/metrics").send().await.status, 200);
    })
    .await;
}
