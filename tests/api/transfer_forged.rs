//! Forged exports, one change per case. Imports obey every check of the services, no matter who signed the file.

use serde_json::{Value, json};

use crate::{
    backup::CONFIG,
    harness::{
        TestApp,
        forge::{Forged, stranger},
        with_app,
    },
    transfer::{export, import, import_as},
};

/// The export of a standard tenant with a record of most kinds.
async fn sample(app: &TestApp) -> String {
    let tenant = app.tenant("acme").await;
    let organization = tenant.organization("Acme").await;
    tenant.device(&organization, "srv-1").await;
    tenant.contact(&organization, "bo@acme.example").await;
    let admin = tenant.admin().await;
    let key = tenant.new_key("automation", &["*"]).await.0;
    let hook = json!({"name": "Chat", "url": "https://hooks.acme.example/in", "events": ["ticket.*"]});
    key.post("/api/admin/webhooks").json(hook).send().await.ok(201);
    let provider = json!({"name": "Acme", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": "s3cret", "domains": ["acme.example"]});
    admin.post("/api/admin/identity-providers").json(provider).send().await.ok(201);
    let cloud =
        json!({"name": "East", "kind": "hetzner", "enabled": false, "credential": {"api_token": "canary-token-0123456789"}});
    key.post("/api/cloud/providers").json(cloud).send().await.ok(201);
    let ticket = json!({"subject": "Printer", "organization_id": organization});
    key.post("/api/psa/tickets").json(ticket).send().await.ok(201);
    key.post("/api/psa/tickets/1/comments").json(json!({"body": "On it."})).send().await.ok(201);
    let steps = json!([{"id": "done", "type": "return", "with": {"output": 1}}]);
    let definition = json!({"key": "hello", "name": "Hello", "steps": steps});
    let trigger = "/api/psa/workflows/trigger";
    key.post(trigger).json(json!({"action": "create", "definition": definition})).send().await.ok(201);
    let run = key.post(trigger).json(json!({"workflow_key": "hello", "inputs": {}})).send().await.ok(202).clone();
    let path = format!("{trigger}?run_id={}&wait_seconds=30", run["id"].as_str().unwrap());
    while key.get(&path).send().await.ok(200)["status"] != "succeeded" {}
    let backup = json!({"verification": {"restore_test_every_days": 7}});
    key.put(&format!("{CONFIG}?scope=tenant")).json(backup).send().await.ok(200);
    export(app, &tenant.id, json!({})).await
}

type Change = Box<dyn Fn(&mut Forged)>;

struct Case {
    name: &'static str,
    change: Change,
    /// A part of the error of the import.
    expected: &'static str,
}

fn case(name: &'static str, expected: &'static str, change: impl Fn(&mut Forged) + 'static) -> Case {
    Case { name, change: Box::new(change), expected }
}

/// Sets a member of the first record of a kind.
fn set(kind: &'static str, pointer: &'static str, value: Value) -> impl Fn(&mut Forged) + 'static {
    move |forged| {
        forged.change(kind, |record| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            record.pointer_mut(parent).unwrap_or_else(|| panic!("{kind} has no {parent}"))[name] = value.clone();
        });
    }
}

/// Changes the password hash of the first credential.
fn hash(parameters: &'static str) -> impl Fn(&mut Forged) + 'static {
    move |forged| {
        forged.change("credential", |record| {
            let before = record["password"].as_str().unwrap().replace("m=19456,t=2,p=1", parameters);
            record["password"] = before.into();
        });
    }
}

/// Changes the first staff user.
fn staff(forged: &mut Forged, change: impl Fn(&mut Value)) {
    let line = forged.lines.iter_mut().find(|line| line.kind == "user" && line.record.contains("\"Staff\"")).unwrap();
    let mut record: Value = serde_json::from_str(&line.record).unwrap();
    change(&mut record);
    line.record = record.to_string();
}

/// Adds copies of the first record of a kind, each with its own key.
fn many(kind: &'static str, more: usize, change: impl Fn(&mut Value, usize) + 'static) -> impl Fn(&mut Forged) + 'static {
    move |forged| {
        let place = forged.place(kind);
        for number in 0..more {
            let mut line = forged.lines[place + number].clone();
            let mut key: Value = serde_json::from_str(&line.key).unwrap();
            // The following ids, in order.
            key[0] = next_id(key[0].as_str().unwrap()).into();
            let mut record: Value = serde_json::from_str(&line.record).unwrap();
            change(&mut record, number);
            (line.key, line.record) = (key.to_string(), record.to_string());
            forged.lines.insert(place + number + 1, line);
        }
    }
}

