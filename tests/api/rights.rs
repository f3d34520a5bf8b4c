//! Who can do what, and why: the answers agree with what requests are allowed, and name what gives a scope and what takes it away.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    authorization::fill,
    custom_roles::member,
    harness::{Actor, Setup, TestApp, authenticator::add_app, with_app, with_setup},
    key_owners::{key_of, person},
    own_keys::own_key,
    sso::{PROVIDERS, Scene, ada, session},
};

const RIGHTS: &str = "/api/admin/rights";

/// The rights that a reader sees of the user or key of a client.
async fn rights_of(reader: &Actor, collection: &str, id: &Value) -> Value {
    reader.get(&format!("/api/admin/{collection}/{}/rights", id.as_str().unwrap())).send().await.ok(200).clone()
}

fn allowed(rights: &Value) -> BTreeSet<String> {
    let scopes = rights["scopes"].as_array().unwrap().iter().filter(|right| right["allowed"] == true);
    scopes.map(|right| right["scope"].as_str().unwrap().to_owned()).collect()
}

fn codes(reasons: &Value, effect: &str) -> Vec<String> {
    let reasons = reasons.as_array().unwrap().iter().filter(|reason| reason["effect"] == effect);
    reasons.map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
}

/// What takes a scope away.
fn lost(rights: &Value, scope: &str) -> Vec<String> {
    let right = rights["scopes"].as_array().unwrap().iter().find(|right| right["scope"] == scope).unwrap();
    codes(&right["reasons"], "takes_away")
}

/// The operations that read without a body, each with its only scope.
async fn reads(app: &TestApp) -> Vec<(String, String)> {
    let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let need = methods["get"]["x-need"].as_str().and_then(|need| need.strip_prefix("scope:"));
        found.extend(need.map(|scope| (fill(path), scope.to_owned())));
    }
    assert!(found.len() > 30);
    found
}

