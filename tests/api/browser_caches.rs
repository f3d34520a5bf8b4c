//! What browsers may keep. An answer that a session has read is not kept, whatever the answer is; clients with a key may keep answers
//! and compare their versions.

use tenantd_console::Desk;

use crate::{
    authorization::fill,
    console::browser,
    console_office::{Office, with_office},
    harness::{Actor, Reply},
};

fn kept(reply: &Reply) -> String {
    reply.header("cache-control").to_owned()
}

#[tokio::test]
async fn a_browser_keeps_no_answer_of_a_session() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let (operator, viewer) = (app.operator().await, office.tenant.user("viewer").await);
        let (mut asked, mut answered) = (0, 0);
        for document in ["/api/openapi.json", "/internal/openapi.json"] {
            let document = app.anonymous().get(document).send().await.ok(200).clone();
            for (path, methods) in document["paths"].as_object().unwrap() {
                if methods.pointer("/get/x-need").is_none() {
                    continue;
                }
                let path = fill(path);
                for person in [&office.admin, &operator, &viewer] {
                    let reply = person.get(&path).send().await;
                    assert_eq!(kept(&reply), "no-store", "{path}: {}", reply.status);
                    asked += 1;
                    answered += usize::from(reply.status == 200);
                }
            }
        }
        assert!(asked > 100 && answered > 30, "{answered} of {asked}");
    })
    .await;
}

#[tokio::test]
async fn a_browser_keeps_no_page_and_no_export_of_a_session() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let operator = app.operator().await;
        for route in Desk::routes().filter(|route| route.is_shown()) {
            let actor = if route.path.starts_with("/operator") { &operator } else { &office.admin };
            let path = office.path(route);
            assert_eq!(kept(&browser(actor).get(&path).send().await), "no-store", "{path}");
        }
        for path in ["/documentation/analytics/", "/second-factor", "/profile/password"] {
            assert_eq!(kept(&browser(&office.admin).get(path).send().await), "no-store", "{path}");
        }
        for path in [
            "/api/psa/tickets?format=csv",
            "/api/psa/tickets?format=ndjson",
            "/api/rmm/reports/asset-inventory?format=csv",
            "/api/admin/audit?format=ndjson",
        ] {
            let export = office.admin.get(path).send().await;
            assert_eq!((export.status, kept(&export).as_str()), (200, "no-store"), "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn clients_with_a_key_compare_versions_and_public_files_are_kept() {
    with_office(async |app| {
        let office = Office::new(app, "acme").await;
        let key = office.tenant.key(&["*"]).await;
        let path = format!("/api/psa/tickets/{}", office.ticket["id"].as_str().unwrap());
        let read = async |actor: &Actor| {
            let found = actor.get(&path).send().await;
            let again = actor.get(&path).header("if-none-match", found.header("etag")).send().await;
            (found.status, kept(&found), again.status, kept(&again))
        };
        assert_eq!(read(&key).await, (200, "no-cache".to_owned(), 304, "no-cache".to_owned()));
        assert_eq!(read(&office.admin).await, (200, "no-store".to_owned(), 304, "no-store".to_owned()));
        for path in ["/assets/console.css", "/api/openapi.json"] {
            assert!(kept(&office.admin.get(path).send().await).starts_with("public, max-age="), "{path}");
        }
    })
    .await;
}
