//! Named secrets: write-only, sent by workflow steps to their hosts only, and absent from all records of a run.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Receiver, Reply, Script, TestApp, with_app},
    workflows::{Desk, PATH, set, step},
};

pub const SECRETS: &str = "/api/admin/secrets";
const VALUE: &str = "canary/value+4f\"7a";

/// The body of a secret for one receiver.
fn secret(name: &str, host: &str) -> Value {
    json!({"name": name, "value": VALUE, "hosts": [host]})
}

/// The host of a receiver, as a secret names it.
fn host(receiver: &Receiver) -> String {
    format!("http://127.0.0.1:{}", receiver.port())
}

async fn create(actor: &Actor, body: Value) -> String {
    let created = actor.post(SECRETS).json(body).send().await;
    format!("{SECRETS}/{}", created.ok(201)["id"].as_str().unwrap())
}

fn call(url: &str, headers: Value) -> Value {
    json!([{"id": "call", "type": "http.request", "with": {"method": "POST", "url": url, "headers": headers}}])
}

fn bearer(name: &str) -> Value {
    json!({"authorization": format!("Bearer {{{{ secrets.{name} }}}}")})
}

fn codes(reply: &Reply) -> Vec<(String, String)> {
    assert_eq!(reply.problem(422), "validation_failed", "{}", reply.text);
    reply.field_errors()
}

fn pair(place: &str, code: &str) -> (String, String) {
    (place.to_owned(), code.to_owned())
}

#[tokio::test]
async fn a_secret_value_is_never_shown() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let body =
            json!({"name": "github", "value": VALUE, "hosts": ["API.example.com.", "b.example:8443"], "description": "Issues"});
        let created = admin.post(SECRETS).header("idempotency-key", "one").json(body.clone()).send().await;
        let record = created.ok(201).clone();
        let path = format!("{SECRETS}/{}", record["id"].as_str().unwrap());
        assert!(record["id"].as_str().unwrap().starts_with("sec_"));
        assert_eq!((created.header("location"), created.header("etag")), (path.as_str(), "\"v1\""));
        assert_eq!(record["hosts"], json!(["api.example.com", "b.example:8443"]));
        let again = admin.post(SECRETS).header("idempotency-key", "one").json(body).send().await;
        assert_eq!((again.ok(201)["id"].clone(), again.header("idempotency-replayed")), (record["id"].clone(), "true"));
        let taken = admin.post(SECRETS).json(secret("GitHub", "x.example")).send().await;
        assert_eq!(taken.problem(409), "already_exists");
        let renamed = admin.put(&path).json(json!({"name": "gitlab"})).send().await;
        assert_eq!(codes(&renamed), [pair("/name", "unknown_field")]);
        let changed = admin.put(&path).header("if-match", "\"v1\"").json(json!({"description": null})).send().await;
        assert!(changed.ok(200).get("description").is_none());
        assert_eq!(
            admin.put(&path).header("if-match", "\"v1\"").json(json!({"description": "x"})).send().await.problem(412),
            "version_conflict"
        );
        let rotated = admin.post(&format!("{path}/rotate")).json(json!({"value": format!("{VALUE}-2")})).send().await;
        assert_eq!((&rotated.ok(200)["version"], rotated.body["rotated_at"].is_string()), (&json!(3), true));
        let by_query = format!("{SECRETS}?id={}", record["id"].as_str().unwrap());
        admin.put(&by_query).json(json!({"value": format!("{VALUE}-3"), "hosts": ["c.example"]})).send().await.ok(200);
        create(&admin, secret("other", "x.example")).await;
        let listed = admin.get(&format!("{SECRETS}?name=GIT&include_total=true")).send().await;
        assert_eq!((&listed.ok(200)["page"]["total"], &listed.body["data"][0]["hosts"]), (&json!(1), &json!(["c.example"])));
        let read = admin.get(&path).send().await;
        assert_eq!(admin.get(&path).header("if-none-match", read.header("etag")).send().await.status, 304);
        assert_eq!(admin.delete(SECRETS).json(json!({"id": record["id"]})).send().await.status, 204);
        assert_eq!(admin.get(&path).send().await.problem(404), "not_found");
        let feed = admin.get("/api/events?types=secret.*&limit=200").send().await;
        let kinds: Vec<&str> =
            feed.ok(200)["data"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            ["secret.created", "secret.updated", "secret.rotated", "secret.updated", "secret.created", "secret.deleted"]
        );
        let changes = &feed.body["data"][3]["data"]["changes"];
        assert_eq!(changes["value"], json!({"from": "hidden", "to": "hidden"}));
        assert_eq!(changes["hosts"], json!({"from": ["api.example.com", "b.example:8443"], "to": ["c.example"]}));
        let trail = admin.get("/api/admin/audit?action=secret.rotated").send().await;
        assert_eq!(trail.ok(200)["data"].as_array().unwrap().len(), 1);
        for shown in [&created, &again, &changed, &rotated, &listed, &read, &feed, &trail] {
            assert!(!shown.text.contains("canary") && !shown.text.contains("\"value\":\""), "{}", shown.text);
        }
    })
    .await;
}