/// Compares an answer with what requests of the client are allowed, and checks that its reasons say the same.
async fn expect_agreement(app: &TestApp, reader: &Actor, actor: &Actor, case: &str) {
    let session = actor.get("/api/auth/session").send().await.ok(200).clone();
    let collection = if session["kind"] == "user" { "users" } else { "api-keys" };
    let rights = rights_of(reader, collection, &session["id"]).await;
    let held = allowed(&rights);
    let of_session: BTreeSet<String> =
        session["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap().to_owned()).collect();
    assert_eq!(held, of_session, "{case}");
    for (path, scope) in reads(app).await {
        let reply = actor.get(&path).send().await;
        let lacks = ["insufficient_scope", "admin_required"].iter().any(|code| reply.body["code"] == *code);
        assert_eq!(!lacks, held.contains(&scope), "{case}: {path} needs {scope} and answers {}", reply.status);
    }
    for right in rights["scopes"].as_array().unwrap() {
        let (gives, takes) = (codes(&right["reasons"], "gives"), codes(&right["reasons"], "takes_away"));
        assert_eq!(right["allowed"] == true, !gives.is_empty() && takes.is_empty(), "{case}: {right}");
        assert!(!gives.is_empty() || !takes.is_empty(), "{case}: {right}");
    }
}

#[tokio::test]
async fn answers_agree_with_what_requests_are_allowed() {
    with_setup(Setup::default().with("rate_limits.enabled", false), async |app| {
        let tenant = app.tenant("acme").await;
        let ours = tenant.organization("Ours").await;
        let admin = tenant.admin().await;
        expect_agreement(app, &admin, &admin, "admin").await;
        for role in ["technician", "viewer"] {
            expect_agreement(app, &admin, &tenant.user(role).await, role).await;
        }
        let scopes = json!({"name": "Desk", "scopes": ["tickets:*", "users:read", "*:write"]});
        let role = admin.post("/api/admin/roles").json(scopes).send().await.ok(201).clone();
        let (custom, _) = member(app, &admin, "custom", json!({"role": role["id"]})).await;
        expect_agreement(app, &admin, &custom, "custom role").await;
        for role in [json!("admin"), role["id"].clone()] {
            let name = format!("lim{}", role.as_str().unwrap().len());
            let (limited, user) = member(app, &admin, &name, json!({"role": role, "organization_ids": [ours]})).await;
            expect_agreement(app, &admin, &limited, "limited staff").await;
            let rights = rights_of(&admin, "users", &user["id"]).await;
            assert_eq!(rights["limits"], json!([{"code": "organizations", "effect": "limits", "text": "Only records of Ours."}]));
            assert_eq!(lost(&rights, "users:read"), ["tenant_wide"]);
        }
        let (personal, _) = own_key(app, &custom, "Script", &["tickets:*"]).await;
        expect_agreement(app, &admin, &personal, "personal key").await;
        let (everything, _) = own_key(app, &admin, "All", &["*"]).await;
        expect_agreement(app, &admin, &everything, "personal key with everything").await;
        for body in [
            json!({"name": "a", "scopes": ["*"]}),
            json!({"name": "b", "scopes": ["*:read"], "allowed_ips": ["127.0.0.0/8", "::1"]}),
            json!({"name": "c", "scopes": ["*"], "organization_ids": [ours]}),
            json!({"name": "d", "scopes": ["tickets:write"]}),
        ] {
            let key = admin.post("/api/admin/api-keys").json(body.clone()).send().await.ok(201).clone();
            expect_agreement(app, &admin, &app.anonymous().bearer(key["key"].as_str().unwrap()), &body.to_string()).await;
        }
        let operator = app.operator().await;
        expect_agreement(app, &operator, &operator, "operator").await;
    })
    .await;
}

#[tokio::test]
async fn each_loss_of_rights_is_named() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (ada, path) = person(app, &admin, "ada", "technician").await;
        let id = ada.get("/api/auth/session").send().await.ok(200)["id"].clone();
        let (personal, own) = own_key(app, &ada, "Script", &["tickets:*"]).await;
        let of_user = async || rights_of(&admin, "users", &id).await;
        let of_key = async |key: &Value| rights_of(&admin, "api-keys", &key["id"]).await;
        assert_eq!(lost(&of_user().await, "users:write"), ["not_in_role"]);
        assert_eq!(lost(&of_key(&own).await, "vms:write"), ["not_in_list"]);

        admin.put(&path).json(json!({"role": "viewer"})).send().await.ok(200);
        let rights = of_key(&own).await;
        assert_eq!((lost(&rights, "tickets:write"), lost(&rights, "tickets:read")), (vec!["person_lacks".to_owned()], Vec::new()));
        let policy = |word: &str| json!({"second_factor": {"required_for": []}, "personal_keys": word});
        admin.put("/api/admin/sign-in-policy").json(policy("forbidden")).send().await.ok(200);
        assert_eq!(lost(&of_key(&own).await, "tickets:read"), ["personal_keys_forbidden"]);
        admin.put("/api/admin/sign-in-policy").json(policy("allowed")).send().await.ok(200);

        let required = json!({"second_factor": {"required_for": ["viewer"]}});
        admin.put("/api/admin/sign-in-policy").json(required).send().await.ok(200);
        let rights = of_user().await;
        assert_eq!((allowed(&rights).len(), lost(&rights, "tickets:read")), (0, vec!["second_factor_missing".to_owned()]));
        expect_agreement_of_scopes(&admin, &ada).await;
        add_app(app, &ada, "Phone").await;
        expect_agreement_of_scopes(&admin, &ada).await;
        expect_agreement_of_scopes(&admin, &personal).await;

        admin.put(&path).json(json!({"status": "disabled"})).send().await.ok(200);
        assert_eq!(lost(&of_user().await, "tickets:read"), ["user_disabled"]);
        assert_eq!(lost(&of_key(&own).await, "tickets:read"), ["key_paused"]);
        assert_eq!(admin.delete(&path).send().await.status, 204);
        assert_eq!(lost(&of_key(&own).await, "tickets:read"), ["key_revoked"]);

        let (_, off) = key_of(app, &admin, "Off", &["tickets:read"]).await;
        let off_path = format!("/api/admin/api-keys/{}", off["id"].as_str().unwrap());
        admin.put(&off_path).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(lost(&of_key(&off).await, "tickets:read"), ["key_disabled"]);
        let organization = tenant.organization("Acme").await;
        let contact = tenant.contact(&organization, "contact@acme.example").await;
        let rights = rights_of(&admin, "users", &json!(contact)).await;
        assert_eq!((allowed(&rights).len(), lost(&rights, "tickets:read")), (0, vec!["contact".to_owned()]));
        app.advance(Duration::from_hours(24 * 91));
        let admin = app.sign_in("admin@acme.example").await;
        assert_eq!(lost(&rights_of(&admin, "api-keys", &off["id"]).await, "tickets:read"), ["key_expired"]);
    })
    .await;
}

