//! Personal API keys: they act for their person, with no more than the person has at that moment, and end with the person.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    custom_roles::member,
    harness::{
        Actor, PASSWORD, Setup, Tenant, TestApp,
        forge::Forged,
        oidc::{CLIENT_ID, CLIENT_SECRET, Provider},
        with_app, with_setup,
    },
    key_owners::{key_of, person},
    sso::{PROVIDERS, Scene, ada, session},
    transfer::{export, import, import_as},
};

pub const OWN: &str = "/api/auth/own-keys";
const KEYS: &str = "/api/admin/api-keys";
const POLICY: &str = "/api/admin/sign-in-policy";

/// Creates a personal key, and a client that uses it.
pub async fn own_key(app: &TestApp, person: &Actor, name: &str, scopes: &[&str]) -> (Actor, Value) {
    let body = json!({"name": name, "scopes": scopes, "expires_days": 300});
    let key = person.post(OWN).json(body).send().await.ok(201).clone();
    (app.anonymous().bearer(key["key"].as_str().unwrap()), key)
}

fn at(collection: &str, key: &Value) -> String {
    format!("{collection}/{}", key["id"].as_str().unwrap())
}

async fn scopes(actor: &Actor) -> Vec<String> {
    let session = actor.get("/api/auth/session").send().await.ok(200).clone();
    session["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap().to_owned()).collect()
}

/// The code of the refusal; empty if the key works.
async fn refusal(actor: &Actor) -> String {
    let reply = actor.get("/api/auth/session").send().await;
    if reply.status == 200 { String::new() } else { reply.problem(401).to_owned() }
}

#[tokio::test]
async fn a_personal_key_acts_for_its_person_and_changes_no_credentials() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, viewer) = (tenant.admin().await, tenant.user("viewer").await);
        let (key, record) = own_key(app, &viewer, "Laptop", &["tickets:read", "users:read"]).await;
        assert_eq!((&record["personal"], &record["owner"]["name"]), (&json!(true), &record["created_by"]["name"]));
        assert_eq!(scopes(&key).await, ["tickets:read", "users:read"]);
        key.get("/api/psa/tickets").send().await.ok(200);
        assert_eq!(key.get("/api/directory/organizations").send().await.problem(403), "insufficient_scope");
        let beyond = viewer.post(OWN).json(json!({"name": "More", "scopes": ["tickets:write"]})).send().await;
        assert_eq!((beyond.problem(403), &beyond.body["required_scopes"]), ("insufficient_scope", &json!(["tickets:write"])));
        let own = viewer.get(OWN).send().await;
        assert_eq!((&own.ok(200)["data"][0]["id"], own.text.contains(record["key"].as_str().unwrap())), (&record["id"], false));
        for refused in
            [key.get(OWN).send().await, key.post(OWN).json(json!({"name": "x", "scopes": ["tickets:read"]})).send().await]
        {
            assert_eq!(refused.problem(403), "insufficient_authority");
        }

        let named = admin.post(OWN).json(json!({"name": "All", "scopes": ["tickets:*", "api_keys:*", "users:write"]})).send().await;
        assert_eq!(named.field_errors(), [("/scopes".to_owned(), "not_allowed".to_owned())]);
        let (all, _) = own_key(app, &admin, "All", &["*"]).await;
        let held = scopes(&all).await;
        assert!(held.contains(&"api_keys:read".to_owned()) && held.contains(&"secrets:write".to_owned()), "{held:?}");
        assert!(!held.contains(&"api_keys:write".to_owned()) && !held.contains(&"users:write".to_owned()), "{held:?}");
        let made = all.post(KEYS).json(json!({"name": "x", "scopes": ["tickets:read"]})).send().await;
        assert_eq!(made.problem(403), "insufficient_scope");

        let listed = admin.get(&format!("{KEYS}?personal=true&include_total=true")).send().await.ok(200).clone();
        assert_eq!(listed["page"]["total"], 2);
        let path = at(KEYS, &record);
        let change = admin.put(&path).json(json!({"scopes": ["*"]})).send().await;
        let rotation = admin.post(&format!("{path}/rotate")).send().await;
        let take_over = admin.post(&format!("{path}/take-over")).send().await;
        for refused in [change, rotation, take_over, admin.put(&path).json(json!({"enabled": false})).send().await] {
            assert_eq!(refused.problem(409), "invalid_transition");
        }
        admin.delete(&path).send().await.ok(200);
        assert_eq!(refusal(&key).await, "key_revoked");
        assert_eq!(viewer.get(&at(OWN, &record)).send().await.ok(200)["status"], "revoked");
    })
    .await;
}

