//! An account that a weaker manager has opened loses everything that signs in as it when it gets rights that this manager lacks.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{Actor, PASSWORD, Tenant, TestApp, with_app},
    scim_groups::{GROUPS, RULES, rules},
    scim_users::{patched, provider},
    sso::{Scene, ada, session},
};

const USERS: &str = "/api/admin/users";
const ROLES: &str = "/api/admin/roles";
const KEYS: &str = "/api/admin/api-keys";
const OWN_KEYS: &str = "/api/auth/own-keys";

fn path(user: &Value) -> String {
    format!("{USERS}/{}", user["id"].as_str().unwrap())
}

/// A manager of users who covers only readers of tickets, and the role of these.
async fn helper(tenant: &Tenant<'_>, admin: &Actor) -> (Actor, Value) {
    let weak = admin.post(ROLES).json(json!({"name": "Weak", "scopes": ["tickets:read"]})).send().await.ok(201)["id"].clone();
    (tenant.key(&["users:*", "tickets:read"]).await, weak)
}

/// The helper sets the password of an account and signs in as its person.
async fn opened(app: &TestApp, helper: &Actor, user: &Value) -> Actor {
    let reset = helper.post(&format!("{}/reset-password", path(user))).send().await.ok(200).clone();
    let set = json!({"token": reset["password_token"], "password": PASSWORD});
    assert_eq!(app.anonymous().post("/api/auth/password").json(set).send().await.status, 204);
    app.sign_in(user["email"].as_str().unwrap()).await
}

async fn staff(manager: &Actor, name: &str, role: &Value) -> Value {
    let body = json!({"email": format!("{name}@acme.example"), "name": name, "role": role});
    manager.post(USERS).json(body).send().await.ok(201).clone()
}

async fn is_open(app: &TestApp, session: &Actor, user: &Value) -> [bool; 2] {
    let body = json!({"email": user["email"], "password": PASSWORD});
    let signs_in = app.anonymous().post("/api/auth/login").json(body).send().await.status == 200;
    [session.get("/api/auth/session").send().await.status == 200, signs_in]
}

#[tokio::test]
async fn every_gain_of_rights_closes_an_account_that_a_weaker_manager_has_opened() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (helper, weak) = helper(&tenant, &admin).await;
        let organization = tenant.organization("Acme").await;

        let promoted = staff(&admin, "promoted", &weak).await;
        let session = opened(app, &helper, &promoted).await;
        admin.put(&path(&promoted)).json(json!({"name": "Renamed", "role": weak})).send().await.ok(200);
        assert_eq!(is_open(app, &session, &promoted).await, [true, true], "no rights were added");
        admin.put(&path(&promoted)).json(json!({"role": "technician"})).send().await.ok(200);
        assert_eq!(is_open(app, &session, &promoted).await, [false, false]);
        let events = admin.get("/api/events?types=auth.access_ended").send().await.ok(200)["data"].clone();
        assert_eq!((events.as_array().unwrap().len(), &events[0]["resource"]["id"]), (1, &promoted["id"]), "{events}");

        let demoted = staff(&admin, "demoted", &json!("admin")).await;
        helper.put(&path(&demoted)).json(json!({"role": weak})).send().await.ok(200);
        let session = opened(app, &helper, &demoted).await;
        admin.put(&path(&demoted)).json(json!({"role": "admin"})).send().await.ok(200);
        assert_eq!(is_open(app, &session, &demoted).await, [false, false]);

        let created = staff(&helper, "created", &weak).await;
        let session = opened(app, &helper, &created).await;
        admin.patch(&format!("{ROLES}/{}", weak.as_str().unwrap())).json(json!({"scopes": ["tickets:*"]})).send().await.ok(200);
        assert_eq!(is_open(app, &session, &created).await, [false, false], "the role has grown");
        admin.patch(&format!("{ROLES}/{}", weak.as_str().unwrap())).json(json!({"scopes": ["tickets:read"]})).send().await.ok(200);

        let role = admin.post(ROLES).json(json!({"name": "Other", "scopes": ["tickets:read"]})).send().await.ok(201)["id"].clone();
        let limited = staff(&admin, "limited", &role).await;
        admin.put(&path(&limited)).json(json!({"organization_ids": [organization]})).send().await.ok(200);
        let local = json!({"name": "Local", "scopes": ["*"], "organization_ids": [organization]});
        assert_eq!(helper.post("/api/admin/api-keys").json(local).send().await.status, 403);
        let session = opened(app, &helper, &limited).await;
        admin.put(&path(&limited)).json(json!({"organization_ids": null})).send().await.ok(200);
        assert_eq!(is_open(app, &session, &limited).await, [true, true], "the helper covers the whole tenant");
    })
    .await;
}