#[tokio::test]
async fn all_errors_of_a_secret_are_reported_at_once() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let body = json!({"name": "2fa", "value": VALUE, "hosts": ["ok.example", "x.example/path", "*.example", "a@b.example"]});
        let refused = admin.post(SECRETS).json(body).send().await;
        let places: Vec<String> = codes(&refused).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["/hosts/1", "/hosts/2", "/hosts/3", "/name"]);
        let short = json!({"name": "a", "value": "abc", "hosts": []});
        let places: Vec<String> =
            codes(&admin.post(SECRETS).json(short).send().await).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places, ["/hosts", "/value"]);
        let mut unknown = secret("a", "x.example");
        unknown["workflow_ids"] = json!(["wfl_01k9z7w3v5e8g9m2n4p6r8t0x1"]);
        assert_eq!(codes(&admin.post(SECRETS).json(unknown).send().await), [pair("/workflow_ids/0", "not_found")]);
        assert_eq!(admin.get(SECRETS).send().await.ok(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn adding_a_host_needs_the_value() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let path = create(&admin, json!({"name": "a", "value": VALUE, "hosts": ["a.example", "b.example"]})).await;
        for hosts in [json!(["a.example", "evil.example"]), json!(["http://a.example"]), json!(["a.example:8443"])] {
            let refused = admin.put(&path).json(json!({"hosts": hosts})).send().await;
            assert_eq!(codes(&refused), [pair("/value", "required")], "{hosts}");
        }
        let fewer = admin.put(&path).json(json!({"hosts": ["B.example:443"]})).send().await;
        assert_eq!(fewer.ok(200)["hosts"], json!(["b.example"]));
        assert_eq!(codes(&admin.put(&path).json(json!({"hosts": ["a.example"]})).send().await), [pair("/value", "required")]);
        admin.put(&path).json(json!({"hosts": ["a.example"], "value": VALUE})).send().await.ok(200);
    })
    .await;
}

/// Everything that can be read about runs and events.
async fn everything(desk: &Desk, run: &Value) -> String {
    let run = format!("{PATH}?run_id={}", run["id"].as_str().unwrap());
    let paths = [run.as_str(), "/api/events?limit=200", PATH, "/api/admin/audit?limit=200"];
    let mut all = String::new();
    for path in paths {
        let read = desk.key.get(path).send().await;
        assert_eq!(read.status, 200, "{path}: {}", read.text);
        all.push_str(&read.text);
    }
    all
}

#[tokio::test]
async fn steps_send_secrets_that_no_record_contains() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let receiver = Receiver::always(200).await;
        let path = create(&desk.key, secret("github", &host(&receiver))).await;
        let with = json!({
            "method": "POST", "url": format!("{}?a=b", receiver.url()),
            "headers": {"authorization": "Bearer {{ secrets.github }}", "x-plain": "{{secrets.github}}", "x-input": "{{ inputs.n }}"},
            "body": {"list": ["a={{ secrets.github }};", "{{ inputs.n }}"]},
        });
        desk.workflow("call", json!([{"id": "call", "type": "http.request", "with": with}])).await;
        assert!(desk.key.get(&path).send().await.ok(200).get("last_used_at").is_none());
        let run = desk.start("call", json!({"n": "7"})).await;
        let ended = desk.status(&run, "succeeded").await;
        let sent = receiver.next().await;
        assert_eq!((sent.header("authorization"), sent.header("x-plain")), (format!("Bearer {VALUE}").as_str(), VALUE));
        assert_eq!((sent.header("x-input"), sent.json()), ("7", json!({"list": [format!("a={VALUE};"), "7"]})));
        let input = &step(&ended, "call")["input"];
        assert_eq!(input["headers"]["authorization"], "Bearer [secret github]");
        assert_eq!(input["headers"]["x-plain"], "[secret github]");
        assert_eq!(input["body"], json!({"list": ["a=[secret github];", "7"]}));
        assert!(!everything(&desk, &run).await.contains("canary"));
        let used = desk.key.get(&path).send().await.ok(200)["last_used_at"].clone();
        assert_eq!(used, json!(app.now().to_string()));
        desk.key.post(&format!("{path}/rotate")).json(json!({"value": "canary-next"})).send().await.ok(200);
        let run = desk.start("call", json!({"n": "8"})).await;
        desk.status(&run, "succeeded").await;
        assert_eq!(receiver.next().await.header("x-plain"), "canary-next");
    })
    .await;
}

