//! Provisioning of people by SCIM: accounts are created, found, changed, disabled and removed as identity providers ask for it.

use serde_json::{Value, json};

use crate::{
    harness::{Actor, Call, Reply, Tenant, forge::Forged, with_app},
    transfer::{export, import, import_as},
};

pub(crate) const USERS: &str = "/scim/v2/Users";
pub(crate) const SCOPE: &str = "provisioning:write";
const MEDIA_TYPE: &str = "application/scim+json";

/// A key that provisions.
pub(crate) async fn provider(tenant: &Tenant<'_>) -> Actor {
    tenant.key(&[SCOPE]).await
}

/// Sends a body as clients of the protocol do.
pub(crate) async fn send(call: Call, body: &Value) -> Reply {
    call.text(MEDIA_TYPE, body.to_string()).send().await
}

/// Checks the form of an error and returns its type; empty if it has none.
pub(crate) fn refusal(reply: &Reply, status: u16) -> &str {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(reply.header("content-type"), MEDIA_TYPE, "{}", reply.text);
    assert_eq!(reply.body["schemas"], json!(["urn:ietf:params:scim:api:messages:2.0:Error"]));
    assert_eq!(reply.body["status"], status.to_string());
    assert!(reply.body["detail"].is_string() && !reply.header("x-request-id").is_empty(), "{}", reply.text);
    reply.body["scimType"].as_str().unwrap_or_default()
}

pub(crate) fn id(resource: &Value) -> String {
    resource["id"].as_str().unwrap_or_else(|| panic!("no id in {resource}")).to_owned()
}

pub(crate) async fn created(provider: &Actor, path: &str, body: &Value) -> Value {
    send(provider.post(path), body).await.ok(201).clone()
}

pub(crate) async fn patched(provider: &Actor, path: &str, operations: Value) -> Reply {
    let body = json!({"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations});
    send(provider.patch(path), &body).await
}

fn mary() -> Value {
    json!({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "Mary@Acme.example", "externalId": "e-17",
        "name": {"givenName": "Mary", "familyName": "Shelley"}, "locale": "en-GB"})
}

#[tokio::test]
async fn a_provisioned_person_becomes_staff_without_a_password() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let reply = send(provider.post(USERS), &mary()).await;
        let user = reply.ok(201).clone();
        assert_eq!(reply.header("content-type"), MEDIA_TYPE);
        assert_eq!(reply.header("location"), user["meta"]["location"]);
        assert_eq!(reply.header("etag"), user["meta"]["version"]);
        assert_eq!((&user["userName"], &user["active"], &user["groups"]), (&json!("mary@acme.example"), &json!(true), &json!([])));
        assert_eq!(user["meta"]["resourceType"], "User");
        let account = admin.get(&format!("/api/admin/users/{}", id(&user))).send().await.ok(200).clone();
        assert_eq!((&account["email"], &account["name"]), (&json!("mary@acme.example"), &json!("Mary Shelley")));
        assert_eq!(
            (&account["role"], &account["organizations"]),
            (&json!("viewer"), &json!([])),
            "without rules, nobody sees records"
        );
        let events = admin.get("/api/events?types=user.created").send().await.ok(200)["data"].clone();
        let event = events.as_array().unwrap().iter().find(|event| event["data"]["user"]["id"] == user["id"]).unwrap();
        assert_eq!(event["actor"]["kind"], "api_key");
        let read = provider.get(&format!("{USERS}/{}", id(&user))).send().await;
        assert_eq!(read.ok(200)["externalId"], "e-17");
        let known = provider.get(&format!("{USERS}/{}", id(&user))).header("if-none-match", read.header("etag")).send().await;
        assert_eq!(known.status, 304);
        let again = send(provider.post(USERS), &mary()).await;
        assert_eq!(refusal(&again, 409), "uniqueness");
    })
    .await;
}

