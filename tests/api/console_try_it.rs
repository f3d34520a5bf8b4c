//! The form of an operation's page: it calls the operation with the rights of its reader, only from a page of this site, and has no other power.

use serde_json::{Value, json};

use crate::{
    console::{and, browser, hidden, send, tokens},
    console_office::{Office, with_office},
    harness::PASSWORD,
};

fn page_of(document: &Value, id: &str) -> String {
    let operations = document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
    let operation = operations.into_iter().find(|operation| operation["operationId"] == id).unwrap_or_else(|| panic!("no {id}"));
    let area: String = operation["tags"][0].as_str().unwrap().chars().fold(String::new(), |mut slug, letter| {
        if letter.is_uppercase() && !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(letter.to_lowercase());
        slug
    });
    format!("/documentation/api/{area}/{id}/")
}

#[tokio::test]
async fn every_operation_has_a_form_for_people_who_are_signed_in() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
        for methods in document["paths"].as_object().unwrap().values() {
            for (method, operation) in methods.as_object().unwrap() {
                let path = page_of(&document, operation["operationId"].as_str().unwrap());
                let stranger = browser(&app.anonymous()).get(&path).send().await;
                if operation["x-sets-cookie"] == true {
                    let page = browser(&office.admin).get(&path).send().await;
                    for shown in [&stranger, &page] {
                        assert!(shown.status == 200 && shown.text.contains("cannot be tried here"), "{path}");
                        assert!(!shown.text.contains(&format!("action=\"{path}")), "{path}");
                    }
                    continue;
                }
                assert_eq!((stranger.status, stranger.header("cache-control")), (200, "no-cache"), "{path}");
                assert!(!stranger.text.contains("method=\"post\"") && stranger.text.contains("/sign-in?return_to="), "{path}");
                let page = browser(&office.admin).get(&path).send().await;
                assert_eq!((page.status, page.header("cache-control")), (200, "no-store"), "{path}");
                assert!(page.text.contains(&format!("<form class=\"stack\" method=\"post\" action=\"{path}#answer\">")), "{path}");
                assert_eq!(page.text.contains("This acts for real."), method != "get", "{path}");
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    let field = format!("name=\"{}.{}\"", parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap());
                    assert!(page.text.contains(&field), "{path} has no {field}");
                }
                assert_eq!(
                    page.text.contains("<textarea id=\"body\""),
                    operation.pointer("/requestBody/content/application~1json").is_some(),
                    "{path}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_form_calls_its_operation_once_with_the_rights_of_its_reader() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
        let create = page_of(&document, "create_api_key");
        let page = browser(&office.admin).get(&create).send().await;
        let body = json!({"name": "Tried <b>once", "scopes": ["tickets:read"]}).to_string();
        let fields = and(&tokens(&page), &[("body", &body)]);
        let keys =
            async || office.admin.get("/api/admin/api-keys?include_total=true").send().await.ok(200)["page"]["total"].clone();
        let before = keys().await;
        for (actor, fields, status) in [
            (&app.anonymous(), fields.clone(), 401),
            (&office.admin, and(&[], &[("body", &body)]), 403),
            (&office.tenant.key(&["*"]).await, fields.clone(), 403),
            (&office.admin.clone().with("sec-fetch-site", "cross-site"), fields.clone(), 403),
        ] {
            assert_eq!(send(actor, &create, &fields).await.status, status);
        }
        let (first, again) = (send(&office.admin, &create, &fields).await, send(&office.admin, &create, &fields).await);
        for reply in [&first, &again] {
            assert_eq!((reply.status, reply.header("cache-control")), (200, "no-store"), "{}", reply.text);
            assert!(reply.text.contains("201 Created") && reply.text.contains("tck_"), "{}", reply.text);
            assert!(!reply.text.contains("Tried <b>once"));
        }
        assert!(again.text.contains("idempotency-replayed"), "{}", again.text);
        // The key that this test made, and the one that the form made.
        assert_eq!(keys().await, json!(before.as_u64().unwrap() + 2));
        assert_ne!(hidden(&first, "once"), hidden(&page, "once"), "the page that follows acts again");

        let viewer = office.tenant.user("viewer").await;
        let of_viewer = browser(&viewer).get(&create).send().await;
        assert!(of_viewer.text.contains("You lack the rights"), "{}", of_viewer.text);
        let refused = send(&viewer, &create, &and(&tokens(&of_viewer), &[("body", &body)])).await;
        assert!(refused.text.contains("403 Forbidden") && refused.text.contains("insufficient_scope"), "{}", refused.text);
        let other = Office::new(app, "beta").await;
        let read = page_of(&document, "read_ticket");
        let of_other = browser(&other.admin).get(&read).send().await;
        let foreign = and(&tokens(&of_other), &[("path.id", office.ticket["id"].as_str().unwrap())]);
        assert!(send(&other.admin, &read, &foreign).await.text.contains("404 Not Found"));
    })
    .await;
}

