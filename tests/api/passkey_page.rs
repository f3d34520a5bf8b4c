//! The pages that use passkeys. A test cannot run the script, so it reads the options of a part and sends the field that the script fills.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    console::{and, browser, hidden, send, tokens},
    console_office::with_office,
    harness::{
        Actor, PASSWORD, Reply, TestApp,
        authenticator::add_app,
        passkey::{PASSKEYS, Passkey, add_passkey, asked, named, proof},
        with_app,
    },
};

const SIGN_IN: &str = "/sign-in";
const SECOND_FACTOR: &str = "/second-factor";

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    and(&[], pairs)
}

/// The value of an attribute of a page.
fn attribute(page: &Reply, name: &str) -> String {
    let start = format!("{name}=\"");
    let rest = page.text.split(start.as_str()).nth(1).unwrap_or_else(|| panic!("no {name} in {}", page.text));
    rest.split('"').next().unwrap().replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<")
}

/// What the script asks for before it fills the field of a page.
async fn options(actor: &Actor, page: &Reply) -> Value {
    let call = actor.post(&attribute(page, "data-options"));
    let call = if page.text.contains("data-body") {
        call.json(serde_json::from_str(&attribute(page, "data-body")).unwrap())
    } else {
        call
    };
    call.send().await.ok(200).clone()
}

async fn open(actor: &Actor, path: &str) -> Reply {
    browser(actor).get(path).send().await
}

fn stranger(app: &TestApp) -> Actor {
    named(&app.anonymous())
}

#[tokio::test]
async fn the_sign_in_page_takes_a_passkey() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, _) = add_passkey(&admin, "Laptop").await;
        let visitor = stranger(app);
        for path in [SIGN_IN, "/sign-in?password=true"] {
            let page = open(&visitor, path).await;
            assert!(page.text.contains("<div data-passkey hidden>"), "only the script shows it: {}", page.text);
        }
        let page = open(&visitor, "/sign-in?return_to=/tickets").await;
        let answer = passkey.answer(&options(&visitor, &page).await).to_string();
        let form = [("passkey", answer.as_str()), ("return_to", hidden(&page, "return_to"))];
        let done = send(&visitor, SIGN_IN, &fields(&form)).await;
        assert_eq!((done.status, done.header("location")), (303, "/tickets"), "{}", done.text);
        assert!(done.header("set-cookie").starts_with("tenantd_session="), "{}", done.header("set-cookie"));
        let again = send(&visitor, SIGN_IN, &fields(&form)).await;
        assert_eq!((again.status, again.header("set-cookie")), (401, ""));
        assert!(
            again.text.contains("This passkey does not sign you in") && again.text.contains("name=\"password\""),
            "{}",
            again.text
        );
        assert_eq!(send(&visitor, SIGN_IN, &fields(&[("passkey", "")])).await.status, 400);
    })
    .await;
}

#[tokio::test]
async fn the_second_step_takes_a_passkey() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let (mut passkey, _) = add_passkey(&admin, "Key").await;
        let visitor = stranger(app);
        let password = fields(&[("email", "admin@acme.example"), ("password", PASSWORD), ("return_to", "/tickets")]);
        let step = send(&visitor, SIGN_IN, &password).await;
        assert!(step.status == 200 && step.text.contains("Your second factor is a passkey"), "{}", step.text);
        assert!(!step.text.contains("one-time-code"), "there is no app");
        let finish = |page: &Reply, answer: &Value| {
            let form = fields(&[
                ("challenge", hidden(page, "challenge")),
                ("methods", hidden(page, "methods")),
                ("return_to", hidden(page, "return_to")),
                ("passkey", &answer.to_string()),
            ]);
            let visitor = visitor.clone();
            async move { send(&visitor, SIGN_IN, &form).await }
        };
        let wrong = finish(&step, &passkey.answer(&asked(app).await)).await;
        assert!(wrong.status == 401 && wrong.text.contains("This passkey is not one of yours"), "{}", wrong.text);
        let answer = passkey.answer(&options(&visitor, &wrong).await);
        let done = finish(&wrong, &answer).await;
        assert_eq!((done.status, done.header("location")), (303, "/tickets"), "{}", done.text);
        add_app(app, &admin, "Phone").await;
        let step = send(&visitor, SIGN_IN, &password).await;
        assert!(step.text.contains("one-time-code") && step.text.contains("Use a passkey"), "{}", step.text);
    })
    .await;
}

#[tokio::test]
async fn a_required_passkey_is_added_on_its_page() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.admin().await;
        let policy = json!({"second_factor": {"required_for": ["admin"]}});
        admin.put("/api/admin/sign-in-policy").json(policy).send().await.ok(200);
        let first = named(&admin);
        let page = open(&first, SECOND_FACTOR).await;
        assert!(page.text.contains("Add a passkey") && page.text.contains("Add an authenticator app"), "{}", page.text);
        let begun = send(&first, SECOND_FACTOR, &fields(&[("action", "begin-passkey")])).await;
        assert_eq!((begun.status, begun.header("cache-control")), (200, "no-store"), "{}", begun.text);
        let mut passkey = Passkey::new();
        let made = passkey.make(&serde_json::from_str(&attribute(&begun, "data-begun")).unwrap(), "");
        let sent = json!({
            "enrolment": made["enrolment"], "client_data": made["client_data"], "attestation_object": made["attestation_object"],
        });
        let form = fields(&[("action", "add-passkey"), ("name", "Laptop"), ("passkey", &sent.to_string())]);
        let added = send(&first, SECOND_FACTOR, &form).await;
        assert_eq!((added.status, added.header("location")), (303, "/second-factor?added=passkey"), "{}", added.text);
        let page = open(&first, "/second-factor?added=passkey").await;
        assert!(page.text.contains("The passkey is added") && page.text.contains("A passkey</p>"), "{}", page.text);
        let again = send(&first, SECOND_FACTOR, &form).await;
        assert!(again.status == 422 && again.text.contains("begin again"), "{}", again.text);
        assert_eq!(open(&first, "/").await.status, 200);
        let at_address = send(&admin, SECOND_FACTOR, &fields(&[("action", "begin-passkey")])).await;
        assert!(at_address.status == 409 && at_address.text.contains("browsers need a host name"), "{}", at_address.text);
    })
    .await;
}

#[tokio::test]
async fn a_sensitive_form_continues_after_a_passkey() {
    with_office(async |app| {
        let acme = app.tenant("acme").await;
        let person = acme.admin().await;
        let (mut passkey, _) = add_passkey(&person, "Laptop").await;
        let admin = browser(&named(&person));
        let form = tokens(&admin.get("/settings/keys/new").send().await);
        app.advance(Duration::from_hours(1));
        let typed = and(&form, &[("name", "Backup"), ("scopes", "tickets:read"), ("reach", "all")]);
        let page = send(&admin, "/settings/keys/new", &typed).await;
        assert!(page.status == 403 && page.text.contains("Confirm with a passkey"), "{}", page.text);
        assert_eq!(attribute(&page, "data-options"), format!("{PASSKEYS}/proof"));
        let again = and(&typed, &[("confirm_passkey", "nonsense")]);
        assert_eq!(send(&admin, "/settings/keys/new", &again).await.status, 400);
        let answer = proof(&person, &mut passkey).await.to_string();
        let again = and(&typed, &[("confirm_passkey", &answer)]);
        let made = send(&admin, "/settings/keys/new", &again).await;
        assert!(made.status == 200 && made.text.contains("tck_live_"), "{}", made.text);
    })
    .await;
}