/// Compares an answer with the scopes of the session or key.
async fn expect_agreement_of_scopes(reader: &Actor, actor: &Actor) {
    let session = actor.get("/api/auth/session").send().await.ok(200).clone();
    let collection = if session["kind"] == "user" { "users" } else { "api-keys" };
    let of_session: BTreeSet<String> =
        session["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap().to_owned()).collect();
    assert_eq!(allowed(&rights_of(reader, collection, &session["id"]).await), of_session);
}

#[tokio::test]
async fn a_lapsed_sign_on_is_named() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let visit = async || app.anonymous().with("cookie", &session(&scene.sign_on(ada()).await).unwrap());
        let browser = visit().await;
        let id = browser.get("/api/auth/session").send().await.ok(200)["id"].clone();
        expect_agreement_of_scopes(&scene.admin, &browser).await;
        let provider = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&provider).json(json!({"enabled": false})).send().await.ok(200);
        let sessions = format!("/api/admin/users/{}/sessions", id.as_str().unwrap());
        assert_eq!(scene.admin.delete(&sessions).send().await.status, 204);
        let of_user = async || rights_of(&scene.admin, "users", &id).await;
        assert_eq!(lost(&of_user().await, "tickets:read"), ["identity_provider_off"]);
        scene.admin.put(&provider).json(json!({"enabled": true})).send().await.ok(200);
        let rights = of_user().await;
        assert!(allowed(&rights).contains("tickets:read") && codes(&rights["limits"], "limits") == ["until"], "{rights}");
        let clock = format!("/api/platform/tenants/{}/clock", scene.tenant.id);
        app.local().post(&clock).json(json!({"advance_seconds": 91 * 86_400})).send().await.ok(200);
        assert_eq!(lost(&of_user().await, "tickets:read"), ["sign_on_lapsed"]);
        expect_agreement_of_scopes(&scene.admin, &visit().await).await;
    })
    .await;
}

/// The names of all who have a scope, one on each page.
async fn names(reader: &Actor, query: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = reader.get(&format!("{RIGHTS}?limit=1&{query}{cursor}")).send().await.ok(200).clone();
        found.extend(page["data"].as_array().unwrap().iter().map(|holder| holder["name"].as_str().unwrap().to_owned()));
        match page["page"]["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn the_list_of_a_scope_has_those_who_have_it_now() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let ours = tenant.organization("Ours").await;
        let admin = tenant.admin().await;
        app.advance(Duration::from_secs(1));
        let (ada, path) = person(app, &admin, "ada", "technician").await;
        tenant.contact(&ours, "contact@acme.example").await;
        app.advance(Duration::from_secs(1));
        let (limited, _) = member(app, &admin, "lim", json!({"role": "admin", "organization_ids": [ours]})).await;
        tenant.new_key("Reader", &["tickets:read", "users:read"]).await;
        app.advance(Duration::from_secs(1));
        let (_, own) = own_key(app, &ada, "Script", &["tickets:*"]).await;
        app.tenant("globex").await.new_key("Theirs", &["*"]).await;

        assert_eq!(names(&admin, "scope=tickets:write").await, ["admin", "ada", "lim", "Script"]);
        assert_eq!(names(&admin, "scope=tickets:write&kind=user").await, ["admin", "ada", "lim"]);
        assert_eq!(names(&admin, "scope=tickets:read&kind=api_key").await, ["Reader", "Script"]);
        assert_eq!(names(&admin, "scope=users:write").await, ["admin"], "a limit takes it from lim");
        let listed = admin.get(&format!("{RIGHTS}?scope=tickets:write&kind=api_key")).send().await.ok(200)["data"][0].clone();
        assert_eq!((&listed["id"], &listed["person_id"]), (&own["id"], &own["owner"]["id"]));
        assert_eq!(
            (codes(&listed["reasons"], "gives"), codes(&listed["reasons"], "limits")),
            (vec!["own_list".to_owned()], vec!["until".to_owned()])
        );
        assert_eq!(listed["reasons"].as_array().unwrap().last().unwrap()["until"], own["expires_at"]);
        admin.put(&path).json(json!({"role": "viewer"})).send().await.ok(200);
        assert_eq!(names(&admin, "scope=tickets:write").await, ["admin", "lim"], "the key has it no longer either");

        let users = tenant.key(&["users:read"]).await;
        assert_eq!(names(&users, "scope=tickets:read").await, ["admin", "ada", "lim"]);
        let keys = users.get(&format!("{RIGHTS}?scope=tickets:read&kind=api_key")).send().await;
        assert_eq!((keys.problem(403), &keys.body["required_scopes"]), ("insufficient_scope", &json!(["api_keys:read"])));
        assert_eq!(names(&tenant.key(&["api_keys:read"]).await, "scope=tickets:write").await, Vec::<String>::new());
        let refused = limited.get(&format!("{RIGHTS}?scope=tickets:read")).send().await;
        assert_eq!(refused.status, 403, "limited staff do not see the list of users either");
        let wrong = admin.get(&format!("{RIGHTS}?scope=tickets:reed")).send().await;
        assert_eq!((wrong.problem(422), &wrong.body["errors"][0]["suggestion"]), ("validation_failed", &json!("tickets:read")));
    })
    .await;
}