#[tokio::test]
async fn a_secret_goes_to_its_hosts_and_workflows_only() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let (home, away) = (Receiver::always(200).await, Receiver::always(200).await);
        let path = create(&desk.key, secret("github", &host(&home))).await;
        let workflow = desk.workflow("call", call("{{ inputs.url }}", bearer("github"))).await;
        let other = desk.workflow("other", call(&home.url(), bearer("github"))).await;
        let error = async |key: &str, url: &str| {
            let run = desk.start(key, json!({"url": url})).await;
            let ended = desk.status(&run, "failed").await;
            assert!(!everything(&desk, &run).await.contains("canary"));
            ended["error"]["code"].as_str().unwrap().to_owned()
        };
        let port = home.port();
        for url in [
            away.url(),
            format!("https://127.0.0.1:{port}/hook"),
            format!("http://localhost:{port}/hook"),
            format!("http://127.0.0.1.evil.example:{port}/"),
        ] {
            assert_eq!(error("call", &url).await, "secret_wrong_host", "{url}");
        }
        for url in [home.url(), format!("HTTP://127.1:{port}/other?x=y")] {
            let run = desk.start("call", json!({"url": url})).await;
            desk.status(&run, "succeeded").await;
            assert_eq!(home.next().await.header("authorization"), format!("Bearer {VALUE}"));
        }
        desk.key.put(&path).json(json!({"workflow_ids": [workflow["id"]]})).send().await.ok(200);
        assert_eq!(error("other", "").await, "secret_not_permitted");
        desk.key.put(&path).json(json!({"workflow_ids": []})).send().await.ok(200);
        assert_eq!(error("call", &home.url()).await, "secret_not_permitted");
        desk.key.put(&path).json(json!({"workflow_ids": [other["id"]]})).send().await.ok(200);
        let run = desk.start("other", json!({})).await;
        desk.status(&run, "succeeded").await;
        home.next().await;
        assert_eq!(desk.key.delete(&path).send().await.status, 204);
        assert_eq!(error("other", "").await, "secret_not_found");
        assert_eq!(away.connections(), 0);
        assert!(home.is_quiet().await);
    })
    .await;
}

#[tokio::test]
async fn inputs_never_name_a_secret() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let receiver = Receiver::always(200).await;
        create(&desk.key, secret("github", &host(&receiver))).await;
        let headers = json!({"x-first": "{{ inputs.text }}", "x-second": "{{ secrets.github }}"});
        desk.workflow("call", call(&receiver.url(), headers)).await;
        for text in ["{{ secrets.github }}", "[secret github]"] {
            let run = desk.start("call", json!({"text": text})).await;
            desk.status(&run, "succeeded").await;
            let sent = receiver.next().await;
            assert_eq!((sent.header("x-first"), sent.header("x-second")), (text, VALUE));
        }
    })
    .await;
}