#[tokio::test]
async fn a_changed_role_or_limit_counts_at_once() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (ours, theirs) = (tenant.organization("Ours").await, tenant.organization("Theirs").await);
        let admin = tenant.admin().await;
        for (subject, organization) in [("A", &ours), ("B", &theirs)] {
            admin.post("/api/psa/tickets").json(json!({"subject": subject, "organization_id": organization})).send().await.ok(201);
        }
        let (ada, path) = person(app, &admin, "ada", "technician").await;
        let (key, record) = own_key(app, &ada, "Script", &["tickets:*", "workflows:run"]).await;
        let all = ["tickets:read", "tickets:write", "workflows:run"];
        assert_eq!(scopes(&key).await, all);
        admin.put(&path).json(json!({"role": "viewer"})).send().await.ok(200);
        assert_eq!(scopes(&key).await, ["tickets:read"]);
        assert!(admin.get(&at(KEYS, &record)).send().await.ok(200).get("paused").is_none());
        let role =
            admin.post("/api/admin/roles").json(json!({"name": "Desk", "scopes": ["tickets:*"]})).send().await.ok(201).clone();
        admin.put(&path).json(json!({"role": role["id"]})).send().await.ok(200);
        assert_eq!(scopes(&key).await, ["tickets:read", "tickets:write"]);
        admin.patch(&at("/api/admin/roles", &role)).json(json!({"scopes": ["directory:read"]})).send().await.ok(200);
        assert_eq!(scopes(&key).await, Vec::<String>::new());
        admin.put(&path).json(json!({"role": "technician", "organization_ids": [ours]})).send().await.ok(200);
        assert_eq!(scopes(&key).await, ["tickets:read", "tickets:write"], "workflows are not of organizations");
        let list = key.get("/api/psa/tickets?include_total=true").send().await.ok(200).clone();
        assert_eq!((&list["page"]["total"], &list["data"][0]["subject"]), (&json!(1), &json!("A")));
        assert_eq!(key.get("/api/psa/tickets/T-2").send().await.problem(404), "not_found");
        let (limited, _) = own_key(app, &ada, "Limited", &["tickets:read"]).await;
        assert_eq!(limited.get("/api/psa/tickets/T-2").send().await.problem(404), "not_found");
        admin.put(&path).json(json!({"organization_ids": null})).send().await.ok(200);
        assert_eq!(scopes(&key).await, all);
        limited.get("/api/psa/tickets/T-2").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_personal_key_pauses_and_ends_with_its_person() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, path) = person(app, &admin, "ada", "admin").await;
        let (key, record) = own_key(app, &ada, "Script", &["tickets:read"]).await;
        let (_, kept) = key_of(app, &ada, "Tenant's", &["tickets:read"]).await;
        let show = async |key: &Value| admin.get(&at(KEYS, key)).send().await.ok(200).clone();
        admin.put(&path).json(json!({"status": "disabled"})).send().await.ok(200);
        assert_eq!(refusal(&key).await, "key_disabled");
        assert_eq!(show(&record).await["paused"]["reason"], "owner_disabled");
        admin.put(&path).json(json!({"status": "active"})).send().await.ok(200);
        assert_eq!(refusal(&key).await, "", "a personal key continues with its person");
        assert_eq!(show(&kept).await["status"], "disabled", "nobody has looked at the key of the tenant yet");
        assert_eq!(admin.delete(&path).send().await.status, 204);
        assert_eq!(refusal(&key).await, "key_revoked");
        let (ended, kept) = (show(&record).await, show(&kept).await);
        assert_eq!((&ended["status"], &kept["status"]), (&json!("revoked"), &json!("disabled")));
        let events = admin.get("/api/events?types=api_key.*&limit=200").send().await.ok(200)["data"].clone();
        let own = events.as_array().unwrap().iter().filter(|event| event["resource"]["id"] == record["id"]);
        let kinds: Vec<&str> = own.map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["api_key.created", "api_key.paused", "api_key.updated", "api_key.revoked"]);
    })
    .await;
}