#[tokio::test]
async fn organizations_are_named_only_to_callers_that_read_the_directory() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let ours = tenant.organization("Ours").await;
        let admin = tenant.admin().await;
        let (_, user) = member(app, &admin, "lim", json!({"role": "technician", "organization_ids": [ours]})).await;
        let key = json!({"name": "c", "scopes": ["tickets:read"], "organization_ids": [ours]});
        let key = admin.post("/api/admin/api-keys").json(key).send().await.ok(201).clone();
        for (scopes, name) in [
            (&["users:read", "api_keys:read"] as &[_], ours.as_str()),
            (&["users:read", "api_keys:read", "directory:read"], "Ours"),
        ] {
            let reader = tenant.key(scopes).await;
            let text = format!("Only records of {name}.");
            for (collection, record) in [("users", &user), ("api-keys", &key)] {
                let rights = rights_of(&reader, collection, &record["id"]).await;
                assert_eq!((&rights["limits"][0]["code"], &rights["limits"][0]["text"]), (&json!("organizations"), &json!(text)));
            }
            let list = reader.get(&format!("{RIGHTS}?scope=tickets:read")).send().await.ok(200).clone();
            let holders = list["data"].as_array().unwrap().iter();
            let limits =
                holders.flat_map(|holder| holder["reasons"].as_array().unwrap()).filter(|reason| reason["code"] == "organizations");
            let texts: Vec<&Value> = limits.map(|reason| &reason["text"]).collect();
            assert_eq!(texts, [&json!(text), &json!(text)]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_person_without_a_way_to_sign_in_is_named() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let browser = app.anonymous().with("cookie", &session(&scene.sign_on(ada()).await).unwrap());
        let id = browser.get("/api/auth/session").send().await.ok(200)["id"].clone();
        scene.admin.delete(&format!("/api/admin/users/{}/sso", id.as_str().unwrap())).send().await.ok(200);
        let rights = rights_of(&scene.admin, "users", &id).await;
        assert_eq!((allowed(&rights).len(), lost(&rights, "tickets:read")), (0, vec!["no_way_in".to_owned()]));
    })
    .await;
}

#[tokio::test]
async fn rights_of_another_tenant_do_not_exist() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let id = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let (_, key) = tenant.new_key("Key", &["*"]).await;
        let stranger = app.tenant("globex").await.admin().await;
        for path in [format!("/api/admin/users/{id}/rights"), format!("/api/admin/api-keys/{}/rights", key["id"].as_str().unwrap())]
        {
            assert_eq!(stranger.get(&path).send().await.problem(404), "not_found");
            admin.get(&path).send().await.ok(200);
        }
        let viewer = tenant.user("viewer").await;
        viewer.get(&format!("/api/admin/users/{id}/rights")).send().await.ok(200);
        let refused = viewer.get(&format!("/api/admin/api-keys/{}/rights", key["id"].as_str().unwrap())).send().await;
        assert_eq!(refused.problem(403), "admin_required");
    })
    .await;
}
