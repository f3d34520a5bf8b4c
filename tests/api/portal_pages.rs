//! The pages of the portal, and the block on the page of a contact.

use serde_json::json;

use tenantd_console::Desk;

use crate::{
    console::{and, browser, hidden, send, tokens},
    custom_roles::member,
    harness::{portal::portal_contact, with_app},
};

#[tokio::test]
async fn a_contact_works_on_their_tickets_without_a_script() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let ada = browser(&portal_contact(app, &acme, &acme.organization("North").await, "ada@north.example").await);
        let home = ada.get("/").send().await;
        assert_eq!((home.status, home.header("location")), (303, "/portal"), "the desk leads contacts to the portal");
        let list = ada.get("/portal").send().await;
        assert_eq!(list.status, 200, "{}", list.text);
        for area in ["/tickets\"", "/organizations", "/settings", "/search", "data-live"] {
            assert!(!list.text.contains(area), "{area} is for staff: {}", list.text);
        }
        let form = ada.get("/portal/new").send().await;
        let fields =
            and(&tokens(&form), &[("subject", "Printer <b>jams</b>"), ("description", "Since today"), ("priority", "high")]);
        let made = send(&ada, "/portal/new", &fields).await;
        assert_eq!((made.status, made.header("location")), (303, "/portal/tickets/T-1"), "{}", made.text);
        assert_eq!(send(&ada, "/portal/new", &fields).await.header("location"), "/portal/tickets/T-1", "sent twice");
        let wrong = send(&ada, "/portal/new", &and(&tokens(&form), &[("subject", ""), ("priority", "low")])).await;
        assert_eq!(wrong.status, 422, "{}", wrong.text);
        let page = ada.get("/portal/tickets/T-1").send().await;
        assert!(page.text.contains("Printer &lt;b&gt;jams&lt;/b&gt;") && page.text.contains("Since today"), "{}", page.text);
        let staff = acme.key(&["tickets:write", "tickets:read"]).await;
        for (body, visibility) in [("Hidden note", "internal"), ("We are on it", "public")] {
            let note = json!({"body": body, "visibility": visibility});
            staff.post("/api/psa/tickets/T-1/comments").json(note).send().await.ok(201);
        }
        let answered = send(&ada, "/portal/tickets/T-1/replies", &and(&tokens(&page), &[("body", "Thank you")])).await;
        assert_eq!((answered.status, answered.header("location")), (303, "/portal/tickets/T-1#reply"));
        let page = ada.get("/portal/tickets/T-1").send().await;
        assert!(page.text.contains("We are on it") && page.text.contains("Thank you"), "{}", page.text);
        assert!(!page.text.contains("Hidden note"));
        for (act, status) in [("close", "resolved"), ("reopen", "open"), ("close", "resolved"), ("close", "closed")] {
            let form = tokens(&ada.get("/portal/tickets/T-1").send().await);
            let done = send(&ada, &format!("/portal/tickets/T-1/{act}"), &form).await;
            assert_eq!(done.status, 303, "{act}: {}", done.text);
            assert_eq!(staff.get("/api/psa/tickets/T-1").send().await.ok(200)["status"], status);
        }
        assert!(!ada.get("/portal/tickets/T-1").send().await.text.contains("name=\"body\""), "closed");
        let profile = ada.get("/profile").send().await;
        assert!(profile.text.contains("Your second factors") && !profile.text.contains("What you may do"), "{}", profile.text);
        assert_eq!(ada.get("/profile/password").send().await.status, 200);
        assert_eq!(ada.get("/second-factor").send().await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn every_page_refuses_others_and_every_form_needs_its_token() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let ada = portal_contact(app, &acme, &north, "ada@north.example").await;
        let bo = portal_contact(app, &acme, &north, "bo@north.example").await;
        ada.post("/api/portal/tickets").json(json!({"subject": "QX7"})).send().await.ok(201);
        let of_bo = tokens(&browser(&bo).get("/portal/new").send().await);
        let admin = acme.admin().await;
        for route in Desk::portal_routes() {
            let path = route.path.replace("{id}", "T-1");
            if route.is_shown() {
                let stranger = browser(&app.anonymous()).get(&path).send().await;
                assert_eq!((stranger.status, &stranger.header("location")[..8]), (303, "/sign-in"), "{path}");
                assert_eq!(browser(&admin).get(&path).send().await.status, 403, "{path} is for contacts");
                assert_eq!(browser(&ada).get(&path).send().await.status, 200, "{path}");
                let foreign = browser(&bo).get(&path).send().await;
                assert_eq!(foreign.status, if route.path.contains("{id}") { 404 } else { 200 }, "{path}");
                assert!(!foreign.text.contains("QX7"), "{path}");
            }
            if route.takes_forms() {
                assert_eq!(send(&app.anonymous(), &path, &[]).await.status, 401, "{path}");
                for fields in [Vec::new(), of_bo.clone()] {
                    let refused = send(&ada, &path, &fields).await;
                    assert!(refused.status == 403 && refused.text.contains("csrf_failed"), "{path}: {}", refused.text);
                }
            }
        }
        for route in Desk::routes().filter(|route| route.is_shown() && !route.path.starts_with("/profile")) {
            let path = route.path.replace("{id}", "x").replace("{session_id}", "x").replace("{domain}", "x");
            let led = browser(&ada).get(&path).send().await;
            assert_eq!((led.status, led.header("location")), (303, "/portal"), "{path}: {}", led.text);
        }
        let sign_in = browser(&ada).get("/sign-in").send().await;
        assert_eq!(sign_in.status, 303, "signed in already");
        let out = send(&ada, "/sign-out", &[]).await;
        assert_eq!(out.status, 303, "{}", out.text);
        assert_eq!(browser(&ada).get("/portal").send().await.status, 303);
    })
    .await;
}

