//! The pages of second factors: the second step of signing in, adding an app, and recovery codes.

use std::time::Duration;

use serde_json::json;

use crate::{
    harness::{
        Actor, PASSWORD, Reply,
        authenticator::{CodeApp, FACTORS, add_app},
        with_app,
    },
    sign_in_links::linked,
};

const SIGN_IN: &str = "/sign-in";
const SECOND_FACTOR: &str = "/second-factor";

async fn send(actor: &Actor, path: &str, fields: &[(&str, &str)]) -> Reply {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    actor.post(path).header("accept", "text/html").text("application/x-www-form-urlencoded", body).send().await
}

async fn open(actor: &Actor, path: &str) -> Reply {
    actor.get(path).header("accept", "text/html").send().await
}

/// The value of a hidden field of a page.
fn hidden<'a>(page: &'a Reply, name: &str) -> &'a str {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.text.split(start.as_str()).nth(1).unwrap_or_else(|| panic!("no field {name} in {}", page.text));
    rest.split('"').next().unwrap()
}

#[tokio::test]
async fn the_sign_in_page_asks_for_the_code() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (codes, _) = add_app(app, &admin, "Phone").await;
        app.advance(Duration::from_secs(30));
        let browser = app.anonymous();
        let password = [("email", "admin@acme.example"), ("password", PASSWORD), ("return_to", "/tickets")];
        let asked = send(&browser, SIGN_IN, &password).await;
        assert_eq!((asked.status, asked.header("set-cookie"), asked.header("cache-control")), (200, "", "no-store"));
        assert!(asked.text.contains("autocomplete=\"one-time-code\"") && !asked.text.contains("Recovery code"), "{}", asked.text);
        assert!(!asked.text.contains(PASSWORD));
        let step = |page: &Reply, code: &str| {
            let fields = [
                ("challenge", hidden(page, "challenge").to_owned()),
                ("methods", hidden(page, "methods").to_owned()),
                ("return_to", hidden(page, "return_to").to_owned()),
                ("code", code.to_owned()),
            ];
            let browser = browser.clone();
            async move {
                let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
                send(&browser, SIGN_IN, &fields).await
            }
        };
        let wrong = step(&asked, &codes.wrong_code(app.now())).await;
        assert_eq!(wrong.status, 401);
        assert!(wrong.text.contains("The code is wrong") && wrong.text.contains("aria-invalid=\"true\""), "{}", wrong.text);
        let done = step(&wrong, &codes.code(app.now())).await;
        assert_eq!((done.status, done.header("location")), (303, "/tickets"));
        assert!(done.header("set-cookie").starts_with("tenantd_session="), "{}", done.header("set-cookie"));
        let over = step(&wrong, &codes.code(app.now())).await;
        assert_eq!(over.status, 401);
        assert!(over.text.contains("Enter your password again") && over.text.contains("name=\"password\""), "{}", over.text);
        let made = admin.post(&format!("{FACTORS}/recovery-codes")).send().await.ok(200)["codes"][0].clone();
        let asked = send(&browser, SIGN_IN, &password).await;
        assert!(asked.text.contains("Recovery code"));
        let fields = [
            ("challenge", hidden(&asked, "challenge")),
            ("methods", hidden(&asked, "methods")),
            ("recovery_code", made.as_str().unwrap()),
        ];
        assert_eq!(send(&browser, SIGN_IN, &fields).await.header("location"), "/");
    })
    .await;
}