fn next_id(id: &str) -> String {
    const LETTERS: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut letters = id.as_bytes().to_vec();
    for letter in letters.iter_mut().rev() {
        let place = LETTERS.iter().position(|known| known == letter).unwrap();
        *letter = LETTERS[(place + 1) % 32];
        if place < 31 {
            break;
        }
    }
    String::from_utf8(letters).unwrap()
}

const FOREIGN: &str = "tnt_01k9z7w3v5e8g9m2n4p6r8t0x1";
const NOBODY: &str = "org_01k9z7w3v5e8g9m2n4p6r8t0x1";

fn authority() -> Vec<Case> {
    vec![
        case("role", "operator is allowed in the platform tenant only", |forged| {
            staff(forged, |user| user["standing"]["Staff"]["role"] = json!("operator"));
        }),
        case(
            "default role of a provider",
            "operator is a role of the platform tenant",
            set("identity_provider", "/default_role", json!("operator")),
        ),
        case("kind platform", "cannot be exported or imported", |forged| {
            forged.header["tenant"]["kind"] = json!("platform");
            forged.change("tenant", |tenant| tenant["kind"] = json!("platform"));
        }),
        case("kind evaluation", "differs from the first line", set("tenant", "/kind", json!("evaluation"))),
        case("clock", "clock_ahead_seconds: too far ahead", set("tenant", "/clock_ahead_seconds", json!(60))),
        case("status", "must be active or suspended", set("tenant", "/status", json!("Deleting"))),
        case("scope of the platform", "platform:read", set("api_key", "/scopes", json!(["platform:read"]))),
        case("unknown scope", "the scope everything does not exist", set("api_key", "/scopes", json!(["everything"]))),
        case("scope over the tenant", "cannot have scopes over the whole tenant", |forged| {
            forged.change("api_key", |key| {
                key["scopes"] = json!(["users:write"]);
                key["organization_ids"] = json!([NOBODY]);
            });
        }),
        case("end of a key", "a key must expire within 365 days", set("api_key", "/expires_at", json!("9999-01-01T00:00:00.000Z"))),
        case("hash memory", "m (memory in KiB) must be 19456 to 65536", hash("m=3145728,t=2,p=1")),
        case("hash passes", "t (passes) must be 2 to 4", hash("m=19456,t=4000,p=1")),
        case("hash lanes", "p (lanes) must be 1 to 4", hash("m=19456,t=2,p=64")),
        case("hash algorithm", "it is not Argon2id", |forged| {
            forged.change("credential", |record| {
                record["password"] = record["password"].as_str().unwrap().replace("argon2id", "argon2d").into();
            });
        }),
    ]
}

