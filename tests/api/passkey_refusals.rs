//! What a passkey does not open: every check of what a browser sends, broken once, and the rules of accounts and tenants.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, Reply, TestApp,
        authenticator::{FACTORS, add_app, challenge, session_of},
        passkey::{OPTIONS, PASSKEYS, Passkey, SIGN_IN, add_passkey, asked, named, proof, refusals, second_step, sign_in},
        with_app,
    },
    sso::{PROVIDERS, Scene, ada},
};

async fn send(app: &TestApp, answer: &Value) -> Reply {
    named(&app.anonymous()).post(SIGN_IN).json(answer.clone()).send().await
}

fn expect_refused(reply: &Reply, case: &str) {
    assert_eq!(reply.problem(401), "invalid_credentials", "{case}");
    assert_eq!(reply.header("set-cookie"), "", "{case}");
}

async fn id_of(person: &Actor) -> String {
    person.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned()
}

/// Every way in which an authenticator, or the page that used it, can be a wrong one.
fn wrong(good: &Passkey) -> Vec<(&'static str, Passkey)> {
    let with = |change: fn(&mut Passkey)| {
        let mut wrong = good.clone();
        change(&mut wrong);
        wrong
    };
    vec![
        ("another site", with(|wrong| "https://evil.example".clone_into(&mut wrong.origin))),
        ("another port", with(|wrong| "http://localhost:8080".clone_into(&mut wrong.origin))),
        ("another scheme", with(|wrong| "https://localhost".clone_into(&mut wrong.origin))),
        ("a subdomain", with(|wrong| "http://evil.localhost".clone_into(&mut wrong.origin))),
        ("another host name", with(|wrong| "evil.example".clone_into(&mut wrong.host))),
        ("a frame of another site", with(|wrong| wrong.cross_origin = true)),
        ("nobody present", with(|wrong| wrong.is_present = false)),
        ("another use", with(|wrong| wrong.kind = Some("payment.get"))),
    ]
}

#[tokio::test]
async fn every_wrong_signature_is_refused() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (good, _) = add_passkey(&admin, "Laptop").await;
        let mut cases = wrong(&good);
        cases.push(("nobody verified", Passkey { is_verified: false, ..good.clone() }));
        cases.push(("the key of another", Passkey { id: good.id.clone(), handle: good.handle.clone(), ..Passkey::new() }));
        cases.push(("another account", Passkey { handle: "AAAA".to_owned(), ..good.clone() }));
        cases.push(("an unknown passkey", Passkey { handle: good.handle.clone(), ..Passkey::new() }));
        for (case, mut passkey) in cases {
            expect_refused(&sign_in(app, &mut passkey).await, case);
            // A right one resets the count of wrong ones.
            sign_in(app, &mut good.clone()).await.ok(200);
        }
        let failed = refusals(&admin).await;
        assert_eq!(failed, ["wrong_passkey passkey"; 11], "the unknown passkey is reported to the operator");
        let operator = app.operator().await;
        assert_eq!(refusals(&operator).await, ["wrong_passkey passkey"]);
    })
    .await;
}

#[tokio::test]
async fn damaged_answers_are_refused() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut good, _) = add_passkey(&admin, "Laptop").await;
        let changed = |mut answer: Value, name: &str, value: Value| {
            answer[name] = value;
            answer
        };
        for (name, value, status) in [
            ("signature", json!("AAAA"), 401),
            ("authenticator_data", json!("AAAA"), 401),
            ("client_data", json!("AAAA"), 401),
            ("client_data", json!("e30"), 401),
            ("ticket", json!("nonsense"), 401),
            ("id", json!("not base64!"), 422),
            ("client_data", json!("x".repeat(6000)), 422),
            ("authenticator_data", json!("x".repeat(3000)), 422),
            ("signature", json!("x".repeat(1500)), 422),
            ("more", json!("x"), 422),
        ] {
            let answer = changed(good.answer(&asked(app).await), name, value);
            let reply = send(app, &answer).await;
            assert_eq!(reply.status, status, "{name}: {}", reply.text);
            sign_in(app, &mut good).await.ok(200);
        }
        let mut answer = good.answer(&asked(app).await);
        answer.as_object_mut().unwrap().remove("user_handle");
        expect_refused(&send(app, &answer).await, "it does not say whose it is");
    })
    .await;
}