#[tokio::test]
async fn a_form_says_what_it_lacks_and_a_long_answer_is_cut() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
        let update = page_of(&document, "update_ticket_by_id");
        let page = browser(&office.admin).get(&update).send().await;
        let wrong = send(&office.admin, &update, &and(&tokens(&page), &[("path.id", ""), ("body", "{<b>")])).await;
        assert_eq!(wrong.status, 422);
        assert!(wrong.text.contains("This is not JSON") && wrong.text.contains("{&lt;b&gt;</textarea>"), "{}", wrong.text);
        let etag = and(&tokens(&page), &[("path.id", "T-1"), ("header.If-Match", "\"v99\""), ("body", "{\"priority\": \"low\"}")]);
        assert!(send(&office.admin, &update, &etag).await.text.contains("412 Precondition Failed"));
        let forged = and(&tokens(&page), &[("path.id", "T-1"), ("header.If-Match", "a\nb"), ("body", "{}")]);
        assert!(send(&office.admin, &update, &forged).await.text.contains("400 Bad Request"));
        for number in 0..90 {
            let ticket = json!({"subject": format!("Number {number}"), "organization_id": office.organization, "description": "x".repeat(2000)});
            office.admin.post("/api/psa/tickets").json(ticket).send().await.ok(201);
        }
        let list = page_of(&document, "list_tickets");
        let page = browser(&office.admin).get(&list).send().await;
        for (query, cut) in [("json", true), ("csv", true), ("ndjson", true)] {
            let fields = and(&tokens(&page), &[("query.format", query), ("query.limit", if query == "json" { "200" } else { "" })]);
            let answer = send(&office.admin, &list, &fields).await;
            assert!(answer.text.contains("200 OK"), "{query}: {}", answer.text);
            assert_eq!(answer.text.contains("Only its first 64 KiB are shown"), cut, "{query}");
            assert!(answer.text.len() < 400_000, "{query}");
        }
    })
    .await;
}

#[tokio::test]
async fn no_form_replaces_the_session_of_its_reader() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let document = app.anonymous().get("/api/openapi.json").send().await.ok(200).clone();
        let operations = document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
        let marked = operations.filter(|operation| operation["x-sets-cookie"] == true);
        let mut marked: Vec<&str> = marked.map(|operation| operation["operationId"].as_str().unwrap()).collect();
        marked.sort_unstable();
        let expected = [
            "begin_sso",
            "begin_sso_test",
            "change_own_password",
            "finish_provider_sso",
            "finish_sso",
            "login",
            "logout",
            "logout_sso",
            "redeem_sign_in_link",
            "send_second_factor",
            "sign_in_with_passkey",
        ];
        assert_eq!(marked, expected);
        // The tokens of another form of the same session do not help.
        let other = browser(&office.admin).get(&page_of(&document, "list_tickets")).send().await;
        let body = json!({"email": "admin@acme.example", "password": PASSWORD}).to_string();
        for id in expected {
            let sent = send(&office.admin, &page_of(&document, id), &and(&tokens(&other), &[("body", &body)])).await;
            assert_eq!((sent.status, sent.header("set-cookie")), (405, ""), "{id}");
        }
        office.admin.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}
