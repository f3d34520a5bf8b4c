//! A tenant keeps an administrator who can sign in: through `/api/admin/users` and through SCIM.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, PASSWORD, with_app},
    scim_users::{USERS as PEOPLE, patched, provider, refusal},
    sso::{PROVIDERS, Scene, ada},
};

const USERS: &str = "/api/admin/users";

async fn id_of(actor: &Actor) -> String {
    actor.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned()
}

fn off() -> Value {
    json!([{"op": "replace", "path": "active", "value": false}])
}

#[tokio::test]
async fn an_administrator_without_a_way_in_does_not_count() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let me = id_of(&admin).await;
        let (own, person) = (format!("{USERS}/{me}"), format!("{PEOPLE}/{me}"));
        let second = json!({"email": "second@acme.example", "name": "Second", "role": "admin"});
        let second = admin.post(USERS).json(second).send().await.ok(201).clone();
        for change in [json!({"role": "viewer"}), json!({"status": "disabled"})] {
            let refused = admin.put(&own).json(change.clone()).send().await;
            assert_eq!(refused.problem(409), "in_use", "{change}");
            assert!(refused.body["detail"].as_str().unwrap().contains("who can sign in"), "{}", refused.text);
        }
        assert_eq!(admin.delete(&own).send().await.problem(409), "in_use");
        patched(&provider, &person, json!([{"op": "replace", "path": "externalId", "value": "e-1"}])).await.ok(200);
        refusal(&patched(&provider, &person, off()).await, 409);
        refusal(&provider.delete(&person).send().await, 409);
        assert_eq!(id_of(&admin).await, me, "nothing has changed");

        // The other one cannot sign in, so nothing is lost with them.
        let other = format!("{USERS}/{}", second["id"].as_str().unwrap());
        admin.put(&other).json(json!({"role": "viewer"})).send().await.ok(200);
        admin.put(&other).json(json!({"role": "admin"})).send().await.ok(200);
        let token = admin.post(&format!("{other}/reset-password")).send().await.ok(200)["password_token"].clone();
        let set = json!({"token": token, "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(set).send().await.status, 204);
        patched(&provider, &person, off()).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_link_to_an_enabled_provider_is_a_way_in() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"default_role": "admin"})).await;
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        let own = format!("{USERS}/{}", id_of(&scene.admin).await);
        let record = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        scene.admin.put(&record).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(scene.admin.put(&own).json(json!({"role": "viewer"})).send().await.problem(409), "in_use");
        scene.admin.put(&record).json(json!({"enabled": true})).send().await.ok(200);
        scene.admin.put(&own).json(json!({"role": "viewer"})).send().await.ok(200);
    })
    .await;
}
