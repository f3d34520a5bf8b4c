//! `tenantd domain approve`: the operator approves a mail domain, with and without a running server.

use serde_json::json;

use crate::{Server, refused, support_bundle::post, tenantd, text};

#[test]
fn the_operator_approves_a_domain_of_a_tenant() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let provider = json!({
        "name": "Id", "issuer": "http://127.0.0.1:9", "client_id": "t", "client_secret": "s", "domains": ["acme.com", "acme.org"],
    });
    post(&server, "/api/admin/identity-providers", &provider);
    let asked = || server.post("/api/auth/sso", &json!({"domain": "acme.com"}));
    assert_eq!(asked()["code"], "sso_provider_not_found");
    let approved = server.json(&["domain", "approve", "ACME.com.", "--tenant", "demo"]);
    let claims = &approved["domain_claims"];
    assert_eq!((&claims[0]["proven_by"], &claims[1]["proven"]), (&json!("operator"), &json!(false)), "{approved}");
    assert_ne!(asked()["code"], "sso_provider_not_found");
    let unknown = refused(&server.run(&["domain", "approve", "acme.com", "--tenant", "nowhere"]), 1);
    assert!(unknown.contains("nowhere"), "{unknown}");
    assert!(refused(&server.run(&["domain", "approve", "ada@acme.com", "--tenant", "demo"]), 1).contains("domain"));
    assert_eq!(server.stop(), Some(0));
    let path = data.display().to_string();
    let stopped =
        tenantd(&["domain", "--offline", "approve", "acme.org", "--tenant", "demo", "--data-dir", &path]).output().unwrap();
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(text(&stopped.stdout).contains("acme.org: proven"), "{}", text(&stopped.stdout));
}
