//! Second factors: authenticator apps and recovery codes, and the second step of a sign-in.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_store::{
    Direction, Flow, KeyRange, Read, ReadTx, StoreError,
    catalog::{self, TableName},
    engine::RawTable,
};

use crate::harness::{
    Actor, PASSWORD, TestApp,
    authenticator::{CodeApp, FACTORS, add_app, challenge, send_code, session_of},
    with_app,
};

const STEP: Duration = Duration::from_secs(30);

async fn send_recovery_code(app: &TestApp, challenge: &Value, code: &str) -> crate::harness::Reply {
    let body = json!({"challenge": challenge["challenge"], "recovery_code": code});
    app.anonymous().post("/api/auth/second-factor").json(body).send().await
}

/// A tenant's administrator with an authenticator app, whose next code is unused.
async fn admin_with_app(app: &TestApp, slug: &str) -> (Actor, CodeApp, String) {
    let admin = app.tenant(slug).await.admin().await;
    let (codes, _) = add_app(app, &admin, "Phone").await;
    app.advance(STEP);
    (admin, codes, format!("admin@{slug}.example"))
}

fn count(tx: &ReadTx, table: TableName) -> Result<usize, StoreError> {
    let mut rows = 0;
    tx.raw_scan(RawTable { table, segment: None }, &KeyRange::ALL, Direction::Forward, &mut |_, _| {
        rows += 1;
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

async fn events(reader: &Actor, kinds: &str) -> Vec<Value> {
    let feed = reader.get(&format!("/api/events?types={kinds}&limit=200")).send().await.ok(200)["data"].clone();
    feed.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_code_completes_the_sign_in() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        assert_eq!(admin.get(FACTORS).send().await.ok(200), &json!({"data": [], "recovery_codes_left": 0}));
        let (codes, factor) = add_app(app, &admin, "Phone").await;
        assert_eq!(
            (factor["kind"].as_str(), factor["name"].as_str(), &factor["version"]),
            (Some("totp"), Some("Phone"), &json!(1))
        );
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        app.advance(STEP);
        let asked = challenge(app, "admin@acme.example").await;
        assert_eq!((&asked["methods"], &asked["expires_in_seconds"]), (&json!(["totp"]), &json!(300)));
        let reply = send_code(app, &asked, &codes.code(app.now())).await;
        assert_eq!(reply.ok(200)["user"]["email"], "admin@acme.example");
        assert_eq!(reply.header("cache-control"), "no-store");
        let session = session_of(app, &reply);
        session.get("/api/auth/session").send().await.ok(200);
        let sessions = admin.get(&format!("/api/admin/users/{me}/sessions")).send().await.ok(200)["data"].clone();
        let mut methods: Vec<Value> = sessions.as_array().unwrap().iter().map(|session| session["methods"].clone()).collect();
        methods.dedup();
        assert_eq!(methods, [json!(["password", "totp"])], "adding the app counts for the session that added it");
        let added = events(&admin, "auth.factor_added").await;
        assert_eq!((added.len(), &added[0]["data"]["factor"]["user"]["id"]), (1, &json!(me)));
        assert!(!added[0].to_string().contains("secret"), "{}", added[0]);
        assert_eq!(events(&admin, "auth.login").await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_code_works_once_and_near_its_time() {
    with_app(async |app| {
        let (_, codes, email) = admin_with_app(app, "acme").await;
        let sign_in = async |code: &str| send_code(app, &challenge(app, &email).await, code).await;
        let code = codes.code(app.now());
        sign_in(&code).await.ok(200);
        assert_eq!(sign_in(&code).await.problem(401), "invalid_credentials", "replayed");
        app.advance(STEP);
        assert_eq!(sign_in(&code).await.problem(401), "invalid_credentials", "replayed in the next step");
        let later = codes.code(app.now() + STEP);
        sign_in(&later).await.ok(200);
        assert_eq!(sign_in(&codes.code(app.now())).await.problem(401), "invalid_credentials", "older than the last one");
        app.advance(Duration::from_mins(2));
        let beyond = codes.code(app.now() + STEP * 2);
        assert_eq!(sign_in(&beyond).await.problem(401), "invalid_credentials", "too early");
        let before = codes.code(app.now() - STEP);
        sign_in(&before).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn recovery_codes_work_once_and_are_replaced() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let make = async || admin.post(&format!("{FACTORS}/recovery-codes")).send().await;
        assert_eq!(make().await.problem(409), "invalid_transition", "without a factor they would be of no use");
        add_app(app, &admin, "Phone").await;
        let made = make().await;
        let old: Vec<String> = serde_json::from_value(made.ok(200)["codes"].clone()).unwrap();
        assert_eq!((old.len(), made.header("cache-control")), (10, "no-store"));
        let sign_in = async |code: &str| send_recovery_code(app, &challenge(app, "admin@acme.example").await, code).await;
        assert_eq!(challenge(app, "admin@acme.example").await["methods"], json!(["totp", "recovery_code"]));
        sign_in(&old[0]).await.ok(200);
        assert_eq!(sign_in(&old[0]).await.problem(401), "invalid_credentials", "used");
        sign_in(&old[1].replace('-', " ").to_uppercase()).await.ok(200);
        assert_eq!(admin.get(FACTORS).send().await.ok(200)["recovery_codes_left"], 8);
        let new: Vec<String> = serde_json::from_value(make().await.ok(200)["codes"].clone()).unwrap();
        assert_eq!(sign_in(&old[2]).await.problem(401), "invalid_credentials", "replaced");
        sign_in(&new[0]).await.ok(200);
        assert_eq!(events(&admin, "auth.recovery_codes_created").await.len(), 2);
        let used = events(&admin, "auth.recovery_code_used").await;
        assert_eq!(used.len(), 3);
        assert!(!used[0].to_string().contains(&new[0]));
    })
    .await;
}

#[tokio::test]
async fn without_the_password_nothing_shows_the_second_factor() {
    with_app(async |app| {
        let (_, _, email) = admin_with_app(app, "acme").await;
        let globex = app.tenant("globex").await;
        globex.admin().await;
        let login = |email: &str| {
            app.anonymous().post("/api/auth/login").json(json!({"email": email, "password": "not the right one"})).send()
        };
        let (with, without, unknown) =
            (login(&email).await, login("admin@globex.example").await, login("nobody@acme.example").await);
        let seen = |reply: &crate::harness::Reply| (reply.status, reply.body["detail"].clone(), reply.body["code"].clone());
        assert_eq!((seen(&with), seen(&without)), (seen(&without), seen(&unknown)));
        assert!(with.body.get("challenge").is_none() && with.body.get("methods").is_none());
    })
    .await;
}

#[tokio::test]
async fn a_challenge_ends_with_its_use_its_time_and_a_change_of_the_account() {
    with_app(async |app| {
        let (admin, codes, email) = admin_with_app(app, "acme").await;
        let asked = challenge(app, &email).await;
        send_code(app, &asked, &codes.code(app.now())).await.ok(200);
        app.advance(STEP);
        assert_eq!(send_code(app, &asked, &codes.code(app.now())).await.problem(401), "invalid_credentials", "used");
        let late = challenge(app, &email).await;
        app.advance(Duration::from_mins(5));
        assert_eq!(send_code(app, &late, &codes.code(app.now())).await.problem(401), "invalid_credentials", "expired");
        let asked = challenge(app, &email).await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        admin.put(&format!("/api/admin/users/{me}")).json(json!({"name": "Other"})).send().await.ok(200);
        assert_eq!(send_code(app, &asked, &codes.code(app.now())).await.problem(401), "invalid_credentials", "changed");
        let unknown = json!({"challenge": "nonsense"});
        assert_eq!(send_code(app, &unknown, &codes.code(app.now())).await.problem(401), "invalid_credentials");
        send_code(app, &challenge(app, &email).await, &codes.code(app.now())).await.ok(200);
        let both = json!({"challenge": "x", "code": "123456", "recovery_code": "x"});
        assert_eq!(app.anonymous().post("/api/auth/second-factor").json(both).send().await.problem(422), "validation_failed");
        let forged = app.anonymous().post("/api/auth/second-factor").header("origin", "https://evil.example");
        assert_eq!(forged.json(json!({"challenge": "x", "code": "123456"})).send().await.problem(403), "csrf_failed");
    })
    .await;
}

#[tokio::test]
async fn the_factor_of_another_person_is_wrong() {
    with_app(async |app| {
        let (_, ada, ada_email) = admin_with_app(app, "acme").await;
        let (_, bo, _) = admin_with_app(app, "globex").await;
        let asked = challenge(app, &ada_email).await;
        let (right, other) = (ada.code(app.now()), bo.code(app.now()));
        assert_ne!(right, other);
        let refused = send_code(app, &asked, &other).await;
        assert_eq!((refused.problem(401), &refused.body["attempts_left"]), ("invalid_credentials", &json!(4)));
        send_code(app, &asked, &right).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn wrong_codes_end_the_challenge_and_block_the_account() {
    with_app(async |app| {
        let (admin, codes, email) = admin_with_app(app, "acme").await;
        let asked = challenge(app, &email).await;
        let wrong = codes.wrong_code(app.now());
        for left in [4, 3, 2, 1, 0] {
            let reply = send_code(app, &asked, &wrong).await;
            assert_eq!((reply.problem(401), &reply.body["attempts_left"]), ("invalid_credentials", &json!(left)));
        }
        assert_eq!(
            send_code(app, &asked, &codes.code(app.now())).await.problem(401),
            "invalid_credentials",
            "the challenge is over"
        );
        let again = challenge(app, &email).await;
        let blocked = send_code(app, &again, &codes.code(app.now())).await;
        assert_eq!((blocked.problem(429), &blocked.body["retry_after_seconds"]), ("rate_limited", &json!(30)));
        app.advance(Duration::from_secs(31));
        send_code(app, &again, &codes.code(app.now())).await.ok(200);
        let failed = events(&admin, "auth.login_failed").await;
        assert_eq!(failed.len(), 5);
        assert_eq!(failed[0]["data"]["sign_in"]["reason"], "wrong_code");
        assert!(!failed[0].to_string().contains(&wrong));
    })
    .await;
}

#[tokio::test]
async fn concurrent_use_of_one_code_or_challenge_starts_one_session() {
    with_app(async |app| {
        let (_, codes, email) = admin_with_app(app, "acme").await;
        let succeeded = |replies: &[crate::harness::Reply]| replies.iter().filter(|reply| reply.status == 200).count();
        let mut several = Vec::new();
        for _ in 0..4 {
            several.push(challenge(app, &email).await);
        }
        let code = codes.code(app.now());
        let replies = futures_util::future::join_all(several.iter().map(|asked| send_code(app, asked, &code))).await;
        assert_eq!(succeeded(&replies), 1, "one code with several challenges");
        app.advance(Duration::from_mins(2));
        let (asked, code) = (challenge(app, &email).await, codes.code(app.now()));
        let replies = futures_util::future::join_all((0..4).map(|_| send_code(app, &asked, &code))).await;
        assert_eq!(succeeded(&replies), 1, "one challenge several times");
    })
    .await;
}

#[tokio::test]
async fn factors_are_changed_by_their_person_with_a_recent_proof() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let (codes, factor) = add_app(app, &admin, "Phone").await;
        let path = format!("{FACTORS}/{}", factor["id"].as_str().unwrap());
        for stranger in [&viewer, &app.tenant("globex").await.admin().await] {
            assert_eq!(stranger.patch(&path).json(json!({"name": "Mine"})).send().await.problem(404), "not_found");
            assert_eq!(stranger.delete(&path).send().await.problem(404), "not_found");
        }
        let key = acme.key(&["*"]).await;
        for reply in
            [key.get(FACTORS).send().await, key.post(&format!("{FACTORS}/totp")).send().await, key.delete(&path).send().await]
        {
            assert_eq!(reply.problem(403), "insufficient_authority");
        }
        let begun = admin.post(&format!("{FACTORS}/totp")).send().await.ok(200).clone();
        let tablet = CodeApp::read(&begun);
        let add = |person: &Actor, name: &str, code: String| {
            person.post(FACTORS).json(json!({"enrolment": begun["enrolment"], "name": name, "code": code})).send()
        };
        let wrong = add(&admin, "Tablet", tablet.wrong_code(app.now())).await;
        assert_eq!(
            (wrong.problem(422), wrong.field_errors()),
            ("validation_failed", vec![("/code".to_owned(), "wrong_code".to_owned())])
        );
        let stolen = add(&viewer, "Tablet", tablet.code(app.now())).await;
        assert_eq!(stolen.field_errors(), [("/enrolment".to_owned(), "not_valid".to_owned())]);
        assert_eq!(add(&admin, "PHONE", tablet.code(app.now())).await.problem(409), "already_exists");
        let second = add(&admin, "Tablet", tablet.code(app.now())).await.ok(201).clone();
        let twice = add(&admin, "Third", tablet.code(app.now())).await;
        assert_eq!(twice.field_errors(), [("/enrolment".to_owned(), "not_valid".to_owned())], "an enrolment works once");
        let renamed = admin.patch(&path).json(json!({"name": "Old phone"})).header("if-match", "\"v1\"").send().await;
        assert_eq!((renamed.ok(200)["name"].as_str(), renamed.header("etag")), (Some("Old phone"), "\"v2\""));
        assert_eq!(
            admin.patch(&path).json(json!({"name": "x"})).header("if-match", "\"v1\"").send().await.problem(412),
            "version_conflict"
        );
        let late = admin.post(&format!("{FACTORS}/totp")).send().await.ok(200).clone();
        app.advance(Duration::from_mins(16));
        for reply in [
            admin.post(&format!("{FACTORS}/totp")).send().await,
            admin.post(FACTORS).json(json!({"enrolment": late["enrolment"], "name": "x", "code": "1"})).send().await,
            admin.post(&format!("{FACTORS}/recovery-codes")).send().await,
            admin.delete(&path).send().await,
        ] {
            assert_eq!(reply.problem(403), "recent_sign_in_required", "the last proof is too old");
        }
        let again = session_of(app, &send_code(app, &challenge(app, "admin@acme.example").await, &codes.code(app.now())).await);
        let expired = json!({"enrolment": late["enrolment"], "name": "x", "code": CodeApp::read(&late).code(app.now())});
        assert_eq!(
            again.post(FACTORS).json(expired).send().await.field_errors(),
            [("/enrolment".to_owned(), "not_valid".to_owned())]
        );
        assert_eq!(again.delete(&path).send().await.status, 204);
        assert_eq!(again.delete(&format!("{FACTORS}/{}", second["id"].as_str().unwrap())).send().await.status, 204);
        assert_eq!(events(&again, "auth.factor_removed").await.len(), 2);
        app.sign_in("admin@acme.example").await;
    })
    .await;
}

#[tokio::test]
async fn an_administrator_resets_the_factors_of_accounts_that_they_cover() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        add_app(app, &viewer, "Phone").await;
        add_app(app, &admin, "Phone").await;
        let id = async |actor: &Actor| actor.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let (viewer_id, admin_id) = (id(&viewer).await, id(&admin).await);
        let path = |id: &str| format!("/api/admin/users/{id}/factors");
        let listed = admin.get(&path(&viewer_id)).send().await;
        assert_eq!((listed.ok(200)["data"][0]["name"].as_str(), listed.text.contains("secret")), (Some("Phone"), false));
        let keeper = acme.key(&["users:*"]).await;
        assert_eq!(keeper.delete(&path(&admin_id)).send().await.problem(403), "insufficient_scope", "it would open the account");
        let globex = app.tenant("globex").await.admin().await;
        assert_eq!(globex.delete(&path(&viewer_id)).send().await.problem(404), "not_found");
        assert_eq!(globex.get(&path(&viewer_id)).send().await.problem(404), "not_found");
        assert_eq!(admin.delete(&path(&viewer_id)).send().await.status, 204);
        assert_eq!(viewer.get("/api/auth/session").send().await.problem(401), "session_expired");
        app.sign_in("viewer@acme.example").await;
        let reset = events(&admin, "auth.factors_reset").await;
        assert_eq!((reset.len(), &reset[0]["resource"]["id"]), (1, &json!(viewer_id)));
        let audited = acme.key(&["*"]).await.get("/api/admin/audit?action=auth.factors_reset").send().await;
        assert_eq!(audited.ok(200)["data"][0]["actor"]["id"], admin_id);
        let body = json!({"email": "admin@acme.example"});
        app.local().post("/internal/admin/users/reset-factors").json(body).send().await.ok(200);
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired");
        app.sign_in("admin@acme.example").await;
    })
    .await;
}

#[tokio::test]
async fn factors_go_with_their_person() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        add_app(app, &viewer, "Phone").await;
        viewer.post(&format!("{FACTORS}/recovery-codes")).send().await.ok(200);
        challenge(app, "viewer@acme.example").await;
        let id = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let rows = || {
            let tables = [catalog::FACTORS, catalog::RECOVERY_CODES, catalog::CHALLENGES];
            tables.map(|table| app.running().app.store.read(|tx| count(tx, table)).unwrap())
        };
        assert_eq!(rows(), [1, 1, 1]);
        assert_eq!(admin.delete(&format!("/api/admin/users/{id}")).send().await.status, 204);
        assert_eq!(rows(), [0, 0, 0]);
    })
    .await;
}

#[tokio::test]
async fn a_new_password_does_not_remove_the_second_factor() {
    with_app(async |app| {
        let (admin, codes, email) = admin_with_app(app, "acme").await;
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let waiting = challenge(app, &email).await;
        let issued = admin.post(&format!("/api/admin/users/{me}/reset-password")).send().await.ok(200).clone();
        let set = json!({"token": issued["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(set).send().await.status, 204);
        assert_eq!(send_code(app, &waiting, &codes.code(app.now())).await.problem(401), "invalid_credentials");
        send_code(app, &challenge(app, &email).await, &codes.code(app.now())).await.ok(200);
    })
    .await;
}
