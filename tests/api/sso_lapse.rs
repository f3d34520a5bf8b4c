//! People who sign in only through an identity provider: their automation runs while the provider is enabled, and for 90 days after
//! their last sign-in.

use serde_json::json;

use crate::{
    harness::{Endpoint, Receiver, with_app},
    sso::{PROVIDERS, Scene, ada, session},
};

const DAY: u64 = 86_400;

#[tokio::test]
async fn automation_stops_for_lapsed_sso_users() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"default_role": "admin"})).await;
        let organization = scene.tenant.organization("Acme").await;
        let receiver = Receiver::always(200).await;
        let visit = async || {
            let cookie = session(&scene.sign_on(ada()).await).unwrap();
            app.anonymous().with("cookie", &cookie)
        };
        Endpoint::of(visit().await, &receiver.url(), json!({"events": ["ticket.created"]})).await;
        let others = Receiver::always(200).await;
        Endpoint::of(scene.admin.clone(), &others.url(), json!({"events": ["ticket.created"]})).await;
        // Once the other receiver has the ticket, the server has decided whether to send it. Requests that are not sent would show
        // up in the next one.
        let ticket = async |subject: &str| {
            let body = json!({"subject": subject, "organization_id": organization});
            scene.admin.post("/api/psa/tickets").json(body).send().await.ok(201);
            others.next().await;
        };
        let sent = async |subject: &str| {
            ticket(subject).await;
            assert_eq!(receiver.next().await.json()["data"]["ticket"]["subject"], subject);
        };
        sent("visited").await;

        let provider = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        let switch = async |on: bool| scene.admin.put(&provider).json(json!({"enabled": on})).send().await.ok(200).clone();
        switch(false).await;
        ticket("the provider is off").await;
        switch(true).await;
        sent("the provider is on again").await;

        let advance = async |days: u64| {
            let path = format!("/api/platform/tenants/{}/clock", scene.tenant.id);
            app.local().post(&path).json(json!({"advance_seconds": days * DAY})).send().await.ok(200);
        };
        advance(89).await;
        sent("89 days after the visit").await;
        advance(2).await;
        ticket("91 days after the visit").await;

        // With a password of their own, they do not depend on the provider.
        let user = scene.user("ada").await.unwrap()["id"].as_str().unwrap().to_owned();
        let issued = scene.admin.post(&format!("/api/admin/users/{user}/reset-password")).send().await.ok(200).clone();
        let body = json!({"token": issued["password_token"], "password": "a long enough passphrase"});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.status, 204);
        sent("with a password").await;
        // A password that they may not use does not count.
        let admin = scene.admin.get("/api/auth/session").send().await.ok(200)["id"].clone();
        let require = async |enforcement: &str| {
            let body = json!({"enforcement": enforcement, "break_glass_user_ids": [admin]});
            scene.admin.put(&provider).json(body).send().await.ok(200);
        };
        require("domains").await;
        ticket("the provider is required").await;
        require("off").await;
        sent("the provider is optional again").await;
        switch(false).await;
        sent("with a password and without the provider").await;
    })
    .await;
}
