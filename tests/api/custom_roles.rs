//! Roles that a tenant creates: their scopes, their members, and who may change them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Actor, PASSWORD, Tenant, TestApp, with_app};

const ROLES: &str = "/api/admin/roles";
const USERS: &str = "/api/admin/users";
const POLICY: &str = "/api/admin/sign-in-policy";

async fn role(actor: &Actor, name: &str, scopes: &[&str]) -> Value {
    actor.post(ROLES).json(json!({"name": name, "scopes": scopes})).send().await.ok(201).clone()
}

fn path(collection: &str, record: &Value) -> String {
    format!("{collection}/{}", record["id"].as_str().unwrap())
}

/// Creates a member of staff with a role and signs them in.
pub async fn member(app: &TestApp, admin: &Actor, name: &str, more: Value) -> (Actor, Value) {
    let email = format!("{name}@acme.example");
    let mut body = json!({"email": email, "name": name});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let user = admin.post(USERS).json(body).send().await.ok(201).clone();
    let set = json!({"token": user["password_token"], "password": PASSWORD});
    assert_eq!(app.anonymous().post("/api/auth/password").json(set).send().await.status, 204);
    (app.sign_in(&email).await, user)
}

async fn scopes(actor: &Actor) -> Vec<String> {
    let session = actor.get("/api/auth/session").send().await.ok(200).clone();
    session["scopes"].as_array().unwrap().iter().map(|scope| scope.as_str().unwrap().to_owned()).collect()
}

async fn acme(app: &TestApp) -> (Tenant<'_>, Actor) {
    let tenant = app.tenant("acme").await;
    let admin = tenant.admin().await;
    (tenant, admin)
}

