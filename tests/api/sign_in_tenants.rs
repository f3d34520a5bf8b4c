//! Addresses that exist in several tenants: each tenant has its own account, and the password selects one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{PASSWORD, Reply, TestApp, with_app};

const ADA: &str = "ada@people.example";
const OTHER: &str = "another long password";

/// Creates a tenant with Ada on its staff and returns its id.
async fn tenant_with_ada(app: &TestApp, slug: &str, password: &str) -> String {
    let tenant = app.tenant(slug).await;
    let body = json!({"email": ADA, "name": "Ada", "role": "admin", "password": password});
    let path = format!("/internal/admin/tenants/{}/users", tenant.id);
    app.local().post(&path).json(body).send().await.ok(201);
    tenant.id
}

async fn login(app: &TestApp, password: &str, tenant: Option<&str>) -> Reply {
    let mut body = json!({"email": ADA, "password": password});
    if let Some(tenant) = tenant {
        body["tenant"] = json!(tenant);
    }
    app.anonymous().post("/api/auth/login").json(body).send().await
}

/// The tenant of a signed-in person.
async fn tenant_of(app: &TestApp, reply: &Reply) -> Value {
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(reply.status, 200, "{}", reply.text);
    app.anonymous().with("cookie", &cookie).get("/api/auth/session").send().await.ok(200)["tenant"]["id"].clone()
}