#[tokio::test]
async fn changes_of_common_clients_apply() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let user = created(&provider, USERS, &mary()).await;
        let path = format!("{USERS}/{}", id(&user));
        let changed = patched(
            &provider,
            &path,
            json!([
                {"op": "Replace", "path": "displayName", "value": "Mary W. Shelley"},
                {"op": "Add", "path": "emails[type eq \"work\"].value", "value": "mary.shelley@acme.example"},
                {"op": "Replace", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department", "value": "Books"},
                {"op": "Replace", "value": {"name.givenName": "Mary W.", "active": "False"}},
            ]),
        )
        .await;
        let changed = changed.ok(200).clone();
        assert_eq!((&changed["active"], &changed["displayName"]), (&json!(false), &json!("Mary W. Shelley")));
        assert_eq!(changed["name"], json!({"givenName": "Mary W.", "familyName": "Shelley"}));
        let account = admin.get(&format!("/api/admin/users/{}", id(&user))).send().await.ok(200).clone();
        assert_eq!((&account["status"], &account["name"]), (&json!("disabled"), &json!("Mary W. Shelley")));
        let stale = send(provider.put(&path).header("if-match", "W/\"v1\""), &mary()).await;
        assert_eq!(refusal(&stale, 412), "");
        let current = changed["meta"]["version"].as_str().unwrap();
        let replaced = send(provider.put(&path).header("if-match", current), &mary()).await;
        let replaced = replaced.ok(200);
        assert_eq!(replaced["displayName"], Value::Null, "a PUT removes what it leaves out");
        assert_eq!(replaced["active"], false, "an absent `active` changes nothing");
        let removed = patched(&provider, &path, json!([{"op": "remove", "path": "externalId"}, {"op": "remove", "path": "name"}])).await;
        let removed = removed.ok(200);
        assert_eq!((&removed["externalId"], &removed["name"]), (&Value::Null, &Value::Null));
    })
    .await;
}

#[tokio::test]
async fn disabling_a_person_ends_their_sessions_and_pauses_their_keys() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (_admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let viewer = tenant.user("viewer").await;
        let own = viewer.post("/api/auth/own-keys").json(json!({"name": "Own", "scopes": ["tickets:read"]})).send().await;
        let own = app.anonymous().bearer(own.ok(201)["key"].as_str().unwrap());
        assert_eq!(own.get("/api/auth/session").send().await.status, 200);
        let found = provider.get(&format!("{USERS}?filter=userName%20eq%20%22viewer@acme.example%22")).send().await;
        let user = found.ok(200)["Resources"][0].clone();
        let path = format!("{USERS}/{}", id(&user));
        patched(&provider, &path, json!([{"op": "replace", "path": "active", "value": false}])).await.ok(200);
        assert_eq!(viewer.get("/api/auth/session").send().await.status, 401);
        assert_eq!(own.get("/api/auth/session").send().await.problem(401), "key_disabled");
        patched(&provider, &path, json!([{"op": "replace", "value": {"active": "True"}}])).await.ok(200);
        assert_eq!(own.get("/api/auth/session").send().await.status, 200, "a personal key works again");
    })
    .await;
}

