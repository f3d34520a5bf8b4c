//! Who may sign in to the portal: the setting of the tenant, the access of a contact, and how both end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{
        Actor, PASSWORD, Reply, TestApp,
        authenticator::{add_app, challenge, send_code, session_of},
        portal::{SCOPES, access, contact_with_id, portal_contact, set_password, turn_on},
        with_app,
    },
    key_owners::person,
};

const SETTINGS: &str = "/api/admin/portal";
const PORTAL: &str = "/api/portal/tickets";

async fn login(app: &TestApp, email: &str, tenant: Option<&str>) -> Reply {
    let mut body = json!({"email": email, "password": PASSWORD});
    if let Some(tenant) = tenant {
        body["tenant"] = json!(tenant);
    }
    app.anonymous().post("/api/auth/login").json(body).send().await
}

async fn events(reader: &Actor, kinds: &str) -> Vec<Value> {
    let feed = reader.get(&format!("/api/events?types={kinds}&limit=200")).send().await.ok(200)["data"].clone();
    feed.as_array().unwrap().clone()
}

#[tokio::test]
async fn the_portal_is_off_until_an_administrator_turns_it_on() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let contact = acme.contact(&acme.organization("North").await, "ada@north.example").await;
        assert_eq!(admin.get(SETTINGS).send().await.ok(200), &json!({"enabled": false, "version": 0}));
        assert_eq!(admin.put(&access(&contact)).send().await.problem(409), "invalid_transition");
        for (other, code) in [
            (acme.user("technician").await, "admin_required"),
            (acme.key(&["users:read", "directory:write"]).await, "insufficient_scope"),
        ] {
            assert_eq!(other.put(SETTINGS).json(json!({"enabled": true})).send().await.problem(403), code);
        }
        let stale = admin.put(SETTINGS).header("if-match", "\"v7\"").json(json!({"enabled": true})).send().await;
        assert_eq!(stale.problem(412), "version_conflict");
        turn_on(&admin).await;
        turn_on(&admin).await;
        let changed = events(&admin, "portal.settings_updated").await;
        assert_eq!((changed.len(), &changed[0]["data"]["changes"]["enabled"]["to"]), (1, &json!(true)));
        let operator = app.operator().await.put(SETTINGS).json(json!({"enabled": true})).send().await;
        assert_eq!(operator.problem(409), "invalid_transition", "the platform tenant has no portal");
        set_password(app, admin.put(&access(&contact)).send().await.ok(200)).await;
        let ada = app.sign_in("ada@north.example").await;
        ada.get(PORTAL).send().await.ok(200);
        admin.put(SETTINGS).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired");
        assert_eq!(login(app, "ada@north.example", None).await.problem(401), "invalid_credentials");
    })
    .await;
}