#[tokio::test]
async fn a_member_has_the_scopes_of_the_role_and_loses_them_at_once() {
    with_app(async |app| {
        let (tenant, admin) = acme(app).await;
        let organization = tenant.organization("Acme").await;
        let desk = role(&admin, "Desk", &["tickets:*"]).await;
        assert_eq!(desk["granted_scopes"], json!(["tickets:read", "tickets:write"]));
        let (dora, user) = member(app, &admin, "dora", json!({"role": desk["id"]})).await;
        assert_eq!((&user["role"], &user["custom_role"]["name"]), (&desk["id"], &json!("Desk")));
        assert_eq!(scopes(&dora).await, ["tickets:read", "tickets:write"]);
        dora.post("/api/psa/tickets").json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        assert_eq!(dora.get(USERS).send().await.problem(403), "insufficient_scope");

        admin.patch(&path(ROLES, &desk)).json(json!({"scopes": ["tickets:read", "users:read"]})).send().await.ok(200);
        assert_eq!(scopes(&dora).await, ["tickets:read", "users:read"], "the open session has the new scopes");
        assert_eq!(
            dora.post("/api/psa/tickets").json(json!({"subject": "B", "organization_id": organization})).send().await.problem(403),
            "insufficient_scope"
        );
        let members = dora.get(&format!("{USERS}?role={}", desk["id"].as_str().unwrap())).send().await.ok(200).clone();
        assert_eq!((members["data"].as_array().unwrap().len(), &members["data"][0]["id"]), (1, &user["id"]));

        let refused = admin.delete(&path(ROLES, &desk)).send().await;
        assert_eq!((refused.problem(409), &refused.body["dependents"]), ("in_use", &json!({"users": 1})));
        assert_eq!(refused.body["detail"], "Users with this role: 1. Give them another one with PUT /api/admin/users/{id}.");
        admin.put(&path(USERS, &user)).json(json!({"role": "viewer"})).send().await.ok(200);
        let policy = json!({"second_factor": {"required_for": ["technician", desk["id"]]}});
        admin.put(POLICY).json(policy.clone()).send().await.ok(200);
        assert_eq!(admin.delete(&path(ROLES, &desk)).send().await.status, 204);
        let left = admin.get(POLICY).send().await.ok(200).clone();
        assert_eq!((&left["second_factor"]["required_for"], &left["version"]), (&json!(["technician"]), &json!(2)));
        let unknown = admin.put(POLICY).json(policy.clone()).send().await;
        assert_eq!(unknown.problem(422), "validation_failed");
        assert_eq!(unknown.field_errors(), [("/second_factor/required_for/1".to_owned(), "unknown_reference".to_owned())]);
        let gone = admin.put(&path(USERS, &user)).json(json!({"role": desk["id"]})).send().await;
        assert_eq!(gone.problem(422), "validation_failed");
        assert_eq!(gone.field_errors(), [("/role".to_owned(), "unknown_reference".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn nobody_creates_widens_or_gives_a_role_beyond_their_own_rights() {
    with_app(async |app| {
        let (tenant, admin) = acme(app).await;
        let keeper = tenant.key(&["users:*", "tickets:read"]).await;
        let beyond = keeper.post(ROLES).json(json!({"name": "X", "scopes": ["tickets:*"]})).send().await;
        assert_eq!(beyond.problem(403), "insufficient_scope");
        let own = role(&keeper, "Reader", &["tickets:read"]).await;
        let widened = keeper.patch(&path(ROLES, &own)).json(json!({"scopes": ["tickets:read", "api_keys:write"]})).send().await;
        assert_eq!(widened.problem(403), "insufficient_scope");
        assert_eq!(keeper.get(&path(ROLES, &own)).send().await.ok(200)["scopes"], json!(["tickets:read"]), "nothing was stored");

        let strong = role(&admin, "Strong", &["*"]).await;
        assert_eq!(strong["granted_scopes"].as_array().unwrap().iter().filter(|scope| *scope == "platform:read").count(), 0);
        let given = keeper.post(USERS).json(json!({"email": "x@acme.example", "name": "X", "role": strong["id"]})).send().await;
        assert_eq!(given.problem(403), "insufficient_scope");
        let (_, weak) = member(app, &admin, "weak", json!({"role": own["id"]})).await;
        let raised = keeper.put(&path(USERS, &weak)).json(json!({"role": strong["id"]})).send().await;
        assert_eq!(raised.problem(403), "insufficient_scope");
        let (_, powerful) = member(app, &admin, "powerful", json!({"role": strong["id"]})).await;
        let link = keeper.post(&format!("{}/reset-password", path(USERS, &powerful))).send().await;
        assert_eq!(link.problem(403), "insufficient_scope");

        let renamed = keeper.patch(&path(ROLES, &strong)).json(json!({"name": "Reader of tickets"})).send().await;
        assert_eq!(renamed.problem(403), "insufficient_scope");
        keeper.patch(&path(ROLES, &strong)).json(json!({"scopes": ["tickets:read"]})).send().await.ok(200);
        let platform = admin.post(ROLES).json(json!({"name": "P", "scopes": ["platform:read", "tikets:read"]})).send().await;
        assert_eq!(platform.problem(422), "validation_failed");
        let faults = platform.field_errors();
        assert_eq!(faults.len(), 2, "{faults:?}");
    })
    .await;
}

#[tokio::test]
async fn keys_of_members_pause_when_their_role_loses_scopes() {
    with_app(async |app| {
        let (_tenant, admin) = acme(app).await;
        let desk = role(&admin, "Desk", &["tickets:*", "api_keys:*"]).await;
        let (dora, _) = member(app, &admin, "dora", json!({"role": desk["id"]})).await;
        let mut keys = Vec::new();
        for (name, scope) in [("writes", "tickets:write"), ("reads", "tickets:read")] {
            let key = dora.post("/api/admin/api-keys").json(json!({"name": name, "scopes": [scope]})).send().await;
            keys.push(key.ok(201)["id"].as_str().unwrap().to_owned());
        }
        admin.patch(&path(ROLES, &desk)).json(json!({"scopes": ["tickets:read", "api_keys:*"]})).send().await.ok(200);
        let mut paused = Vec::new();
        for id in &keys {
            let key = admin.get(&format!("/api/admin/api-keys/{id}")).send().await.ok(200).clone();
            paused.push(key.get("paused").is_some_and(|paused| !paused.is_null()));
        }
        assert_eq!(paused, [true, false]);
    })
    .await;
}

#[tokio::test]
async fn a_custom_role_does_not_count_as_an_administrator() {
    with_app(async |app| {
        let (_tenant, admin) = acme(app).await;
        let strong = role(&admin, "Strong", &["*"]).await;
        member(app, &admin, "strong", json!({"role": strong["id"]})).await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let demoted = admin.put(&format!("{USERS}/{me}")).json(json!({"role": strong["id"]})).send().await;
        assert_eq!(demoted.problem(409), "in_use", "a tenant keeps an administrator");
    })
    .await;
}

#[tokio::test]
async fn roles_of_another_tenant_do_not_exist() {
    with_app(async |app| {
        let (_tenant, admin) = acme(app).await;
        let other = app.tenant("other").await.admin().await;
        let theirs = role(&other, "Theirs", &["*"]).await;
        for reply in [
            admin.get(&path(ROLES, &theirs)).send().await,
            admin.patch(&path(ROLES, &theirs)).json(json!({"name": "Mine"})).send().await,
            admin.delete(&path(ROLES, &theirs)).send().await,
        ] {
            assert_eq!(reply.problem(404), "not_found");
        }
        let given = admin.post(USERS).json(json!({"email": "x@acme.example", "name": "X", "role": theirs["id"]})).send().await;
        assert_eq!(given.problem(422), "validation_failed");
        let listed = admin.get(ROLES).send().await.ok(200).clone();
        assert_eq!(listed["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn role_names_are_unique_and_roles_are_listed_in_pages() {
    with_app(async |app| {
        let (_tenant, admin) = acme(app).await;
        let first = role(&admin, "Desk", &["tickets:read"]).await;
        app.advance(Duration::from_secs(1));
        let second = role(&admin, "Field", &["tickets:read"]).await;
        let taken = admin.post(ROLES).json(json!({"name": "DESK", "scopes": ["tickets:read"]})).send().await;
        assert_eq!(taken.problem(409), "already_exists");
        let renamed = admin.patch(&path(ROLES, &second)).json(json!({"name": "desk"})).send().await;
        assert_eq!(renamed.problem(409), "already_exists");
        let page = admin.get(&format!("{ROLES}?limit=1&include_total=true")).send().await.ok(200).clone();
        assert_eq!((&page["data"][0]["id"], &page["page"]["total"]), (&first["id"], &json!(2)));
        let next = format!("{ROLES}?limit=1&cursor={}", page["page"]["next_cursor"].as_str().unwrap());
        let last = admin.get(&next).send().await.ok(200).clone();
        assert_eq!((&last["data"][0]["id"], last["page"].get("next_cursor")), (&second["id"], None));
        let stale = admin.patch(&path(ROLES, &first)).header("if-match", "\"v9\"").json(json!({"name": "A"})).send().await;
        assert_eq!(stale.problem(412), "version_conflict");
        let cleared = admin.patch(&path(ROLES, &first)).json(json!({"name": "Desk", "description": null})).send().await;
        assert_eq!(cleared.ok(200)["version"], 1, "a change that changes nothing has no event");
        let events = admin.get("/api/events?types=role.created").send().await.ok(200).clone();
        assert_eq!(events["data"].as_array().unwrap().len(), 2);
        let operator = app.operator().await.post(ROLES).json(json!({"name": "A", "scopes": ["tickets:read"]})).send().await;
        assert_eq!(operator.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn two_roles_never_look_alike() {
    with_app(async |app| {
        let (_tenant, admin) = acme(app).await;
        let desk = role(&admin, "Help Desk", &["tickets:read"]).await;
        let other = role(&admin, "Field", &["tickets:read"]).await;
        let alike = [
            "HELP DESK",
            " Help  Desk ",
            "Help\u{a0}Desk",
            "H\u{e9}lp Desk",
            "He\u{200b}lp Desk",
            "Administrator",
            "ADMIN ",
            " viewer",
        ];
        for name in alike {
            let created = admin.post(ROLES).json(json!({"name": name, "scopes": ["tickets:read"]})).send().await;
            assert_eq!(created.problem(409), "already_exists", "{name:?}");
            let renamed = admin.patch(&path(ROLES, &other)).json(json!({"name": name})).send().await;
            assert_eq!(renamed.problem(409), "already_exists", "{name:?}");
        }
        assert_eq!(admin.patch(&path(ROLES, &desk)).json(json!({"name": "help desk"})).send().await.ok(200)["name"], "help desk");
        role(&admin, "Helpdesk", &["tickets:read"]).await;
    })
    .await;
}