#[tokio::test]
async fn a_tenant_can_forbid_personal_keys() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, viewer) = (tenant.admin().await, tenant.user("viewer").await);
        let (key, _) = own_key(app, &viewer, "Laptop", &["tickets:read"]).await;
        let others = tenant.key(&["tickets:read"]).await;
        let set = async |body: Value| admin.put(POLICY).json(body).send().await.ok(200)["personal_keys"].clone();
        assert_eq!(admin.get(POLICY).send().await.ok(200)["personal_keys"], "allowed");
        assert_eq!(set(json!({"second_factor": {"required_for": []}, "personal_keys": "forbidden"})).await, "forbidden");
        assert_eq!((refusal(&key).await.as_str(), refusal(&others).await.as_str()), ("personal_keys_forbidden", ""));
        let refused = key.get("/api/psa/tickets").send().await;
        assert!(
            refused.body["detail"].as_str().unwrap().contains("Ask an administrator for a key of the tenant"),
            "{}",
            refused.text
        );
        let new = json!({"name": "New", "scopes": ["tickets:read"]});
        assert_eq!(viewer.post(OWN).json(new.clone()).send().await.problem(403), "insufficient_authority");
        assert_eq!(set(json!({"second_factor": {"required_for": ["admin"], "with_sso": true}})).await, "forbidden", "it stays");
        let globex = app.tenant("globex").await.user("viewer").await;
        own_key(app, &globex, "Laptop", &["tickets:read"]).await;
    })
    .await;
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, viewer) = (tenant.admin().await, tenant.user("viewer").await);
        let (key, _) = own_key(app, &viewer, "Laptop", &["tickets:read"]).await;
        for (word, code) in [("forbidden", "personal_keys_forbidden"), ("allowed", "")] {
            let body = json!({"second_factor": {"required_for": []}, "personal_keys": word});
            admin.put(POLICY).json(body).send().await.ok(200);
            assert_eq!(refusal(&key).await, code, "{word}");
        }
        let feed = admin.get("/api/events?types=sign_in_policy.updated").send().await.ok(200)["data"].clone();
        assert_eq!(feed[0]["data"]["changes"]["personal_keys"], json!({"from": "allowed", "to": "forbidden"}));
        // Who needs a second factor does not change what a key can do.
        admin.put(POLICY).json(json!({"second_factor": {"required_for": ["viewer"]}})).send().await.ok(200);
        assert_eq!(viewer.get(OWN).send().await.problem(403), "second_factor_missing");
        assert_eq!(refusal(&key).await, "");
    })
    .await;
}

#[tokio::test]
async fn a_person_has_a_few_keys_with_names_of_their_own_in_pages() {
    let setup = Setup::default().with("api_keys.max_personal", 3).with("api_keys.max_live", 1);
    with_setup(setup, async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, viewer) = (tenant.admin().await, tenant.user("viewer").await);
        tenant.new_key("A", &["tickets:read"]).await;
        own_key(app, &admin, "A", &["tickets:read"]).await;
        let mut ids = Vec::new();
        for name in ["A", "B"] {
            app.advance(Duration::from_secs(1));
            ids.push(own_key(app, &viewer, name, &["tickets:read"]).await.1["id"].clone());
        }
        let new = |name: &str| viewer.post(OWN).json(json!({"name": name, "scopes": ["tickets:read"]})).send();
        assert_eq!(new("a").await.problem(409), "already_exists");
        new("C").await.ok(201);
        assert_eq!(new("D").await.problem(422), "limit_reached");
        let first = viewer.get(&format!("{OWN}?limit=2&include_total=true")).send().await.ok(200).clone();
        assert_eq!((first["data"].as_array().unwrap().len(), &first["page"]["total"]), (2, &json!(3)));
        let next = format!("{OWN}?limit=2&cursor={}", first["page"]["next_cursor"].as_str().unwrap());
        let last = viewer.get(&next).send().await.ok(200).clone();
        assert_eq!((&last["data"][0]["id"], last["page"].get("next_cursor")), (&ids[0], None), "the oldest comes last");
        viewer.delete(&format!("{OWN}/{}", ids[0].as_str().unwrap())).send().await.ok(200);
        new("A").await.ok(201);
        assert_eq!(viewer.delete(&format!("{OWN}/{}", ids[0].as_str().unwrap())).send().await.ok(200)["status"], "revoked");
    })
    .await;
}

