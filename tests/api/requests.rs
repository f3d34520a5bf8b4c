//! Rules for requests to any operation: the encoding of bodies, the host, and the origin.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use tenantd_store::{StoreError, catalog, events};

use crate::{
    authorization::fill,
    harness::{Actor, TestApp, portal::portal_contact, with_app},
};

/// Resolves a schema reference, if there is one.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"].as_str().and_then(|name| document.pointer(name.trim_start_matches('#'))).unwrap_or(schema)
}

/// The operations of both documents: method, path and description, with the schemas of the parameters.
async fn operations(actor: &Actor) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for place in ["/api/openapi.json", "/internal/openapi.json"] {
        let document = actor.get(place).send().await.ok(200).clone();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let mut operation = operation.clone();
                for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
                    parameter["schema"] = resolved(&document, &parameter["schema"]).clone();
                }
                found.push((method.to_uppercase(), fill(path), operation));
            }
        }
    }
    found
}

#[tokio::test]
async fn encoded_bodies_are_refused_on_every_operation() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (key, operator) = (acme.key(&["*"]).await, app.operator().await);
        let contact = portal_contact(app, &acme, &acme.organization("Acme").await, "ada@acme.example").await;
        let mut tried = 0;
        let operations = operations(&app.anonymous()).await;
        let bodies = operations.iter().filter_map(|(method, path, operation)| {
            let media = operation.pointer("/requestBody/content")?.as_object()?;
            Some(media.keys().map(move |media| (method.as_str(), path.as_str(), media.as_str())))
        });
        let pages = ["/sign-in", "/set-password"].map(|path| ("POST", path, "application/x-www-form-urlencoded"));
        for (method, path, media) in bodies.flatten().chain(pages) {
            let actor = match path {
                path if path.starts_with("/api/platform/") => &operator,
                path if path.starts_with("/api/portal/") => &contact,
                _ => &key,
            };
            let send =
                |encoding: &'static str| actor.call(method, path).header("content-encoding", encoding).text(media, "{}").send();
            for encoding in ["gzip", "br", "GZip", "identity, gzip", "x"] {
                let refused = send(encoding).await;
                assert_eq!(refused.problem(415), "unsupported_media_type", "{method} {path} {media} {encoding}");
                assert!(refused.body["detail"].as_str().unwrap().contains("Content-Encoding"), "{}", refused.text);
                assert_eq!(refused.header("accept-encoding"), "identity");
            }
            for encoding in ["identity", "Identity", ""] {
                assert_ne!(send(encoding).await.status, 415, "{method} {path} {media} {encoding}");
            }
            tried += 1;
        }
        assert!(tried > 40, "{tried}");
    })
    .await;
}

/// Sends bytes on a connection and returns the first line of the response.
async fn answer(app: &TestApp, request: &str) -> String {
    let mut connection = TcpStream::connect(app.base_url().trim_start_matches("http://")).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn ambiguous_hosts_are_refused() {
    with_app(async |app| {
        let address = app.base_url().trim_start_matches("http://").to_owned();
        for path in ["/healthz", "/api/auth/session", "/documentation/", "/nowhere"] {
            let send = |version: &str, target: &str, hosts: &[&str]| {
                let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
                let request = format!("GET {target}{path} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
                async move { answer(app, &request).await }
            };
            let refused = "HTTP/1.1 400 Bad Request";
            for (target, hosts) in [
                ("", vec![]),
                ("", vec!["a.example", "a.example"]),
                ("", vec!["a.example", "b.example"]),
                ("", vec![""]),
                ("", vec!["a.example, b.example"]),
                ("", vec!["somebody@a.example"]),
                ("http://a.example", vec!["b.example"]),
                ("http://a.example", vec!["a.example:81"]),
            ] {
                assert_eq!(send("1.1", target, &hosts).await, refused, "{target}{path} {hosts:?}");
            }
            for (version, target, hosts) in
                [("1.1", "", vec![address.as_str()]), ("1.1", "http://a.example", vec!["A.example:80"]), ("1.0", "", vec![])]
            {
                let answer = send(version, target, &hosts).await;
                assert!(answer.starts_with("HTTP/1.") && !answer.contains(" 400 "), "{target}{path} {hosts:?}: {answer}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn trace_is_refused_everywhere() {
    with_app(async |app| {
        for path in ["/", "/healthz", "/api/auth/session", "/api/psa/tickets", "/nowhere"] {
            let request = format!("TRACE {path} HTTP/1.1\r\nHost: a.example\r\nX-Canary: 7f3a\r\nConnection: close\r\n\r\n");
            let first = answer(app, &request).await;
            assert!(first.contains(" 404 ") || first.contains(" 405 "), "{path}: {first}");
        }
    })
    .await;
}

/// The positions of the log and the operations, which advance with every effect.
fn effects(app: &TestApp) -> (u64, u64) {
    let store = &app.running().app.store;
    let head = store.read::<_, StoreError>(events::head).unwrap();
    (head, store.version(catalog::OPERATIONS))
}

#[tokio::test]
async fn a_get_from_another_site_has_no_effect() {
    with_app(async |app| {
        let (admin, operator) = (app.tenant("acme").await.admin().await, app.operator().await);
        let before = effects(app);
        let mut refused = Vec::new();
        for (method, path, operation) in operations(&app.anonymous()).await {
            if method != "GET" {
                continue;
            }
            let mut queries = vec![String::new()];
            for parameter in operation["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query")
            {
                let name = parameter["name"].as_str().unwrap();
                if parameter["schema"]["type"] == "boolean" {
                    queries.push(format!("?{name}=true"));
                } else {
                    let words = parameter["schema"]["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
                    queries.extend(words.map(|word| format!("?{name}={word}")));
                }
            }
            let actor = if path.starts_with("/api/platform/") { &operator } else { &admin };
            for query in &queries {
                for accept in ["*/*", "text/csv", "application/x-ndjson"] {
                    let call = actor.get(&format!("{path}{query}")).header("sec-fetch-site", "cross-site").header("accept", accept);
                    let reply = call.send().await;
                    if reply.body["code"] == "csrf_failed" {
                        refused.push(format!("{path}{query}"));
                    }
                }
            }
        }
        assert_eq!(effects(app), before, "a GET from another site had an effect");
        for expected in ["/api/cloud/vms?refresh=true", "/api/psa/tickets?format=csv", "/api/psa/tickets"] {
            assert!(refused.iter().any(|path| path == expected), "{expected} was not refused: {refused:?}");
        }
        // The same request from this site, and from a client that is not a browser, takes effect.
        for site in [Some("same-origin"), Some("none"), None] {
            let before = effects(app);
            let call = |path: &str| site.iter().fold(admin.get(path), |call, site| call.header("sec-fetch-site", site));
            call("/api/cloud/vms?refresh=true").send().await.ok(202);
            assert_eq!(call("/api/psa/tickets?format=csv").send().await.status, 200);
            let after = effects(app);
            assert!(after.0 > before.0 && after.1 > before.1, "{site:?}: {before:?} {after:?}");
        }
    })
    .await;
}