#[tokio::test]
async fn access_is_given_with_a_link_and_taken_away_with_everything() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        turn_on(&admin).await;
        let contact = acme.contact(&acme.organization("North").await, "ada@north.example").await;
        let state = async || admin.get(&access(&contact)).send().await.ok(200).clone();
        assert_eq!(state().await, json!({"has_access": false, "has_password": false}));
        assert_eq!(login(app, "ada@north.example", None).await.problem(401), "invalid_credentials", "no access");
        let given = admin.put(&access(&contact)).send().await;
        assert_eq!(given.header("cache-control"), "no-store");
        let link = given.ok(200)["password_link"].as_str().unwrap().to_owned();
        assert!(link.contains("/set-password?token="), "{link}");
        assert!(state().await.get("password_link").is_none(), "shown once");
        let newer = admin.put(&access(&contact)).send().await.ok(200).clone();
        let old = json!({"token": given.body["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(old).send().await.problem(401), "invalid_credentials");
        set_password(app, &newer).await;
        let ada = app.sign_in("ada@north.example").await;
        assert_eq!((&state().await["has_password"], &state().await["email"]), (&json!(true), &json!("ada@north.example")));
        let text = events(&admin, "portal.*").await.iter().map(Value::to_string).collect::<String>();
        assert!(!text.contains(newer["password_token"].as_str().unwrap()), "no event has the token");
        let unused = admin.put(&access(&contact)).send().await.ok(200).clone();
        assert_eq!(admin.delete(&access(&contact)).send().await.status, 204);
        assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired");
        assert_eq!(login(app, "ada@north.example", None).await.problem(401), "invalid_credentials");
        let body = json!({"token": unused["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.problem(401), "invalid_credentials");
        assert_eq!(admin.delete(&access(&contact)).send().await.status, 204, "again");
        assert_eq!(events(&admin, "portal.access_removed").await.len(), 1);
        admin.put(&access(&contact)).send().await.ok(200);
        let again = login(app, "ada@north.example", None).await;
        assert_eq!(again.problem(401), "invalid_credentials", "the old password does not come back");
        let audited = admin.get("/api/admin/audit?limit=200").send().await;
        audited.ok(200);
        assert!(audited.text.contains("portal.access_given") && audited.text.contains("portal.access_removed"), "{}", audited.text);
    })
    .await;
}

#[tokio::test]
async fn access_needs_a_usable_contact_in_reach_and_the_right() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let admin = acme.admin().await;
        turn_on(&admin).await;
        let (north, south) = (acme.organization("North").await, acme.organization("South").await);
        let contact = acme.contact(&north, "ada@north.example").await;
        let stranger = globex.key(&["*"]).await;
        turn_on(&stranger).await;
        for call in [stranger.put(&access(&contact)), stranger.get(&access(&contact)), stranger.delete(&access(&contact))] {
            assert_eq!(call.send().await.problem(404), "not_found");
        }
        let me = admin.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        assert_eq!(admin.put(&access(&me)).send().await.problem(404), "not_found", "staff are not contacts");
        let reader = acme.key(&["directory:read"]).await;
        assert_eq!(reader.put(&access(&contact)).send().await.problem(403), "insufficient_scope");
        reader.get(&access(&contact)).send().await.ok(200);
        let limited = json!({"name": "South", "scopes": ["directory:*", "tickets:*"], "organization_ids": [south]});
        let limited = admin.post("/api/admin/api-keys").json(limited).send().await.ok(201)["key"].as_str().unwrap().to_owned();
        let limited = app.anonymous().bearer(&limited);
        assert_eq!(limited.put(&access(&contact)).send().await.problem(404), "not_found", "another organization");
        let own = acme.contact(&south, "cy@south.example").await;
        limited.put(&access(&own)).send().await.ok(200);
        let made = async |body: Value| {
            let made = admin.post("/api/directory/contacts").json(body).send().await.ok(201).clone();
            made["id"].as_str().unwrap().to_owned()
        };
        let without_address = made(json!({"name": "No address", "organization_id": north})).await;
        let without_organization = made(json!({"name": "Free", "email": "free@x.example"})).await;
        let disabled = made(json!({"name": "Gone", "email": "gone@x.example", "organization_id": north})).await;
        admin.patch(&format!("/api/directory/contacts/{disabled}")).json(json!({"status": "disabled"})).send().await.ok(200);
        for id in [without_address, without_organization, disabled] {
            assert_eq!(admin.put(&access(&id)).send().await.problem(409), "invalid_transition");
        }
        app.advance(Duration::from_mins(16));
        assert_eq!(admin.put(&access(&contact)).send().await.problem(403), "recent_sign_in_required");
        assert_eq!(admin.delete(&access(&contact)).send().await.status, 204, "a reduction needs no recent sign-in");
    })
    .await;
}

#[tokio::test]
async fn letting_contacts_sign_in_needs_the_rights_over_their_tickets() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let north = acme.organization("North").await;
        let weak = acme.key(&["users:*", "directory:*", "tickets:read"]).await;
        assert_eq!(weak.put(SETTINGS).json(json!({"enabled": false})).send().await.ok(200)["version"], 0, "unchanged");
        let refused = weak.put(SETTINGS).json(json!({"enabled": true})).send().await;
        assert_eq!((refused.problem(403), &refused.body["required_scopes"]), ("insufficient_scope", &json!(["tickets:write"])));
        let (ada, contact) = contact_with_id(app, &acme, &north, "ada@north.example").await;
        let refused = weak.put(&access(&contact)).send().await;
        assert_eq!((refused.problem(403), &refused.body["required_scopes"]), ("insufficient_scope", &json!(["tickets:write"])));
        ada.get(PORTAL).send().await.ok(200);
        let (issuer, key) = acme.new_key("issuer", SCOPES).await;
        let given = issuer.put(&access(&contact)).send().await.ok(200).clone();
        let path = format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap());
        admin.put(&path).json(json!({"scopes": ["directory:*"]})).send().await.ok(200);
        let body = json!({"token": given["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.problem(401), "invalid_credentials");
        weak.put(SETTINGS).json(json!({"enabled": false})).send().await.ok(200);
        assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired", "a reduction needs less");
        assert_eq!(weak.delete(&access(&contact)).send().await.status, 204);
    })
    .await;
}