#[tokio::test]
async fn keys_that_were_made_in_an_opened_account_end_with_it() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let body = json!({"name": "Weak", "scopes": ["tickets:read", "api_keys:*"]});
        let weak = admin.post(ROLES).json(body).send().await.ok(201)["id"].clone();
        let helper = tenant.key(&["users:*", "tickets:read", "api_keys:*"]).await;
        let user = staff(&admin, "user", &weak).await;
        let made = async |session: &Actor, path: &str, name: &str| {
            let body = json!({"name": name, "scopes": ["tickets:read"]});
            session.post(path).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned()
        };
        let session = opened(app, &admin, &user).await;
        let before = [made(&session, OWN_KEYS, "own").await, made(&session, KEYS, "program").await];
        app.advance(Duration::from_mins(1));
        let session = opened(app, &helper, &user).await;
        let since = [made(&session, OWN_KEYS, "own since").await, made(&session, KEYS, "program since").await];
        // The account gets the secret of a key of somebody else, and with it that of another one.
        let lent = made(&admin, KEYS, "lent").await;
        let secret =
            session.post(&format!("{KEYS}/{lent}/rotate")).json(json!({"overlap_seconds": 0})).send().await.ok(200)["key"].clone();
        let (plain, untouched) = (app.anonymous().bearer(secret.as_str().unwrap()), made(&admin, KEYS, "untouched").await);
        admin.put(&path(&user)).json(json!({"role": "admin"})).send().await.ok(200);

        let shown = async |id: &str| admin.get(&format!("{KEYS}/{id}")).send().await.ok(200).clone();
        assert_eq!((&shown(&before[0]).await["status"], &shown(&before[1]).await["status"]), (&json!("active"), &json!("active")));
        assert_eq!(shown(&since[0]).await["status"], "revoked");
        assert_eq!(shown(&since[1]).await["paused"]["reason"], "access_ended");
        assert_eq!(shown(&lent).await["paused"]["reason"], "access_ended");
        assert_eq!(plain.get("/api/psa/tickets").send().await.problem(401), "key_disabled");
        assert_eq!(shown(&untouched).await["status"], "active");

        // It works again only with a new secret.
        let path = format!("{KEYS}/{lent}");
        assert_eq!(admin.put(&path).json(json!({"enabled": true})).send().await.problem(409), "invalid_transition");
        assert_eq!(admin.post(&format!("{path}/take-over")).send().await.problem(409), "invalid_transition");
        admin.post(&format!("{path}/rotate")).json(json!({"overlap_seconds": 0})).send().await.ok(200);
        admin.post(&format!("{path}/take-over")).send().await.ok(200);
        assert_eq!((&shown(&lent).await["status"], plain.get("/api/psa/tickets").send().await.status), (&json!("active"), 401));
    })
    .await;
}

#[tokio::test]
async fn covering_managers_and_people_themselves_do_not_close_an_account() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (_, weak) = helper(&tenant, &admin).await;
        let user = staff(&admin, "user", &weak).await;
        let session = opened(app, &admin, &user).await;
        admin.put(&path(&user)).json(json!({"role": "admin"})).send().await.ok(200);
        assert_eq!(session.get("/api/auth/session").send().await.ok(200)["role"], "admin");

        let keeper = admin.post(ROLES).json(json!({"name": "Keeper", "scopes": ["users:*"]})).send().await.ok(201)["id"].clone();
        let own = staff(&admin, "own", &keeper).await;
        let session = opened(app, &admin, &own).await;
        let session = opened(app, &session, &own).await;
        admin.put(&path(&own)).json(json!({"role": "admin"})).send().await.ok(200);
        assert_eq!(is_open(app, &session, &own).await, [true, true], "people change their own password");
    })
    .await;
}

#[tokio::test]
async fn only_administrators_change_an_address_or_remove_a_link() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (helper, weak) = helper(&tenant, &admin).await;
        let user = staff(&admin, "user", &weak).await;
        for reply in [
            helper.put(&path(&user)).json(json!({"email": "new@acme.example"})).send().await,
            helper.put(&path(&user)).json(json!({"external_id": "7"})).send().await,
            helper.delete(&format!("{}/sso", path(&user))).send().await,
        ] {
            assert_eq!(reply.problem(403), "insufficient_scope", "{}", reply.text);
        }
        let keeper = admin.post(ROLES).json(json!({"name": "Keeper", "scopes": ["users:*"]})).send().await.ok(201)["id"].clone();
        let own = staff(&admin, "own", &keeper).await;
        let session = opened(app, &admin, &own).await;
        let renamed = session.put(&path(&own)).json(json!({"email": "future@acme.example"})).send().await;
        assert_eq!(renamed.problem(403), "insufficient_scope", "somebody else will have this address");
        admin.put(&path(&user)).json(json!({"email": "new@acme.example"})).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn removed_factors_and_unused_links_open_an_account_too() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (helper, weak) = helper(&tenant, &admin).await;
        for (name, method, place) in [("reset", "DELETE", "factors"), ("linked", "POST", "reset-password")] {
            let user = staff(&admin, name, &weak).await;
            let session = opened(app, &admin, &user).await;
            let reply = helper.call(method, &format!("{}/{place}", path(&user))).send().await;
            assert!([200, 204].contains(&reply.status), "{}", reply.text);
            let session = if name == "reset" { app.sign_in("reset@acme.example").await } else { session };
            admin.put(&path(&user)).json(json!({"role": "technician"})).send().await.ok(200);
            assert_eq!(is_open(app, &session, &user).await, [false, false], "{name}");
        }
        // The holder of a key is not its owner.
        let user = staff(&admin, "owner", &json!("admin")).await;
        let owner = opened(app, &admin, &user).await;
        let key = json!({"name": "Desk", "scopes": ["users:*", "tickets:read"]});
        let key = owner.post("/api/admin/api-keys").json(key).send().await.ok(201)["key"].clone();
        let holder = app.anonymous().bearer(key.as_str().unwrap());
        let same = json!({"name": "Same", "scopes": ["users:*", "tickets:read"]});
        let same = admin.post(ROLES).json(same).send().await.ok(201)["id"].clone();
        holder.put(&path(&user)).json(json!({"role": same})).send().await.ok(200);
        let planted = opened(app, &holder, &user).await;
        admin.put(&path(&user)).json(json!({"role": "admin"})).send().await.ok(200);
        assert_eq!(is_open(app, &planted, &user).await, [false, false]);
    })
    .await;
}