#[tokio::test]
async fn concurrent_requests_do_not_exceed_the_limit() {
    with_setup(Setup::default().with("api_keys.max_personal", 2), async |app| {
        let viewer = app.tenant("acme").await.user("viewer").await;
        let new = async |number: usize| {
            let body = json!({"name": format!("k{number}"), "scopes": ["tickets:read"]});
            viewer.post(OWN).json(body).send().await.status
        };
        let mut statuses = futures_util::future::join_all((0..6).map(new)).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 201, 422, 422, 422, 422]);
    })
    .await;
}

#[tokio::test]
async fn keys_of_other_people_do_not_exist() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, viewer) = (tenant.admin().await, tenant.user("viewer").await);
        let (key, record) = own_key(app, &viewer, "Laptop", &["tickets:read"]).await;
        let (_, of_tenant) = key_of(app, &admin, "Tenant's", &["tickets:read"]).await;
        let globex = app.tenant("globex").await.admin().await;
        for (actor, found) in [(&admin, &record), (&globex, &record), (&admin, &of_tenant), (&viewer, &of_tenant)] {
            assert_eq!(actor.get(&at(OWN, found)).send().await.problem(404), "not_found");
            assert_eq!(actor.delete(&at(OWN, found)).send().await.problem(404), "not_found");
        }
        assert_eq!(globex.get(&at(KEYS, &record)).send().await.problem(404), "not_found");
        assert_eq!(admin.get(OWN).send().await.ok(200)["data"], json!([]));
        assert_eq!(refusal(&key).await, "");
    })
    .await;
}

#[tokio::test]
async fn keys_of_people_who_sign_on_lapse_with_their_sign_on() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"default_role": "technician"})).await;
        let visit = async || app.anonymous().with("cookie", &session(&scene.sign_on(ada()).await).unwrap());
        let (key, _) = own_key(app, &visit().await, "Script", &["tickets:read"]).await;
        let provider = at(PROVIDERS, &scene.record);
        for (enabled, code) in [(false, "key_disabled"), (true, "")] {
            scene.admin.put(&provider).json(json!({"enabled": enabled})).send().await.ok(200);
            assert_eq!(refusal(&key).await, code);
        }
        let clock = format!("/api/platform/tenants/{}/clock", scene.tenant.id);
        for (days, code) in [(89, ""), (2, "key_disabled")] {
            app.local().post(&clock).json(json!({"advance_seconds": days * 86_400})).send().await.ok(200);
            assert_eq!(refusal(&key).await, code, "{days} days later");
        }
        visit().await;
        assert_eq!(refusal(&key).await, "", "after a new sign-on");
    })
    .await;
}

