//! Nobody can give an account more rights than they have: every operation on users and identity providers, by callers of different
//! strength, is compared with the rule computed here. A caller who creates, changes or opens an account must cover its role before
//! and after; reducing rights is always allowed. Password tokens are checked when they are used.

use std::{cell::Cell, time::Duration};

use serde_json::{Value, json};

use crate::{
    harness::{Actor, PASSWORD, Reply, Tenant, TestApp, with_app},
    sso::PROVIDERS,
};

const USERS: &str = "/api/admin/users";
const KEYS: &str = "/api/admin/api-keys";
/// From the weakest to the strongest. Each role has all rights of the roles before it.
const ROLES: [&str; 3] = ["viewer", "technician", "admin"];

struct Caller {
    name: &'static str,
    actor: Actor,
    /// The index in [`ROLES`] of the strongest role that the caller covers.
    level: Option<usize>,
}

impl Caller {
    fn covers(&self, role: &str) -> bool {
        let wanted = ROLES.iter().position(|known| *known == role).unwrap();
        self.level.is_some_and(|level| wanted <= level)
    }

    #[track_caller]
    fn check(&self, reply: &Reply, allowed: bool, act: &str) {
        let case = format!("{} {act}: {}", self.name, reply.text);
        if allowed {
            assert!([200, 201, 204].contains(&reply.status), "{case}");
            return;
        }
        assert_eq!(reply.status, 403, "{case}");
        assert!(["insufficient_scope", "insufficient_authority"].contains(&reply.problem(403)), "{case}");
        let named = ["required_scopes", "required_networks"];
        assert!(named.iter().any(|member| !reply.body[*member].is_null()), "it does not say what is missing: {case}");
        assert!(!reply.text.contains("password_token"), "{case}");
    }
}

struct Bench<'a> {
    app: &'a TestApp,
    tenant: Tenant<'a>,
    admin: Actor,
    made: Cell<u32>,
}

impl<'a> Bench<'a> {
    async fn new(app: &'a TestApp) -> Self {
        let tenant = app.tenant("acme").await;
        let admin = tenant.admin().await;
        Self { app, tenant, admin, made: Cell::new(0) }
    }

    fn next(&self) -> u32 {
        self.made.set(self.made.get() + 1);
        self.made.get()
    }

    fn staff(&self, role: &str) -> Value {
        json!({"email": format!("p{}@acme.example", self.next()), "name": "P", "role": role})
    }

    async fn make(&self, role: &str) -> Value {
        self.admin.post(USERS).json(self.staff(role)).send().await.ok(201).clone()
    }

    async fn key(&self, scopes: &Value, more: Value) -> Actor {
        let mut body = json!({"name": format!("Key {}", self.next()), "scopes": scopes});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let key = self.admin.post(KEYS).json(body).send().await.ok(201).clone();
        self.app.anonymous().bearer(key["key"].as_str().unwrap())
    }

    /// Keys that cover no role, some roles, all roles, and all scopes but only from some networks.
    async fn callers(&self) -> Vec<Caller> {
        let mut callers = vec![
            Caller { name: "an administrator", actor: self.admin.clone(), level: Some(2) },
            Caller {
                name: "a key with all scopes",
                actor: self.key(&json!(["*"]), json!({"expires_days": 1})).await,
                level: Some(2),
            },
            Caller { name: "a key for users alone", actor: self.key(&json!(["users:*"]), json!({})).await, level: None },
        ];
        let networks = json!({"allowed_ips": ["127.0.0.0/8"]});
        callers.push(Caller { name: "a key with some networks", actor: self.key(&json!(["*"]), networks).await, level: None });
        for (level, role) in [(0, "viewer"), (1, "technician")] {
            let person = self.tenant.user(role).await;
            let mut scopes = person.get("/api/auth/session").send().await.ok(200)["scopes"].clone();
            scopes.as_array_mut().unwrap().push(json!("users:write"));
            callers.push(Caller { name: role, actor: self.key(&scopes, json!({})).await, level: Some(level) });
        }
        callers
    }
}

