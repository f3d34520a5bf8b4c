//! Contacts of customers who sign in to the portal.

use serde_json::{Value, json};

use super::{Actor, PASSWORD, Tenant, TestApp};

/// What turns the portal on and gives contacts access.
pub const SCOPES: &[&str] = &["users:write", "directory:write", "tickets:read", "tickets:write"];

/// Turns the portal of a tenant on.
pub async fn turn_on(manager: &Actor) {
    manager.put("/api/admin/portal").json(json!({"enabled": true})).send().await.ok(200);
}

pub fn access(contact: &str) -> String {
    format!("/api/directory/contacts/{contact}/portal-access")
}

/// Sets the password of a contact with the link of an answer.
pub async fn set_password(app: &TestApp, given: &Value) {
    let body = json!({"token": given["password_token"], "password": PASSWORD});
    let reply = app.anonymous().post("/api/auth/password").json(body).send().await;
    assert_eq!(reply.status, 204, "{}", reply.text);
}

/// A contact who is signed in, and their id.
pub async fn contact_with_id(app: &TestApp, tenant: &Tenant<'_>, organization: &str, email: &str) -> (Actor, String) {
    let (manager, _) = tenant.new_key(&format!("portal of {email}"), SCOPES).await;
    turn_on(&manager).await;
    let contact = tenant.contact(organization, email).await;
    set_password(app, manager.put(&access(&contact)).send().await.ok(200)).await;
    (app.sign_in(email).await, contact)
}

/// A contact who is signed in.
pub async fn portal_contact(app: &TestApp, tenant: &Tenant<'_>, organization: &str, email: &str) -> Actor {
    contact_with_id(app, tenant, organization, email).await.0
}
