//! Enforced single sign-on: what it refuses, whom it exempts, when it can be turned on, and how it is lifted.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, PASSWORD, Reply, TestApp, with_app},
    sso::{PROVIDERS, Scene, ada, session},
};

fn path(scene: &Scene<'_>) -> String {
    format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap())
}

async fn login(app: &TestApp, email: &str, password: &str) -> Reply {
    app.anonymous().post("/api/auth/login").json(json!({"email": email, "password": password})).send().await
}

async fn id_of(actor: &Actor) -> Value {
    actor.get("/api/auth/session").send().await.ok(200)["id"].clone()
}

async fn enforce(scene: &Scene<'_>, enforcement: &str, exempt: &[Value]) -> Reply {
    scene.admin.put(&path(scene)).json(json!({"enforcement": enforcement, "break_glass_user_ids": exempt})).send().await
}

/// A provider that somebody has signed in through.
async fn proven(app: &TestApp) -> Scene<'_> {
    let scene = Scene::new(app, json!({})).await;
    assert_eq!(scene.sign_on(ada()).await.status, 303);
    scene
}

#[tokio::test]
async fn staff_of_the_domain_must_use_the_provider() {
    with_app(async |app| {
        let scene = proven(app).await;
        let bob = scene.tenant.user("technician").await;
        let before = bob.get("/api/auth/session").send().await.ok(200).clone();
        let email = before["email"].as_str().unwrap().to_owned();
        let admin = id_of(&scene.admin).await;
        let enforced = enforce(&scene, "domains", &[admin]).await;
        assert_eq!(enforced.ok(200)["enforcement"], "domains");
        assert_eq!(bob.get("/api/auth/session").send().await.problem(401), "session_expired", "sessions with a password end");
        scene.admin.get("/api/auth/session").send().await.ok(200);

        let refused = login(app, &email, PASSWORD).await;
        assert_eq!(refused.problem(403), "single_sign_on_required");
        assert_eq!(refused.body["identity_provider"], json!({"id": scene.record["id"], "name": "Acme"}));
        assert!(refused.headers.get("set-cookie").is_none());
        let way = refused.body["sign_in_path"].as_str().unwrap();
        let shown = app.anonymous().get(way).header("accept", "text/html").send().await;
        assert!(shown.status == 200 && shown.text.contains("Continue to Acme"), "{}", shown.text);
        assert_eq!(login(app, &email, "wrong wrong wrong").await.problem(401), "invalid_credentials");
        assert_eq!(login(app, "nobody@acme.example", PASSWORD).await.problem(401), "invalid_credentials");
        assert_eq!(scene.reasons().await, ["single_sign_on_required", "wrong_password"]);

        let user = format!("/api/admin/users/{}", before["id"].as_str().unwrap());
        let token = scene.admin.post(&format!("{user}/reset-password")).send().await;
        assert_eq!(token.problem(403), "single_sign_on_required");
        let new = json!({"email": "new@acme.example", "name": "New", "role": "viewer"});
        let created = scene.admin.post("/api/admin/users").json(new).send().await.ok(201).clone();
        assert!(created.get("password_token").is_none() && created.get("password_link").is_none());
        let elsewhere = json!({"email": "out@elsewhere.example", "name": "Out", "role": "viewer"});
        assert!(scene.admin.post("/api/admin/users").json(elsewhere).send().await.ok(201)["password_token"].is_string());

        // The provider itself works, and so does enforcement while it is disabled.
        let signed_in = scene.sign_on(json!({"sub": "bob-1", "email": email, "email_verified": true})).await;
        app.anonymous().with("cookie", &session(&signed_in).unwrap()).get("/api/auth/session").send().await.ok(200);
        scene.admin.put(&path(&scene)).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(login(app, &email, PASSWORD).await.problem(403), "single_sign_on_required");
    })
    .await;
}

