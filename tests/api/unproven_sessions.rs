//! Sessions that proved no second factor, of people who have one: after a sign-in link, after single sign-on, or from before the factor.
//! They change neither the factors nor the password, and confirm nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    custom_roles::member,
    harness::{
        Actor, PASSWORD, TestApp,
        authenticator::{CodeApp, FACTORS, add_app, challenge, send_code, session_of},
        with_app,
    },
    sign_in_links::linked,
    sso::{Scene, ada, session},
};

const POLICY: &str = "/api/admin/sign-in-policy";
const STEP: Duration = Duration::from_secs(30);

async fn id_of(actor: &Actor) -> String {
    actor.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned()
}

/// Adds an app that the person has begun to add, in a session of theirs.
async fn add(app: &TestApp, begun: &Value, session: &Actor) -> crate::harness::Reply {
    let code = CodeApp::read(begun).code(app.now());
    session.post(FACTORS).json(json!({"enrolment": begun["enrolment"], "name": "Added", "code": code})).send().await
}

#[tokio::test]
async fn a_session_without_the_factor_changes_no_factor_and_no_password() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let admin = trial.admin().await;
        let (codes, factor) = add_app(app, &admin, "Phone").await;
        let begun = admin.post(&format!("{FACTORS}/totp")).send().await.ok(200).clone();
        let link = linked(app, &trial.id, "admin@trial.example").await;
        let own = format!("/api/admin/users/{}", id_of(&link).await);
        let factor = format!("{FACTORS}/{}", factor["id"].as_str().unwrap());
        let password = json!({"current_password": PASSWORD, "new_password": "lantern octopus mountain staple"});
        let confirm = async || link.post("/api/auth/confirm").json(json!({"password": PASSWORD})).send().await;
        for reply in [
            link.post(&format!("{FACTORS}/totp")).send().await,
            add(app, &begun, &link).await,
            link.delete(&factor).send().await,
            link.post(&format!("{FACTORS}/recovery-codes")).send().await,
            link.put("/api/auth/own-password").json(password.clone()).send().await,
            confirm().await,
            link.delete(&format!("{own}/factors")).send().await,
            link.post(&format!("{own}/reset-password")).send().await,
        ] {
            assert_eq!(reply.problem(403), "second_factor_missing");
        }
        assert_eq!(link.get(FACTORS).send().await.ok(200)["data"].as_array().unwrap().len(), 1, "nothing has changed");
        let wrong = link.post("/api/auth/confirm").json(json!({"password": "wrong wrong wrong"})).send().await;
        assert_eq!(wrong.problem(403), "second_factor_missing", "the password is not compared");

        app.advance(STEP);
        let proof = json!({"code": codes.code(app.now())});
        assert_eq!(link.post(&format!("{FACTORS}/verify")).json(proof).send().await.status, 204);
        link.post(&format!("{FACTORS}/recovery-codes")).send().await.ok(200);
        confirm().await.ok(200);
        assert_eq!(link.put("/api/auth/own-password").json(password).send().await.status, 204);
    })
    .await;
}