fn path(user: &Value) -> String {
    format!("{USERS}/{}", user["id"].as_str().unwrap())
}

async fn act_on_staff(bench: &Bench<'_>, caller: &Caller, role: &str) {
    let covers = caller.covers(role);
    let case = |act: &str| format!("{act} a member of staff with the role {role}");
    let reply = caller.actor.post(USERS).json(bench.staff(role)).send().await;
    caller.check(&reply, covers, &case("creates"));

    let user = bench.make(role).await;
    let change = async |body: Value| caller.actor.put(&path(&user)).json(body).send().await;
    caller.check(&change(json!({"name": "Q"})).await, true, &case("renames"));
    // By an address and an external id, a provider recognizes the person.
    let administers = caller.covers("admin");
    caller.check(&change(json!({"email": format!("p{}@acme.example", bench.next())})).await, administers, &case("moves"));
    caller.check(&change(json!({"external_id": format!("x{}", bench.next())})).await, administers, &case("re-labels"));
    let reply = caller.actor.post(&format!("{}/reset-password", path(&user))).send().await;
    caller.check(&reply, covers, &case("issues a token for"));
    let reply = caller.actor.delete(&format!("{}/sessions", path(&user))).send().await;
    caller.check(&reply, true, &case("ends the sessions of"));
    let reply = caller.actor.delete(&format!("{}/sso", path(&user))).send().await;
    caller.check(&reply, administers, &case("unlinks"));
    caller.check(&change(json!({"status": "disabled"})).await, true, &case("disables"));
    caller.check(&change(json!({"status": "active"})).await, covers, &case("enables"));
    for after in ROLES.iter().filter(|after| **after != role) {
        let user = bench.make(role).await;
        let lowers = ROLES.iter().position(|known| known == after) < ROLES.iter().position(|known| *known == role);
        let reply = caller.actor.put(&path(&user)).json(json!({"role": after})).send().await;
        caller.check(&reply, lowers || (covers && caller.covers(after)), &format!("{} into {after}", case("turns")));
    }
    caller.check(&caller.actor.delete(&path(&user)).send().await, true, &case("removes"));
}

#[tokio::test]
async fn changing_an_account_needs_the_rights_of_its_role() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        for caller in bench.callers().await {
            for role in ROLES {
                act_on_staff(&bench, &caller, role).await;
            }
            // A contact cannot sign in, so the scope is sufficient.
            let contact = json!({"name": "C", "kind": "contact", "email": format!("c{}@customer.example", bench.next())});
            let contact = caller.actor.post(USERS).json(contact).send().await.ok(201).clone();
            let moved = json!({"email": format!("c{}@customer.example", bench.next())});
            caller.check(&caller.actor.put(&path(&contact)).json(moved).send().await, true, "moves a contact");
            let raised = caller.actor.put(&path(&contact)).json(json!({"role": "admin"})).send().await;
            assert_eq!(raised.status, if caller.covers("admin") { 422 } else { 403 }, "{}: {}", caller.name, raised.text);
            caller.check(&caller.actor.delete(&path(&contact)).send().await, true, "removes a contact");
        }
    })
    .await;
}

