//! One response reports every error of a request: those of the schema and those that only the service can find.

use serde_json::{Value, json};

use crate::harness::{Actor, with_app};

const NOBODY: &str = "org_01k9z7w3v5e8g9m2n4p6r8t0x1";
const STRANGER: &str = "usr_01k9z7w3v5e8g9m2n4p6r8t0x1";
const NO_PROVIDER: &str = "prv_01k9z7w3v5e8g9m2n4p6r8t0x1";

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

#[tokio::test]
async fn creating_a_cloud_provider_reports_all_errors() {
    const PROVIDERS: &str = "/api/cloud/providers";
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["*"]).await;
        let foreign = app.tenant("other").await.organization("Other").await;
        for organization in [NOBODY, &foreign] {
            let strange = json!({
                "name": " ", "kind": "awss", "organization_id": organization, "config": {"endpoint": "ftp://x"},
                "credential": {"api_token": "t"},
            });
            let errors = [
                ("/name", "wrong_form"),
                ("/kind", "not_allowed"),
                ("/organization_id", "not_found"),
                ("/config/endpoint", "wrong_form"),
            ];
            expect(&key, ("POST", PROVIDERS), strange, &errors).await;
            let blocked = json!({
                "name": "Cloud", "kind": "aws", "organization_id": organization, "config": {"endpoint": "http://127.0.0.1:9/"},
                "credential": {"access_key_id": "AKIA"},
            });
            let errors = [
                ("/organization_id", "not_found"),
                ("/config/endpoint", "target_not_allowed"),
                ("/credential/secret_access_key", "required"),
            ];
            expect(&key, ("POST", PROVIDERS), blocked, &errors).await;
        }
        let verified = json!({"action": "verify", "kind": "simulated", "color": "red"});
        expect(&key, ("POST", PROVIDERS), verified, &[("/color", "unknown_field")]).await;
        assert_eq!(key.get(PROVIDERS).send().await.ok(200)["data"], json!([]));
    })
    .await;
}

#[tokio::test]
async fn ordering_vms_reports_all_errors() {
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["*"]).await;
        let other = app.tenant("other").await;
        let cloud = json!({"name": "Cloud", "kind": "simulated"});
        let foreign = other.key(&["*"]).await.post("/api/cloud/providers").json(cloud).send().await.ok(201)["id"].clone();
        let organization = other.organization("Other").await;
        for (provider, organization) in [(json!(NO_PROVIDER), NOBODY), (foreign, organization.as_str())] {
            let order = |name: &str| {
                json!({
                    "provider_id": provider, "organization_id": organization, "name": name, "region": "eu/west", "size": "small",
                    "image": "debian",
                })
            };
            let errors = [
                ("/provider_id", "not_found"),
                ("/organization_id", "not_found"),
                ("/region", "wrong_form"),
                ("/name", "wrong_form"),
            ];
            for path in ["/api/cloud/vms", "/api/cloud/vms?dry_run=true"] {
                expect(&key, ("POST", path), order("not a name"), &errors).await;
                expect(&key, ("POST", path), order("web"), &errors[..3]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn creating_an_identity_provider_reports_all_errors() {
    const PROVIDERS: &str = "/api/admin/identity-providers";
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["*"]).await;
        let provider = json!({
            "name": " ", "issuer": "http://id.acme.example", "client_id": "tenantd", "domains": ["ada@acme.example"],
            "scopes": ["email"], "default_role": "operator",
        });
        let errors = [
            ("/name", "wrong_form"),
            ("/client_secret", "required"),
            ("/issuer", "wrong_form"),
            ("/domains/0", "wrong_form"),
            ("/scopes", "required"),
            ("/default_role", "not_allowed"),
        ];
        expect(&key, ("POST", PROVIDERS), provider, &errors).await;
        let blocked = json!({
            "name": "Acme", "issuer": "http://127.0.0.1:9", "client_id": "tenantd", "client_secret": "secret",
            "domains": ["127.0.0.1"], "default_role": "operator",
        });
        let errors = [("/issuer", "target_not_allowed"), ("/domains/0", "wrong_form"), ("/default_role", "not_allowed")];
        expect(&key, ("POST", PROVIDERS), blocked, &errors).await;
    })
    .await;
}

#[tokio::test]
async fn creating_a_contact_reports_all_errors() {
    const CONTACTS: &str = "/api/directory/contacts";
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let foreign = app.tenant("other").await.organization("Other").await;
        let known = acme.contact(&acme.organization("Acme").await, "ada@example.com").await;
        let errors = [("/email", "wrong_form"), ("/organization_id", "unknown"), ("/name", "required")];
        for organization in [NOBODY, &foreign] {
            let nameless = json!({"email": "ada.example.com", "organization_id": organization});
            expect(&key, ("POST", CONTACTS), nameless.clone(), &errors).await;
            expect(&key, ("PATCH", &format!("{CONTACTS}/{known}")), nameless, &errors[..2]).await;
            let contact = json!({"name": "Ada", "email": "ada.example.com", "organization_id": organization});
            expect(&key, ("POST", CONTACTS), contact.clone(), &errors[..2]).await;
            let several = [("/contacts/0/email", "wrong_form"), ("/contacts/0/organization_id", "unknown")];
            expect(&key, ("POST", CONTACTS), json!({"contacts": [contact]}), &several).await;
        }
    })
    .await;
}

#[tokio::test]
async fn changing_tickets_reports_unknown_ids_with_all_errors() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let organization = acme.organization("Acme").await;
        key.post("/api/psa/tickets").json(json!({"subject": "A", "organization_id": organization})).send().await.ok(201);
        for (patch, error) in [
            (json!({"priority": "urgent"}), ("/patch/priority", "not_allowed")),
            (json!({"contact_id": STRANGER}), ("/patch/contact_id", "unknown_reference")),
        ] {
            for path in ["/api/psa/tickets", "/api/psa/tickets?dry_run=true"] {
                let change = json!({"ids": ["T-1", "T-9"], "patch": patch});
                expect(&key, ("PATCH", path), change, &[error, ("/ids/1", "not_found")]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_webhook_url_is_reported_with_all_errors() {
    const WEBHOOKS: &str = "/api/admin/webhooks";
    with_app(async |app| {
        let key = app.tenant("acme").await.key(&["*"]).await;
        let good = json!({"name": "A", "url": "https://192.0.43.8/", "events": ["ticket.*"]});
        let stored = key.post(WEBHOOKS).json(good).send().await.ok(201)["id"].as_str().unwrap().to_owned();
        let errors = [("/url", "target_not_allowed"), ("/events/0", "unknown_event"), ("/name", "wrong_form")];
        for url in ["http://127.0.0.1/hook", "http://10.0.0.1/hook"] {
            for (name, errors) in [("A", &errors[..2]), (" ", &errors[..])] {
                let webhook = json!({"name": name, "url": url, "events": ["ticket.creatd"]});
                expect(&key, ("POST", WEBHOOKS), webhook.clone(), errors).await;
                expect(&key, ("PUT", &format!("{WEBHOOKS}/{stored}")), webhook, errors).await;
            }
        }
    })
    .await;
}
