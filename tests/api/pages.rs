//! Pages for people and probes for machines, all made by the running binary.

use serde_json::json;

use crate::harness::{Setup, with_app, with_setup};

#[tokio::test]
async fn every_page_loads_nothing_from_another_host() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        for path in [
            "/api/rate-limits/",
            "/documentation/",
            "/documentation/api/",
            "/documentation/api/tickets/",
            "/documentation/api/tickets/create_tickets/",
            "/documentation/errors/",
            "/documentation/events/",
            "/documentation/guides/",
            "/documentation/guides/getting-started/",
            "/documentation/keys/",
            "/documentation/schemas/",
            "/documentation/schemas/Ticket/",
            "/documentation/scopes/",
            "/documentation/search/",
            "/documentation/changelog/",
            "/status/",
        ] {
            let page = anonymous.get(path).send().await;
            assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
            assert!(page.text.to_lowercase().starts_with("<!doctype html>") && page.text.ends_with("</html>"), "{path}");
            for forbidden in ["@import", "url(", "style=", "href=\"//", "src=\"//", "src=\"http"] {
                assert!(!page.text.contains(forbidden), "{path} has {forbidden}");
            }
            let style = page.text.split("rel=\"stylesheet\" href=\"").nth(1).map(|rest| rest.split('"').next().unwrap().to_owned());
            if let Some(style) = style {
                let sheet = anonymous.get(&style).send().await;
                assert_eq!((sheet.status, sheet.header("content-type")), (200, "text/css; charset=utf-8"), "{path}");
                let again = anonymous.get(&style).header("if-none-match", sheet.header("etag")).send().await;
                assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
            }
            assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
            let without_slash = anonymous.get(path.trim_end_matches('/')).send().await;
            assert_eq!((without_slash.status, without_slash.header("location")), (308, path));
        }
        let home = anonymous.get("/").send().await;
        assert_eq!((home.status, home.header("location")), (303, "/sign-in"));
    })
    .await;
}