#[tokio::test]
async fn the_password_selects_the_tenant() {
    with_app(async |app| {
        let (acme, beta) = (tenant_with_ada(app, "acme", PASSWORD).await, tenant_with_ada(app, "beta", OTHER).await);
        assert_eq!(tenant_of(app, &login(app, PASSWORD, None).await).await, acme);
        assert_eq!(tenant_of(app, &login(app, OTHER, None).await).await, beta);
        assert_eq!(tenant_of(app, &login(app, OTHER, Some("beta")).await).await, beta);
        let wrong = login(app, "wrong wrong wrong", None).await;
        assert_eq!((wrong.problem(401), wrong.body.get("tenants")), ("invalid_credentials", None));
        for tenant in ["acme", "nowhere", acme.as_str(), "tnt_01k9z7w3v5e8g9m2n4p6r8t0x1"] {
            assert_eq!(login(app, OTHER, Some(tenant)).await.problem(401), "invalid_credentials", "{tenant}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_password_of_several_tenants_asks_for_the_tenant() {
    with_app(async |app| {
        let (acme, beta) = (tenant_with_ada(app, "acme", PASSWORD).await, tenant_with_ada(app, "beta", PASSWORD).await);
        tenant_with_ada(app, "gamma", OTHER).await;
        let asked = login(app, PASSWORD, None).await;
        assert_eq!(asked.problem(409), "tenant_required");
        let choices = json!([{"id": acme, "name": "acme", "slug": "acme"}, {"id": beta, "name": "beta", "slug": "beta"}]);
        assert_eq!(asked.body["tenants"], choices, "gamma has another password");
        assert_eq!(asked.header("set-cookie"), "");
        assert_eq!(tenant_of(app, &login(app, PASSWORD, Some("beta")).await).await, beta);
        assert_eq!(tenant_of(app, &login(app, PASSWORD, Some(&acme)).await).await, acme);
    })
    .await;
}

#[tokio::test]
async fn an_address_may_exist_in_several_tenants() {
    with_app(async |app| {
        tenant_with_ada(app, "acme", PASSWORD).await;
        let beta = app.tenant("beta").await.admin().await;
        let new = json!({"name": "Ada", "role": "viewer", "email": ADA});
        beta.post("/api/admin/users").json(new.clone()).send().await.ok(201);
        assert_eq!(beta.post("/api/admin/users").json(new).send().await.problem(409), "already_exists");
        let reset = |tenant: Option<&str>| {
            let mut body = json!({"email": ADA, "password": OTHER});
            if let Some(tenant) = tenant {
                body["tenant_id"] = json!(tenant);
            }
            app.local().post("/internal/admin/users/reset-password").json(body).send()
        };
        let asked = reset(None).await;
        assert_eq!(asked.problem(409), "tenant_required");
        let id = asked.body["tenants"].as_array().unwrap().iter().find(|tenant| tenant["slug"] == "beta").unwrap()["id"].clone();
        reset(id.as_str()).await.ok(200);
        assert_eq!(tenant_of(app, &login(app, OTHER, None).await).await, id);
        login(app, PASSWORD, None).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn another_account_does_not_help_to_guess_a_password() {
    with_app(async |app| {
        let acme = tenant_with_ada(app, "acme", PASSWORD).await;
        tenant_with_ada(app, "evil", OTHER).await;
        for _ in 0..5 {
            assert_eq!(login(app, "wrong wrong wrong", None).await.problem(401), "invalid_credentials");
        }
        assert_eq!(login(app, OTHER, None).await.problem(429), "rate_limited", "both accounts are blocked");
        app.advance(Duration::from_secs(31));
        login(app, OTHER, None).await.ok(200);
        // A success of one account does not reset the wrong passwords of the other. That account is blocked, and the caller cannot
        // notice it.
        assert_eq!(login(app, "wrong wrong wrong", None).await.problem(401), "invalid_credentials");
        for tenant in [None, Some("acme"), Some(acme.as_str())] {
            assert_eq!(login(app, PASSWORD, tenant).await.problem(401), "invalid_credentials", "it is not compared: {tenant:?}");
        }
        app.advance(Duration::from_secs(61));
        assert_eq!(tenant_of(app, &login(app, PASSWORD, Some("acme")).await).await, acme);
        // A password that is right for one account is a guess at the other. Such guesses are limited too.
        for _ in 0..20 {
            login(app, OTHER, None).await.ok(200);
        }
        assert_eq!(login(app, PASSWORD, None).await.problem(401), "invalid_credentials", "it is no longer compared");
        assert_eq!(tenant_of(app, &login(app, PASSWORD, Some("acme")).await).await, acme, "its owner names the tenant");
        assert_eq!(tenant_of(app, &login(app, PASSWORD, None).await).await, acme, "and has the account back");
    })
    .await;
}

#[tokio::test]
async fn tenants_of_an_address_are_not_revealed() {
    with_app(async |app| {
        tenant_with_ada(app, "acme", PASSWORD).await;
        tenant_with_ada(app, "gamma", OTHER).await;
        app.tenant("beta").await;
        let wrong = async |email: &str, tenant: Option<&str>| {
            let mut body = json!({"email": email, "password": "wrong wrong wrong"});
            if let Some(tenant) = tenant {
                body["tenant"] = json!(tenant);
            }
            let reply = app.anonymous().post("/api/auth/login").json(body).send().await;
            (reply.status, reply.body["code"].clone(), reply.body["detail"].clone(), reply.body["retry_after_seconds"].clone())
        };
        // With an account, without one, and in no tenant: each address sends the same requests, and all responses look the same.
        let people = [("ada@people.example", "acme"), ("eve@people.example", "acme"), ("ida@people.example", "nowhere")];
        for _ in 0..6 {
            let [first, second, third] = [
                wrong(people[0].0, Some(people[0].1)).await,
                wrong(people[1].0, Some(people[1].1)).await,
                wrong(people[2].0, Some(people[2].1)).await,
            ];
            assert!(first == second && second == third, "{first:?} {second:?} {third:?}");
        }
        for tenant in [Some("beta"), Some("gamma"), Some("ACME"), None, Some("elsewhere")] {
            let mut seen = Vec::new();
            for (email, _) in people {
                seen.push(
                    wrong(
                        email,
                        tenant.map(|tenant| if tenant == "ACME" && email.starts_with("ida") { "NOWHERE" } else { tenant }),
                    )
                    .await,
                );
            }
            assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{tenant:?}: {seen:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn signing_in_to_a_suspended_tenant_is_refused() {
    with_app(async |app| {
        let (acme, beta) = (tenant_with_ada(app, "acme", PASSWORD).await, tenant_with_ada(app, "beta", PASSWORD).await);
        let set = async |act: &str| app.local().post(&format!("/api/platform/tenants/{acme}/{act}")).send().await.status;
        assert!(set("suspend").await < 300);
        assert_eq!(tenant_of(app, &login(app, PASSWORD, None).await).await, beta, "there is nothing to choose");
        let refused = login(app, PASSWORD, Some("acme")).await;
        let wrong = login(app, "wrong wrong wrong", Some("acme")).await;
        assert_eq!((refused.problem(401), &refused.body["detail"]), (wrong.problem(401), &wrong.body["detail"]));
        assert!(set("resume").await < 300);
        assert_eq!(tenant_of(app, &login(app, PASSWORD, Some("acme")).await).await, acme);
        let filter = "/api/events?types=auth.login_failed";
        let admin = login(app, PASSWORD, Some("acme")).await.header("set-cookie").split(';').next().unwrap().to_owned();
        let events = app.anonymous().with("cookie", &admin).get(filter).send().await.ok(200)["data"].clone();
        let reasons: Vec<&str> =
            events.as_array().unwrap().iter().map(|event| event["data"]["sign_in"]["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["tenant_suspended", "wrong_password"]);
    })
    .await;
}

#[tokio::test]
async fn too_many_accounts_need_the_tenant_name() {
    with_app(async |app| {
        for slug in ["t-1", "t-2", "t-3", "t-4"] {
            tenant_with_ada(app, slug, PASSWORD).await;
            app.advance(Duration::from_secs(1));
        }
        let last = tenant_with_ada(app, "t-5", OTHER).await;
        assert_eq!(login(app, PASSWORD, None).await.problem(409), "tenant_required");
        assert_eq!(login(app, OTHER, None).await.problem(401), "invalid_credentials");
        assert_eq!(tenant_of(app, &login(app, OTHER, Some("t-5")).await).await, last);
    })
    .await;
}
