//! Tickets in the portal: a contact sees their own tickets only, and nothing of what staff keep internal.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, Reply, Setup, TestApp,
        portal::{access, contact_with_id, portal_contact, set_password},
        with_app, with_setup,
    },
    workflows::Desk,
};

const PORTAL: &str = "/api/portal/tickets";
const TICKETS: &str = "/api/psa/tickets";

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_else(|| panic!("no {name} in {record}"))
}

/// A ticket that a contact creates.
async fn create(contact: &Actor, subject: &str) -> Value {
    contact.post(PORTAL).json(json!({"subject": subject})).send().await.ok(201).clone()
}

fn path(ticket: &Value) -> String {
    format!("{PORTAL}/{}", text(ticket, "id"))
}

async fn subjects(contact: &Actor, query: &str) -> Vec<String> {
    let list = contact.get(&format!("{PORTAL}{query}")).send().await;
    list.ok(200)["data"].as_array().unwrap().iter().map(|ticket| text(ticket, "subject").to_owned()).collect()
}

async fn bodies(contact: &Actor, ticket: &Value) -> Vec<String> {
    let list = contact.get(&format!("{}/comments", path(ticket))).send().await;
    list.ok(200)["data"].as_array().unwrap().iter().map(|comment| text(comment, "body").to_owned()).collect()
}

async fn is_hidden(contact: &Actor, ticket: &Value) {
    for name in [text(ticket, "id"), text(ticket, "ref")] {
        let path = format!("{PORTAL}/{name}");
        assert_eq!(contact.get(&path).send().await.problem(404), "not_found", "{path}");
        assert_eq!(contact.get(&format!("{path}/comments")).send().await.problem(404), "not_found");
        let answer = contact.post(&format!("{path}/comments")).json(json!({"body": "Hello"})).send().await;
        assert_eq!(answer.problem(404), "not_found");
        for act in ["close", "reopen"] {
            assert_eq!(contact.post(&format!("{path}/{act}")).send().await.problem(404), "not_found");
        }
    }
}

#[tokio::test]
async fn a_contact_creates_reads_and_lists_only_their_own_tickets() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let (north, south) = (acme.organization("North").await, acme.organization("South").await);
        let (ada, ada_id) = contact_with_id(app, &acme, &north, "ada@north.example").await;
        let bo = portal_contact(app, &acme, &north, "bo@north.example").await;
        let cy = portal_contact(app, &acme, &south, "cy@south.example").await;
        let foreign = portal_contact(app, &globex, &globex.organization("East").await, "di@east.example").await;
        let body = json!({"subject": "Printer", "description": "It jams.", "priority": "high"});
        let made = ada.post(PORTAL).json(body).send().await;
        let ticket = made.ok(201).clone();
        assert_eq!(made.header("location"), path(&ticket));
        assert_eq!(
            (&ticket["status"], &ticket["priority"], &ticket["can_close"], &ticket["can_reopen"]),
            (&json!("new"), &json!("high"), &json!(true), &json!(false))
        );
        let staff = acme.key(&["tickets:read", "directory:read", "events:read"]).await;
        let full = staff.get(&format!("{TICKETS}/{}", text(&ticket, "ref"))).send().await.ok(200).clone();
        assert_eq!(
            (&full["source"], &full["contact"]["id"], &full["organization"]["id"], &full["created_by"]["id"]),
            (&json!("portal"), &json!(ada_id), &json!(north), &json!(ada_id))
        );
        let created = staff.get("/api/events?types=ticket.created").send().await.ok(200)["data"][0].clone();
        assert_eq!((&created["actor"]["kind"], &created["actor"]["id"]), (&json!("user"), &json!(ada_id)));
        for other in [&bo, &cy, &foreign] {
            is_hidden(other, &ticket).await;
            assert!(subjects(other, "").await.is_empty());
        }
        for name in ["custom_fields", "sla", "tags", "queue", "counts", "time_spent_minutes", "version", "updated_at", "devices"] {
            assert!(ticket.get(name).is_none(), "{name} is not for contacts: {ticket}");
        }
        create(&ada, "Second").await;
        create(&ada, "Third").await;
        assert_eq!(subjects(&ada, "").await, ["Third", "Second", "Printer"]);
        let first = ada.get(&format!("{PORTAL}?limit=2")).send().await.ok(200).clone();
        let next = first["page"]["next_cursor"].as_str().unwrap();
        assert_eq!(subjects(&ada, &format!("?limit=2&cursor={next}")).await, ["Printer"]);
        assert_eq!(bo.get(&format!("{PORTAL}?limit=2&cursor={next}")).send().await.ok(200)["data"], json!([]));
        ada.post(&format!("{}/close", path(&ticket))).send().await.ok(200);
        assert_eq!(subjects(&ada, "?status_category=done").await, ["Printer"]);
        assert_eq!(subjects(&ada, "?status_category=open").await, ["Third", "Second"]);
    })
    .await;
}

