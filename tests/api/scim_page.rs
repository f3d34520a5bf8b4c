//! The page of the console for provisioning.

use serde_json::json;

use crate::{
    console::{and, browser, hidden, send as submit, tokens},
    harness::with_app,
    scim_groups::{RULES, rules},
    scim_users::{created, id, provider},
};

const PAGE: &str = "/settings/provisioning";

#[tokio::test]
async fn administrators_map_groups_to_roles_in_the_browser() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let person = tenant.admin().await;
        let (admin, provider) = (browser(&person), provider(&tenant).await);
        let empty = admin.get(PAGE).send().await;
        assert!(empty.text.contains("/scim/v2") && empty.text.contains("There are no groups."), "{}", empty.text);
        assert!(empty.text.contains("/settings/keys/new?scopes=provisioning"), "{}", empty.text);
        let group = created(&provider, "/scim/v2/Groups", &json!({"displayName": "Desk <b>"})).await;
        let page = admin.get(PAGE).send().await;
        assert!(page.text.contains("Desk &lt;b&gt;") && !page.text.contains("Desk <b>"), "{}", page.text);
        let (group, version) = (id(&group), hidden(&page, "version").to_owned());
        let fields = [
            ("version", version.as_str()),
            ("group_0", group.as_str()),
            ("role_0", "technician"),
            ("reach_0", "none"),
            ("default_role", "viewer"),
            ("default_organization_ids", "none"),
        ];
        let saved = submit(&admin, PAGE, &and(&tokens(&page), &fields)).await;
        assert_eq!((saved.status, saved.header("location")), (303, "/settings/provisioning?saved=true"), "{}", saved.text);
        let rules = person.get(RULES).send().await.ok(200).clone();
        assert_eq!(rules["rules"], json!([{"group_id": group, "role": "technician", "organization_ids": []}]));
        assert!(admin.get("/settings/provisioning?saved=true").send().await.text.contains("The rules are saved."));
        let wrong = [
            ("group_0", group.as_str()),
            ("role_0", "technician"),
            ("reach_0", "org_01k9z7w3v5e8g9m2n4p6r8t0x1"),
            ("default_role", "viewer"),
        ];
        let refused = submit(&admin, PAGE, &and(&tokens(&admin.get(PAGE).send().await), &wrong)).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(refused.text.contains("org_01k9z7w3v5e8g9m2n4p6r8t0x1"), "the form keeps what was typed");
        let viewer = browser(&tenant.user("viewer").await).get(PAGE).send().await;
        assert!(viewer.status == 200 && !viewer.text.contains("action=\"/settings/provisioning\""), "{}", viewer.text);
    })
    .await;
}

#[tokio::test]
async fn a_missing_role_is_shown_and_not_replaced_by_another() {
    with_app(async |app| {
        let tenant = app.tenant("acme").await;
        let person = tenant.admin().await;
        let (admin, provider) = (browser(&person), provider(&tenant).await);
        let role = person.post("/api/admin/roles").json(json!({"name": "Desk", "scopes": ["tickets:read"]})).send().await;
        let role = id(role.ok(201));
        let group = created(&provider, "/scim/v2/Groups", &json!({"displayName": "Desk"})).await;
        let mut body = rules(&[(&group, role.as_str())]);
        body["default_role"] = json!(role);
        person.put(RULES).json(body).send().await.ok(200);
        tenant.lose_role(&role).await;
        let page = admin.get(PAGE).send().await;
        let option = format!("<option value=\"{role}\" selected>deleted role ({role})</option>");
        assert_eq!(page.text.matches(&option).count(), 2, "{}", page.text);
        let place = |role: &str| page.text.find(&format!("<option value=\"{role}\"")).unwrap();
        assert!(place("viewer") < place("technician") && place("technician") < place("admin"), "{}", page.text);
        let group = id(&group);
        let fields = [
            ("version", hidden(&page, "version")),
            ("group_0", group.as_str()),
            ("role_0", role.as_str()),
            ("default_role", role.as_str()),
            ("default_organization_ids", "none"),
        ];
        let refused = submit(&admin, PAGE, &and(&tokens(&page), &fields)).await;
        assert!(refused.status == 422 && refused.text.contains(&option), "{}", refused.text);
        assert_eq!(person.get(RULES).send().await.ok(200)["version"], 1);
    })
    .await;
}
