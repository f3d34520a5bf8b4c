//! What SCIM refuses: other credentials, other tenants, large requests, and changes that would leave a tenant without an administrator.

use serde_json::{Value, json};

use crate::{
    harness::{PASSWORD, Setup, with_app, with_setup},
    scim_groups::{RULES, rules},
    scim_users::{SCOPE, USERS, created, id, patched, provider, refusal, send},
};

const GROUPS: &str = "/scim/v2/Groups";
const KEYS: &str = "/api/admin/api-keys";

#[tokio::test]
async fn only_a_key_with_the_scope_provisions() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let without = tenant.key(&["users:write", "users:read"]).await;
        let operator = app.operator().await;
        for path in [USERS, GROUPS, "/scim/v2/ServiceProviderConfig", "/scim/v2/Schemas", "/scim/v2/ResourceTypes"] {
            let anonymous = app.anonymous().get(path).send().await;
            refusal(&anonymous, 401);
            assert!(anonymous.header("www-authenticate").starts_with("Bearer"), "{path}");
            refusal(&without.get(path).send().await, 403);
            refusal(&admin.get(path).send().await, 403);
            refusal(&operator.get(path).send().await, 403);
            assert_eq!(provider.get(path).send().await.status, 200, "{path}");
        }
        let person = json!({"userName": "ada@acme.example"});
        refusal(&send(without.post(USERS), &person).await, 403);
        refusal(&send(app.anonymous().post(USERS), &person).await, 401);
    })
    .await;
}

#[tokio::test]
async fn a_key_that_provisions_counts_as_an_administrator() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        let organization = tenant.organization("Customer").await;
        let limited = json!({"name": "Limited", "scopes": [SCOPE], "organization_ids": [organization]});
        admin.post(KEYS).json(limited).send().await.problem(422);
        let wanted = json!({"name": "Identity provider", "scopes": [SCOPE]});
        let weak = tenant.key(&["api_keys:write", SCOPE]).await;
        assert_eq!(weak.post(KEYS).json(wanted.clone()).send().await.problem(403), "insufficient_scope");
        weak.put(RULES).json(rules(&[])).send().await.problem(403);
        let weak_writer = tenant.key(&["users:write", "users:read", SCOPE]).await;
        assert_eq!(weak_writer.put(RULES).json(rules(&[])).send().await.problem(403), "insufficient_scope");
        let key = admin.post(KEYS).json(wanted).send().await.ok(201).clone();
        let own = admin.post("/api/auth/own-keys").json(json!({"name": "Own", "scopes": [SCOPE]})).send().await;
        own.problem(422);
        // A secret that a rotation has replaced does not provision.
        let old = app.anonymous().bearer(key["key"].as_str().unwrap());
        assert_eq!(old.get(USERS).send().await.status, 200);
        let rotate = format!("{KEYS}/{}/rotate", id(&key));
        admin.post(&rotate).json(json!({"overlap_seconds": 3600})).send().await.ok(200);
        refusal(&old.get(USERS).send().await, 403);
    })
    .await;
}