#[tokio::test]
async fn a_status_without_a_value_stays() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let user = created(&provider, USERS, &mary()).await;
        let (path, account) = (format!("{USERS}/{}", id(&user)), format!("/api/admin/users/{}", id(&user)));
        for (active, status) in [(false, "disabled"), (true, "active")] {
            patched(&provider, &path, json!([{"op": "replace", "path": "active", "value": active}])).await.ok(200);
            for without in [
                json!([{"op": "remove", "path": "active"}]),
                json!([{"op": "replace", "path": "active", "value": null}]),
                json!([{"op": "add", "value": {"active": null}}]),
            ] {
                assert_eq!(patched(&provider, &path, without.clone()).await.ok(200)["active"], active, "{without}");
                assert_eq!(admin.get(&account).send().await.ok(200)["status"], status, "{without}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_that_the_protocol_refuses_keeps_nobody_enabled() {
    with_app(async |old| {
        let tenant = old.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let stored = "Eve\tAdams \n";
        let made = async |email: &str| {
            let body = json!({"name": stored, "email": email, "role": "viewer"});
            admin.post("/api/admin/users").json(body).send().await.ok(201).clone()
        };
        let (eve, other) = (made("eve@acme.example").await, made("other@acme.example").await);
        let path = format!("{USERS}/{}", id(&eve));
        assert_eq!(provider.get(&path).send().await.ok(200)["displayName"], "Eve Adams");
        let off = json!([{"op": "replace", "path": "active", "value": false}]);
        assert_eq!(patched(&provider, &path, off).await.ok(200)["active"], false);
        let account = admin.get(&format!("/api/admin/users/{}", id(&eve))).send().await.ok(200).clone();
        assert_eq!((&account["status"], &account["name"]), (&json!("disabled"), &json!(stored)), "the name of the account stays");
        // A group takes the other person over.
        created(&provider, "/scim/v2/Groups", &json!({"displayName": "Desk", "members": [{"value": other["id"]}]})).await;
        let file = export(old, &tenant.id, json!({})).await;
        with_app(async |new| {
            let done = import(new, json!({"mode": "import"}), &file).await;
            assert_eq!(done["done"], true, "{done}");
        })
        .await;
        with_app(async |new| {
            let mut forged = Forged::of(&file);
            forged.change("provisioned", |profile| profile["display_name"] = json!("Eve B. \u{85}"));
            let order = json!({"mode": "import", "accept_unverified": true});
            let done = import_as(new, &order, &forged.file(None)).await;
            assert_eq!(done["done"], true, "{done}");
            let again = export(new, &tenant.id, json!({})).await;
            assert!(again.contains("\"display_name\":\"Eve B.\""), "the import gives a name its form");
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn only_managed_accounts_are_removed() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let viewer = tenant.user("viewer").await;
        let me = viewer.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let path = format!("{USERS}/{me}");
        refusal(&provider.delete(&path).send().await, 409);
        let adopted = patched(&provider, &path, json!([{"op": "add", "path": "externalId", "value": "e-1"}])).await;
        assert_eq!(adopted.ok(200)["externalId"], "e-1");
        let account = admin.get(&format!("/api/admin/users/{me}")).send().await.ok(200).clone();
        assert_eq!((&account["role"], &account["organizations"]), (&json!("viewer"), &Value::Null), "its role stays");
        assert_eq!(provider.delete(&path).send().await.status, 204);
        refusal(&provider.get(&path).send().await, 404);
        admin.get(&format!("/api/admin/users/{me}")).send().await.problem(404);
        assert_eq!(viewer.get("/api/auth/session").send().await.status, 401);
    })
    .await;
}

#[tokio::test]
async fn the_address_of_an_account_follows_its_emails() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let (admin, provider) = (tenant.admin().await, provider(&tenant).await);
        let body = json!({"userName": "mshelley", "emails": [{"value": "m@acme.example", "type": "work", "primary": true}]});
        let user = created(&provider, USERS, &body).await;
        let (path, account) = (format!("{USERS}/{}", id(&user)), format!("/api/admin/users/{}", id(&user)));
        assert_eq!(admin.get(&account).send().await.ok(200)["email"], "m@acme.example");
        let renamed = json!([{"op": "replace", "path": "userName", "value": "mary"}]);
        assert_eq!(patched(&provider, &path, renamed).await.ok(200)["userName"], "mary");
        assert_eq!(admin.get(&account).send().await.ok(200)["email"], "m@acme.example");
        let moved = json!([{"op": "replace", "path": "emails", "value": [{"value": "mary@acme.example", "primary": true}]}]);
        patched(&provider, &path, moved).await.ok(200);
        assert_eq!(admin.get(&account).send().await.ok(200)["email"], "mary@acme.example");
        let nameless = send(provider.post(USERS), &json!({"userName": "nobody"})).await;
        assert_eq!(refusal(&nameless, 400), "invalidValue");
        let taken = send(provider.post(USERS), &json!({"userName": "MARY", "emails": [{"value": "other@acme.example"}]})).await;
        assert_eq!(refusal(&taken, 409), "uniqueness");
        let same = send(provider.post(USERS), &json!({"userName": "other", "emails": [{"value": "Mary@acme.example"}]})).await;
        assert_eq!(refusal(&same, 409), "uniqueness");
        // Somebody changes the account in the console.
        admin.put(&account).json(json!({"name": "Mary S.", "email": "ms@acme.example"})).send().await.ok(200);
        let shown = provider.get(&path).send().await.ok(200).clone();
        assert_eq!((&shown["displayName"], &shown["emails"][0]["value"]), (&json!("Mary S."), &json!("ms@acme.example")));
    })
    .await;
}

#[tokio::test]
async fn the_service_describes_itself() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let provider = provider(&tenant).await;
        let config = provider.get("/scim/v2/ServiceProviderConfig").send().await.ok(200).clone();
        assert_eq!((&config["patch"]["supported"], &config["sort"]["supported"]), (&json!(true), &json!(false)));
        let types = provider.get("/scim/v2/ResourceTypes").send().await.ok(200).clone();
        assert_eq!((&types["totalResults"], &types["Resources"][1]["endpoint"]), (&json!(2), &json!("/Groups")));
        assert_eq!(provider.get("/scim/v2/ResourceTypes/User").send().await.ok(200)["name"], "User");
        let schema = "/scim/v2/Schemas/urn:ietf:params:scim:schemas:core:2.0:User";
        assert_eq!(provider.get(schema).send().await.ok(200)["attributes"][0]["name"], "userName");
        refusal(&provider.get("/scim/v2/Schemas/urn:other").send().await, 404);
        refusal(&provider.get("/scim/v2/Devices").send().await, 404);
        refusal(&provider.post("/scim/v2/Schemas").send().await, 405);
        refusal(&send(provider.post("/scim/v2/.search"), &json!({})).await, 501);
        refusal(&send(provider.post("/scim/v2/Bulk"), &json!({})).await, 501);
    })
    .await;
}