#[tokio::test]
async fn a_challenge_works_once_for_its_purpose_and_for_five_minutes() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let (mut passkey, _) = add_passkey(&admin, "Laptop").await;
        let (mut other, _) = add_passkey(&viewer, "Laptop").await;
        let options = asked(app).await;
        let answer = passkey.answer(&options);
        send(app, &answer).await.ok(200);
        expect_refused(&send(app, &answer).await, "replayed");
        expect_refused(&send(app, &passkey.answer(&options)).await, "signed again");
        let mixed = json!({"ticket": asked(app).await["ticket"], "options": asked(app).await["options"]});
        expect_refused(&send(app, &passkey.answer(&mixed)).await, "the ticket of another challenge");
        let late = passkey.answer(&asked(app).await);
        app.advance(Duration::from_mins(5));
        expect_refused(&send(app, &late).await, "expired");

        // A proof for a session signs nobody in, and the other way round.
        expect_refused(&send(app, &proof(&admin, &mut passkey).await).await, "for a session");
        let confirm =
            |person: &Actor, answer: Value| named(person).post("/api/auth/confirm").json(json!({"passkey": answer})).send();
        let places = |reply: &Reply| reply.field_errors();
        let refused = [("/passkey".to_owned(), "wrong_passkey".to_owned())];
        assert_eq!(places(&confirm(&admin, passkey.answer(&asked(app).await)).await), refused, "for a sign-in");
        assert_eq!(places(&confirm(&viewer, proof(&admin, &mut passkey).await).await), refused, "for somebody else");
        let session = session_of(app, &sign_in(app, &mut other).await);
        let mine = named(&session).post(&format!("{PASSKEYS}/proof")).send().await.ok(200).clone();
        assert_eq!(places(&confirm(&session, passkey.answer(&mine)).await), refused, "the passkey of somebody else");
        assert_eq!(places(&confirm(&viewer, other.answer(&mine)).await), refused, "for another session of the person");
    })
    .await;
}

#[tokio::test]
async fn the_second_step_takes_only_a_passkey_of_the_person() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let stranger = app.tenant("globex").await.admin().await;
        let (mut own, _) = add_passkey(&admin, "Laptop").await;
        let (mut other, _) = add_passkey(&viewer, "Laptop").await;
        let (mut foreign, _) = add_passkey(&stranger, "Laptop").await;
        let email = "admin@acme.example";
        let step = challenge(app, email).await;
        let options = async || {
            let body = json!({"challenge": step["challenge"]});
            named(&app.anonymous()).post(OPTIONS).json(body).send().await.ok(200).clone()
        };
        let finish = |answer: Value| {
            let body = json!({"challenge": step["challenge"], "passkey": answer});
            named(&app.anonymous()).post("/api/auth/second-factor").json(body).send()
        };
        let allowed = json!([{"type": "public-key", "id": data_encoding::BASE64URL_NOPAD.encode(&own.id)}]);
        assert_eq!(options().await["options"]["allowCredentials"], allowed);
        for (answer, left) in
            [(other.answer(&options().await), 4), (foreign.answer(&options().await), 3), (own.answer(&asked(app).await), 2)]
        {
            let reply = finish(answer).await;
            expect_refused(&reply, "a wrong passkey");
            assert_eq!(reply.body["attempts_left"], left);
        }
        let earlier = challenge(app, email).await;
        let body = json!({"challenge": earlier["challenge"]});
        let earlier = named(&app.anonymous()).post(OPTIONS).json(body).send().await.ok(200).clone();
        expect_refused(&finish(own.answer(&earlier)).await, "the challenge of another sign-in");
        finish(own.answer(&options().await)).await.ok(200);
        let over = named(&app.anonymous()).post(OPTIONS).json(json!({"challenge": step["challenge"]})).send().await;
        expect_refused(&over, "the sign-in is done");
        let unknown = named(&app.anonymous()).post(OPTIONS).json(json!({"challenge": "nonsense"})).send().await;
        expect_refused(&unknown, "there is no such sign-in");
    })
    .await;
}