#[tokio::test]
async fn sessions_and_links_do_not_outlive_the_portal() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let north = acme.organization("North").await;
        let (ada, _) = contact_with_id(app, &acme, &north, "ada@north.example").await;
        let invited = acme.contact(&north, "bo@north.example").await;
        let given = admin.put(&access(&invited)).send().await.ok(200).clone();
        let (staff, _) = person(app, &admin, "cy", "technician").await;
        let me = staff.get("/api/auth/session").send().await.ok(200)["id"].as_str().unwrap().to_owned();
        let link_of_staff = admin.post(&format!("/api/admin/users/{me}/reset-password")).send().await.ok(200).clone();
        admin.put(SETTINGS).json(json!({"enabled": false})).send().await.ok(200);
        turn_on(&admin).await;
        assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired");
        let body = json!({"token": given["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.problem(401), "invalid_credentials");
        app.sign_in("ada@north.example").await.get(PORTAL).send().await.ok(200);
        assert_eq!(admin.get(&access(&invited)).send().await.ok(200)["has_access"], true);
        staff.get("/api/auth/session").send().await.ok(200);
        set_password(app, &link_of_staff).await;
    })
    .await;
}

#[tokio::test]
async fn a_move_ends_the_access_until_it_is_given_again() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (north, south) = (acme.organization("North").await, acme.organization("South").await);
        let (ada, id) = contact_with_id(app, &acme, &north, "ada@north.example").await;
        for organization in [&south, &north] {
            admin
                .patch("/api/directory/contacts")
                .json(json!({"ids": [id], "patch": {"organization_id": organization}}))
                .send()
                .await
                .ok(200);
            assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired");
            assert_eq!(login(app, "ada@north.example", None).await.problem(401), "invalid_credentials");
        }
        let key = acme.key(SCOPES).await;
        set_password(app, key.put(&access(&id)).send().await.ok(200)).await;
        app.sign_in("ada@north.example").await.get(PORTAL).send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_link_ends_when_its_issuer_loses_the_right() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        turn_on(&admin).await;
        let contact = acme.contact(&acme.organization("North").await, "ada@north.example").await;
        let (issuer, key) = acme.new_key("issuer", SCOPES).await;
        let given = issuer.put(&access(&contact)).send().await.ok(200).clone();
        admin.delete(&format!("/api/admin/api-keys/{}", key["id"].as_str().unwrap())).send().await.ok(200);
        let body = json!({"token": given["password_token"], "password": PASSWORD});
        assert_eq!(app.anonymous().post("/api/auth/password").json(body).send().await.problem(401), "invalid_credentials");
    })
    .await;
}

#[tokio::test]
async fn changes_of_the_contact_end_the_session_at_once() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let (north, south) = (acme.organization("North").await, acme.organization("South").await);
        for (number, change) in [
            json!({"status": "disabled"}),
            json!({"email": "new@north.example"}),
            json!({"email": null}),
            json!({"organization_id": south}),
            json!({"organization_id": null}),
        ]
        .into_iter()
        .enumerate()
        {
            let email = format!("ada{number}@north.example");
            let (ada, id) = contact_with_id(app, &acme, &north, &email).await;
            ada.get(PORTAL).send().await.ok(200);
            admin.patch(&format!("/api/directory/contacts/{id}")).json(change.clone()).send().await.ok(200);
            assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired", "{change}");
            assert_eq!(login(app, &email, None).await.problem(401), "invalid_credentials", "{change}");
            assert_eq!(login(app, "new@north.example", None).await.problem(401), "invalid_credentials", "{change}");
            assert_eq!(admin.get(&access(&id)).send().await.ok(200)["has_access"], false, "{change}");
        }
        let (gone, id) = contact_with_id(app, &acme, &north, "gone@north.example").await;
        assert_eq!(admin.delete(&format!("/api/directory/contacts/{id}")).send().await.status, 204);
        assert_eq!(gone.get(PORTAL).send().await.problem(401), "session_expired");
        assert_eq!(login(app, "gone@north.example", None).await.problem(401), "invalid_credentials");
    })
    .await;
}

#[tokio::test]
async fn one_address_at_two_tenants_is_decided_by_the_password() {
    with_app(async |app| {
        let (acme, globex) = (app.tenant("acme").await, app.tenant("globex").await);
        let email = "ada@north.example";
        for tenant in [&acme, &globex] {
            let (manager, _) = tenant.new_key("manager", SCOPES).await;
            turn_on(&manager).await;
            let contact = tenant.contact(&tenant.organization("North").await, email).await;
            set_password(app, manager.put(&access(&contact)).send().await.ok(200)).await;
        }
        let asked = login(app, email, None).await;
        assert_eq!(asked.problem(409), "tenant_required", "the password is right at both");
        assert_eq!(asked.body["tenants"].as_array().unwrap().len(), 2);
        let session = session_of(app, &login(app, email, Some("globex")).await);
        assert_eq!(session.get("/api/auth/session").send().await.ok(200)["tenant"]["name"], "globex");
        let wrong = async |email: &str, tenant: Option<&str>| {
            let mut body = json!({"email": email, "password": "not the right one"});
            if let Some(tenant) = tenant {
                body["tenant"] = json!(tenant);
            }
            let reply = app.anonymous().post("/api/auth/login").json(body).send().await;
            (reply.status, reply.body["code"].clone(), reply.body["detail"].clone())
        };
        assert_eq!(wrong(email, None).await, wrong("nobody@north.example", None).await, "strangers learn nothing");
        assert_eq!(wrong(email, Some("acme")).await, wrong("nobody@north.example", Some("acme")).await);
    })
    .await;
}