#[tokio::test]
async fn the_first_factor_ends_the_other_sessions() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, elsewhere) = (acme.admin().await, app.sign_in("admin@acme.example").await);
        let viewer = acme.user("viewer").await;
        let (codes, _) = add_app(app, &admin, "Phone").await;
        assert_eq!(elsewhere.get("/api/auth/session").send().await.problem(401), "session_expired");
        admin.get("/api/auth/session").send().await.ok(200);
        viewer.get("/api/auth/session").send().await.ok(200);
        let ended = admin.get("/api/events?types=auth.sessions_ended").send().await.ok(200)["data"].clone();
        assert_eq!(ended.as_array().unwrap().len(), 1);

        app.advance(STEP);
        let proven = session_of(app, &send_code(app, &challenge(app, "admin@acme.example").await, &codes.code(app.now())).await);
        add_app(app, &admin, "Tablet").await;
        proven.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn single_sign_on_proves_no_factor_of_tenantd() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let required = json!({"second_factor": {"required_for": ["technician"], "with_sso": true}});
        scene.admin.put(POLICY).json(required).send().await.ok(200);
        let sign_on = async || app.anonymous().with("cookie", &session(&scene.sign_on(ada()).await).unwrap());
        let first = sign_on().await;
        let (codes, _) = add_app(app, &first, "Phone").await;
        let begun = first.post(&format!("{FACTORS}/totp")).send().await.ok(200).clone();
        let again = sign_on().await;
        assert_eq!(again.get("/api/psa/tickets").send().await.problem(403), "second_factor_missing");
        assert_eq!(add(app, &begun, &again).await.problem(403), "second_factor_missing", "it would replace the proof");
        app.advance(STEP);
        let verify = async |code: String| again.post(&format!("{FACTORS}/verify")).json(json!({"code": code})).send().await;
        assert_eq!(verify(codes.wrong_code(app.now())).await.field_errors(), [("/code".to_owned(), "wrong_code".to_owned())]);
        assert_eq!(verify(codes.code(app.now())).await.status, 204);
        again.get("/api/psa/tickets").send().await.ok(200);
        assert_eq!(add(app, &begun, &again).await.status, 201);
    })
    .await;
}

#[tokio::test]
async fn nobody_removes_all_of_their_own_factors_that_their_role_needs() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (second, _) = member(app, &admin, "second", json!({"role": "admin"})).await;
        for person in [&admin, &second] {
            add_app(app, person, "Phone").await;
        }
        let own = format!("/api/admin/users/{}/factors", id_of(&admin).await);
        admin.put(POLICY).json(json!({"second_factor": {"required_for": ["admin"]}})).send().await.ok(200);
        let refused = admin.delete(&own).send().await;
        assert_eq!(refused.problem(409), "invalid_transition");
        assert!(refused.text.contains("Another administrator"), "{}", refused.text);
        assert_eq!(second.delete(&own).send().await.status, 204);
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn a_key_of_the_person_does_not_replace_the_proof() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let admin = trial.admin().await;
        let (_, factor) = add_app(app, &admin, "Phone").await;
        let link = linked(app, &trial.id, "admin@trial.example").await;
        let factor = format!("{FACTORS}/{}", factor["id"].as_str().unwrap());
        let renamed = link.patch(&factor).json(json!({"name": "Tablet"})).send().await;
        assert_eq!(renamed.problem(403), "second_factor_missing");
        let created = link.post("/api/admin/api-keys").json(json!({"name": "Own", "scopes": ["*"]})).send().await;
        let key = app.anonymous().bearer(created.ok(201)["key"].as_str().unwrap());
        let own = format!("/api/admin/users/{}", id_of(&link).await);
        assert_eq!(key.post(&format!("{own}/reset-password")).send().await.problem(403), "second_factor_missing");
        assert_eq!(key.delete(&format!("{own}/factors")).send().await.problem(403), "second_factor_missing");
    })
    .await;
}

#[tokio::test]
async fn a_removed_factor_ends_sessions_and_its_enrolment_does_not_return() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let begun = admin.post(&format!("{FACTORS}/totp")).send().await.ok(200).clone();
        let added = add(app, &begun, &admin).await.ok(201).clone();
        app.advance(STEP);
        let codes = CodeApp::read(&begun);
        let stolen = session_of(app, &send_code(app, &challenge(app, "admin@acme.example").await, &codes.code(app.now())).await);
        stolen.get("/api/auth/session").send().await.ok(200);
        let factor = format!("{FACTORS}/{}", added["id"].as_str().unwrap());
        assert_eq!(admin.delete(&factor).send().await.status, 204);
        assert_eq!(stolen.get("/api/auth/session").send().await.problem(401), "session_expired");
        let again = add(app, &begun, &admin).await;
        assert_eq!(again.field_errors(), [("/enrolment".to_owned(), "not_valid".to_owned())]);
    })
    .await;
}