#[tokio::test]
async fn a_break_glass_account_signs_in_and_is_reported() {
    with_app(async |app| {
        let scene = proven(app).await;
        let admin = id_of(&scene.admin).await;
        let other = scene.tenant.user("viewer").await;
        let email = other.get("/api/auth/session").send().await.ok(200)["email"].as_str().unwrap().to_owned();
        enforce(&scene, "tenant", std::slice::from_ref(&admin)).await.ok(200);
        assert_eq!(login(app, &email, PASSWORD).await.problem(403), "single_sign_on_required");
        login(app, "admin@acme.example", PASSWORD).await.ok(200);
        let events = scene.admin.get("/api/events?types=auth.break_glass_used").send().await.ok(200)["data"].clone();
        let subjects: Vec<&Value> = events.as_array().unwrap().iter().map(|event| &event["data"]["user"]["id"]).collect();
        assert_eq!(subjects, [&admin]);
        // The last account that works when the provider fails cannot be taken away.
        let second = json!({"email": "second@acme.example", "name": "Second", "role": "admin"});
        let second = scene.admin.post("/api/admin/users").json(second).send().await.ok(201).clone();
        assert!(second.get("password_token").is_none());
        let path = format!("/api/admin/users/{}", admin.as_str().unwrap());
        for change in [json!({"role": "viewer"}), json!({"status": "disabled"})] {
            assert_eq!(scene.admin.put(&path).json(change).send().await.problem(409), "invalid_transition");
        }
        assert_eq!(scene.admin.delete(&path).send().await.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn enforcement_that_would_lock_everybody_out_is_refused() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({"enabled": false})).await;
        let admin = id_of(&scene.admin).await;
        let places = |reply: Reply| {
            assert_eq!(reply.problem(422), "validation_failed");
            reply.field_errors().into_iter().map(|(place, _)| place).collect::<Vec<_>>()
        };
        assert_eq!(places(enforce(&scene, "tenant", std::slice::from_ref(&admin)).await), ["/enforcement"], "it is disabled");
        scene.admin.put(&path(&scene)).json(json!({"enabled": true})).send().await.ok(200);
        assert_eq!(places(enforce(&scene, "tenant", std::slice::from_ref(&admin)).await), ["/enforcement"], "nobody has signed in");
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        assert_eq!(places(enforce(&scene, "tenant", &[]).await), ["/break_glass_user_ids"]);
        let ada = scene.user("ada").await.unwrap()["id"].clone();
        let wrong = enforce(&scene, "tenant", &[ada.clone(), json!("usr_01kg9pybp0f88rpgmx0nqf2a81")]).await;
        let all = ["/break_glass_user_ids", "/break_glass_user_ids/0", "/break_glass_user_ids/1"];
        assert_eq!(places(wrong), all, "neither has a password");
        scene.admin.get("/api/auth/session").send().await.ok(200);

        enforce(&scene, "tenant", std::slice::from_ref(&admin)).await.ok(200);
        assert_eq!(places(enforce(&scene, "tenant", &[]).await), ["/break_glass_user_ids"], "nor can it be removed later");
        assert_eq!(scene.admin.delete(&path(&scene)).send().await.problem(409), "invalid_transition");
        // Another issuer has not worked yet.
        enforce(&scene, "off", std::slice::from_ref(&admin)).await.ok(200);
        scene.admin.put(&path(&scene)).json(json!({"client_id": "another"})).send().await.ok(200);
        assert_eq!(places(enforce(&scene, "domains", &[admin]).await), ["/enforcement"]);
    })
    .await;
}