#[tokio::test]
async fn other_tenants_and_contacts_do_not_exist() {
    with_app(async |app| {
        let (acme, beta) = (app.tenant("acme").await, app.tenant("beta").await);
        let (provider, other) = (provider(&acme).await, provider(&beta).await);
        let person = created(&provider, USERS, &json!({"userName": "ada@acme.example"})).await;
        let group = created(&provider, GROUPS, &json!({"displayName": "Desk"})).await;
        let organization = beta.organization("Customer").await;
        let contact = beta.contact(&organization, "contact@customer.example").await;
        let rename = json!([{"op": "replace", "path": "displayName", "value": "X"}]);
        for path in [
            format!("{USERS}/{}", id(&person)),
            format!("{GROUPS}/{}", id(&group)),
            format!("{USERS}/{contact}"),
            format!("{USERS}/x"),
        ] {
            refusal(&other.get(&path).send().await, 404);
            refusal(&patched(&other, &path, rename.clone()).await, 404);
            refusal(&other.delete(&path).send().await, 404);
        }
        for member in [person["id"].clone(), json!(contact)] {
            let wrong = send(other.post(GROUPS), &json!({"displayName": "Wrong", "members": [{"value": member}]})).await;
            assert_eq!(refusal(&wrong, 400), "invalidValue");
        }
        let taken = send(other.post(USERS), &json!({"userName": "contact@customer.example"})).await;
        assert_eq!(refusal(&taken, 409), "uniqueness");
        assert!(taken.text.contains(&format!("The contact {contact} has this e-mail address")), "{}", taken.text);
        let body = json!({"userName": "carl", "emails": [{"value": "Contact@customer.example"}]});
        let by_address = send(other.post(USERS), &body).await;
        assert_eq!((refusal(&by_address, 409), &by_address.body["detail"]), ("uniqueness", &taken.body["detail"]));
        let free = beta.key(&["directory:write"]).await;
        free.patch(&format!("/api/directory/contacts/{contact}")).json(json!({"email": null})).send().await.ok(200);
        let person = created(&other, USERS, &json!({"userName": "contact@customer.example"})).await;
        assert_eq!(other.delete(&format!("{USERS}/{}", id(&person))).send().await.status, 204);
        assert_eq!(other.get(USERS).send().await.ok(200)["totalResults"], 0);
        let admin = beta.admin().await;
        let foreign = admin.put(RULES).json(rules(&[(&group, "viewer")])).send().await;
        assert_eq!(foreign.field_errors().first().map(|(place, _)| place.as_str()), Some("/rules/0/group_id"), "{}", foreign.text);
    })
    .await;
}

#[tokio::test]
async fn the_last_administrator_stays() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let me = admin.get("/api/auth/session").send().await.ok(200).clone();
        let path = format!("{USERS}/{}", id(&me));
        refusal(&patched(&provider, &path, json!([{"op": "replace", "path": "active", "value": false}])).await, 409);
        patched(&provider, &path, json!([{"op": "replace", "path": "externalId", "value": "e-1"}])).await.ok(200);
        refusal(&provider.delete(&path).send().await, 409);
        let group = created(&provider, GROUPS, &json!({"displayName": "Viewers"})).await;
        admin.put(RULES).json(rules(&[(&group, "viewer")])).send().await.ok(200);
        let join = json!([{"op": "add", "path": "members", "value": [{"value": me["id"]}]}]);
        refusal(&patched(&provider, &format!("{GROUPS}/{}", id(&group)), join).await, 409);
        assert_eq!(provider.get(&format!("{GROUPS}/{}", id(&group))).send().await.ok(200)["members"], json!([]), "nothing changed");
        assert_eq!(admin.get("/api/auth/session").send().await.ok(200)["role"], "admin");
        // With rules for everybody, they keep their role.
        let all = created(&provider, GROUPS, &json!({"displayName": "All", "members": [{"value": me["id"]}]})).await;
        admin.put(RULES).json(rules(&[(&all, "viewer")])).send().await.ok(200);
        assert_eq!(admin.get("/api/auth/session").send().await.ok(200)["role"], "admin");
    })
    .await;
}

