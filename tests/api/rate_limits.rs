//! Rate limits: per credential and tenant, per address without a credential, and reported in every response.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Setup, with_app, with_setup};

fn tight() -> Setup {
    Setup::default().with("rate_limits.read", "{ credential = 6, tenant = 10 }").with("rate_limits.public_per_address", 3)
}

#[tokio::test]
async fn credentials_and_tenants_have_separate_limits() {
    with_setup(tight(), async |app| {
        let acme = app.tenant("acme").await;
        let (first, second) = (acme.key(&["*"]).await, acme.key(&["tickets:*"]).await);
        for left in (0..6).rev() {
            let reply = first.get("/api/auth/session").send().await;
            reply.ok(200);
            assert_eq!(reply.header("x-ratelimit-remaining"), left.to_string());
            assert_eq!(reply.header("x-ratelimit-limit"), "6");
        }
        let refused = first.get("/api/auth/session").send().await;
        assert_eq!(refused.problem(429), "rate_limited");
        assert_eq!((refused.header("retry-after"), &refused.body["retry_after_seconds"]), ("10", &json!(10)));
        assert_eq!(refused.header("ratelimit-policy"), "\"read_credential\";q=6;w=60");
        // Four requests are left for the tenant: a refused request does not count twice.
        for _ in 0..4 {
            second.get("/api/auth/session").send().await.ok(200);
        }
        let refused = second.get("/api/auth/session").send().await;
        assert_eq!(refused.problem(429), "rate_limited");
        assert!(refused.header("ratelimit").starts_with("\"read_tenant\";r=0"));
        let globex = app.tenant("globex").await;
        globex.key(&["*"]).await.get("/api/auth/session").send().await.ok(200);
        app.advance(Duration::from_secs(10));
        first.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn anonymous_requests_are_limited_by_address() {
    with_setup(tight(), async |app| {
        let anonymous = app.anonymous();
        for _ in 0..3 {
            anonymous.get("/api/openapi.json").send().await.ok(200);
        }
        assert_eq!(anonymous.get("/api/rate-limits/").send().await.problem(429), "rate_limited");
        for _ in 0..10 {
            anonymous.get("/healthz").send().await.ok(200);
        }
        app.advance(Duration::from_mins(1));
        let page = anonymous.get("/api/rate-limits/").header("accept", "application/json").send().await;
        assert!(
            page.ok(200)["limits"]
                .as_array()
                .unwrap()
                .contains(&json!({"class": "read", "per": "tenant", "requests_per_minute": 10}))
        );
    })
    .await;
}

#[tokio::test]
async fn guessing_credentials_is_limited() {
    with_setup(tight(), async |app| {
        let guess = || app.anonymous().bearer("tck_live_nonsense").get("/api/auth/session").send();
        for _ in 0..3 {
            assert_eq!(guess().await.problem(401), "invalid_credentials");
        }
        assert_eq!(guess().await.problem(429), "rate_limited");
        let acme = app.tenant("acme").await;
        acme.key(&["*"]).await.get("/api/auth/session").send().await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn limits_can_be_switched_off() {
    with_app(async |app| {
        let acme = app.tenant("acme").await;
        let key = acme.key(&["*"]).await;
        let reply = key.get("/api/auth/session").send().await;
        reply.ok(200);
        assert_eq!(reply.header("ratelimit"), "");
        assert!(app.anonymous().get("/api/rate-limits/").send().await.text.contains("switched off"));
    })
    .await;
}