#[tokio::test]
async fn staff_give_and_take_access_on_the_page_of_a_contact() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let signed_in = acme.admin().await;
        let admin = browser(&signed_in);
        let contact = acme.contact(&acme.organization("North").await, "ada@north.example").await;
        let path = format!("/contacts/{contact}");
        let page = admin.get(&path).send().await;
        assert!(page.text.contains("Give access"), "{}", page.text);
        let off = send(&admin, &format!("{path}/portal-access"), &tokens(&page)).await;
        assert!(off.status == 409 && off.text.contains("The portal is off"), "{}", off.text);
        let settings = admin.get("/settings/portal").send().await;
        let version = hidden(&settings, "version").to_owned();
        let saved = send(&admin, "/settings/portal", &and(&tokens(&settings), &[("version", &version), ("enabled", "true")])).await;
        assert_eq!(saved.status, 303, "{}", saved.text);
        let given = send(&admin, &format!("{path}/portal-access"), &tokens(&page)).await;
        assert_eq!((given.status, given.header("cache-control")), (200, "no-store"), "{}", given.text);
        assert!(given.text.contains("/set-password?token="), "{}", given.text);
        let page = admin.get(&path).send().await;
        assert!(page.text.contains("Take access away") && !page.text.contains("token="), "{}", page.text);
        let role = json!({"name": "Registry", "scopes": ["directory:*", "users:*"]});
        let role = signed_in.post("/api/admin/roles").json(role).send().await.ok(201)["id"].clone();
        let (registry, _) = member(app, &signed_in, "registry", json!({"role": role})).await;
        let registry = browser(&registry);
        let shown = registry.get(&path).send().await.text;
        assert!(shown.contains("Take access away") && !shown.contains("New password link"), "they do not read tickets: {shown}");
        assert!(registry.get("/settings/portal").send().await.text.contains("name=\"enabled\""), "they can turn it off");
        let taken = send(&admin, &format!("{path}/portal-access/remove"), &tokens(&page)).await;
        assert_eq!(taken.status, 303, "{}", taken.text);
        assert!(admin.get(&path).send().await.text.contains("cannot sign in to the portal"));
        let viewer = browser(&acme.user("viewer").await);
        assert!(!viewer.get(&path).send().await.text.contains("Give access"), "a viewer cannot give access");
    })
    .await;
}