#[tokio::test]
async fn a_required_app_is_added_on_its_page() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let policy = json!({"second_factor": {"required_for": ["admin"]}});
        admin.put("/api/admin/sign-in-policy").json(policy).send().await.ok(200);
        let led = open(&admin, "/").await;
        assert_eq!((led.status, led.header("location")), (303, SECOND_FACTOR));
        let page = open(&admin, SECOND_FACTOR).await;
        assert!(page.status == 200 && page.text.contains("Your role needs a second factor"), "{}", page.text);
        let begun = send(&admin, SECOND_FACTOR, &[("action", "begin")]).await;
        assert!(begun.text.contains("data:image/svg+xml;base64,"), "{}", begun.text);
        assert_eq!(begun.header("cache-control"), "no-store");
        let (enrolment, key) = (hidden(&begun, "enrolment"), hidden(&begun, "key"));
        let codes = CodeApp::read(&json!({"uri": format!("otpauth://x?secret={key}"), "secret": key}));
        let add = |code: String| {
            let admin = admin.clone();
            async move {
                let fields =
                    [("action", "add"), ("enrolment", enrolment), ("key", key), ("name", "Phone"), ("code", code.as_str())];
                send(&admin, SECOND_FACTOR, &fields).await
            }
        };
        let wrong = add(codes.wrong_code(app.now())).await;
        assert!(
            wrong.status == 422 && wrong.text.contains("is not the code of this app") && wrong.text.contains(key),
            "{}",
            wrong.text
        );
        let added = add(codes.code(app.now())).await;
        assert_eq!((added.status, added.header("location")), (303, "/second-factor?added=true"));
        assert_eq!(open(&admin, "/").await.status, 200);
        let made = send(&admin, SECOND_FACTOR, &[("action", "codes")]).await;
        assert!(made.text.contains("not shown again") && made.text.matches("<li><code>").count() == 10, "{}", made.text);
        assert_eq!(made.header("cache-control"), "no-store");
        let page = open(&admin, SECOND_FACTOR).await;
        assert!(page.text.contains("You have 10 unused codes"));
        let last = send(&admin, SECOND_FACTOR, &[("action", "remove"), ("id", hidden(&page, "id"))]).await;
        assert!(last.status == 409 && last.text.contains("Add another one before you remove this one"), "{}", last.text);
        let foreign = admin.clone().with("sec-fetch-site", "cross-site");
        assert_eq!(send(&foreign, SECOND_FACTOR, &[("action", "codes")]).await.status, 403);
        let stranger = open(&app.anonymous(), SECOND_FACTOR).await;
        assert_eq!((stranger.status, stranger.header("location")), (303, "/sign-in?return_to=%2Fsecond-factor"));
    })
    .await;
}

#[tokio::test]
async fn an_old_session_that_lacks_its_factor_confirms_on_the_page() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let policy = json!({"second_factor": {"required_for": ["admin"]}});
        admin.put("/api/admin/sign-in-policy").json(policy).send().await.ok(200);
        app.advance(Duration::from_mins(16));
        let asked = send(&admin, SECOND_FACTOR, &[("action", "begin")]).await;
        assert_eq!((asked.status, asked.header("cache-control")), (403, "no-store"));
        assert!(asked.text.contains("Confirm that it is you"), "{}", asked.text);
        let with = |password: &'static str| [("action", hidden(&asked, "action")), ("confirm_password", password)];
        let wrong = send(&admin, SECOND_FACTOR, &with("wrong wrong wrong")).await;
        assert!(wrong.status == 422 && wrong.text.contains("the password is wrong"), "{}", wrong.text);
        assert!(!wrong.text.contains("wrong wrong wrong") && hidden(&wrong, "action") == "begin", "{}", wrong.text);
        let begun = send(&admin, SECOND_FACTOR, &with(PASSWORD)).await;
        assert!(begun.status == 200 && begun.text.contains("data:image/svg+xml;base64,"), "{}", begun.text);
        assert!(!begun.text.contains(PASSWORD));

        // What was typed is kept while the page asks.
        app.advance(Duration::from_mins(16));
        let again = send(&admin, SECOND_FACTOR, &[("action", "add"), ("enrolment", "x<y"), ("code", "123456")]).await;
        assert!(
            again.status == 403 && again.text.contains("value=\"x&lt;y\"") && hidden(&again, "code") == "123456",
            "{}",
            again.text
        );
    })
    .await;
}

#[tokio::test]
async fn a_session_without_the_factor_proves_it_on_the_page() {
    with_app(async |app| {
        let trial = app.evaluation_tenant("trial").await;
        let (codes, _) = add_app(app, &trial.admin().await, "Phone").await;
        let link = linked(app, &trial.id, "admin@trial.example").await;
        app.advance(Duration::from_secs(30));
        let refused = send(&link, SECOND_FACTOR, &[("action", "codes")]).await;
        assert!(refused.status == 403 && refused.text.contains("Prove your second factor"), "{}", refused.text);
        let page = open(&link, &format!("{SECOND_FACTOR}?prove=true")).await;
        assert!(page.status == 200 && hidden(&page, "action") == "verify", "{}", page.text);
        let proven = send(&link, SECOND_FACTOR, &[("action", "verify"), ("code", codes.code(app.now()).as_str())]).await;
        assert_eq!((proven.status, proven.header("location")), (303, SECOND_FACTOR));
        let made = send(&link, SECOND_FACTOR, &[("action", "codes")]).await;
        assert!(made.status == 200 && made.text.matches("<li><code>").count() == 10, "{}", made.text);
    })
    .await;
}