#[tokio::test]
async fn a_link_to_a_provider_ends_only_if_an_opener_chose_the_address() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"default_role": "viewer"})).await;
        let (helper, weak) = helper(&scene.tenant, &scene.admin).await;
        let planted = staff(&helper, "ada", &weak).await;
        assert!(session(&scene.sign_on(ada()).await).is_some());
        let mut claims = ada();
        (claims["sub"], claims["email"]) = (json!("bea-1"), json!("bea@acme.example"));
        let own = staff(&scene.admin, "bea", &weak).await;
        assert!(session(&scene.sign_on(claims).await).is_some());
        opened(app, &helper, &own).await;
        for (user, stays) in [(&planted, false), (&own, true)] {
            scene.admin.put(&path(user)).json(json!({"role": "technician"})).send().await.ok(200);
            let after = scene.admin.get(&path(user)).send().await.ok(200).clone();
            assert_eq!(after.get("sso").is_some(), stays, "{after}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_group_of_scim_closes_an_opened_account() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (helper, weak) = helper(&tenant, &admin).await;
        let provider = provider(&tenant).await;
        let group = provider.post(GROUPS).json(json!({"displayName": "Admins"})).send().await.ok(201).clone();
        admin.put(RULES).json(rules(&[(&group, "admin")])).send().await.ok(200);
        let user = staff(&helper, "future", &weak).await;
        let session = opened(app, &helper, &user).await;
        let member = json!([{"op": "add", "path": "members", "value": [{"value": user["id"]}]}]);
        patched(&provider, &format!("{GROUPS}/{}", group["id"].as_str().unwrap()), member).await.ok(200);
        assert_eq!(admin.get(&path(&user)).send().await.ok(200)["role"], "admin");
        assert_eq!(is_open(app, &session, &user).await, [false, false]);
    })
    .await;
}

#[tokio::test]
async fn a_sign_on_closes_an_opened_account_and_keeps_its_own_link() {
    with_app(async |app| {
        let mappings = json!([{"group": "admins", "role": "admin"}]);
        let scene = Scene::new(app, json!({"role_mappings": mappings, "default_role": "viewer"})).await;
        let (helper, weak) = helper(&scene.tenant, &scene.admin).await;
        let user = staff(&helper, "ada", &weak).await;
        let planted = opened(app, &helper, &user).await;
        let mut claims = ada();
        claims["groups"] = json!(["admins"]);
        let cookie = session(&scene.sign_on(claims.clone()).await).unwrap();
        let own = app.anonymous().with("cookie", &cookie);
        assert_eq!(own.get("/api/auth/session").send().await.ok(200)["role"], "admin");
        assert_eq!(is_open(app, &planted, &user).await, [false, false]);
        assert!(session(&scene.sign_on(claims).await).is_some(), "the link stays");
    })
    .await;
}

#[tokio::test]
async fn a_password_link_ends_when_its_issuer_manages_no_users() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let (_, weak) = helper(&tenant, &admin).await;
        let body = json!({"name": "Keeper", "scopes": ["users:*", "tickets:read"]});
        let keeper = admin.post(ROLES).json(body).send().await.ok(201)["id"].clone();
        let issuer = staff(&admin, "issuer", &keeper).await;
        let issuer = opened(app, &admin, &issuer).await;
        let user = staff(&issuer, "user", &weak).await;
        let scopes = json!({"scopes": ["users:read", "tickets:read"]});
        admin.patch(&format!("{ROLES}/{}", keeper.as_str().unwrap())).json(scopes).send().await.ok(200);
        let set = json!({"token": user["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(set).send().await.status, 401);
    })
    .await;
}
