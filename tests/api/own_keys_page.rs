//! The pages of personal API keys and of rights.

use crate::{
    console::{and, browser, send, tokens},
    harness::with_app,
    own_keys::OWN,
};

const PAGE: &str = "/profile/keys";

#[tokio::test]
async fn people_create_and_revoke_their_keys_in_the_browser() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, person) = (browser(&tenant.admin().await), tenant.user("viewer").await);
        let viewer = browser(&person);
        assert!(viewer.get("/profile").send().await.text.contains("href=\"/profile/keys\""));
        let form = viewer.get("/profile/keys/new?scopes=tickets%3Aread").send().await;
        assert!(form.text.contains("value=\"tickets:read\" checked"), "{}", form.text);
        assert!(!form.text.contains("value=\"tickets:write\""), "only scopes that the reader has");
        let own = admin.get("/profile/keys/new").send().await;
        assert!(own.text.contains("value=\"secrets:write\"") && !own.text.contains("value=\"users:write\""));
        let fields = [("name", "Laptop <b>"), ("scopes", "tickets:read"), ("expires_days", "7"), ("allowed_ips", "127.0.0.0/8")];
        let empty = send(&viewer, "/profile/keys/new", &and(&tokens(&form), &[("name", "x")])).await;
        assert_eq!(empty.status, 422, "{}", empty.text);
        let created = send(&viewer, "/profile/keys/new", &and(&tokens(&form), &fields)).await;
        assert_eq!(created.status, 200, "{}", created.text);
        assert_eq!(created.header("cache-control"), "no-store");
        let key = created.text.split("tck_live_").nth(1).unwrap().split('<').next().unwrap().to_owned();
        assert!(created.text.contains("TENANTD_KEY") && created.text.contains("127.0.0.0/8"), "{}", created.text);
        let with_key = app.anonymous().bearer(&format!("tck_live_{key}"));
        assert_eq!(with_key.get("/api/auth/session").send().await.ok(200)["kind"], "api_key");

        let list = viewer.get(PAGE).send().await;
        assert!(list.text.contains("Laptop &lt;b&gt;") && !list.text.contains(&key), "{}", list.text);
        let record = person.get(OWN).send().await.ok(200)["data"][0]["id"].clone();
        let id = record.as_str().unwrap();
        let of_tenant = admin.get(&format!("/settings/keys/{id}")).send().await;
        assert!(of_tenant.text.contains("A personal key") && of_tenant.text.contains("Every scope, and why"), "{}", of_tenant.text);
        assert!(!of_tenant.text.contains(&format!("/settings/keys/{id}/rotate")), "nobody rotates it");
        let revoked = send(&viewer, &format!("{PAGE}/{id}/revoke"), &tokens(&list)).await;
        assert_eq!((revoked.status, revoked.header("location")), (303, PAGE), "{}", revoked.text);
        assert_eq!(with_key.get("/api/auth/session").send().await.problem(401), "key_revoked");
        assert!(viewer.get(PAGE).send().await.text.contains("Revoked"));
    })
    .await;
}

#[tokio::test]
async fn pages_say_who_can_do_what() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, viewer) = (browser(&tenant.admin().await), tenant.user("viewer").await);
        tenant.new_key("Writer", &["tickets:write"]).await;
        let me = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let user = admin.get(&format!("/settings/users/{me}")).send().await;
        assert!(user.text.contains("The built-in role viewer does not include it."), "{}", user.text);
        let writers = admin.get("/settings/rights?scope=tickets%3Awrite").send().await;
        assert!(writers.text.contains(">Writer</a>") && !writers.text.contains(&me), "{}", writers.text);
        let readers = admin.get("/settings/rights?scope=tickets%3Aread").send().await;
        assert!(!readers.text.contains(">Writer</a>") && readers.text.contains(&me), "{}", readers.text);
        assert_eq!(admin.get("/settings/rights?scope=tickets%3Areed").send().await.status, 422);
        let reader = browser(&viewer).get("/settings/rights?scope=tickets%3Awrite").send().await;
        assert!(reader.status == 200 && !reader.text.contains(">Writer</a>"), "a viewer reads users, not keys: {}", reader.text);
    })
    .await;
}
