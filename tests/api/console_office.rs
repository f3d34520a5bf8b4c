//! A tenant with one record of each kind that the desk shows.

use serde_json::{Value, json};

use tenantd_console::Route;

use crate::{
    cloud::simulated,
    harness::{Actor, Receiver, Setup, Tenant, TestApp, with_setup},
};

const TRIGGER: &str = "/api/psa/workflows/trigger";

/// Runs a test with a server that an [`Office`] can be made on: its records name servers on this host.
pub(crate) async fn with_office(test: impl AsyncFnOnce(&TestApp)) {
    let setup = Setup::default().with("rate_limits.enabled", false).with("egress.allowed_addresses", "[\"127.0.0.1\"]");
    with_setup(setup, test).await;
}

pub(crate) struct Office<'a> {
    pub(crate) tenant: Tenant<'a>,
    pub(crate) admin: Actor,
    pub(crate) ticket: Value,
    pub(crate) organization: String,
    /// The ids of records by what comes before them in the path of a route.
    ids: Vec<(&'static str, String)>,
    _receiver: Receiver,
}

fn id(record: &Value) -> String {
    record["id"].as_str().unwrap_or_else(|| panic!("no id in {record}")).to_owned()
}

impl<'a> Office<'a> {
    pub(crate) async fn new(app: &'a TestApp, slug: &str) -> Self {
        let tenant = app.tenant(slug).await;
        let admin = tenant.admin().await;
        let organization = tenant.organization("Acme").await;
        let contact = tenant.contact(&organization, "ada@acme.example").await;
        let device = tenant.device(&organization, "srv-QX7").await;
        let ticket = json!({"subject": "Printer <b>jams</b> QX7", "organization_id": organization, "priority": "high"});
        let ticket = admin.post("/api/psa/tickets").json(ticket).send().await.ok(201).clone();
        let receiver = Receiver::always(204).await;
        let made = async |path: &str, body: Value| admin.post(path).json(body).send().await.ok(201).clone();
        let definition = json!({"key": "k", "name": "N", "enabled": true, "triggers": [{"type": "manual"}],
            "steps": [{"id": "ask", "type": "approval", "with": {"message": "Go on?"}}]});
        let workflow = made(TRIGGER, json!({"action": "create", "definition": definition})).await;
        let run = admin.post(TRIGGER).json(json!({"workflow_key": "k"})).send().await.ok(202).clone();
        let webhook = json!({"name": "Hook", "url": receiver.url(), "events": ["ticket.*"]});
        let webhook = id(&made("/api/admin/webhooks", webhook).await);
        let hook = format!("/api/admin/webhooks/{webhook}");
        admin.post(&format!("{hook}/test")).send().await.ok(200);
        let delivery = admin.get(&format!("{hook}/deliveries")).send().await.ok(200)["data"][0].clone();
        let replay = admin.post(&format!("{hook}/replay")).json(json!({"only": "all", "from_seq": 1})).send().await.ok(202).clone();
        let provider = made("/api/cloud/providers", simulated("Lab", json!({"seed": 1, "vm_count": 3}))).await;
        let order =
            json!({"provider_id": provider["id"], "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13"});
        let ordered = admin.post("/api/cloud/vms").json(order).send().await.ok(202).clone();
        let user = made("/api/admin/users", json!({"name": "Eve", "email": format!("eve@{slug}.example"), "role": "viewer"})).await;
        let role = made("/api/admin/roles", json!({"name": "Desk", "scopes": ["tickets:*"]})).await;
        let key = made("/api/admin/api-keys", json!({"name": "Some", "scopes": ["tickets:read"]})).await;
        let own_key = made("/api/auth/own-keys", json!({"name": "Own", "scopes": ["tickets:read"]})).await;
        let secret = made("/api/admin/secrets", json!({"name": "s", "value": "abcd", "hosts": ["api.example.com"]})).await;
        let sign_on = json!({"name": "Acme", "issuer": "http://127.0.0.1:9", "client_id": "tenantd", "client_secret": "s3cret",
            "domains": [format!("{slug}.example")]});
        let sign_on = made("/api/admin/identity-providers", sign_on).await;
        let platform =
            app.operator().await.get(&format!("/api/platform/tenants?slug={slug}")).send().await.ok(200)["data"][0].clone();
        let ids = vec![
            ("/tickets/", id(&ticket)),
            ("/tickets/views/", "viw_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned()),
            ("/devices/views/", "viw_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned()),
            ("/organizations/", organization.clone()),
            ("/backups/", organization.clone()),
            ("/contacts/", contact),
            ("/devices/", device),
            ("/workflows/", id(&workflow)),
            ("/workflows/runs/", id(&run)),
            ("/webhooks/", webhook),
            ("/webhooks/{id}/deliveries/", id(&delivery)),
            ("/webhooks/{id}/replays/", id(&replay)),
            ("/clouds/", id(&provider)),
            ("/vms/", id(&ordered["vms"][0])),
            ("/operations/", id(&ordered["operation"])),
            ("/settings/users/", id(&user)),
            ("/settings/roles/", id(&role)),
            ("/settings/users/{id}/sessions/", "ses_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned()),
            ("/profile/sessions/", "ses_01k9z7w3v5e8g9m2n4p6r8t0x1".to_owned()),
            ("/settings/keys/", id(&key)),
            ("/profile/keys/", id(&own_key)),
            ("/settings/secrets/", id(&secret)),
            ("/settings/identity-providers/", id(&sign_on)),
            ("/settings/identity-providers/{id}/domains/", format!("{slug}.example")),
            ("/operator/tenants/", id(&platform)),
        ];
        Self { tenant, admin, ticket, organization, ids, _receiver: receiver }
    }

    /// The path of a route with the records of this tenant.
    pub(crate) fn path(&self, route: &Route) -> String {
        let mut path = String::new();
        let mut before = String::new();
        for part in route.path.split_inclusive('/') {
            let name = part.trim_end_matches('/');
            let value = if name.starts_with('{') {
                let known = self.ids.iter().find(|(prefix, _)| *prefix == before);
                known.map_or_else(|| panic!("no record for {}", route.path), |(_, id)| id.as_str())
            } else {
                name
            };
            path.push_str(&part.replace(name, value));
            before.push_str(part);
        }
        path
    }
}
