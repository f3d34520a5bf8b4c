//! Trust in exports, and what an untrusted file can do.

use serde_json::{Value, json};

use tenantd_base::{access::Role, id::TenantId};

use crate::{
    harness::{
        Endpoint, PASSWORD, Receiver, TestApp,
        forge::{Forged, stranger},
        with_app,
    },
    transfer::{export, import, import_as},
};

async fn refused(app: &TestApp, order: Value, file: &str) -> String {
    let answer = import_as(app, &order, file).await;
    assert_eq!(answer["done"], false, "{answer}");
    answer["error"].as_str().unwrap().to_owned()
}

/// A tenant with automation of every kind, and its key.
async fn lively(app: &TestApp, receiver: &Receiver) -> (String, String) {
    let tenant = app.evaluation_tenant("acme").await;
    tenant.admin().await;
    let (key, shown) = tenant.new_key("automation", &["*"]).await;
    Endpoint::of(key.clone(), &receiver.url(), json!({"headers": {"x-token": "t"}})).await;
    let provider = json!({"name": "Acme", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": "s3cret", "domains": ["acme.example"]});
    tenant.user("technician").await;
    let admin = app.sign_in("admin@acme.example").await;
    admin.post("/api/admin/identity-providers").json(provider).send().await.ok(201);
    key.post("/api/cloud/providers").json(json!({"name": "Lab", "kind": "simulated"})).send().await.ok(201);
    let steps = json!([{"id": "done", "type": "return", "with": {"output": 1}}]);
    let definition = json!({
        "key": "hello", "name": "Hello", "steps": steps,
        "triggers": [{"type": "event", "event": "ticket.created"}, {"type": "schedule", "cron": "* * * * *"}],
    });
    let created = key.post("/api/psa/workflows/trigger").json(json!({"action": "create", "definition": definition})).send().await;
    created.ok(201);
    (tenant.id.clone(), shown["key"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_file_is_trusted_like_its_signature() {
    with_app(async |old| {
        let tenant = old.tenant("acme").await;
        tenant.admin().await;
        let file = export(old, &tenant.id, json!({})).await;
        let lines: Vec<&str> = file.lines().collect();
        let own = refused(old, json!({"mode": "check"}), &file).await;
        assert!(own.contains("already exists in this installation"), "its own signature counts: {own}");
        let key = old.local().get("/documentation/keys/").header("accept", "application/json").send().await;
        let purposes: Vec<&str> =
            key.ok(200)["keys"].as_array().unwrap().iter().map(|key| key["purpose"].as_str().unwrap()).collect();
        assert!(purposes.contains(&"tenant_export"), "{purposes:?}");
        with_app(async |new| {
            let signer: Value = serde_json::from_str(lines[0]).unwrap();
            let trusted = json!({"mode": "import", "trusted_keys": [signer["signer"]]});
            let unknown = refused(new, json!({"mode": "import"}), &file).await;
            assert!(unknown.contains("does not know") && unknown.contains("--trusted-key"), "{unknown}");
            let other = stranger(9);
            let forged = Forged::of(&file);
            let by_other = refused(new, trusted.clone(), &forged.file(Some(&other))).await;
            assert!(by_other.contains("does not know"), "{by_other}");
            // Signed by a stranger, under the name of a trusted installation.
            let disguised =
                forged.file(Some(&other)).replacen(&other.public_key().unwrap().to_string(), signer["signer"].as_str().unwrap(), 1);
            let error = refused(new, trusted.clone(), &disguised).await;
            assert!(error.contains("the signature does not match"), "{error}");
            let unsigned = refused(new, trusted.clone(), &forged.file(None)).await;
            assert!(unsigned.contains("is not signed") && unsigned.contains("--accept-unverified"), "{unsigned}");
            let old_format = file.replacen("\"version\":2", "\"version\":1", 1);
            assert!(refused(new, trusted.clone(), &old_format).await.contains("is not signed"));
            // One changed letter with recomputed hashes and the old signatures.
            let signatures: Vec<&&str> = lines.iter().filter(|line| line.contains("\"type\":\"signature\"")).collect();
            let mut changed = forged.clone();
            changed.change("user", |user| user["name"] = json!("Eve"));
            let resigned = changed.file(Some(&other)).replacen(
                &other.public_key().unwrap().to_string(),
                signer["signer"].as_str().unwrap(),
                1,
            );
            let kept: Vec<&str> = resigned.lines().filter(|line| !line.contains("\"type\":\"signature\"")).collect();
            let kept = format!("{}\n{}\n", kept.join("\n"), signatures.last().unwrap());
            let error = refused(new, trusted.clone(), &kept).await;
            assert!(
                error.contains("the signature does not match") && error.contains("was changed after it was exported"),
                "{error}"
            );
            let without_last = format!("{}\n", lines[..lines.len() - 1].join("\n"));
            assert!(refused(new, trusted.clone(), &without_last).await.contains("the signature is missing"));
            let header = file.replacen("\"slug\":\"acme\"", "\"slug\":\"evil\"", 1);
            assert!(refused(new, trusted.clone(), &header).await.contains("the signature does not match"));
            let twice = format!("{file}{}\n", lines.last().unwrap());
            assert!(refused(new, trusted.clone(), &twice).await.contains("the file continues after its last line"));
            assert!(refused(new, json!({"mode": "import", "trusted_keys": ["x"]}), &file).await.contains("64 hexadecimal digits"));
            let users = new.local().get("/api/platform/tenants").send().await;
            assert_eq!(users.ok(200)["data"].as_array().unwrap().len(), 1, "nothing is left of them: {}", users.text);
            let done = import_as(new, &trusted, &file).await;
            assert_eq!((&done["done"], &done["verified"]), (&json!(true), &json!(true)), "{done}");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn importing_an_evaluation_tenant_needs_consent() {
    with_app(async |old| {
        let tenant = old.evaluation_tenant("acme").await;
        let file = export(old, &tenant.id, json!({})).await;
        with_app(async |new| {
            let signer: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
            for order in [json!({"trusted_keys": [signer["signer"]]}), json!({"accept_unverified": true})] {
                let mut order = order;
                order["mode"] = json!("import");
                assert!(refused(new, order.clone(), &file).await.contains("--allow-evaluation"));
                // A file that calls it a standard tenant does not change what its id says.
                let mut forged = Forged::of(&file);
                forged.header["tenant"]["kind"] = json!("standard");
                forged.change("tenant", |tenant| tenant["kind"] = json!("standard"));
                let error = refused(new, json!({"mode": "import", "accept_unverified": true}), &forged.file(None)).await;
                assert!(error.contains("the ID is that of an evaluation tenant"), "{error}");
            }
            assert_eq!(import(new, json!({"mode": "import"}), &file).await["done"], true);
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn unverified_imports_activate_nothing() {
    with_app(async |old| {
        let receiver = Receiver::always(200).await;
        let (tenant, plaintext) = lively(old, &receiver).await;
        let order = json!({"key": "00".repeat(32), "salt": "00".repeat(16)});
        let file = export(old, &tenant, order).await;
        with_app(async |new| {
            let order = json!({"mode": "import", "accept_unverified": true, "allow_evaluation": true, "key": "00".repeat(32)});
            let done = import_as(new, &order, &file).await;
            assert_eq!((&done["done"], &done["verified"]), (&json!(true), &json!(false)), "{done}");
            let off: Vec<(String, u64)> = done["switched_off"]
                .as_array()
                .unwrap()
                .iter()
                .map(|off| (off["what"].as_str().unwrap().to_owned(), off["count"].as_u64().unwrap()))
                .collect();
            let expected = [
                ("API keys", 1),
                ("cloud providers", 1),
                ("identity providers", 1),
                ("passwords", 2),
                ("webhooks", 1),
                ("workflows", 1),
            ];
            assert_eq!(off, expected.map(|(what, count)| (what.to_owned(), count)));
            let refused = new.anonymous().bearer(&plaintext).get("/api/auth/session").send().await;
            assert_eq!(refused.problem(401), "key_disabled");
            let sign_in = json!({"email": "admin@acme.example", "password": PASSWORD});
            assert_eq!(new.anonymous().post("/api/auth/login").json(sign_in).send().await.status, 401);
            assert_eq!(new.anonymous().post("/api/auth/sso").json(json!({"domain": "acme.example"})).send().await.status, 404);
            // An administrator of this installation reviews it, and enables what is needed.
            let known = crate::harness::Tenant::known(new, "acme", &tenant);
            let (key, _) = known.new_key("ours", &["*"]).await;
            let webhook = key.get("/api/admin/webhooks").send().await.ok(200)["data"][0].clone();
            assert_eq!(webhook["status"], "paused");
            let workflow = key.get("/api/psa/workflows/trigger").send().await.ok(200)["data"][0].clone();
            assert_eq!((&workflow["enabled"], &workflow["key"]), (&json!(false), &json!("hello")), "{workflow}");
            let provider = key.get("/api/admin/identity-providers").send().await.ok(200)["data"][0].clone();
            assert_eq!(provider["domain_claims"][0]["proven"], false, "what the file says does not count: {provider}");
            let path = format!("/api/admin/identity-providers/{}", provider["id"].as_str().unwrap());
            key.put(&path).json(json!({"enabled": true})).send().await.ok(200);
            assert_eq!(new.anonymous().post("/api/auth/sso").json(json!({"domain": "acme.example"})).send().await.status, 404);
            let cloud = key.get("/api/cloud/providers").send().await.ok(200)["data"][0].clone();
            assert_eq!((&cloud["enabled"], &cloud["status"]), (&json!(false), &json!("disabled")), "{cloud}");
            assert!(receiver.is_quiet().await, "nothing was sent");
            let path = format!("/api/psa/workflows/trigger/{}", workflow["id"].as_str().unwrap());
            let on = key.patch(&path).json(json!({"enabled": true})).send().await;
            assert_eq!((&on.ok(200)["enabled"], &on.body["version"]), (&json!(true), &json!(2)), "{}", on.text);
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_reimported_tenant_stays() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        tenant.organization("Acme").await;
        let file = export(app, &tenant.id, json!({})).await;
        let path = format!("/api/platform/tenants/{}", tenant.id);
        let deleted = app.local().delete(&format!("{path}?confirm=acme")).send().await;
        assert!([200, 202].contains(&deleted.status), "{}", deleted.text);
        app.until_tenant(&tenant.id, None).await;
        assert_eq!(import(app, json!({"mode": "import"}), &file).await["done"], true);
        // An hour later the deletion removes what running work has left.
        app.advance(std::time::Duration::from_hours(2));
        let errands = tenantd_store::catalog::TENANT_ERRANDS;
        assert!(app.running().app.store.version(errands) > 0);
        let again = export(app, &tenant.id, json!({})).await;
        assert!(again.contains("\"type\":\"organization\""), "{again}");
        assert!(tenant.id.parse::<TenantId>().unwrap().is_of_tenant());
    })
    .await;
}

#[tokio::test]
async fn an_operator_outside_the_platform_has_no_rights() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        tenant.odd_staff("eve@acme.example", Role::Operator).await;
        let body = json!({"email": "eve@acme.example", "password": PASSWORD});
        app.local().post("/internal/admin/users/reset-password").json(body).send().await.ok(200);
        let eve = app.sign_in("eve@acme.example").await;
        assert_eq!(eve.get("/api/auth/session").send().await.ok(200)["scopes"], json!([]));
        for (path, code) in [
            ("/api/platform/tenants", "operator_required"),
            ("/api/analytics/platform", "operator_required"),
            ("/api/psa/tickets", "insufficient_scope"),
        ] {
            assert_eq!(eve.get(path).send().await.problem(403), code, "{path}");
        }
    })
    .await;
}
