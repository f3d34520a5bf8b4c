//! One response reports every error of a request: those of the schema and those that only the service can find.

use serde_json::{Value, json};

use crate::harness::{Actor, with_app};

const NOBODY: &str = "org_01k9z7w3v5e8g9m2n4p6r8t0x1";
const STRANGER: &str = "usr_01k9z7w3v5e8g9m2n4p6r8t0x1";

async fn expect(actor: &Actor, (method, path): (&str, &str), body: Value, expected: &[(&str, &str)]) {
    let reply = actor.call(method, path).json(body).send().await;
    let mut found = reply.field_errors();
    found.sort();
    let found: Vec<(&str, &str)> = found.iter().map(|(place, code)| (place.as_str(), code.as_str())).collect();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected, "{method} {path}: {}", reply.body);
}

#[tokio::test]
async fn creation_reports_schema_and_service_errors_together() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let device = json!({"organization_id": NOBODY, "class": "toaster", "owner_id": STRANGER});
        let errors = [("/name", "required"), ("/class", "not_allowed"), ("/organization_id", "unknown"), ("/owner_id", "unknown")];
        expect(&key, ("POST", "/api/directory/devices"), device.clone(), &errors).await;
        let errors = errors.map(|(place, code)| (format!("/devices/0{place}"), code));
        let errors: Vec<(&str, &str)> = errors.iter().map(|(place, code)| (place.as_str(), *code)).collect();
        expect(&key, ("POST", "/api/directory/devices"), json!({"devices": [device]}), &errors).await;
        let contact = json!({"organization_id": NOBODY, "phone": 5});
        let errors = [("/name", "required"), ("/phone", "unknown_field"), ("/organization_id", "unknown")];
        expect(&key, ("POST", "/api/directory/contacts"), contact, &errors).await;
        let webhook =
            json!({"url": "ftp://example.com", "events": ["ticket.creatd"], "name": 5, "filter": {"organization_ids": [NOBODY]}});
        let errors = [
            ("/name", "wrong_type"),
            ("/url", "wrong_form"),
            ("/events/0", "unknown_event"),
            ("/filter/organization_ids/0", "unknown_reference"),
        ];
        expect(&key, ("POST", "/api/admin/webhooks"), webhook, &errors).await;
        let secret = json!({"name": "no name", "hosts": ["not a host"]});
        let errors = [("/name", "wrong_form"), ("/hosts/0", "wrong_form"), ("/value", "required")];
        expect(&key, ("POST", "/api/admin/secrets"), secret, &errors).await;
    })
    .await;
}

#[tokio::test]
async fn updates_report_schema_and_service_errors_together() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let organization = acme.organization("Acme").await;
        let ticket = key.post("/api/psa/tickets").json(json!({"subject": "A", "organization_id": organization})).send().await;
        assert_eq!(ticket.ok(201)["version"], 1);
        let patch = json!({"priority": "urgent", "contact_id": STRANGER, "parent": "T-77"});
        let errors = [("/priority", "not_allowed"), ("/contact_id", "unknown_reference"), ("/parent", "unknown_reference")];
        expect(&key, ("PATCH", "/api/psa/tickets/T-1"), patch.clone(), &errors).await;
        let many = json!({"ids": ["T-1"], "patch": {"priority": "urgent", "status": "resolved"}});
        expect(
            &key,
            ("PATCH", "/api/psa/tickets"),
            many,
            &[("/patch/priority", "not_allowed"), ("/patch/resolution/summary", "required")],
        )
        .await;
        expect(&key, ("PATCH", "/api/psa/tickets/T-9"), patch, &[("/priority", "not_allowed")]).await;
        let ticket = key.get("/api/psa/tickets/T-1").send().await;
        assert_eq!((&ticket.ok(200)["version"], &ticket.body["priority"]), (&json!(1), &json!("medium")));
    })
    .await;
}

#[tokio::test]
async fn no_error_depends_on_an_invalid_field() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let organization = acme.organization("Acme").await;
        let user = json!({"name": "Ada", "kind": "robot", "organization_id": organization});
        expect(&key, ("POST", "/api/admin/users"), user, &[("/kind", "not_allowed")]).await;
        let ticket = json!({"subject": "A", "contact_email": 5});
        expect(&key, ("POST", "/api/psa/tickets"), ticket, &[("/contact_email", "wrong_type")]).await;
        key.post("/api/psa/tickets").json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        let patch = json!({"status": "done", "resolution": {"summary": "Fixed"}, "merged_into": "T-1"});
        expect(&key, ("PATCH", "/api/psa/tickets/T-1"), patch, &[("/status", "not_allowed")]).await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_request_stores_nothing() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let events = async || key.get("/api/events?order=desc&limit=1").send().await.ok(200)["data"][0]["id"].clone();
        let organization = acme.organization("Acme").await;
        let before = events().await;
        for (path, body) in [
            ("/api/psa/tickets", json!({"subject": "A", "organization_id": organization, "priority": "urgent"})),
            ("/api/directory/organizations", json!({"name": "Bolt", "tags": 5})),
            (
                "/api/directory/devices",
                json!({"devices": [{"name": "A", "organization_id": organization}, {"organization_id": organization}]}),
            ),
            (
                "/api/admin/users",
                json!({"name": "Ada", "email": "ada@example.com", "kind": "staff", "role": "viewer", "nickname": "A"}),
            ),
            ("/api/admin/api-keys", json!({"name": "A", "scopes": ["tickets:read"], "expires_days": "soon"})),
            ("/api/admin/webhooks", json!({"name": "A", "url": "https://example.com/", "events": ["ticket.*"], "secret": "mine"})),
        ] {
            let refused = key.post(path).header("idempotency-key", "again").json(body).send().await;
            assert_eq!((refused.problem(422), refused.field_errors().len()), ("validation_failed", 1), "{path}: {}", refused.body);
        }
        assert_eq!(events().await, before);
        let good = json!({"name": "Bolt"});
        let made = key.post("/api/directory/organizations").header("idempotency-key", "again").json(good).send().await;
        assert_eq!(made.ok(201)["name"], "Bolt", "the key was not used up");
    })
    .await;
}
