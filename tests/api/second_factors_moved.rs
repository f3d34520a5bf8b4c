//! Second factors of a tenant that moves to another installation.

use std::time::Duration;

use serde_json::json;

use crate::{
    harness::{
        PASSWORD,
        authenticator::{FACTORS, add_app, challenge, send_code},
        with_app,
    },
    transfer::{export, import, import_as},
};

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const SALT: &str = "00112233445566778899aabbccddeeff";

#[tokio::test]
async fn factors_move_with_a_passphrase_from_a_trusted_file() {
    with_app(async |old| {
        let acme = old.tenant("acme").await;
        let admin = acme.admin().await;
        let (codes, _) = add_app(old, &admin, "Phone").await;
        let recovery = admin.post(&format!("{FACTORS}/recovery-codes")).send().await.ok(200)["codes"][0].clone();
        old.advance(Duration::from_secs(30));
        let sealed = export(old, &acme.id, json!({"key": KEY, "salt": SALT})).await;
        let left_out = export(old, &acme.id, json!({})).await;
        assert!(!sealed.contains(recovery.as_str().unwrap()));

        with_app(async |new| {
            new.advance(Duration::from_secs(30));
            let done = import(new, json!({"mode": "import", "key": KEY}), &sealed).await;
            assert_eq!(done["switched_off"], json!([]), "{done}");
            let asked = challenge(new, "admin@acme.example").await;
            assert_eq!(asked["methods"], json!(["totp", "recovery_code"]));
            send_code(new, &asked, &codes.code(new.now())).await.ok(200);
            let asked = challenge(new, "admin@acme.example").await;
            let body = json!({"challenge": asked["challenge"], "recovery_code": recovery});
            new.anonymous().post("/api/auth/second-factor").json(body).send().await.ok(200);
        })
        .await;

        with_app(async |new| {
            let done = import(new, json!({"mode": "import"}), &left_out).await;
            assert!(done["notes"].to_string().contains("The authenticator app Phone of the user"), "{done}");
            let own = new.sign_in("admin@acme.example").await.get(FACTORS).send().await;
            assert_eq!(own.ok(200), &json!({"data": [], "recovery_codes_left": 0}), "codes replace a factor");
        })
        .await;

        with_app(async |new| {
            let order = json!({"mode": "import", "accept_unverified": true, "key": KEY});
            let done = import_as(new, &order, &sealed).await;
            assert!(done["switched_off"].to_string().contains("Phone of usr_"), "{done}");
            let login = json!({"email": "admin@acme.example", "password": PASSWORD});
            let refused = new.anonymous().post("/api/auth/login").json(login).send().await;
            assert_eq!(refused.problem(401), "invalid_credentials", "a password of an unverified file is void");
        })
        .await;
    })
    .await;
}
