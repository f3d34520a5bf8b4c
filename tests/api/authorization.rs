//! Every operation of the published document against every invalid credential. There are no exceptions: operations that the
//! document declares as public answer, all others refuse.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, Log, Reply, Setup, TestApp, with_app, with_setup};

struct Operation {
    method: String,
    path: String,
    need: Option<String>,
    has_body: bool,
}

impl Operation {
    /// The accepted scopes, of which one is sufficient. `None` if the operation needs no scope.
    fn scopes(&self) -> Option<Vec<&str>> {
        let need = self.need.as_deref()?;
        let several = need.strip_prefix("any_scope:").map(|names| names.split(',').collect());
        several.or_else(|| need.strip_prefix("scope:").map(|name| vec![name]))
    }
}

/// The suffix of an id that no record has.
pub const NO_RECORD: &str = "_01k9z7w3v5e8g9m2n4p6r8t0x1";

/// Fills a path with valid ids that do not exist.
pub fn fill(path: &str) -> String {
    let prefix = match path {
        path if path.contains("/api-keys/") || path.contains("/auth/own-keys/") => "key",
        path if path.contains("/users/") || path.contains("/contacts/") => "usr",
        path if path.contains("/directory/organizations/") => "org",
        path if path.contains("/directory/devices/") => "dev",
        path if path.contains("/admin/roles/") => "rol",
        path if path.contains("/admin/secrets/") => "sec",
        path if path.contains("/auth/views/") => "viw",
        path if path.contains("/auth/factors/") => "fac",
        path if path.contains("/auth/sessions/") => "ses",
        path if path.contains("/identity-providers/") => "idp",
        path if path.contains("/cloud/providers/") => "prv",
        path if path.contains("/cloud/vms/") => "vm",
        path if path.contains("/operations/{id}") => "op",
        path if path.contains("/tickets/") => "tkt",
        path if path.contains("/admin/webhooks/") => "whk",
        path if path.contains("/workflows/trigger/runs/") => "run",
        path if path.contains("/workflows/trigger/") => "wfl",
        _ => "tnt",
    };
    let named = [
        ("{id}", prefix),
        ("{session_id}", "ses"),
        ("{key_id}", "key"),
        ("{webhook_id}", "whk"),
        ("{delivery_id}", "dlv"),
        ("{operation_id}", "op"),
    ];
    let path = path.replace("{seq}", "9007199254740991");
    named.iter().fold(path, |path, (name, prefix)| path.replace(name, &format!("{prefix}{NO_RECORD}")))
}

/// The operations of the public document and of the document for agents and imports.
async fn operations(actor: &Actor) -> Vec<Operation> {
    let public = actor.get("/api/openapi.json").send().await.ok(200).clone();
    let internal = actor.get("/internal/openapi.json").send().await.ok(200).clone();
    let paths = |document: &Value| document["paths"].as_object().unwrap().clone();
    assert!(!paths(&internal).is_empty());
    let mut found = Vec::new();
    for (path, methods) in &paths(&public).into_iter().chain(paths(&internal)).collect::<Vec<_>>() {
        for (method, operation) in methods.as_object().unwrap() {
            let need = operation["x-need"].as_str().map(str::to_owned);
            assert_eq!(need.is_none(), operation["security"] == json!([]), "{method} {path}");
            found.push(Operation {
                method: method.to_uppercase(),
                path: fill(path),
                need,
                has_body: operation.get("requestBody").is_some(),
            });
        }
    }
    assert!(found.len() >= 15);
    found
}

async fn call(actor: &Actor, operation: &Operation) -> Reply {
    let call = actor.call(&operation.method, &operation.path);
    if operation.has_body { call.json(json!({})).send().await } else { call.send().await }
}

/// Expects the same status and code from every operation.
async fn expect_all(app: &TestApp, actor: &Actor, status: u16, code: &str) {
    for operation in operations(&app.anonymous()).await {
        let reply = call(actor, &operation).await;
        if operation.need.is_some() {
            assert_eq!(reply.problem(status), code, "{} {}", operation.method, operation.path);
        } else {
            assert!(![401, 403].contains(&reply.status) || reply.problem(401) == "invalid_credentials", "{}", operation.path);
        }
    }
}

#[tokio::test]
async fn every_private_operation_needs_a_credential() {
    with_app(async |app| {
        expect_all(app, &app.anonymous(), 401, "missing_credentials").await;
    })
    .await;
}