#[tokio::test]
async fn lists_of_the_documentation_are_available_as_json() {
    with_app(async |app| {
        for path in [
            "/api/rate-limits/",
            "/documentation/",
            "/documentation/errors/",
            "/documentation/events/",
            "/documentation/guides/",
            "/documentation/keys/",
            "/documentation/scopes/",
            "/documentation/changelog/",
            "/status/",
        ] {
            let data = app.anonymous().get(path).header("accept", "application/json").send().await;
            assert!(data.ok(200).is_object(), "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_operation_and_every_schema_has_a_page_that_the_lists_link_to() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        let document = anonymous.get("/api/openapi.json").send().await.ok(200).clone();
        let operations = anonymous.get("/documentation/api/").send().await.text;
        let schemas = anonymous.get("/documentation/schemas/").send().await.text;
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let mut links = operations.split("href=\"").filter_map(|rest| rest.split('"').next());
                // `/documentation/api/AREA/ID/`: an area can have the name of an operation.
                let link = links.find(|link| link.ends_with(&format!("/{id}/")) && link.matches('/').count() == 5);
                let link = link.unwrap_or_else(|| panic!("{id} is not listed"));
                let page = anonymous.get(link).send().await;
                assert_eq!(page.status, 200, "{link}");
                let method = method.to_uppercase();
                for part in [path.as_str(), &method, "Python", "TypeScript", operation["x-rate-class"].as_str().unwrap()] {
                    assert!(page.text.contains(part), "{link} lacks {part}");
                }
                for name in
                    operation["parameters"].as_array().into_iter().flatten().map(|parameter| parameter["name"].as_str().unwrap())
                {
                    assert!(page.text.contains(&format!("<code>{name}</code>")), "{link} lacks {name}");
                }
                let links = page.text.split("href=\"/documentation/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
                for schema in links.filter(|schema| !schema.is_empty()) {
                    assert!(schemas.contains(&format!("href=\"/documentation/schemas/{schema}\"")), "{link} links to {schema}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_reference_is_filtered_by_words_area_method_and_scope() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        let found = async |query: &str| {
            let page = anonymous.get(&format!("/documentation/api/{query}")).send().await;
            assert_eq!(page.status, 200, "{query}");
            page.text.matches("class=\"name\"").count()
        };
        let all = found("").await;
        assert!(all > 100);
        let (tickets, posts) = (found("?area=tickets").await, found("?method=post").await);
        let both = found("?area=tickets&method=post").await;
        assert!(0 < both && both < tickets && both < posts && tickets < all && posts < all);
        assert!(found("?scope=webhooks:write&q=rotate").await >= 1);
        assert_eq!(found("?q=nosuchword").await, 0);
        let search = anonymous.get("/documentation/search/?q=rate_limited").send().await.text;
        assert!(search.contains("/documentation/errors/#rate-limited"), "{search}");
        let hostile = anonymous.get("/documentation/search/?q=%3Cscript%3Ealert(1)%3C/script%3E").send().await.text;
        assert!(!hostile.contains("<script>") && hostile.contains("&lt;script&gt;"), "{hostile}");
        for unknown in ["/documentation/api/nothing/", "/documentation/schemas/Nothing/", "/documentation/guides/nothing/"] {
            assert_eq!(anonymous.get(unknown).send().await.status, 404, "{unknown}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_error_links_to_its_entry_in_the_catalog() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        let errors = anonymous.get("/documentation/errors/").send().await.text;
        let problem = anonymous.get("/nothing").send().await;
        let anchor = problem.body["type"].as_str().unwrap().split('#').nth(1).unwrap().to_owned();
        assert!(errors.contains(&format!("<section class=\"error-entry\" id=\"{anchor}\">")));
        let entries = anonymous.get("/documentation/errors/").header("accept", "application/json").send().await;
        for entry in entries.ok(200)["data"].as_array().unwrap() {
            for member in ["code", "title", "cause", "remedy"] {
                assert!(!entry[member].as_str().unwrap().is_empty(), "{entry}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_scope_page_lists_rights_by_role() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let page = app.anonymous().get("/documentation/scopes/").send().await.text;
        let page_as_json = app.anonymous().get("/documentation/scopes/").header("accept", "application/json").send().await;
        let roles = page_as_json.ok(200)["roles"].as_array().unwrap();
        assert_eq!(roles.len(), 4);
        for shown in roles {
            let role = shown["role"].as_str().unwrap();
            let actor = if role == "operator" { app.operator().await } else { acme.user(role).await };
            let me = actor.get("/api/auth/session").send().await.ok(200).clone();
            assert_eq!(
                (&me["role"], &me["scopes"]),
                (&shown["role"], &shown["scopes"]),
                "a role has the scopes that the page shows"
            );
            let scopes: Vec<&str> = shown["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
            assert!(page.contains(&format!("<td><code>{role}</code></td><td>{}</td>", scopes.join(", "))), "{role}: {page}");
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
async fn probes_report_health_and_metrics_are_local() {
    with_app(async |app| {
        let anonymous = app.anonymous();
        assert_eq!(anonymous.get("/healthz").send().await.ok(200), &json!({"status": "alive"}));
        assert_eq!(anonymous.get("/readyz").send().await.ok(200), &json!({"status": "ready"}));
        let metrics = anonymous.get("/metrics").send().await;
        let content_type = metrics.header("content-type");
        assert_eq!((metrics.status, content_type), (200, "text/plain; version=0.0.4; charset=utf-8"));
        assert!(metrics.text.contains("# HELP tenantd_connections_open Open connections."), "{}", metrics.text);
        let status = anonymous.get("/status/").header("accept", "application/json").send().await;
        assert_eq!(status.ok(200)["state"], "operational");
        let names: Vec<_> = status.body["components"].as_array().unwrap().iter().map(|part| part["name"].clone()).collect();
        assert!(names.contains(&json!("storage")) && names.contains(&json!("api")));
    })
    .await;
}

#[tokio::test]
async fn remote_metrics_need_the_token() {
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
