//! Cross-origin requests to the API.

use serde_json::json;

use crate::harness::{Setup, with_app, with_setup};

const TICKETS: &str = "/api/psa/tickets";
const SITE: &str = "https://dashboard.example.com";

#[tokio::test]
async fn cors_allows_keys_but_never_sessions() {
    let setup = Setup::default().with("listen.cors_origins", format!("[\"{SITE}\"]"));
    with_setup(setup, async |app| {
        let acme = app.tenant("acme").await;
        let (key, admin) = (acme.key(&["tickets:*"]).await, acme.admin().await);
        let browser = app.anonymous().with("origin", SITE);
        let asked = browser.clone().with("access-control-request-method", "PATCH").call("OPTIONS", TICKETS).send().await;
        assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, SITE), "{}", asked.text);
        let methods: Vec<&str> = asked.header("access-control-allow-methods").split(", ").collect();
        assert!(["GET", "POST", "PATCH"].iter().all(|method| methods.contains(method)), "{methods:?}");
        assert!(asked.header("access-control-allow-headers").contains("authorization"));
        let listed = key.clone().with("origin", SITE).with("sec-fetch-site", "cross-site").get(TICKETS).send().await;
        assert_eq!((listed.status, listed.header("access-control-allow-origin")), (200, SITE));
        assert!(listed.header("access-control-expose-headers").contains("etag"));
        let refused = browser.get(TICKETS).send().await;
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, SITE), "a page can read why");
        for answer in [&asked, &listed, &refused] {
            assert_eq!(answer.header("access-control-allow-credentials"), "", "no cookie is sent along");
            assert!(answer.header("vary").contains("origin"));
        }
        let forged = admin.with("origin", SITE).with("sec-fetch-site", "cross-site");
        assert_eq!(forged.post(TICKETS).json(json!({"subject": "x"})).send().await.problem(403), "csrf_failed");
        for other in ["https://evil.example", "null", "https://dashboard.example.com.evil.example", "http://dashboard.example.com"]
        {
            let other = app.anonymous().with("origin", other);
            let asked = other.clone().with("access-control-request-method", "GET").call("OPTIONS", TICKETS).send().await;
            assert_eq!((asked.status, asked.header("access-control-allow-origin")), (405, ""));
            assert_eq!(other.get(TICKETS).send().await.header("access-control-allow-origin"), "");
        }
        for page in ["/metrics", "/status/", "/sign-in", "/documentation/"] {
            let shown = app.anonymous().with("origin", SITE).get(page).send().await;
            assert_eq!(shown.header("access-control-allow-origin"), "", "{page}");
        }
        let plain = app.anonymous().call("OPTIONS", TICKETS).send().await;
        assert_eq!(plain.problem(405), "method_not_allowed", "no browser asks for a page");
    })
    .await;
}

#[tokio::test]
async fn cors_is_off_by_default() {
    with_app(async |app| {
        let browser = app.anonymous().with("origin", SITE).with("access-control-request-method", "GET");
        let asked = browser.call("OPTIONS", TICKETS).send().await;
        assert_eq!((asked.status, asked.header("access-control-allow-origin"), asked.header("vary")), (405, "", ""));
        for document in ["/api/openapi.json", "/internal/openapi.json"] {
            let read = app.anonymous().with("origin", SITE).get(document).send().await;
            assert_eq!((read.status, read.header("access-control-allow-origin")), (200, "*"), "{document} is public");
        }
    })
    .await;
}
