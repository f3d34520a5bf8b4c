//! The pages for the own account, and the page that asks for the password before a sensitive change.

use std::time::Duration;

use serde_json::json;

use tenantd_console::Desk;

use crate::{
    console::{and, browser, hidden, send, tokens},
    console_office::{Office, with_office},
    harness::{PASSWORD, with_app},
};

const NEW: &str = "lantern octopus mountain staple";

/// The hidden fields of the first form of a page.
fn kept(page: &str) -> Vec<(String, String)> {
    let form = page.split("<main").nth(1).unwrap().split("</form>").next().unwrap();
    let fields = form.split("<input type=\"hidden\" name=\"").skip(1);
    let pair = |field: &str| {
        let (name, rest) = field.split_once("\" value=\"").unwrap();
        (name.to_owned(), rest.split('"').next().unwrap().replace("&amp;", "&").replace("&lt;", "<"))
    };
    fields.map(pair).collect()
}

#[tokio::test]
async fn a_sensitive_form_asks_for_the_password_and_then_acts_once() {
    with_office(async |app| {
        let acme = app.tenant("acme").await;
        let admin = browser(&acme.admin().await);
        let form = tokens(&admin.get("/settings/keys/new").send().await);
        app.advance(Duration::from_hours(1));
        let typed =
            and(&form, &[("name", "Backup <b> & more"), ("scopes", "tickets:read"), ("scopes", "search:read"), ("reach", "all")]);
        let asked = send(&admin, "/settings/keys/new", &typed).await;
        assert_eq!((asked.status, asked.header("cache-control")), (403, "no-store"), "{}", asked.text);
        assert!(
            asked.text.contains("Confirm that it is you") && asked.text.contains("action=\"/settings/keys/new\""),
            "{}",
            asked.text
        );
        assert!(asked.text.contains("value=\"Backup &lt;b&gt; &amp; more\""), "{}", asked.text);
        let fields = kept(&asked.text);
        assert_eq!(fields.iter().filter(|(name, _)| name == "scopes").count(), 2);
        let wrong = send(&admin, "/settings/keys/new", &and(&fields, &[("confirm_password", "wrong wrong wrong")])).await;
        assert_eq!(wrong.status, 422, "{}", wrong.text);
        assert!(wrong.text.contains("the password is wrong") && !wrong.text.contains("wrong wrong wrong"), "{}", wrong.text);
        let fields = kept(&wrong.text);
        let made = send(&admin, "/settings/keys/new", &and(&fields, &[("confirm_password", PASSWORD)])).await;
        assert_eq!(made.status, 200, "{}", made.text);
        assert!(made.text.contains("tck_live_"), "{}", made.text);
        let again = send(&admin, "/settings/keys/new", &and(&fields, &[("confirm_password", PASSWORD)])).await;
        assert_eq!(again.status, 200, "{}", again.text);
        let keys = acme.key(&["api_keys:read"]).await.get("/api/admin/api-keys?q=Backup").send().await;
        assert_eq!(keys.ok(200)["data"].as_array().unwrap().len(), 1, "the form acts once");
        let next =
            send(&admin, "/settings/keys/new", &and(&tokens(&admin.get("/settings/keys/new").send().await), &[("name", "")])).await;
        assert!(!next.text.contains("Confirm that it is you"), "the confirmation counts for a while");
    })
    .await;
}

#[tokio::test]
async fn every_page_shows_how_to_sign_out() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let operator = app.operator().await;
        // Parts of pages and a stream for the script.
        let parts = ["/search/suggest", "/live"];
        for route in Desk::routes().filter(|route| route.is_shown() && !parts.contains(&route.path)) {
            let reader = if route.path.starts_with("/operator") { &operator } else { &office.admin };
            let page = browser(reader).get(&office.path(route)).send().await;
            assert!(page.text.contains("action=\"/sign-out\""), "{}: {}", route.path, page.text);
        }
    })
    .await;
}

#[tokio::test]
async fn the_profile_shows_sessions_and_ends_them() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = browser(&acme.admin().await);
        let body = json!({"email": "admin@acme.example", "password": PASSWORD});
        let phone = app.anonymous().with("user-agent", "Mozilla/5.0 (iPhone) Safari/604.1");
        let reply = phone.post("/api/auth/login").json(body).send().await;
        let phone = app.anonymous().with("cookie", reply.header("set-cookie").split(';').next().unwrap());
        let page = admin.get("/profile").send().await;
        assert!(page.text.contains("Safari on iPhone") && page.text.contains("This session"), "{}", page.text);
        let end = page.text.split("action=\"/profile/sessions/ses_").nth(1).unwrap().split('"').next().unwrap();
        let ended = send(&admin, &format!("/profile/sessions/ses_{end}"), &tokens(&page)).await;
        assert_eq!((ended.status, ended.header("location")), (303, "/profile"));
        assert_eq!(phone.get("/api/auth/session").send().await.problem(401), "session_expired");
        let other = app.sign_in("admin@acme.example").await;
        let page = admin.get("/profile").send().await;
        assert_eq!(send(&admin, "/profile/sessions/end", &tokens(&page)).await.status, 303);
        assert_eq!(other.get("/api/auth/session").send().await.problem(401), "session_expired");
    })
    .await;
}

#[tokio::test]
async fn the_profile_changes_the_password_and_keeps_the_browser_signed_in() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = browser(&acme.admin().await);
        let page = admin.get("/profile/password").send().await;
        let form = tokens(&page);
        let typed = |current: &str, new: &str| and(&form, &[("current_password", current), ("new_password", new)]);
        let weak = send(&admin, "/profile/password", &typed(PASSWORD, "Password2026!")).await;
        assert_eq!(weak.status, 422);
        assert!(weak.text.contains("a common word, a year") && !weak.text.contains("Password2026!"), "{}", weak.text);
        let wrong = send(&admin, "/profile/password", &typed("wrong wrong wrong", NEW)).await;
        assert!(wrong.status == 422 && wrong.text.contains("the password is wrong"), "{}", wrong.text);
        let changed = send(&admin, "/profile/password", &typed(PASSWORD, NEW)).await;
        assert_eq!((changed.status, changed.header("location")), (303, "/profile?password=changed"), "{}", changed.text);
        let renewed = browser(&app.anonymous().with("cookie", changed.header("set-cookie").split(';').next().unwrap()));
        let profile = renewed.get("/profile?password=changed").send().await;
        assert!(profile.status == 200 && profile.text.contains("Your password is changed"), "{}", profile.text);
        assert!(!hidden(&profile, "form_token").is_empty());
        assert_eq!(admin.get("/profile").send().await.status, 303, "the old cookie has ended");
    })
    .await;
}