fn bounds() -> Vec<Case> {
    let long = |length: usize| json!("x".repeat(length));
    vec![
        case("name of an organization", "name: must have at most 200 characters", set("organization", "/name", long(201))),
        case("name of a user", "name: must have at most 200 characters", set("user", "/name", long(201))),
        case("name of a device", "name: must have at most 200 characters", set("device", "/name", long(201))),
        case("tags of a device", "tags: must have at most 64 entries", set("device", "/details/tags", json!(vec!["x"; 65]))),
        case("name of a key", "name: must have at most 100 characters", set("api_key", "/name", long(101))),
        case("subject of a ticket", "subject: must have at most 255 characters", set("ticket", "/subject", long(256))),
        case("body of a comment", "body: it is empty or too long", set("ticket_comment", "/body", long(70_000))),
        case("name of a tenant", "name: must have at most 100 characters", set("tenant", "/name", long(101))),
        case("slug of a tenant", "reserved for the operator", set("tenant", "/slug", json!("platform"))),
        case("e-mail address", "not a normalized email address", |forged| {
            staff(forged, |user| user["email"] = json!("Ada@Acme.example"));
        }),
        case("settings of backups", "restore_test_every_days: must be at most 366", |forged| {
            forged.change("backup_config", |config| config["own"]["verification"]["restore_test_every_days"] = json!(10_000));
        }),
        case("number", "number that is too large", set("ticket", "/version", json!(u64::MAX))),
        case("number in a key", "number that is too large", |forged| forged.line("ticket").key = format!("[{}]", u64::MAX)),
        case("number of a ticket", "expected 1", |forged| "[2]".clone_into(&mut forged.line("ticket").key)),
        case("url", "url: the URL must start with http", set("webhook", "/url", json!("file:///etc/passwd"))),
        case("url on this machine", "not allowed as a target", set("webhook", "/url", json!("http://127.0.0.1:1/"))),
        case("metadata service", "not allowed as a target", set("webhook", "/url", json!("http://169.254.169.254/latest"))),
        case("events", "is not an event kind", set("webhook", "/events", json!(["everything"]))),
        case("timeout", "timeout_seconds: must be at most 60", set("webhook", "/timeout_seconds", json!(3600))),
        case("issuer", "must start with https", set("identity_provider", "/issuer", json!("http://id.acme.example"))),
        case("domain", "is not a domain in its stored form", set("identity_provider", "/domains", json!(["Acme.example"]))),
        case(
            "endpoint of a cloud",
            "not allowed as a target",
            set("cloud_provider", "/config/endpoint", json!("http://127.0.0.1:1/")),
        ),
        case(
            "fields of a cloud",
            "does not fit a provider of the kind hetzner",
            set("cloud_provider", "/config/vm_count", json!(5)),
        ),
        case("regions of a cloud", "regions: not a region", set("cloud_provider", "/config/regions", json!(["evil.example/#"]))),
        case(
            "definition",
            "its definition cannot be used",
            set("workflow_version", "/definition/steps", json!([{"id": "x", "type": "nothing"}])),
        ),
        case(
            "keys",
            "at most 100 live API keys",
            many("api_key", 100, |key, number| {
                key["name"] = json!(format!("key {number}"));
                key["digest"] = json!(vec![u8::try_from(number).unwrap(); 32]);
                key["digest"][0] = json!(7);
            }),
        ),
        case(
            "providers",
            "at most 20 identity_provider",
            many("identity_provider", 20, |provider, number| {
                provider["domains"] = json!([format!("d{number}.example")]);
            }),
        ),
    ]
}

fn places() -> Vec<Case> {
    vec![
        case("tenant of an event", "this event belongs to tenant tnt_", |forged| {
            let id = forged.header["tenant"]["id"].as_str().unwrap().to_owned();
            let line = forged.line("event");
            line.record = line.record.replacen(&id, FOREIGN, 1);
        }),
        case(
            "tenant of a cloud provider",
            "its key does not match the ids in it",
            set("cloud_provider", "/tenant_id", json!(FOREIGN)),
        ),
        case("tenant of a run", "the ids in it are not the same", set("workflow_run", "/tenant_id", json!(FOREIGN))),
        case("run that goes on", "an unfinished run cannot be moved", set("workflow_run", "/status", json!("running"))),
        case("tenant of the audit", "the body contains record", |forged| {
            let id = forged.header["tenant"]["id"].as_str().unwrap().to_owned();
            let line = forged.line("audit_record");
            line.record = line.record.replace(&id, FOREIGN);
        }),
        case("id of another kind", "expected a device id", |forged| forged.line("device").key = format!("[\"{NOBODY}\"]")),
        case("id of the installation", "is not the id of a tenant", |forged| {
            forged.header["tenant"]["id"] = json!("tnt_00000000000000000000000000");
        }),
        case("organization of a device", "which is not in the file", set("device", "/organization_id", json!(NOBODY))),
        case("user of a credential", "who is not in the file", |forged| {
            "[\"usr_01k9z7w3v5e8g9m2n4p6r8t0x1\"]".clone_into(&mut forged.line("credential").key);
        }),
        case("ticket of a comment", "belongs to a record that is not in the file", |forged| {
            let line = forged.line("ticket_comment");
            line.key = line.key.replacen("[1,", "[7,", 1);
        }),
        case("version of a workflow", "its newest definition is not in the file", |forged| {
            forged.lines.retain(|line| {
                line.kind != "workflow_version" && !line.kind.starts_with("workflow_run") && line.kind != "workflow_step"
            });
        }),
        case(
            "events of a workflow",
            "are not those of its newest definition",
            set("workflow", "/events", json!(["api_key.created"])),
        ),
        case("chain of the audit", "the audit of", |forged| {
            forged.change("audit_record", |record| record["hash"] = json!("00".repeat(32)));
        }),
        case("figures", "valid values of a known series", |forged| {
            let mut more = forged.line("tenant").clone();
            (more.kind, more.key) = ("analytics_hour".to_owned(), "[250,1]".to_owned());
            more.record = json!({"groups": []}).to_string();
            let place = forged.place("audit_record");
            forged.lines.insert(place, more);
        }),
        case("line twice", "in the file twice", |forged| {
            let place = forged.place("organization");
            forged.lines.insert(place, forged.lines[place].clone());
        }),
        case("lines in another order", "in the file twice or out of order", |forged| {
            let mut places = forged.lines.iter().enumerate().filter(|(_, line)| line.kind == "user").map(|(place, _)| place);
            let (first, second) = (places.next().unwrap(), places.next().unwrap());
            forged.lines.swap(first, second);
        }),
        case("kinds in another order", "it must come before the records that refer to it", |forged| {
            let line = forged.lines.remove(forged.place("organization"));
            let place = forged.place("api_key") + 1;
            forged.lines.insert(place, line);
        }),
        case("kind that nobody knows", "does not know records of the type", |forged| {
            "spaceship".clone_into(&mut forged.line("organization").kind);
        }),
        case("no record of its own", "the tenant's own record is missing", |forged| drop(forged.lines.pop())),
    ]
}