#[tokio::test]
async fn contacts_manage_their_own_account() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let (ada, id) = contact_with_id(app, &acme, &acme.organization("North").await, "ada@north.example").await;
        let sessions = ada.get("/api/auth/sessions").send().await.ok(200)["data"].clone();
        assert_eq!(sessions.as_array().unwrap().len(), 1);
        let (codes, _) = add_app(app, &ada, "Phone").await;
        app.advance(Duration::from_secs(30));
        let asked = challenge(app, "ada@north.example").await;
        let second = session_of(app, &send_code(app, &asked, &codes.code(app.now())).await);
        second.get(PORTAL).send().await.ok(200);
        let new = "lantern octopus mountain staple";
        let changed =
            second.put("/api/auth/own-password").json(json!({"current_password": PASSWORD, "new_password": new})).send().await;
        assert_eq!(changed.status, 204, "{}", changed.text);
        assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired", "other sessions end");
        let renewed = app.anonymous().with("cookie", changed.header("set-cookie").split(';').next().unwrap());
        renewed.get(PORTAL).send().await.ok(200);
        assert_eq!(renewed.post("/api/auth/logout").send().await.status, 204);
        assert_eq!(renewed.get(PORTAL).send().await.problem(401), "session_expired");
        let admin = acme.admin().await;
        let reset = admin.delete(&format!("/api/admin/users/{id}/factors")).send().await;
        assert!(reset.status < 300, "an administrator removes a lost factor: {}", reset.text);
        let in_once = app.anonymous().post("/api/auth/login").json(json!({"email": "ada@north.example", "password": new}));
        let in_once = session_of(app, &in_once.send().await);
        app.advance(Duration::from_hours(9));
        assert_eq!(in_once.get(PORTAL).send().await.problem(401), "session_expired", "idle");
    })
    .await;
}

#[tokio::test]
async fn too_many_wrong_passwords_block_a_contact_for_a_while() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        portal_contact(app, &acme, &acme.organization("North").await, "ada@north.example").await;
        for _ in 0..5 {
            let body = json!({"email": "ada@north.example", "password": "not the right one"});
            assert_eq!(app.anonymous().post("/api/auth/login").json(body).send().await.problem(401), "invalid_credentials");
        }
        assert_eq!(login(app, "ada@north.example", None).await.problem(429), "rate_limited");
        app.advance(Duration::from_mins(1));
        login(app, "ada@north.example", None).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn access_that_has_ended_does_not_return_when_the_change_is_undone() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        let north = acme.organization("North").await;
        let changes = [
            (json!({"status": "disabled"}), json!({"status": "active"})),
            (json!({"email": "other@north.example"}), json!({"email": "ada@north.example"})),
            (json!({"organization_id": null}), json!({"organization_id": north})),
        ];
        let (ada, contact) = contact_with_id(app, &acme, &north, "ada@north.example").await;
        let path = format!("/api/directory/contacts/{contact}");
        let mut ada = ada;
        for (change, undo) in changes {
            ada.get(PORTAL).send().await.ok(200);
            admin.patch(&path).json(change.clone()).send().await.ok(200);
            admin.patch(&path).json(undo).send().await.ok(200);
            assert_eq!(ada.get(PORTAL).send().await.problem(401), "session_expired", "{change}");
            assert_eq!(login(app, "ada@north.example", None).await.problem(401), "invalid_credentials", "{change}");
            assert_eq!(admin.get(&access(&contact)).send().await.ok(200)["has_access"], false, "{change}");
            let given = admin.put(&access(&contact)).send().await.ok(200).clone();
            set_password(app, &given).await;
            ada = app.sign_in("ada@north.example").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_personal_key_gives_nobody_access() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let admin = acme.admin().await;
        turn_on(&admin).await;
        let contact = acme.contact(&acme.organization("North").await, "ada@north.example").await;
        let own = admin.post("/api/auth/own-keys").json(json!({"name": "Own", "scopes": ["directory:*"]})).send().await;
        let key = app.anonymous().bearer(own.ok(201)["key"].as_str().unwrap());
        assert_eq!(key.put(&access(&contact)).send().await.problem(403), "insufficient_authority");
    })
    .await;
}
