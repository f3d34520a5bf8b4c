//! Stored responses: a credential that lost the right to see a response does not get it again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cloud::{PROVIDERS, create, simulated},
    harness::{Actor, Setup, TestApp, WEBHOOKS, with_setup},
    sso,
    workflows::{PATH, set},
};

const KEYS: &str = "/api/admin/api-keys";

/// Requests that return a record.
fn requests(organization: &str, provider: &Value, number: usize) -> Vec<(&'static str, Value)> {
    let definition = json!({"key": format!("w{number}"), "name": "W", "steps": [set("a", json!(1))]});
    vec![
        ("/api/psa/tickets", json!({"subject": "zzkept", "organization_id": organization})),
        (KEYS, json!({"name": format!("zzkept {number}"), "scopes": ["tickets:read"], "expires_days": 1})),
        (WEBHOOKS, json!({"name": "zzkept", "url": "https://hooks.example.com/", "events": ["ticket.created"]})),
        ("/api/admin/users", json!({"name": "zzkept", "kind": "contact", "email": format!("c{number}@zzkept.example")})),
        (
            crate::named_secrets::SECRETS,
            json!({"name": format!("zzkept_{number}"), "value": "v4lue", "hosts": ["api.example.com"]}),
        ),
        (
            sso::PROVIDERS,
            json!({"name": "zzkept", "issuer": "https://id.acme.example", "client_id": "tenantd",
            "client_secret": "s3cret-of-the-client", "domains": [format!("d{number}.example")]}),
        ),
        (
            PROVIDERS,
            json!({"name": format!("zzkept {number}"), "kind": "simulated", "config": {"seed": 7, "vm_count": 0}, "organization_id": organization}),
        ),
        (
            "/api/cloud/vms",
            json!({"provider_id": provider["id"], "name": "zzkept", "region": "sim-east", "size": "sim.small", "image": "debian-13"}),
        ),
        (PATH, json!({"action": "create", "definition": definition})),
        (PATH, json!({"workflow_key": "plain", "inputs": {"x": "zzkept"}})),
    ]
}

/// The scopes that a request needs, and one that it does not need.
const WRITES: [&str; 10] = [
    "tickets:write",
    "api_keys:write",
    "webhooks:write",
    "users:write",
    "secrets:write",
    "users:write",
    "providers:write",
    "vms:write",
    "workflows:write",
    "workflows:run",
];

async fn repeat(actor: &Actor, (path, body): &(&'static str, Value)) -> crate::harness::Reply {
    actor.post(path).header("idempotency-key", "once").json(body.clone()).send().await
}

async fn lose(app: &TestApp, full: &Actor, key: &str, change: Option<Value>) {
    match change {
        Some(change) if change == json!("revoke") => drop(full.delete(key).send().await.ok(200)),
        Some(change) => drop(full.put(key).json(change).send().await.ok(200)),
        None => app.advance(Duration::from_hours(25)),
    }
}

#[tokio::test]
async fn stored_responses_need_the_current_rights() {
    let setup = Setup::default().with("rate_limits.enabled", false).with("api_keys.max_live", 1000);
    with_setup(setup, async |app| {
        let tenant = app.evaluation_tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let full = tenant.key(&["*"]).await;
        let mut provider = simulated("Cloud", json!({"seed": 7, "vm_count": 0}));
        provider["organization_id"] = json!(ours);
        let provider = create(&full, provider).await;
        let plain = json!({"key": "plain", "name": "Plain", "steps": [set("a", json!(1))]});
        full.post(PATH).json(json!({"action": "create", "definition": plain})).send().await.ok(201);
        let by_organization = ["tickets:write", "providers:write", "vms:write"];
        let (mut cases, mut number) = (0, 0);
        let all: Vec<&str> =
            tenantd_base::access::Scope::ALL.iter().map(|scope| scope.name()).filter(|name| *name != "platform:read").collect();
        for (place, scope) in WRITES.iter().enumerate() {
            let without = |lost: &str| -> Vec<&str> { all.iter().copied().filter(|held| *held != lost).collect() };
            let mut losses = vec![
                ("nothing", Some(json!({"name": "renamed"}))),
                ("its scope", Some(json!({"scopes": without(scope)}))),
                ("another scope", Some(json!({"scopes": without("backup:read")}))),
                ("revoked", Some(json!("revoke"))),
                ("disabled", Some(json!({"enabled": false}))),
                ("expired", None),
            ];
            if by_organization.contains(scope) {
                losses.push(("restricted", Some(json!({"scopes": ["*"], "organization_ids": [theirs]}))));
            }
            for (loss, change) in losses {
                number += 1;
                let mut body = json!({"name": format!("caller {number}"), "scopes": all, "expires_days": 1});
                if loss == "nothing" {
                    body["name"] = json!(format!("before {number}"));
                }
                let made = full.post(KEYS).json(body).send().await.ok(201).clone();
                let actor = app.anonymous().bearer(made["key"].as_str().unwrap());
                let request = requests(&ours, &provider, number).remove(place);
                let first = repeat(&actor, &request).await;
                assert!([200, 201, 202].contains(&first.status), "{}: {}", request.0, first.text);
                let path = format!("{KEYS}/{}", made["id"].as_str().unwrap());
                let change =
                    change.map(|change| if loss == "nothing" { json!({"name": format!("after {number}")}) } else { change });
                lose(app, &full, &path, change).await;
                let again = repeat(&actor, &request).await;
                let case = format!("{} after the loss of {loss}: {}", request.0, again.text);
                if loss == "nothing" {
                    assert_eq!((again.header("idempotency-replayed"), &again.text), ("true", &first.text), "{case}");
                } else {
                    assert!([401, 403].contains(&again.status), "{case}");
                    assert!(again.header("idempotency-replayed").is_empty() && !again.text.contains("zzkept"), "{case}");
                }
                cases += 1;
            }
        }
        assert_eq!(cases, 63, "there are only {cases} cases");
    })
    .await;
}

#[tokio::test]
async fn a_secret_is_returned_again_only_to_its_session() {
    with_setup(Setup::default(), async |app| {
        let tenant = app.tenant("acme").await;
        let first = tenant.admin().await;
        let second = app.sign_in("admin@acme.example").await;
        let requests = [
            (KEYS, json!({"name": "A", "scopes": ["tickets:read"]}), true),
            ("/api/psa/tickets", json!({"subject": "A", "organization_id": tenant.organization("Acme").await}), false),
        ];
        for (path, body, has_secret) in requests {
            let request = (path, body);
            let answer = repeat(&first, &request).await;
            assert_eq!(answer.status, 201, "{}", answer.text);
            let same = repeat(&first, &request).await;
            assert_eq!((same.header("idempotency-replayed"), &same.text), ("true", &answer.text), "{path}");
            let other = repeat(&second, &request).await;
            if has_secret {
                assert_eq!(other.problem(422), "idempotency_key_reused", "{path}");
                assert!(!other.text.contains(answer.body["key"].as_str().unwrap()), "{path}");
                assert!(other.text.contains("Another session"), "{}", other.text);
            } else {
                assert_eq!((other.header("idempotency-replayed"), &other.text), ("true", &answer.text), "{path}");
            }
        }
    })
    .await;
}
