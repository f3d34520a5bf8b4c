//! Passkeys: adding them, signing in with them, and what ends them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, PASSWORD, Setup, TestApp,
        authenticator::{FACTORS, add_app, challenge, session_of},
        passkey::{PASSKEYS, Passkey, add_passkey, named, proof, second_step, sign_in},
        portal::portal_contact,
        with_app,
    },
    sso::{Scene, ada, session},
    transfer::{export, import, import_as},
};

const POLICY: &str = "/api/admin/sign-in-policy";

async fn id_of(person: &Actor) -> String {
    person.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned()
}

/// The methods of all sessions of the person, without repetitions.
async fn methods(person: &Actor) -> Vec<Value> {
    let sessions = person.get("/api/auth/sessions").send().await.ok(200)["data"].clone();
    let mut methods: Vec<Value> = sessions.as_array().unwrap().iter().map(|session| session["methods"].clone()).collect();
    methods.sort_by_key(Value::to_string);
    methods.dedup();
    methods
}

async fn events(reader: &Actor, kind: &str) -> Vec<Value> {
    let feed = reader.get(&format!("/api/events?types={kind}&limit=200")).send().await.ok(200)["data"].clone();
    feed.as_array().unwrap().clone()
}

#[tokio::test]
async fn a_passkey_signs_in_alone() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, factor) = add_passkey(&admin, "Laptop").await;
        assert_eq!((&factor["kind"], &factor["name"], &factor["version"]), (&json!("passkey"), &json!("Laptop"), &json!(1)));
        assert_eq!(methods(&admin).await, [json!(["password", "passkey"])], "adding it counts for the session that added it");
        app.advance(Duration::from_mins(1));
        let reply = sign_in(app, &mut passkey).await;
        assert_eq!((&reply.ok(200)["user"]["email"], reply.header("cache-control")), (&json!("admin@acme.example"), "no-store"));
        let session = session_of(app, &reply);
        assert_eq!(id_of(&session).await, id_of(&admin).await);
        assert_eq!(methods(&session).await, [json!(["passkey"]), json!(["password", "passkey"])]);
        // The passkey counts as the password and the second factor, and as a recent proof.
        session.post(&format!("{FACTORS}/recovery-codes")).send().await.ok(200);
        let listed = admin.get(FACTORS).send().await;
        assert_ne!(listed.ok(200)["data"][0]["last_used_at"], listed.body["data"][0]["created_at"]);
        for secret in ["credential", "public_key", "host"] {
            assert!(!listed.text.contains(secret), "{}", listed.text);
        }
        let added = events(&admin, "auth.factor_added").await;
        assert_eq!((added.len(), &added[0]["data"]["factor"]["kind"]), (1, &json!("passkey")));
        assert_eq!(events(&admin, "auth.login").await.len(), 2);
        sign_in(app, &mut passkey).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn the_options_name_no_account_and_no_address() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (passkey, _) = add_passkey(&admin, "Laptop").await;
        let asked = crate::harness::passkey::asked(app).await;
        assert_eq!(asked["options"]["allowCredentials"], json!([]));
        assert_eq!(asked["options"]["userVerification"], "required");
        let begun = named(&admin).post(&format!("{PASSKEYS}/options")).send().await.ok(200).clone();
        let excluded = json!([{"type": "public-key", "id": data_encoding::BASE64URL_NOPAD.encode(&passkey.id)}]);
        assert_eq!(begun["options"]["excludeCredentials"], excluded);
        let handle = data_encoding::BASE64URL_NOPAD.decode(begun["options"]["user"]["id"].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(handle.len(), 32, "the ids of the tenant and of the account");
        // Browsers offer passkeys only at a host name.
        for reply in [
            admin.post(&format!("{PASSKEYS}/options")).send().await,
            app.anonymous().post("/api/auth/passkey/options").send().await,
        ] {
            assert_eq!(reply.problem(409), "invalid_transition");
            assert!(reply.body["detail"].as_str().unwrap().contains("host name"), "{}", reply.text);
        }
    })
    .await;
}