#[tokio::test]
async fn what_a_contact_may_send_is_limited() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let ada = portal_contact(app, &acme, &north, "ada@north.example").await;
        let south = acme.organization("South").await;
        for (member, value) in [
            ("priority", json!("critical")),
            ("source", json!("email")),
            ("organization_id", json!(south)),
            ("contact_id", json!("usr_01k9z7w3v5e8g9m2n4p6r8t0x1")),
            ("assignee_id", json!("usr_01k9z7w3v5e8g9m2n4p6r8t0x1")),
            ("custom_fields", json!({"a": 1})),
        ] {
            let body = json!({"subject": "Printer", member: value});
            assert_eq!(ada.post(PORTAL).json(body).send().await.problem(422), "validation_failed", "{member}");
        }
        let ticket = create(&ada, "Printer").await;
        let internal = json!({"body": "Hello", "visibility": "internal"});
        let answer = ada.post(&format!("{}/comments", path(&ticket))).json(internal).send().await;
        assert_eq!(answer.problem(422), "validation_failed", "a contact cannot write internal comments");
        let forged = ada.post(PORTAL).header("origin", "https://evil.example").json(json!({"subject": "x"})).send().await;
        assert_eq!(forged.problem(403), "csrf_failed");
    })
    .await;
}

#[tokio::test]
async fn a_contact_creates_a_limited_number_of_tickets_and_comments_in_an_hour() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let (ada, bo) = (
            portal_contact(app, &acme, &north, "ada@north.example").await,
            portal_contact(app, &acme, &north, "bo@north.example").await,
        );
        for number in 0..20 {
            create(&ada, &format!("Ticket {number}")).await;
        }
        let refused = ada.post(PORTAL).json(json!({"subject": "One more"})).send().await;
        assert_eq!(refused.problem(429), "rate_limited");
        assert!(refused.header("retry-after").parse::<u64>().unwrap() <= 3600, "{}", refused.text);
        let ticket = create(&bo, "Of somebody else").await;
        for number in 0..60 {
            let answer = bo.post(&format!("{}/comments", path(&ticket))).json(json!({"body": format!("{number}")})).send().await;
            answer.ok(201);
        }
        let answer = bo.post(&format!("{}/comments", path(&ticket))).json(json!({"body": "one more"})).send().await;
        assert_eq!(answer.problem(429), "rate_limited");
        app.advance(std::time::Duration::from_secs(3601));
        create(&ada, "An hour later").await;
        bo.post(&format!("{}/comments", path(&ticket))).json(json!({"body": "An hour later"})).send().await.ok(201);
    })
    .await;
}