#[tokio::test]
async fn bodies_of_a_wrong_form_are_refused() {
    with_setup(Setup::default().with("limits.body_bytes", 65_536), async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        let large = json!({"userName": "ada@acme.example", "displayName": "x".repeat(70_000)});
        refusal(&send(provider.post(USERS), &large).await, 413);
        let broken = provider.post(USERS).text("application/scim+json", "{\"userName\": ").send().await;
        assert_eq!(refusal(&broken, 400), "invalidSyntax");
        let text = provider.post(USERS).text("text/plain", "{}").send().await;
        refusal(&text, 415);
        for (body, reason) in [
            (json!({}), "invalidValue"),
            (json!({"userName": "ada@acme.example", "shoeSize": 4}), "invalidSyntax"),
            (json!({"userName": "ada@acme.example", "active": "perhaps"}), "invalidValue"),
            (json!([]), "invalidSyntax"),
            (json!({"userName": "\u{200b}\u{2060}"}), "invalidValue"),
            (json!({"userName": "ada@acme.example", "displayName": "\u{3164}"}), "invalidValue"),
            (json!({"userName": "ada@acme.example", "name": {"givenName": "\u{feff}\u{202e}"}}), "invalidValue"),
        ] {
            assert_eq!(refusal(&send(provider.post(USERS), &body).await, 400), reason, "{body}");
        }
        let invisible = send(provider.post(GROUPS), &json!({"displayName": "\u{200b}\u{200f}"})).await;
        assert_eq!(refusal(&invisible, 400), "invalidValue");
        let person = created(&provider, USERS, &json!({"userName": "ada@acme.example"})).await;
        let path = format!("{USERS}/{}", id(&person));
        for (operations, reason) in [
            (json!([]), "invalidSyntax"),
            (json!([{"op": "replace", "path": "displayName", "value": "\u{200d}"}]), "invalidValue"),
            (json!([{"op": "replace", "path": "id", "value": "x"}]), "mutability"),
            (json!([{"op": "replace", "path": "shoeSize", "value": 4}]), "invalidPath"),
            (json!([{"op": "remove"}]), "noTarget"),
        ] {
            assert_eq!(refusal(&patched(&provider, &path, operations.clone()).await, 400), reason, "{operations}");
        }
        // One request cannot hold the writer for long.
        let address = |place: usize| json!({"value": format!("ada{place}@acme.example")});
        let one_by_one: Value = (0..20).map(|place| json!({"op": "add", "path": "emails", "value": [address(place)]})).collect();
        let at_once: Value = (0..500).map(address).collect();
        let renames = json!({"op": "replace", "path": "displayName", "value": "Ada"});
        for (operations, reason) in [
            (one_by_one, "invalidValue"),
            (json!([{"op": "add", "path": "emails", "value": at_once}, {"op": "remove", "path": "emails"}]), "invalidValue"),
            (Value::from(vec![renames; 51]), "tooMany"),
        ] {
            assert_eq!(refusal(&patched(&provider, &path, operations.clone()).await, 400), reason, "{operations}");
        }
        let plain = provider.post(USERS).json(json!({"userName": "bea@acme.example"})).send().await;
        assert_eq!(plain.status, 201, "application/json is accepted too: {}", plain.text);
    })
    .await;
}

#[tokio::test]
async fn a_suspended_tenant_is_not_provisioned() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        let person: Value = created(&provider, USERS, &json!({"userName": "ada@acme.example"})).await;
        app.local().post(&format!("/api/platform/tenants/{}/suspend", tenant.id)).send().await.ok(200);
        let refused = provider.get(USERS).send().await;
        refusal(&refused, 403);
        assert_eq!(refused.body["detail"], "Tenant suspended (tenant_suspended): Ask the operator of the installation.");
        refusal(&provider.delete(&format!("{USERS}/{}", id(&person))).send().await, 403);
        app.local().post(&format!("/api/platform/tenants/{}/resume", tenant.id)).send().await.ok(200);
        assert_eq!(provider.get(USERS).send().await.ok(200)["totalResults"], 1);
        // A key is paused with its owner.
        let second = json!({"email": "second@acme.example", "name": "Second", "role": "admin", "password": PASSWORD});
        let second = app.local().post(&format!("/internal/admin/tenants/{}/users", tenant.id)).json(second).send().await;
        let owner = app.sign_in("second@acme.example").await;
        let key = owner.post(KEYS).json(json!({"name": "Owned", "scopes": [SCOPE]})).send().await.ok(201).clone();
        let admin = tenant.admin().await;
        admin.put(&format!("/api/admin/users/{}", id(second.ok(201)))).json(json!({"status": "disabled"})).send().await.ok(200);
        let refused = app.anonymous().bearer(key["key"].as_str().unwrap()).get(USERS).send().await;
        refusal(&refused, 401);
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.starts_with("API key disabled (key_disabled): "), "{detail}");
    })
    .await;
}