#[tokio::test]
async fn a_counter_that_goes_back_is_reported() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, _) = add_passkey(&admin, "Key").await;
        passkey.count = 7;
        let copy = passkey.clone();
        sign_in(app, &mut passkey).await.ok(200);
        sign_in(app, &mut passkey).await.ok(200);
        expect_refused(&sign_in(app, &mut copy.clone()).await, "the copy of an authenticator");
        expect_refused(&sign_in(app, &mut Passkey { count: 0, ..copy }).await, "it does not count anymore");
        let feed = admin.get("/api/events?types=auth.passkey_suspected").send().await.ok(200)["data"].clone();
        assert_eq!((feed.as_array().unwrap().len(), &feed[0]["data"]["factor"]["name"]), (2, &json!("Key")));
        sign_in(app, &mut passkey).await.ok(200);
        assert_eq!(admin.get(FACTORS).send().await.ok(200)["data"].as_array().unwrap().len(), 1, "the passkey stays");
    })
    .await;
}

#[tokio::test]
async fn wrong_passkeys_and_wrong_codes_keep_nobody_from_using_a_passkey() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, _) = add_passkey(&admin, "Laptop").await;
        let (codes, _) = add_app(app, &admin, "Phone").await;
        for _ in 0..6 {
            let mut wrong = Passkey { is_verified: false, ..passkey.clone() };
            expect_refused(&sign_in(app, &mut wrong).await, "not verified");
        }
        app.advance(Duration::from_secs(30));
        let code = async |code: String| admin.post(&format!("{FACTORS}/verify")).json(json!({"code": code})).send().await;
        assert_eq!(code(codes.code(app.now())).await.status, 204, "wrong passkeys do not count");
        for _ in 0..5 {
            code(codes.wrong_code(app.now())).await.problem(422);
        }
        assert_eq!(code(codes.wrong_code(app.now())).await.problem(429), "rate_limited");
        second_step(app, "admin@acme.example", &mut passkey).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_disabled_person_and_a_suspended_tenant_are_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let (mut passkey, _) = add_passkey(&viewer, "Laptop").await;
        let user = format!("/api/admin/users/{}", id_of(&viewer).await);
        admin.put(&user).json(json!({"status": "disabled"})).send().await.ok(200);
        expect_refused(&sign_in(app, &mut passkey).await, "disabled");
        admin.put(&user).json(json!({"status": "active"})).send().await.ok(200);
        sign_in(app, &mut passkey).await.ok(200);
        let tenant = format!("/api/platform/tenants/{}", acme.id);
        app.local().post(&format!("{tenant}/suspend")).send().await.ok(200);
        expect_refused(&sign_in(app, &mut passkey).await, "suspended");
        app.local().post(&format!("{tenant}/resume")).send().await.ok(200);
        sign_in(app, &mut passkey).await.ok(200);
        assert_eq!(refusals(&admin).await, ["account_disabled passkey", "tenant_suspended passkey"]);
        let forged = named(&app.anonymous()).post(SIGN_IN).header("origin", "https://evil.example");
        let answer = passkey.answer(&asked(app).await);
        assert_eq!(forged.json(answer).send().await.problem(403), "csrf_failed");
    })
    .await;
}