#[tokio::test]
async fn invalid_credentials_are_refused_everywhere() {
    with_app(async |app| {
        for (name, value) in [
            ("authorization", "Bearer tck_live_0000000000000000000000000000000000000000000000000"),
            ("authorization", "Bearer x"),
            ("authorization", "Basic YTpi"),
            ("authorization", "Bearer"),
            ("x-api-key", ""),
        ] {
            expect_all(app, &app.anonymous().with(name, value), 401, "invalid_credentials").await;
        }
        let cookie = format!("tenantd_session={}", "A".repeat(43));
        expect_all(app, &app.anonymous().with("cookie", &cookie), 401, "session_expired").await;
        for (name, value) in [("x-api-key", "b".to_owned()), ("cookie", cookie)] {
            let both = app.anonymous().with("authorization", "Bearer a").with(name, &value);
            expect_all(app, &both, 400, "ambiguous_credentials").await;
        }
    })
    .await;
}

#[tokio::test]
async fn unusable_keys_are_refused_everywhere() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.key(&["*"]).await;
        let path = |key: &Value| format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        let (revoked, key) = acme.new_key("revoked", &["*"]).await;
        admin.delete(&path(&key)).send().await.ok(200);
        expect_all(app, &revoked, 401, "key_revoked").await;
        let (disabled, key) = acme.new_key("disabled", &["*"]).await;
        admin.put(&path(&key)).json(json!({"enabled": false})).send().await.ok(200);
        expect_all(app, &disabled, 401, "key_disabled").await;
        let (expired, _) = acme.new_key("expired", &["*"]).await;
        app.advance(Duration::from_hours(24 * 91));
        expect_all(app, &expired, 401, "key_expired").await;
    })
    .await;
}