#[tokio::test]
async fn secrets_are_allowed_in_headers_and_bodies_only() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        create(&desk.key, secret("github", "x.example")).await;
        let name = "{{ secrets.github }}";
        let request = |with: Value| json!({"id": "call", "type": "http.request", "with": with});
        let definition = json!({
            "key": "x", "name": "X",
            "triggers": [{"type": "event", "event": "ticket.created", "condition": "secrets.github == 'x'"}],
            "concurrency": {"key": name},
            "steps": [
                {"id": "call", "type": "http.request", "if": "secrets.github", "with": {
                    "url": "https://x.example/{{ secrets.github }}", "method": name,
                    "headers": {"a": "{{ secrets.github }} behind", "b": "{{ secrets.github | upper }}", "c": "{{ inputs.x }}{{ secrets.github }}"},
                    "body": {"a": "{{ secrets['github'] }}", "b": "{{ 'x' ~ secrets.github }}"},
                }},
                set("value", json!(name)),
                {"id": "sub", "type": "workflow.call", "with": {"workflow_key": "{{ inputs.x }}", "inputs": {"a": name}}},
                {"id": "ticket", "type": "ticket.create", "with": {"subject": name, "organization_id": desk.organization}},
            ],
        });
        let refused = desk.try_create(definition).await;
        let expected: Vec<_> = [
            "/concurrency/key",
            "/steps/0/if",
            "/steps/0/with/body/a",
            "/steps/0/with/body/b",
            "/steps/0/with/headers/a",
            "/steps/0/with/headers/b",
            "/steps/0/with/headers/c",
            "/steps/0/with/method",
            "/steps/0/with/url",
            "/steps/1/with/value",
            "/steps/2/with/inputs/a",
            "/steps/3/with/subject",
            "/triggers/0/condition",
        ]
        .iter()
        .map(|place| pair(&format!("/definition{place}"), "secret_not_allowed"))
        .collect();
        assert_eq!(codes(&refused), expected);
        let unknown = request(json!({"url": "https://x.example/", "headers": {"a": "{{ secrets.githb }}"}}));
        let refused = desk.try_create(json!({"key": "x", "name": "X", "steps": [unknown]})).await;
        assert_eq!(codes(&refused), [pair("/definition/steps/0/with/headers/a", "unknown_secret")]);
        assert_eq!(refused.body["errors"][0]["suggestion"], "github");
        let validated = json!({"action": "validate", "definition": {"key": "x", "name": "X", "steps": [request(json!({"url": "https://x.example/", "headers": {"cookie": "a=b"}}))]}});
        let validated = desk.key.post(PATH).json(validated).send().await;
        assert_eq!(validated.ok(200)["errors"][0]["code"], "literal_credential", "{}", validated.text);
    })
    .await;
}

#[tokio::test]
async fn literal_credentials_in_steps_are_refused() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        for name in ["Authorization", "proxy-authorization", "X-API-Key", "cookie", "x-vault-token", "client-secret", "x-password"]
        {
            let refused =
                desk.try_create(json!({"key": "x", "name": "X", "steps": call("https://x.example/", json!({name: "abc"}))})).await;
            assert_eq!(codes(&refused), [pair(&format!("/definition/steps/0/with/headers/{name}"), "literal_credential")]);
            assert!(refused.text.contains("{{ secrets.NAME }}"), "{}", refused.text);
        }
        let allowed =
            json!({"accept": "*/*", "idempotency-key": "abc", "authorization": "Bearer {{ inputs.token }}", "cookie": ""});
        desk.workflow("x", call("https://x.example/", allowed)).await;
    })
    .await;
}

#[tokio::test]
async fn saving_a_secret_reference_needs_the_scope() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, weak) = (tenant.key(&["*"]).await, tenant.key(&["workflows:*", "events:read"]).await);
        create(&admin, secret("github", "x.example")).await;
        let body = json!({"action": "create", "definition": {"key": "x", "name": "X", "steps": call("https://x.example/", bearer("github"))}});
        let refused = weak.post(PATH).json(body.clone()).send().await;
        assert_eq!((refused.problem(403), &refused.body["required_scopes"]), ("insufficient_scope", &json!(["secrets:use"])));
        let id = admin.post(PATH).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let path = format!("{PATH}/{id}");
        let named = json!({"action": "validate", "definition": {"key": "y", "name": "Y", "steps": call("https://x.example/", bearer("githb"))}});
        let validated = weak.post(PATH).json(named).send().await;
        assert_eq!(validated.problem(403), "insufficient_scope", "nor do they learn which there are");
        let shown = weak.get(&path).send().await;
        assert_eq!(shown.ok(200).pointer("/steps/0/with/headers/authorization").unwrap(), "Bearer {{ secrets.github }}");
        for patch in [json!({"triggers": [{"type": "schedule", "cron": "* * * * *"}]}), json!({"steps": call("https://y.example/", bearer("github"))})] {
            assert_eq!(weak.patch(&path).json(patch.clone()).send().await.problem(403), "insufficient_scope", "{patch}");
        }
        assert_eq!(weak.post(PATH).json(json!({"workflow_id": id})).send().await.problem(403), "insufficient_scope");
        weak.patch(&path).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(weak.patch(&path).json(json!({"enabled": true})).send().await.problem(403), "insufficient_scope");
        weak.patch(&path).json(json!({"steps": call("https://y.example/", json!({}))})).send().await.ok(200);
        for scopes in [&["secrets:use"][..], &["workflows:*"], &["*:read"]] {
            let key = tenant.key(scopes).await;
            assert_eq!(key.get(SECRETS).send().await.problem(403), "insufficient_scope", "{scopes:?}");
        }
        let technician = tenant.user("technician").await;
        assert_eq!(technician.get(SECRETS).send().await.problem(403), "admin_required");
    })
    .await;
}