#[tokio::test]
async fn nothing_shows_that_staff_works_internally() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let ada = portal_contact(app, &acme, &north, "ada@north.example").await;
        let (first, second) = (create(&ada, "First").await, create(&ada, "Second").await);
        let (seen, list) = (ada.get(&path(&first)).send().await, ada.get(PORTAL).send().await);
        let staff = acme.key(&["tickets:write", "tickets:read"]).await;
        let internal = format!("{TICKETS}/{}", text(&first, "id"));
        app.advance(std::time::Duration::from_mins(5));
        for number in 0..3 {
            let note = json!({"body": format!("Secret {number}"), "visibility": "internal"});
            staff.post(&format!("{internal}/comments")).json(note).send().await.ok(201);
        }
        staff
            .post(&format!("{internal}/time-entries"))
            .json(json!({"minutes": 30, "billable": true, "work_type": "remote"}))
            .send()
            .await
            .ok(201);
        let fields = json!({"custom_fields": {"cost": 5}, "tags": ["vip"], "queue": "field", "due_at": "2026-02-01T00:00:00Z"});
        staff.patch(&internal).json(fields).send().await.ok(200);
        let (again, listed) = (ada.get(&path(&first)).send().await, ada.get(PORTAL).send().await);
        assert_eq!((&again.body, again.header("etag")), (&seen.body, seen.header("etag")));
        assert_eq!(listed.body, list.body, "neither content nor order");
        let known = ada.get(&path(&first)).header("if-none-match", seen.header("etag")).send().await;
        assert_eq!(known.status, 304);
        assert!(bodies(&ada, &first).await.is_empty());
        let public = json!({"body": "We are on it", "visibility": "public"});
        staff.post(&format!("{internal}/comments")).json(public).send().await.ok(201);
        assert_eq!(bodies(&ada, &first).await, ["We are on it"]);
        let comments = ada.get(&format!("{}/comments", path(&first))).send().await.ok(200)["data"].clone();
        assert_eq!(comments[0]["author"], json!({"kind": "support", "name": "Support"}), "the name of a key is not shown");
        assert!(!ada.get(&format!("{}/comments", path(&first))).send().await.text.contains("Secret"));
        for page in ["/history", "/time-entries"] {
            assert_eq!(ada.get(&format!("{}{page}", path(&second))).send().await.problem(404), "not_found");
        }
        staff.patch(&internal).json(json!({"status": "in_progress"})).send().await.ok(200);
        let changed = ada.get(&path(&first)).send().await;
        assert_eq!(changed.body["status"], "in_progress");
        assert_ne!(changed.header("etag"), seen.header("etag"), "what the contact sees has changed");
    })
    .await;
}

#[tokio::test]
async fn public_comments_are_paged_without_gaps() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let ada = portal_contact(app, &acme, &north, "ada@north.example").await;
        let ticket = create(&ada, "Printer").await;
        let staff = acme.key(&["tickets:write", "tickets:read"]).await;
        for number in 0..12 {
            let visibility = if number % 3 == 0 { "public" } else { "internal" };
            let note = json!({"body": format!("{number}"), "visibility": visibility});
            // Comments of the same millisecond have no order.
            app.advance(Duration::from_millis(1));
            staff.post(&format!("{TICKETS}/{}/comments", text(&ticket, "id"))).json(note).send().await.ok(201);
        }
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = ada.get(&format!("{}/comments?limit=2{cursor}", path(&ticket))).send().await.ok(200).clone();
            found.extend(page["data"].as_array().unwrap().iter().map(|comment| text(comment, "body").to_owned()));
            match page["page"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, ["0", "3", "6", "9"]);
    })
    .await;
}

#[tokio::test]
async fn comments_of_workflows_are_internal_unless_they_say_otherwise() {
    with_app(async |app| {
        let desk = Desk::new(app, "acme").await;
        let session = desk.key.get("/api/auth/session").send().await.ok(200).clone();
        let acme = crate::harness::Tenant::known(app, "acme", text(&session["tenant"], "id"));
        let ada = portal_contact(app, &acme, &desk.organization, "ada@north.example").await;
        let ticket = create(&ada, "Printer").await;
        let id = text(&ticket, "id");
        desk.workflow(
            "notes",
            json!([
                {"id": "note", "type": "ticket.comment", "with": {"id": id, "body": "Escalated"}},
                {"id": "answer", "type": "ticket.comment", "with": {"id": id, "body": "We are on it", "visibility": "public"}},
            ]),
        )
        .await;
        let run = desk.start("notes", json!({})).await;
        desk.status(&run, "succeeded").await;
        assert_eq!(bodies(&ada, &ticket).await, ["We are on it"]);
    })
    .await;
}