#[tokio::test]
async fn only_administrators_and_the_operator_change_enforcement() {
    with_app(async |app| {
        let scene = proven(app).await;
        let admin = id_of(&scene.admin).await;
        let some = scene.tenant.key(&["users:*"]).await;
        for change in [
            json!({"enforcement": "domains"}),
            json!({"break_glass_user_ids": [admin]}),
            json!({"role_mappings": [{"group": "all", "role": "viewer"}]}),
            json!({"unmapped": "refuse"}),
            json!({"required_acr": ["phr"]}),
        ] {
            assert_eq!(some.put(&path(&scene)).json(change).send().await.problem(403), "insufficient_scope");
        }
        let bob = scene.tenant.user("technician").await;
        let email = bob.get("/api/auth/session").send().await.ok(200)["email"].as_str().unwrap().to_owned();
        enforce(&scene, "tenant", &[admin]).await.ok(200);
        assert_eq!(some.put(&path(&scene)).json(json!({"enforcement": "off"})).send().await.problem(403), "insufficient_scope");
        let stranger = app.tenant("other").await.admin().await;
        assert_eq!(stranger.put(&path(&scene)).json(json!({"enforcement": "off"})).send().await.problem(404), "not_found");
        let relax = format!("/internal/admin/tenants/{}/identity-providers/relax", scene.tenant.id);
        assert_eq!(scene.admin.post(&relax).send().await.status, 404, "only on the socket");
        let relaxed = app.local().post(&relax).send().await;
        assert_eq!(relaxed.ok(200)["identity_providers"][0]["enforcement"], "off");
        assert_eq!(app.local().post(&relax).send().await.ok(200)["identity_providers"], json!([]));
        login(app, &email, PASSWORD).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_token_or_a_link_is_no_way_around() {
    with_app(async |app| {
        let scene = proven(app).await;
        let admin = id_of(&scene.admin).await;
        let new = json!({"email": "new@acme.example", "name": "New", "role": "viewer"});
        let token = scene.admin.post("/api/admin/users").json(new).send().await.ok(201)["password_token"].clone();
        enforce(&scene, "domains", &[admin]).await.ok(200);
        let set = json!({"token": token, "password": PASSWORD});
        let reply = app.anonymous().post("/api/auth/password").json(set).send().await;
        assert_eq!(reply.problem(401), "invalid_credentials", "the token ended with the sessions");
    })
    .await;
}

#[tokio::test]
async fn a_password_confirms_nothing_for_people_who_must_use_the_provider() {
    with_app(async |app| {
        let scene = proven(app).await;
        let bob = scene.tenant.user("technician").await;
        let email = bob.get("/api/auth/session").send().await.ok(200)["email"].as_str().unwrap().to_owned();
        enforce(&scene, "domains", &[id_of(&scene.admin).await]).await.ok(200);
        let claims = json!({"sub": "bob-1", "email": email, "email_verified": true});
        let bob = app.anonymous().with("cookie", &session(&scene.sign_on(claims).await).unwrap());
        for password in [PASSWORD, "wrong wrong wrong"] {
            let change = json!({"current_password": password, "new_password": "lantern octopus mountain staple"});
            for refused in [
                bob.post("/api/auth/confirm").json(json!({"password": password})).send().await,
                bob.put("/api/auth/own-password").json(change).send().await,
            ] {
                assert_eq!(refused.problem(403), "single_sign_on_required", "{password}");
                assert!(refused.body["sign_in_path"].as_str().unwrap().starts_with("/sign-in?tenant=acme"), "{}", refused.text);
            }
        }
        assert_eq!(scene.reasons().await, Vec::<String>::new(), "no password was compared");
        scene.admin.confirm().await;
    })
    .await;
}

#[tokio::test]
async fn an_enforced_provider_stays_the_one_that_worked() {
    with_app(async |app| {
        let scene = proven(app).await;
        enforce(&scene, "tenant", &[id_of(&scene.admin).await]).await.ok(200);
        for change in [
            json!({"client_id": "another"}),
            json!({"issuer": format!("{}/other", scene.provider.issuer())}),
            json!({"domains": ["acme.com"]}),
        ] {
            assert_eq!(
                scene.admin.put(&path(&scene)).json(change.clone()).send().await.problem(409),
                "invalid_transition",
                "{change}"
            );
        }
        scene.admin.put(&path(&scene)).json(json!({"client_secret": "renewed", "name": "Renamed"})).send().await.ok(200);
        scene.admin.put(&path(&scene)).json(json!({"client_id": "another", "enforcement": "off"})).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_last_way_in_is_not_taken_away_by_a_role_or_a_limit() {
    with_app(async |app| {
        let scene = proven(app).await;
        let admin = id_of(&scene.admin).await;
        enforce(&scene, "tenant", std::slice::from_ref(&admin)).await.ok(200);
        // Another administrator, who must use the provider.
        let second = json!({"email": "second@acme.example", "name": "Second", "role": "admin"});
        scene.admin.post("/api/admin/users").json(second).send().await.ok(201);
        let role = json!({"name": "Strong", "scopes": ["*"]});
        let role = scene.admin.post("/api/admin/roles").json(role).send().await.ok(201)["id"].clone();
        let ours = scene.tenant.organization("Ours").await;
        let user = format!("/api/admin/users/{}", admin.as_str().unwrap());
        for change in [json!({"role": role}), json!({"organization_ids": [ours]})] {
            assert_eq!(scene.admin.put(&user).json(change.clone()).send().await.problem(409), "invalid_transition", "{change}");
        }
    })
    .await;
}

#[tokio::test]
async fn groups_of_another_provider_do_not_demote_the_last_way_in() {
    with_app(async |app| {
        let scene = proven(app).await;
        let users = format!("/internal/admin/tenants/{}/users", scene.tenant.id);
        let boss = json!({"email": "boss@branch.example", "name": "Boss", "role": "admin", "password": PASSWORD});
        app.local().post(&users).json(boss).send().await.ok(201);
        let boss = app.sign_in("boss@branch.example").await;
        let branch = json!({
            "name": "Branch", "issuer": scene.provider.issuer(), "client_id": crate::harness::oidc::CLIENT_ID,
            "client_secret": crate::harness::oidc::CLIENT_SECRET, "domains": ["branch.example"], "default_role": "viewer",
            "role_mappings": [{"group": "admins", "role": "admin"}],
        });
        boss.post(PROVIDERS).json(branch).send().await.ok(201);
        enforce(&scene, "domains", &[]).await.ok(200);
        let started = scene.begin(json!({"domain": "branch.example"})).await;
        let person = json!({"sub": "boss-1", "email": "boss@branch.example", "email_verified": true});
        let signed_in = scene.come_back(&started, person).await;
        let signed_in = app.anonymous().with("cookie", &session(&signed_in).unwrap());
        assert_eq!(signed_in.get("/api/auth/session").send().await.ok(200)["role"], "admin");
        login(app, "boss@branch.example", PASSWORD).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_new_address_in_an_enforced_domain_ends_sessions_without_the_provider() {
    with_app(async |app| {
        let scene = proven(app).await;
        let admin = id_of(&scene.admin).await;
        let people = format!("/internal/admin/tenants/{}/users", scene.tenant.id);
        let body = json!({"email": "kim@elsewhere.example", "name": "Kim", "role": "viewer", "password": PASSWORD});
        let kim = app.local().post(&people).json(body).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        enforce(&scene, "domains", &[admin]).await.ok(200);
        let session = app.sign_in("kim@elsewhere.example").await;
        let moved = json!({"email": "kim@acme.example"});
        scene.admin.put(&format!("/api/admin/users/{kim}")).json(moved).send().await.ok(200);
        assert_eq!(session.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn nothing_acts_for_people_who_must_use_the_provider_and_never_have() {
    with_app(async |app| {
        let scene = proven(app).await;
        let admin = id_of(&scene.admin).await;
        let bob = scene.tenant.user("technician").await;
        let id = id_of(&bob).await;
        let key = json!({"name": "Own", "scopes": ["tickets:read"]});
        let key = bob.post("/api/auth/own-keys").json(key).send().await.ok(201)["key"].as_str().unwrap().to_owned();
        let key = app.anonymous().bearer(&key);
        key.get("/api/psa/tickets").send().await.ok(200);
        enforce(&scene, "tenant", &[admin]).await.ok(200);
        assert_eq!(key.get("/api/psa/tickets").send().await.status, 401, "they have never signed in through the provider");
        let rights = scene.admin.get(&format!("/api/admin/users/{}/rights", id.as_str().unwrap())).send().await.ok(200).clone();
        assert!(rights.to_string().contains("never_signed_in"), "{rights}");
    })
    .await;
}