#[tokio::test]
async fn suspended_tenants_are_refused_everywhere() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (key, session) = (acme.key(&["*"]).await, acme.admin().await);
        app.local().post(&format!("/api/platform/tenants/{}/suspend", acme.id)).send().await.ok(200);
        expect_all(app, &key, 403, "tenant_suspended").await;
        expect_all(app, &session, 403, "tenant_suspended").await;
        app.local().post(&format!("/api/platform/tenants/{}/resume", acme.id)).send().await.ok(200);
        key.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn every_operation_needs_exactly_its_scope() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("api_keys.max_live", 1000);
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        for (number, operation) in operations(&app.anonymous()).await.into_iter().enumerate() {
            let label = format!("{} {}", operation.method, operation.path);
            if let Some(all) = operation.need.as_deref().and_then(|need| need.strip_prefix("all_scopes:")) {
                let all: Vec<&str> = all.split(',').collect();
                for lacking in &all {
                    let others: Vec<&str> = all.iter().copied().filter(|other| other != lacking).collect();
                    let (without, _) = acme.new_key(&format!("without {number} {lacking}"), &others).await;
                    assert_eq!(call(&without, &operation).await.problem(403), "insufficient_scope", "{label}");
                }
                let (holding, _) = acme.new_key(&format!("all of {number}"), &all).await;
                assert!(![401, 403].contains(&call(&holding, &operation).await.status), "{label}");
                continue;
            }
            let Some(scopes) = operation.scopes() else { continue };
            let others: Vec<&str> =
                tenantd_base::access::Scope::ALL.iter().map(|other| other.name()).filter(|other| !scopes.contains(other)).collect();
            let (lacking, _) = acme.new_key(&format!("no {number}"), &others).await;
            let refused = call(&lacking, &operation).await;
            assert_eq!(refused.problem(403), "insufficient_scope", "{label}");
            let mut required: Vec<&str> =
                refused.body["required_scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
            required.sort_unstable_by_key(|scope| scopes.iter().position(|other| other == scope));
            assert_eq!(required, scopes, "{label}");
            for scope in &scopes {
                let (holding, _) = acme.new_key(&format!("only {number} {scope}"), &[scope]).await;
                let allowed = call(&holding, &operation).await;
                // An identity provider can sign anyone in, and the sign-in policy concerns everyone, so they also need all rights of an
                // administrator.
                let concerns_everyone = ["/api/admin/identity-providers", "/api/admin/sign-in-policy"];
                if concerns_everyone.iter().any(|path| operation.path.starts_with(path)) && allowed.status == 403 {
                    let lacking = allowed.body["required_scopes"].as_array().unwrap();
                    assert!(!lacking.is_empty() && !lacking.contains(&json!(scope)), "{label}: {}", allowed.text);
                    continue;
                }
                assert!(![401, 403].contains(&allowed.status), "{label}: {}", allowed.text);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn roles_reach_only_their_operations() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        for (role, grants) in [
            ("admin", tenantd_base::access::Role::Admin.grants()),
            ("technician", tenantd_base::access::Role::Technician.grants()),
            ("viewer", tenantd_base::access::Role::Viewer.grants()),
        ] {
            let actor = acme.user(role).await;
            for operation in operations(&app.anonymous()).await {
                let label = format!("{role} {} {}", operation.method, operation.path);
                let reply = match operation.need.as_deref() {
                    None => continue,
                    // Signing out would end the session of the actor.
                    Some(_) if operation.path.ends_with("/logout") => continue,
                    Some(_) => call(&actor, &operation).await,
                };
                if let Some(scopes) = operation.need.as_deref().and_then(|need| need.strip_prefix("all_scopes:")) {
                    let held = scopes.split(',').all(|scope| grants.iter().any(|held| held.name() == scope));
                    assert_eq!(held, reply.status != 403, "{label}: {}", reply.text);
                    continue;
                }
                match operation.scopes() {
                    Some(scopes) => {
                        let held = grants.iter().any(|held| scopes.contains(&held.name()));
                        assert_eq!(held, reply.status != 403, "{label}: {}", reply.text);
                        if !held {
                            let technician = tenantd_base::access::Role::Technician.grants();
                            let admin_only = technician.iter().all(|held| !scopes.contains(&held.name()));
                            let code = if admin_only { "admin_required" } else { "insufficient_scope" };
                            assert_eq!(reply.problem(403), code, "{label}");
                        }
                    }
                    None if matches!(operation.need.as_deref(), Some("operator" | "platform")) => {
                        assert_eq!(reply.problem(403), "operator_required", "{label}");
                    }
                    None if operation.need.as_deref() == Some("contact") => {
                        assert_eq!(reply.problem(403), "contact_required", "{label}");
                    }
                    None => assert_ne!(reply.status, 403, "{label}"),
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn another_tenant_s_record_is_not_found() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let (_, key) = acme.new_key("Secret", &["*"]).await;
        let stranger = globex.key(&["*"]).await;
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        assert_eq!(stranger.get(&path).send().await.problem(404), "not_found");
        assert_eq!(stranger.put(&path).json(json!({"name": "x"})).send().await.problem(404), "not_found");
        assert_eq!(stranger.delete(&path).send().await.problem(404), "not_found");
        assert_eq!(stranger.post(&format!("{path}/rotate")).send().await.problem(404), "not_found");
        let admin = acme.admin().await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let path = format!("/api/admin/users/{me}");
        assert_eq!(stranger.get(&path).send().await.problem(404), "not_found");
        assert_eq!(stranger.put(&path).json(json!({"name": "x"})).send().await.problem(404), "not_found");
        assert_eq!(stranger.delete(&path).send().await.problem(404), "not_found");
        assert_eq!(stranger.delete(&format!("{path}/sessions")).send().await.problem(404), "not_found");
        assert_eq!(stranger.post(&format!("{path}/reset-password")).send().await.problem(404), "not_found");
        let listed = stranger.get("/api/admin/api-keys?include_total=true").send().await;
        assert!(!listed.text.contains("Secret"));
        assert_eq!(listed.body["page"]["total"], 1);
        let feed = stranger.get("/api/events?limit=200").send().await;
        assert!(!feed.text.contains(&acme.id), "another tenant's events are not in the feed");
    })
    .await;
}

#[tokio::test]
async fn admin_operations_are_on_the_socket_only() {
    with_app(async |app| {
        let operator = app.operator().await;
        let document = tenantd::app::internal_document(&tenantd_base::config::load(None, [], &[]).unwrap()).unwrap();
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(path.starts_with("/internal/admin"), "{path}");
            assert_eq!(operator.get(&fill(path)).send().await.problem(404), "not_found", "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_access_log_names_callers_and_refusals() {
    let log = Log::listen();
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (key, record) = acme.new_key("Narrow", &["tickets:read"]).await;
        assert_eq!(key.get("/api/events").send().await.problem(403), "insufficient_scope");
        let admin = acme.admin().await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].clone();
        assert_eq!(admin.post("/api/auth/logout").send().await.status, 204);
        assert_eq!(app.anonymous().get("/api/events").send().await.problem(401), "missing_credentials");
        let requests = log.lines("request");
        let logged = |operation: &str| -> Vec<(Value, Value, Value)> {
            let lines = requests.iter().filter(|line| line["operation"] == operation);
            lines.map(|line| (line["caller"].clone(), line["tenant"].clone(), line["status"].clone())).collect()
        };
        let refused = (record["id"].clone(), json!(acme.id), json!(403));
        assert_eq!(logged("read_events"), [refused, (json!(""), json!(""), json!(401))]);
        assert_eq!(logged("logout"), [(me, json!(acme.id), json!(204))]);
        assert_eq!(logged("create_tenant")[0].0, "local_operator");
        assert!(!log.text().contains(record["key"].as_str().unwrap()), "the key itself is in no line");
    })
    .await;
}