#[tokio::test]
async fn echoed_secrets_are_not_stored() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let json_body = json!({"seen": VALUE, "n": 1}).to_string();
        let text = format!(
            "{VALUE} {} {}",
            VALUE.replace('/', "%2F").replace('+', "%2B").replace('"', "%22"),
            data_encoding::BASE64.encode(VALUE.as_bytes())
        );
        let long = format!("{}{}", "x".repeat(16 * 1024 - 9), VALUE);
        let answers = [("application/json", json_body), ("text/plain", text), ("text/plain", long)];
        let receiver = Receiver::start(move |number, _| {
            let (kind, body) = &answers[number.min(answers.len() - 1)];
            Script::raw(&format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            ))
        })
        .await;
        create(&desk.key, secret("github", &host(&receiver))).await;
        desk.workflow("call", call(&receiver.url(), bearer("github"))).await;
        let outputs = [
            json!({"seen": "[secret]", "n": 1}),
            json!("[secret] [secret] [secret]"),
            json!(format!("{}[secret]", "x".repeat(16 * 1024 - 9))),
        ];
        for output in outputs {
            let run = desk.start("call", json!({})).await;
            let ended = desk.status(&run, "succeeded").await;
            assert_eq!(step(&ended, "call")["output"]["body"], output);
            let all = everything(&desk, &run).await;
            assert!(!all.contains("canary") && !all.contains("Y2FuYXJ5"), "{all}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_shows_placeholders_of_secrets() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let receiver = Receiver::always(200).await;
        let path = create(&desk.key, secret("github", "x.example")).await;
        desk.workflow(
            "call",
            call(&receiver.url(), json!({"authorization": "Bearer {{ secrets.github }}", "x-other": "a {{ secrets.github }}"})),
        )
        .await;
        let planned = desk.key.post(PATH).json(json!({"workflow_key": "call", "dry_run": true})).send().await;
        let input = &planned.ok(200)["steps"][0]["input"];
        assert_eq!(input["headers"], json!({"authorization": "Bearer [secret github]", "x-other": "a [secret github]"}));
        assert!(!planned.text.contains("canary"));
        assert_eq!(receiver.connections(), 0);
        assert!(desk.key.get(&path).send().await.ok(200).get("last_used_at").is_none());
    })
    .await;
}

async fn export(app: &TestApp, tenant: &str, order: Value) -> String {
    let reply = app.local().post(&format!("/internal/admin/tenants/{tenant}/export")).json(order).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert!(!reply.text.contains("canary"));
    reply.text
}

#[tokio::test]
async fn exports_have_sealed_secrets_or_none() {
    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    with_app(async |old| {
        let tenant = old.evaluation_tenant("acme").await;
        let (key, shown) = tenant.new_key("automation", &["*"]).await;
        let receiver = Receiver::always(200).await;
        create(&key, secret("github", &host(&receiver))).await;
        let body = json!({"action": "create", "definition": {"key": "call", "name": "Call", "steps": call(&receiver.url(), bearer("github"))}});
        key.post(PATH).json(body).send().await.ok(201);
        let sealed = export(old, &tenant.id, json!({"key": KEY, "salt": "00112233445566778899aabbccddeeff"})).await;
        let left_out = export(old, &tenant.id, json!({})).await;
        for (file, mut order, code) in [
            (sealed, json!({"mode": "import", "key": KEY}), None),
            (left_out, json!({"mode": "import"}), Some("secret_without_value")),
        ] {
            let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
            order["trusted_keys"] = json!([header["signer"]]);
            order["allow_evaluation"] = json!(true);
            with_app(async |new| {
                let import = new.local().post("/internal/admin/import").text("application/x-ndjson", format!("{order}\n{file}")).send().await;
                assert_eq!(import.ok(200)["done"], true, "{}", import.text);
                let key = new.anonymous().bearer(shown["key"].as_str().unwrap());
                let run = key.post(PATH).json(json!({"workflow_key": "call"})).send().await.ok(202)["id"].as_str().unwrap().to_owned();
                let ended = key.get(&format!("{PATH}?run_id={run}&wait_seconds=30")).send().await.ok(200).clone();
                assert_eq!(ended["error"]["code"].as_str(), code, "{ended}");
                if code.is_none() {
                    assert_eq!(receiver.next().await.header("authorization"), format!("Bearer {VALUE}"));
                }
                assert!(receiver.is_quiet().await);
            })
            .await;
        }
    })
    .await;
}