#[tokio::test]
async fn a_passkey_is_the_second_step_after_a_password() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, _) = add_passkey(&admin, "Key").await;
        assert_eq!(challenge(app, "admin@acme.example").await["methods"], json!(["passkey"]));
        // After the password, the possession of the authenticator is enough.
        passkey.is_verified = false;
        let session = session_of(app, &second_step(app, "admin@acme.example", &mut passkey).await);
        assert_eq!(methods(&session).await, [json!(["password", "passkey"])]);
        add_app(app, &session, "Phone").await;
        assert_eq!(challenge(app, "admin@acme.example").await["methods"], json!(["totp", "passkey"]));
        second_step(app, "admin@acme.example", &mut passkey).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_passkey_confirms_the_person_of_a_session() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, factor) = add_passkey(&admin, "Laptop").await;
        app.advance(Duration::from_mins(16));
        let path = format!("{FACTORS}/{}", factor["id"].as_str().unwrap());
        assert_eq!(admin.delete(&path).send().await.problem(403), "recent_sign_in_required");
        let confirm = |passkey: Value| named(&admin).post("/api/auth/confirm").json(json!({"passkey": passkey})).send();
        passkey.is_verified = false;
        let unverified = confirm(proof(&admin, &mut passkey).await).await;
        assert_eq!(unverified.field_errors(), [("/passkey".to_owned(), "wrong_passkey".to_owned())], "it replaces the password");
        passkey.is_verified = true;
        let answer = proof(&admin, &mut passkey).await;
        assert!(confirm(answer.clone()).await.ok(200)["recent_until"].is_string());
        assert_eq!(confirm(answer).await.problem(422), "validation_failed", "a challenge works once");
        assert_eq!(events(&admin, "auth.confirmed").await.len(), 1);
        let both = json!({"password": PASSWORD, "passkey": proof(&admin, &mut passkey).await});
        assert_eq!(named(&admin).post("/api/auth/confirm").json(both).send().await.problem(422), "validation_failed");
        assert_eq!(admin.delete(&path).send().await.status, 204);
        let without = named(&admin).post(&format!("{PASSKEYS}/proof")).send().await;
        assert_eq!(without.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn a_required_factor_can_be_a_passkey() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        admin.put(POLICY).json(json!({"second_factor": {"required_for": ["admin"]}})).send().await.ok(200);
        assert_eq!(admin.get("/api/admin/users").send().await.problem(403), "second_factor_missing");
        let other = app.sign_in("admin@acme.example").await;
        let (mut passkey, factor) = add_passkey(&other, "Laptop").await;
        other.get("/api/admin/users").send().await.ok(200);
        assert_eq!(admin.get("/api/auth/session").send().await.problem(401), "session_expired", "it began without a factor");
        let last = other.delete(&format!("{FACTORS}/{}", factor["id"].as_str().unwrap())).send().await;
        assert_eq!(last.problem(409), "invalid_transition", "the policy needs it");
        let session = session_of(app, &sign_in(app, &mut passkey).await);
        session.get("/api/admin/users").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_session_of_single_sign_on_proves_the_passkey_first() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        let sign_on = async || app.anonymous().with("cookie", &session(&scene.sign_on(ada()).await).unwrap());
        let first = sign_on().await;
        let (mut passkey, _) = add_passkey(&first, "Key").await;
        let second = sign_on().await;
        let begin = || named(&second).post(&format!("{PASSKEYS}/options")).send();
        assert_eq!(begin().await.problem(403), "second_factor_missing");
        let page = named(&second).get("/second-factor?prove=true").header("accept", "text/html").send().await;
        assert!(page.text.contains("Your second factor is a passkey") && page.text.contains("Use a passkey"), "{}", page.text);
        // As a second factor, its possession is enough.
        passkey.is_verified = false;
        let answer = proof(&second, &mut passkey).await;
        let confirmed = named(&second).post("/api/auth/confirm").json(json!({"passkey": answer})).send().await;
        assert_eq!(confirmed.problem(403), "second_factor_missing");
        let verify = named(&second).post(&format!("{FACTORS}/verify")).json(json!({"passkey": answer})).send().await;
        assert_eq!(verify.status, 204, "{}", verify.text);
        begin().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn passkeys_are_renamed_and_removed_like_apps() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let (mut passkey, factor) = add_passkey(&admin, "Laptop").await;
        let path = format!("{FACTORS}/{}", factor["id"].as_str().unwrap());
        let renamed = admin.patch(&path).json(json!({"name": "Old laptop"})).send().await;
        assert_eq!((&renamed.ok(200)["name"], renamed.header("etag")), (&json!("Old laptop"), "\"v2\""));
        sign_in(app, &mut passkey).await.ok(200);
        assert_eq!(viewer.delete(&path).send().await.problem(404), "not_found");
        let begun = named(&admin).post(&format!("{PASSKEYS}/options")).send().await.ok(200).clone();
        let taken = Passkey::new().make(&begun, "OLD LAPTOP");
        assert_eq!(named(&admin).post(PASSKEYS).json(taken).send().await.problem(409), "already_exists");
        for number in 1..10 {
            add_passkey(&admin, &format!("Key {number}")).await;
        }
        let full = named(&admin).post(&format!("{PASSKEYS}/options")).send().await;
        assert_eq!(full.problem(422), "limit_reached");
        assert_eq!(admin.delete(&path).send().await.status, 204);
        assert_eq!(sign_in(app, &mut passkey).await.problem(401), "invalid_credentials");
        assert_eq!(events(&admin, "auth.factor_removed").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_administrator_s_reset_and_a_removal_end_passkeys() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer, technician) = (acme.admin().await, acme.user("viewer").await, acme.user("technician").await);
        let (mut reset, _) = add_passkey(&viewer, "Laptop").await;
        let (mut removed, _) = add_passkey(&technician, "Laptop").await;
        let user = format!("/api/admin/users/{}", id_of(&viewer).await);
        assert_eq!(admin.get(&format!("{user}/factors")).send().await.ok(200)["data"][0]["kind"], "passkey");
        assert_eq!(admin.delete(&format!("{user}/factors")).send().await.status, 204);
        assert_eq!(sign_in(app, &mut reset).await.problem(401), "invalid_credentials");
        app.sign_in("viewer@acme.example").await;
        let technician = format!("/api/admin/users/{}", id_of(&technician).await);
        assert!(admin.delete(&technician).send().await.status < 300);
        assert_eq!(sign_in(app, &mut removed).await.problem(401), "invalid_credentials");
    })
    .await;
}

