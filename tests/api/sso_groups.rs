//! Groups of a provider that give roles, at every sign-on.

use serde_json::{Value, json};

use crate::{
    harness::{oidc::Twist, with_app},
    sso::{PROVIDERS, Scene, ada, session},
};

fn in_groups(groups: Value) -> Value {
    let mut claims = ada();
    claims["groups"] = groups;
    claims
}

fn mappings() -> Value {
    json!([{"group": "admins", "role": "admin"}, {"group": "helpdesk", "role": "technician"}])
}

async fn role(scene: &Scene<'_>, claims: Value) -> Value {
    let reply = scene.sign_on(claims).await;
    let Some(cookie) = session(&reply) else { return json!(reply.status) };
    scene.app.anonymous().with("cookie", &cookie).get("/api/auth/session").send().await.ok(200)["role"].clone()
}

#[tokio::test]
async fn groups_decide_the_role_at_every_sign_on() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"role_mappings": mappings(), "default_role": "viewer"})).await;
        assert_eq!(role(&scene, in_groups(json!(["staff", "helpdesk"]))).await, "technician");
        assert_eq!(role(&scene, in_groups(json!(["helpdesk", "admins"]))).await, "admin", "the first entry decides");
        assert_eq!(role(&scene, in_groups(json!("helpdesk"))).await, "technician", "one text is one group");
        assert_eq!(role(&scene, ada()).await, "viewer", "without a group, the default role");
        scene.provider.twist(Twist { email_elsewhere: true, ..Twist::default() });
        assert_eq!(role(&scene, in_groups(json!(["admins"]))).await, "admin", "groups in the user information count");
        let events = scene.admin.get("/api/events?types=user.updated&limit=200").send().await.ok(200)["data"].clone();
        let changes = events.as_array().unwrap().iter().filter_map(|event| event["data"]["changes"].get("role"));
        let roles: Vec<&Value> = changes.map(|change| &change["to"]).collect();
        assert_eq!(roles, ["admin", "technician", "viewer", "admin"]);
    })
    .await;
}

#[tokio::test]
async fn a_nested_claim_is_found_and_unmapped_people_can_be_refused() {
    with_app(async |app| {
        let rules = json!({"role_mappings": mappings(), "groups_claim": "realm_access.roles", "unmapped": "refuse"});
        let scene = Scene::new(app, rules).await;
        let with = |roles: Value| {
            let mut claims = ada();
            claims["realm_access"] = json!({"roles": roles});
            claims
        };
        assert_eq!(role(&scene, with(json!(["staff"]))).await, 401);
        assert!(scene.user("ada").await.is_none(), "nobody is created");
        assert_eq!(role(&scene, with(json!(["helpdesk"]))).await, "technician");
        assert_eq!(role(&scene, with(json!([7]))).await, 401);
        assert_eq!(role(&scene, with(json!(vec!["x"; 1001]))).await, 401);
        let mut overage = ada();
        overage["_claim_names"] = json!({"realm_access": "src1"});
        assert_eq!(role(&scene, overage).await, 401);
        assert_eq!(scene.reasons().await, ["no_mapped_group", "unusable_groups", "unusable_groups", "unusable_groups"]);
        assert_eq!(scene.user("ada").await.unwrap()["role"], "technician", "a refusal changes nothing");
    })
    .await;
}

#[tokio::test]
async fn keys_of_a_demoted_person_pause_and_the_last_administrator_stays() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"role_mappings": mappings(), "default_role": "viewer"})).await;
        let reply = scene.sign_on(in_groups(json!(["admins"]))).await;
        let browser = app.anonymous().with("cookie", &session(&reply).unwrap());
        let key = json!({"name": "Hers", "scopes": ["users:read", "users:write"]});
        let made = browser.post("/api/admin/api-keys").json(key).send().await.ok(201).clone();
        let hers = app.anonymous().bearer(made["key"].as_str().unwrap());
        hers.get("/api/admin/users").send().await.ok(200);
        assert_eq!(role(&scene, ada()).await, "viewer");
        assert_eq!(hers.get("/api/admin/users").send().await.status, 401, "her key is paused");

        // The administrator of the tenant signs in through the provider without a group.
        let admin = json!({"sub": "admin-1", "email": "admin@acme.example", "email_verified": true});
        assert_eq!(role(&scene, admin.clone()).await, "admin", "nobody else is one");
        assert_eq!(role(&scene, in_groups(json!(["admins"]))).await, "admin");
        assert_eq!(role(&scene, admin).await, "viewer");
    })
    .await;
}

#[tokio::test]
async fn mappings_are_checked_and_a_test_shows_the_role() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"enabled": false, "role_mappings": mappings()})).await;
        let path = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        let operator = json!({"role_mappings": [{"group": "a", "role": "viewer"}, {"group": "b", "role": "operator"}]});
        let refused = scene.admin.put(&path).json(operator).send().await;
        assert_eq!(refused.field_errors(), [("/role_mappings/1/role".to_owned(), "not_allowed".to_owned())]);
        let link = scene.admin.post(&format!("{path}/test")).send().await.ok(200)["sign_in_url"].clone();
        let link = link.as_str().unwrap();
        let opened = app.anonymous().get(&link[link.find("/api/").unwrap()..]).send().await;
        let cookie = opened.header("set-cookie").split(';').next().unwrap().to_owned();
        let callback = scene.provider.authorize(opened.header("location"), in_groups(json!(["helpdesk"])));
        let shown = app.anonymous().with("cookie", &cookie).get(&callback).send().await;
        assert!(shown.text.contains("Their role would be technician."), "{}", shown.text);
        let test = scene.admin.get(&path).send().await.ok(200)["sign_on"]["last_test"].clone();
        assert_eq!((&test["role"], &test["creates_user"]), (&json!("technician"), &json!(true)));
    })
    .await;
}