#[tokio::test]
async fn a_contact_answers_closes_and_reopens() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let ada = portal_contact(app, &acme, &north, "ada@north.example").await;
        let ticket = create(&ada, "Printer").await;
        let staff = acme.admin().await;
        let internal = format!("{TICKETS}/{}", text(&ticket, "id"));
        let status = async || ada.get(&path(&ticket)).send().await.ok(200)["status"].as_str().unwrap().to_owned();
        let answer = async |body: &str| {
            let call = ada.post(&format!("{}/comments", path(&ticket))).header("idempotency-key", &body.replace(' ', "-"));
            call.json(json!({"body": body})).send().await
        };
        let first = answer("Hello").await;
        assert_eq!(first.ok(201)["author"], json!({"kind": "you", "name": "ada"}));
        assert_eq!(answer("Hello").await.ok(201), first.ok(201), "repeated with its key");
        assert_eq!(bodies(&ada, &ticket).await, ["Hello"]);
        staff.patch(&internal).json(json!({"status": "waiting_customer"})).send().await.ok(200);
        answer("It still jams").await.ok(201);
        assert_eq!(status().await, "open", "an answer ends the wait");
        let full = staff.get(&internal).send().await.ok(200).clone();
        assert!(full["first_responded_at"].is_null(), "a contact is not a first response: {full}");
        let act = async |name: &str| ada.post(&format!("{}/{name}", path(&ticket))).send().await;
        assert_eq!(act("reopen").await.problem(409), "invalid_transition");
        assert_eq!(act("close").await.ok(200)["status"], "resolved");
        assert_eq!(act("reopen").await.ok(200)["status"], "open");
        act("close").await.ok(200);
        answer("Not yet").await.ok(201);
        assert_eq!(status().await, "open", "an answer reopens it");
        act("close").await.ok(200);
        let before = ada.get(&path(&ticket)).send().await;
        staff.post(&format!("{internal}/comments")).json(json!({"body": "note"})).send().await.ok(201);
        let stale = ada.post(&format!("{}/close", path(&ticket))).header("if-match", "\"v1\"").send().await;
        assert_eq!(stale.problem(412), "version_conflict");
        let closed = ada.post(&format!("{}/close", path(&ticket))).header("if-match", before.header("etag")).send().await;
        assert_eq!(closed.ok(200)["status"], "closed", "an internal note does not change the version");
        for name in ["close", "reopen"] {
            assert_eq!(act(name).await.problem(409), "invalid_transition", "{name}");
        }
        assert_eq!(answer("Too late").await.problem(409), "invalid_transition");
    })
    .await;
}

#[tokio::test]
async fn a_ticket_is_lost_with_its_contact_its_organization_and_a_move() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (north, south) = (acme.organization("North").await, acme.organization("South").await);
        let (ada, ada_id) = contact_with_id(app, &acme, &north, "ada@north.example").await;
        let (bo, bo_id) = contact_with_id(app, &acme, &north, "bo@north.example").await;
        let staff = acme.key(&["tickets:write", "tickets:read", "directory:write", "directory:read"]).await;
        let ticket = create(&ada, "Printer").await;
        let internal = format!("{TICKETS}/{}", text(&ticket, "id"));
        staff.patch(&internal).json(json!({"contact_id": bo_id})).send().await.ok(200);
        is_hidden(&ada, &ticket).await;
        assert_eq!(subjects(&bo, "").await, ["Printer"]);
        staff.patch(&internal).json(json!({"contact_id": ada_id})).send().await.ok(200);
        assert_eq!(subjects(&ada, "").await, ["Printer"]);
        let contact = format!("/api/directory/contacts/{ada_id}");
        staff.patch(&contact).json(json!({"organization_id": south})).send().await.ok(200);
        assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired", "a move ends the access");
        set_password(app, staff.put(&access(&ada_id)).send().await.ok(200)).await;
        let ada = app.sign_in("ada@north.example").await;
        is_hidden(&ada, &ticket).await;
        assert!(subjects(&ada, "").await.is_empty(), "the tickets of the former organization");
        let moved = create(&ada, "In the south").await;
        let full = staff.get(&format!("{TICKETS}/{}", text(&moved, "id"))).send().await.ok(200).clone();
        assert_eq!(full["organization"]["id"], json!(south));
    })
    .await;
}