#[tokio::test]
async fn an_identity_provider_counts_as_an_administrator() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let provider = || {
            let domain = format!("d{}.example", bench.next());
            json!({"name": "P", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": "s3cret-of-the-client",
                "domains": [domain], "default_role": "technician", "auto_provision": false})
        };
        for caller in bench.callers().await {
            let covers = caller.covers("admin");
            caller.check(&caller.actor.post(PROVIDERS).json(provider()).send().await, covers, "creates a provider");
            let record = bench.admin.post(PROVIDERS).json(provider()).send().await.ok(201).clone();
            let place = format!("{PROVIDERS}/{}", record["id"].as_str().unwrap());
            let domain = &record["domains"][0];
            let other = format!("d{}.example", bench.next());
            // Each change, and whether it admits nobody new.
            let changes = [
                (json!({"name": "Q"}), true),
                (json!({"issuer": "https://evil.example", "client_secret": "s3cret-of-the-client"}), false),
                (json!({"client_id": "other"}), false),
                (json!({"client_secret": "another-secret"}), false),
                (json!({"scopes": ["openid", "email"]}), false),
                (json!({"domains": [domain, other]}), false),
                (json!({"domains": [domain]}), true),
                (json!({"default_role": "admin"}), false),
                (json!({"default_role": "viewer"}), true),
                (json!({"auto_provision": true}), false),
                (json!({"auto_provision": false}), true),
                (json!({"enabled": false}), true),
                (json!({"enabled": true}), false),
                (json!({"enabled": false, "issuer": "https://other.example", "client_secret": "s3cret-of-the-client"}), false),
            ];
            for (change, reduces) in changes {
                let reply = caller.actor.put(&place).json(change.clone()).send().await;
                caller.check(&reply, covers || reduces, &format!("changes {change}"));
            }
            caller.check(&caller.actor.delete(&place).send().await, true, "deletes a provider");
        }
    })
    .await;
}

#[tokio::test]
async fn authorization_precedes_validation_of_providers() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let body = json!({"name": "P", "issuer": "https://id.acme.example", "client_id": "tenantd", "client_secret": "s3cret-of-the-client",
            "domains": ["acme.example"], "default_role": "technician"});
        let record = bench.admin.post(PROVIDERS).json(body.clone()).send().await.ok(201).clone();
        let taken = json!({"name": "T", "issuer": "https://id.acme.example", "client_id": "t", "client_secret": "s", "domains": ["taken.example"]});
        bench.admin.post(PROVIDERS).json(taken).send().await.ok(201);
        let (id, place) = (&record["id"], format!("{PROVIDERS}/{}", record["id"].as_str().unwrap()));
        let with = |field: &str, value: Value| {
            let mut body = body.clone();
            body[field] = value;
            body
        };
        // Each change is invalid. A caller with all rights gets the validation errors.
        let changes = [
            json!({"issuer": "https://other.example"}),
            json!({"enabled": false, "issuer": "https://other.example"}),
            json!({"issuer": "http://plain.example"}),
            json!({"issuer": "https://169.254.169.254", "client_secret": "another-secret"}),
            json!({"domains": ["no domain"]}),
            json!({"domains": ["acme.example", "taken.example"]}),
            json!({"scopes": ["email"]}),
            json!({"auto_provision": true, "default_role": "operator"}),
        ];
        let creations = [
            with("issuer", json!("http://plain.example")),
            with("issuer", json!("https://169.254.169.254")),
            with("domains", json!(["no domain"])),
            with("domains", json!(["taken.example"])),
            with("scopes", json!(["email"])),
        ];
        let verify = format!("{place}/domains/no%20domain/verify");
        let callers = bench.callers().await;
        for caller in &callers {
            let covers = caller.covers("admin");
            let check = |reply: &Reply, act: String| {
                if covers {
                    assert!([409, 422].contains(&reply.status), "{} {act}: {} {}", caller.name, reply.status, reply.text);
                } else {
                    caller.check(reply, false, &act);
                }
            };
            for change in &changes {
                check(&caller.actor.put(&place).json(change.clone()).send().await, format!("changes {change}"));
                let mut by_query = change.clone();
                by_query["id"] = id.clone();
                check(&caller.actor.put(PROVIDERS).json(by_query).send().await, format!("changes by the body {change}"));
            }
            for creation in &creations {
                check(&caller.actor.post(PROVIDERS).json(creation.clone()).send().await, format!("creates {creation}"));
            }
            check(&caller.actor.post(&verify).send().await, "verifies a domain".to_owned());
            if !covers {
                let stale = caller.actor.clone().with("if-match", "\"v99\"");
                caller.check(&stale.put(&place).json(json!({"enabled": true, "client_id": "x"})).send().await, false, "changes a stale one");
            }
        }
        assert_eq!(bench.admin.get(&place).send().await.ok(200)["version"], record["version"], "nothing was changed");
    })
    .await;
}