#[tokio::test]
async fn keys_of_people_without_a_way_to_sign_in_do_not_come_back_with_a_new_link() {
    with_app(async |app| {
        let mut scene = Scene::new(app, json!({"default_role": "technician"})).await;
        let visit = async |scene: &Scene<'_>| app.anonymous().with("cookie", &session(&scene.sign_on(ada()).await).unwrap());
        let browser = visit(&scene).await;
        let id = browser.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let (unlinked, record) = own_key(app, &browser, "Unlinked", &["tickets:read"]).await;
        let unlink = async |scene: &Scene<'_>| {
            scene.admin.delete(&format!("/api/admin/users/{id}/sso")).send().await.ok(200);
        };
        unlink(&scene).await;
        assert_eq!(refusal(&unlinked).await, "key_revoked");
        assert_eq!(scene.admin.get(&at(KEYS, &record)).send().await.ok(200)["status"], "revoked");
        let (replaced, _) = own_key(app, &visit(&scene).await, "Replaced", &["tickets:read"]).await;
        assert_eq!((refusal(&unlinked).await.as_str(), refusal(&replaced).await.as_str()), ("key_revoked", ""));

        assert_eq!(scene.admin.delete(&at(PROVIDERS, &scene.record)).send().await.status, 204);
        let refused = replaced.get("/api/psa/tickets").send().await;
        assert_eq!(refused.problem(401), "key_disabled");
        assert!(refused.body["detail"].as_str().unwrap().contains("a person who cannot sign in now"), "{}", refused.text);
        scene.provider = Provider::start(app.now().as_seconds()).await;
        let body = json!({
            "name": "New", "issuer": scene.provider.issuer(), "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET,
            "domains": ["acme.example"],
        });
        scene.record = scene.admin.post(PROVIDERS).json(body).send().await.ok(201).clone();
        let browser = visit(&scene).await;
        assert_eq!(refusal(&replaced).await, "key_revoked", "another provider revives nothing");

        let (kept, _) = own_key(app, &browser, "Kept", &["tickets:read"]).await;
        let issued = scene.admin.post(&format!("/api/admin/users/{id}/reset-password")).send().await.ok(200).clone();
        let body = json!({"token": issued["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.status, 204);
        unlink(&scene).await;
        assert_eq!(refusal(&kept).await, "", "the person has a password");
    })
    .await;
}

#[tokio::test]
async fn a_key_stops_while_its_person_has_no_password() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (ada, _) = person(app, &admin, "ada", "technician").await;
        let (key, _) = own_key(app, &ada, "Script", &["tickets:read"]).await;
        let body = json!({"email": "ada@acme.example"});
        let reset = app.local().post("/internal/admin/users/reset-password").json(body).send().await;
        assert!(reset.status < 300, "{}", reset.text);
        assert_eq!(refusal(&key).await, "key_disabled");
        let body = json!({"token": reset.body["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.status, 204);
        assert_eq!(refusal(&key).await, "");
    })
    .await;
}

#[tokio::test]
async fn personal_keys_survive_a_restart() {
    let (setup, start) = (Setup::default(), tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000));
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let tenant = app.tenant("acme").await;
    let id = tenant.id.clone();
    let admin = tenant.admin().await;
    let (ada, path) = person(&app, &admin, "ada", "technician").await;
    let (_, record) = own_key(&app, &ada, "Script", &["tickets:*"]).await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    let key = app.anonymous().bearer(record["key"].as_str().unwrap());
    assert_eq!(scopes(&key).await, ["tickets:read", "tickets:write"]);
    let admin = Tenant::known(&app, "acme", &id).key(&["*"]).await;
    admin.put(&path).json(json!({"role": "viewer"})).send().await.ok(200);
    assert_eq!(scopes(&key).await, ["tickets:read"]);
    app.stop().await;
}

#[tokio::test]
async fn an_imported_key_acts_only_if_its_file_is_verified() {
    with_app(async |old| {
        let tenant = old.tenant("acme").await;
        let admin = tenant.admin().await;
        let (ada, user) = member(old, &admin, "ada", json!({"role": "viewer"})).await;
        let (_, record) = own_key(old, &ada, "Laptop", &["tickets:read"]).await;
        let path = at("/api/admin/users", &user);
        let file = export(old, &tenant.id, json!({})).await;
        let with = |new: &TestApp| new.anonymous().bearer(record["key"].as_str().unwrap());
        with_app(async |new| {
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert_eq!(done["done"], true, "{done}");
            assert_eq!(scopes(&with(new)).await, ["tickets:read"]);
            new.sign_in("admin@acme.example").await.delete(&path).send().await;
            assert_eq!(refusal(&with(new)).await, "key_revoked");
        })
        .await;
        with_app(async |new| {
            // The file says that tenantd has paused the key, which ends when its person is enabled.
            let mut forged = Forged::of(&file);
            forged.change("api_key", |key| key["paused"] = json!({"reason": "disabled", "at": key["created_at"]}));
            let order = json!({"mode": "import", "accept_unverified": true});
            let done = import_as(new, &order, &forged.file(None)).await;
            assert_eq!(done["done"], true, "{done}");
            assert_eq!(refusal(&with(new)).await, "key_disabled");
            let keeper = Tenant::known(new, "acme", &tenant.id).key(&["*"]).await;
            for status in ["disabled", "active"] {
                keeper.put(&path).json(json!({"status": status})).send().await.ok(200);
            }
            assert_eq!(refusal(&with(new)).await, "key_disabled", "it stays switched off");
        })
        .await;
        with_app(async |new| {
            let refused = async |change: &dyn Fn(&mut Value)| {
                let mut forged = Forged::of(&file);
                forged.change("api_key", change);
                let done = import_as(new, &json!({"mode": "import", "accept_unverified": true}), &forged.file(None)).await;
                assert_eq!(done["done"], false, "{done}");
                done["error"].as_str().unwrap().to_owned()
            };
            let stranger = json!("usr_01k9z7w3v5e8g9m2n4p6r8t0x1");
            assert!(refused(&|key| key["person"] = stranger.clone()).await.contains("belongs to its creator"));
            assert!(refused(&|key| key["scopes"] = json!(["users:write"])).await.contains("over credentials"));
        })
        .await;
    })
    .await;
}