#[tokio::test]
async fn only_contacts_use_the_portal_and_contacts_use_nothing_else() {
    let setup = Setup::default().with("rate_limits.enabled", false);
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let north = acme.organization("North").await;
        let ada = portal_contact(app, &acme, &north, "ada@north.example").await;
        let ticket = create(&ada, "Printer").await;
        for other in [acme.admin().await, acme.key(&["*"]).await, app.operator().await, app.local()] {
            for path in [PORTAL.to_owned(), path(&ticket)] {
                assert_eq!(other.get(&path).send().await.problem(403), "contact_required", "{path}");
            }
            let created = other.post(PORTAL).json(json!({"subject": "x"})).send().await;
            assert_eq!(created.problem(403), "contact_required");
        }
        let (mut refused, mut open) = (0, Vec::new());
        for place in ["/api/openapi.json", "/internal/openapi.json"] {
            let document = app.anonymous().get(place).send().await.ok(200).clone();
            for (path, methods) in document["paths"].as_object().unwrap() {
                for (method, operation) in methods.as_object().unwrap() {
                    let Some(need) = operation["x-need"].as_str() else { continue };
                    let id = text(operation, "operationId").to_owned();
                    if matches!(need, "contact" | "own_account") {
                        open.push(id);
                        continue;
                    }
                    refused += 1;
                    let reply = attempt(&ada, method, &crate::authorization::fill(path), operation).await;
                    assert_eq!(reply.problem(403), "portal_only", "{id}");
                }
            }
        }
        assert!(refused > 100, "{refused}");
        open.sort();
        open.retain(|id| !id.contains("portal") && !id.contains("factor") && !id.contains("passkey"));
        assert_eq!(
            open,
            [
                "begin_totp",
                "change_own_password",
                "confirm_sign_in",
                "create_recovery_codes",
                "end_other_sessions",
                "end_own_session",
                "list_own_sessions",
                "logout",
                "logout_sso",
                "read_session",
            ]
        );
        let info = ada.get("/api/auth/session").send().await.ok(200).clone();
        assert_eq!((&info["kind"], &info["scopes"], info.get("role")), (&json!("contact"), &json!([]), None));
    })
    .await;
}

async fn attempt(actor: &Actor, method: &str, path: &str, operation: &Value) -> Reply {
    let call = actor.call(&method.to_uppercase(), path);
    if operation.get("requestBody").is_some() { call.json(json!({})).send().await } else { call.send().await }
}

#[tokio::test]
async fn tickets_of_a_suspended_tenant_are_closed_to_contacts_and_survive_a_restart() {
    let setup = || Setup::default().with("rate_limits.enabled", false);
    let start = tenantd_base::clock::Timestamp::from_millis(1_767_225_600_000);
    let app = TestApp::start(tempfile::tempdir().unwrap(), &setup(), start).await;
    let acme = app.tenant("acme").await;
    let north = acme.organization("North").await;
    let ada = portal_contact(&app, &acme, &north, "ada@north.example").await;
    create(&ada, "Printer").await;
    app.local().post(&format!("/api/platform/tenants/{}/suspend", acme.id)).send().await.ok(200);
    assert_eq!(ada.get(PORTAL).send().await.problem(403), "tenant_suspended");
    app.local().post(&format!("/api/platform/tenants/{}/resume", acme.id)).send().await.ok(200);
    assert_eq!(subjects(&ada, "").await, ["Printer"]);
    let (directory, now) = app.stop().await;
    let app = TestApp::start(directory, &setup(), now).await;
    let ada = app.sign_in("ada@north.example").await;
    assert_eq!(subjects(&ada, "").await, ["Printer"]);
    app.stop().await;
}