#[tokio::test]
async fn enforced_single_sign_on_applies_to_passkeys() {
    with_app(async |app| {
        let scene = Scene::new(app, json!({})).await;
        assert_eq!(scene.sign_on(ada()).await.status, 303);
        let bob = scene.tenant.user("technician").await;
        let (mut passkey, _) = add_passkey(&bob, "Laptop").await;
        let (mut exempt, _) = add_passkey(&scene.admin, "Laptop").await;
        let provider = format!("{PROVIDERS}/{}", scene.record["id"].as_str().unwrap());
        let order = json!({"enforcement": "tenant", "break_glass_user_ids": [id_of(&scene.admin).await]});
        scene.admin.put(&provider).json(order).send().await.ok(200);
        let refused = sign_in(app, &mut passkey).await;
        assert_eq!((refused.problem(403), refused.header("set-cookie")), ("single_sign_on_required", ""));
        assert_eq!(refused.body["identity_provider"]["id"], scene.record["id"]);
        sign_in(app, &mut exempt).await.ok(200);
        let events = scene.admin.get("/api/events?types=auth.break_glass_used").send().await.ok(200)["data"].clone();
        assert_eq!(events.as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn every_wrong_new_passkey_is_refused() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (admin, viewer) = (acme.admin().await, acme.user("viewer").await);
        let begin = async |person: &Actor| named(person).post(&format!("{PASSKEYS}/options")).send().await.ok(200).clone();
        let add = |person: &Actor, body: Value| named(person).post(PASSKEYS).json(body).send();
        let refused = |reply: &Reply, field: &str, code: &str| {
            assert_eq!(reply.field_errors(), [(format!("/{field}"), code.to_owned())], "{}", reply.text);
        };
        let mut cases = wrong(&Passkey::new());
        cases.push(("another algorithm", Passkey { algorithm: 0x25, ..Passkey::new() }));
        cases.push(("no id", Passkey { id: Vec::new(), ..Passkey::new() }));
        cases.push(("an id that is too long", Passkey { id: vec![7; 1024], ..Passkey::new() }));
        for (_, mut passkey) in cases {
            let body = passkey.make(&begin(&admin).await, "Wrong");
            refused(&add(&admin, body).await, "attestation_object", "wrong_passkey");
        }
        let begun = begin(&admin).await;
        let mut damaged = Passkey::new().make(&begun, "Damaged");
        // Lists that are nested too deeply, and a map with a key twice.
        for object in ["gYGBgYGBgQE", "ogEBAQI", "oA", "v_8"] {
            damaged["attestation_object"] = json!(object);
            refused(&add(&admin, damaged.clone()).await, "attestation_object", "wrong_passkey");
        }
        damaged["attestation_object"] = json!("x".repeat(22_000));
        assert_eq!(add(&admin, damaged).await.problem(422), "validation_failed");

        let mut passkey = Passkey::new();
        let body = passkey.make(&begun, "Laptop");
        refused(&add(&viewer, body.clone()).await, "enrolment", "not_valid");
        let other = begin(&admin).await;
        let mixed = json!({"enrolment": other["enrolment"], "options": begun["options"]});
        refused(&add(&admin, Passkey::new().make(&mixed, "Mixed")).await, "attestation_object", "wrong_passkey");
        add(&admin, body.clone()).await.ok(201);
        refused(&add(&admin, body).await, "enrolment", "not_valid");
        // Nobody adds the passkey of somebody else.
        let again = passkey.clone().make(&begin(&viewer).await, "Mine");
        assert_eq!(add(&viewer, again).await.problem(409), "already_exists");
        let late = Passkey::new().make(&begin(&admin).await, "Late");
        app.advance(Duration::from_mins(5));
        refused(&add(&admin, late).await, "enrolment", "not_valid");
        assert_eq!(admin.get(FACTORS).send().await.ok(200)["data"].as_array().unwrap().len(), 1);
        let key = acme.key(&["*"]).await;
        let call = named(&key).post(&format!("{PASSKEYS}/options")).send().await;
        assert_eq!(call.problem(403), "insufficient_authority");
    })
    .await;
}