#[tokio::test]
async fn a_changed_export_is_refused_with_any_signature() {
    with_app(async |old| {
        let file = sample(old).await;
        let original = Forged::of(&file);
        with_app(async |new| {
            let signer = stranger(5);
            let trusted =
                json!({"mode": "import", "trusted_keys": [signer.public_key().unwrap().to_string()], "allow_evaluation": true});
            let unverified = json!({"mode": "import", "accept_unverified": true, "allow_evaluation": true});
            let mut failed = Vec::new();
            for Case { name, change, expected } in authority().into_iter().chain(bounds()).chain(places()) {
                let mut forged = original.clone();
                change(&mut forged);
                for (order, file) in [(&trusted, forged.file(Some(&signer))), (&unverified, forged.file(None))] {
                    // Passwords of an unverified file are not imported at all.
                    if name == "user of a credential" && order["accept_unverified"] == true {
                        continue;
                    }
                    let answer = import_as(new, order, &file).await;
                    let is_reported = answer["error"].as_str().is_some_and(|error| error.contains(expected));
                    failed.extend((!is_reported).then(|| format!("{name}: {answer}")));
                }
            }
            assert!(failed.is_empty(), "{}", failed.join("\n"));
            let tenants = new.local().get("/api/platform/tenants").send().await;
            assert_eq!(tenants.ok(200)["data"].as_array().unwrap().len(), 1, "there is the platform's alone: {}", tenants.text);
            // Refused imports do not conflict, and reassembling the file without a change is valid.
            let done = import_as(new, &trusted, &original.file(Some(&signer))).await;
            assert_eq!(done["done"], true, "{done}");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn an_import_takes_nothing_from_another_tenant() {
    with_app(async |old| {
        let file = sample(old).await;
        with_app(async |new| {
            let other = new.tenant("other").await;
            let provider = json!({"name": "Other", "issuer": "https://id.other.example", "client_id": "x", "client_secret": "y", "domains": ["acme.example"]});
            other.admin().await.post("/api/admin/identity-providers").json(provider).send().await.ok(201);
            let approve = async |app: &TestApp, tenant: &str| {
                let path = format!("/internal/admin/tenants/{tenant}/domains/acme.example/approve");
                app.local().post(&path).send().await.ok(200);
            };
            approve(new, &other.id).await;
            approve(old, Forged::of(&file).header["tenant"]["id"].as_str().unwrap()).await;
            let file = export(old, Forged::of(&file).header["tenant"]["id"].as_str().unwrap(), json!({})).await;
            let refused = import(new, json!({"mode": "import"}), &file).await;
            assert!(refused["error"].as_str().unwrap().contains("the domain of this identity_provider is taken"), "{refused}");
            let (_, mine) = other.new_key("mine", &["tickets:read"]).await;
            let digest = export(new, &other.id, json!({})).await;
            let digest: Value = serde_json::from_str(&Forged::of(&digest).line("api_key").record).unwrap();
            let mut forged = Forged::of(&file);
            forged.change("identity_provider", |provider| provider["domains"] = json!(["elsewhere.example"]));
            forged.change("api_key", |key| key["digest"] = digest["digest"].clone());
            let refused = import_as(new, &json!({"mode": "import", "accept_unverified": true}), &forged.file(None)).await;
            assert!(refused["error"].as_str().unwrap().contains("the API key of this api_key is taken"), "{refused}");
            let works = new.anonymous().bearer(mine["key"].as_str().unwrap()).get("/api/auth/session").send().await;
            assert_eq!(works.ok(200)["tenant"]["id"], other.id.as_str());
        })
        .await;
    })
    .await;
}