async fn redeem(app: &TestApp, user: &Value) -> u16 {
    let body = json!({"token": user["password_token"], "password": PASSWORD});
    app.anonymous().post("/api/auth/password").json(body).send().await.status
}

#[tokio::test]
async fn a_role_or_address_change_ends_a_password_token() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        let changes = [
            (json!({"role": "admin"}), 401),
            (json!({"role": "viewer"}), 401),
            (json!({"email": "moved@acme.example"}), 401),
            (json!({"status": "disabled"}), 401),
            (json!({"name": "Other"}), 204),
            (json!({"external_id": "7"}), 204),
        ];
        for (change, expected) in changes {
            let user = bench.make("technician").await;
            bench.admin.put(&path(&user)).json(change.clone()).send().await.ok(200);
            assert_eq!(redeem(app, &user).await, expected, "{change}");
        }
        let user = bench.make("technician").await;
        for role in ["admin", "technician"] {
            bench.admin.put(&path(&user)).json(json!({"role": role})).send().await.ok(200);
        }
        assert_eq!(redeem(app, &user).await, 401, "what ended does not come back with the role");
    })
    .await;
}

#[tokio::test]
async fn a_password_token_needs_a_covering_issuer() {
    with_app(async |app| {
        let bench = Bench::new(app).await;
        // What happens to the issuer of the token, and whether the token still works.
        let losses = [
            ("PUT", json!({"role": "technician"}), 401),
            ("PUT", json!({"status": "disabled"}), 401),
            ("DELETE", json!({}), 401),
            ("PUT", json!({"name": "Other"}), 204),
        ];
        for (method, change, expected) in losses {
            let issuer = bench.make("admin").await;
            assert_eq!(redeem(app, &issuer).await, 204);
            let actor = app.sign_in(issuer["email"].as_str().unwrap()).await;
            let user = actor.post(USERS).json(bench.staff("admin")).send().await.ok(201).clone();
            let call = bench.admin.call(method, &path(&issuer));
            let done = if method == "PUT" { call.json(change.clone()).send().await } else { call.send().await };
            assert!([200, 204].contains(&done.status), "{} {change}", done.text);
            assert_eq!(redeem(app, &user).await, expected, "{method} {change}");
        }
        let key_losses = [
            ("PUT", json!({"scopes": ["users:write"]}), 401),
            ("PUT", json!({"allowed_ips": ["127.0.0.1"]}), 401),
            ("PUT", json!({"enabled": false}), 401),
            ("DELETE", json!({}), 401),
            ("PUT", json!({"name": "Other"}), 204),
        ];
        for (method, change, expected) in key_losses {
            let body = json!({"name": format!("Issuer {}", bench.next()), "scopes": ["*"]});
            let key = bench.admin.post(KEYS).json(body).send().await.ok(201).clone();
            let actor = app.anonymous().bearer(key["key"].as_str().unwrap());
            let user = actor.post(USERS).json(bench.staff("admin")).send().await.ok(201).clone();
            let place = format!("{KEYS}/{}", key["id"].as_str().unwrap());
            let call = bench.admin.call(method, &place);
            if method == "PUT" { call.json(change.clone()).send().await } else { call.send().await }.ok(200);
            assert_eq!(redeem(app, &user).await, expected, "{method} {change}");
        }
        let short = bench.key(&json!(["*"]), json!({"expires_days": 1})).await;
        let user = short.post(USERS).json(bench.staff("viewer")).send().await.ok(201).clone();
        app.advance(Duration::from_hours(25));
        assert_eq!(redeem(app, &user).await, 401, "the key that issued it has ended");
    })
    .await;
}