#[tokio::test]
async fn a_contact_signs_in_to_the_portal_with_a_passkey() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let contact = portal_contact(app, &acme, &acme.organization("Acme").await, "grace@acme.example").await;
        let (mut passkey, _) = add_passkey(&contact, "Phone").await;
        let session = session_of(app, &sign_in(app, &mut passkey).await);
        assert_eq!(session.get("/api/auth/session").send().await.ok(200)["kind"], "contact");
        admin.put("/api/admin/portal").json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(sign_in(app, &mut passkey).await.problem(401), "invalid_credentials");
    })
    .await;
}

#[tokio::test]
async fn passkeys_survive_a_restart() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup, start).await;
    let admin = app.tenant("acme").await.admin().await;
    let (mut passkey, _) = add_passkey(&admin, "Laptop").await;
    let before = crate::harness::passkey::asked(&app).await;
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup, now).await;
    let answer = passkey.answer(&before);
    let sign_in_with = || named(&app.anonymous()).post("/api/auth/passkey").json(answer.clone()).send();
    sign_in_with().await.ok(200);
    assert_eq!(sign_in_with().await.problem(401), "invalid_credentials", "a challenge works once");
    // Expired challenges need no note that they were answered.
    app.advance(Duration::from_mins(10));
    sign_in(&app, &mut passkey).await.ok(200);
    app.stop().await;
}

#[tokio::test]
async fn passkeys_stay_where_they_were_made() {
    with_app(async |old| {
        let acme = old.tenant("acme").await;
        let admin = acme.admin().await;
        let (mut passkey, _) = add_passkey(&admin, "Laptop").await;
        let file = export(old, &acme.id, json!({})).await;
        with_app(async |new| {
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert!(done["notes"].to_string().contains("The passkey Laptop of the user"), "{done}");
            let own = new.sign_in("admin@acme.example").await.get(FACTORS).send().await;
            assert_eq!(own.ok(200), &json!({"data": [], "recovery_codes_left": 0}));
            assert_eq!(sign_in(new, &mut passkey).await.problem(401), "invalid_credentials");
        })
        .await;
        with_app(async |new| {
            let done = import_as(new, &json!({"mode": "import", "accept_unverified": true}), &file).await;
            assert!(done["switched_off"].to_string().contains("Laptop of usr_"), "{done}");
        })
        .await;
    })
    .await;
}
