//! Workflows with cloud steps.

use serde_json::json;

use crate::{
    cloud::{create, simulated},
    cloud_vms,
    harness::with_app,
};

const TRIGGER: &str = "/api/psa/workflows/trigger";

#[tokio::test]
async fn a_workflow_orders_a_vm_and_waits_for_it() {
    with_app(async |app| {
        let admin = app.tenant("acme").await.key(&["*"]).await;
        let provider = create(&admin, simulated("Sim", json!({"vm_count": 0}))).await;
        let order = json!({"provider_id": "{{ inputs.provider }}", "name": "web", "region": "sim-east", "size": "sim.small", "image": "debian-13", "user_data": "canary-user-data"});
        let steps = json!([
            {"id": "try", "type": "provider.verify", "with": {"provider_id": "{{ inputs.provider }}"}},
            {"id": "order", "type": "vm.provision", "if": "steps.try.output.outcome == 'valid'", "with": order},
            {"id": "up", "type": "vm.wait_state", "timeout_seconds": 60, "with": {"vm_id": "{{ steps.order.output.vms[0].id }}"}},
        ]);
        let inputs = json!({"type": "object", "properties": {"provider": {"type": "string"}}, "required": ["provider"]});
        let definition = json!({"key": "vm", "name": "VM", "input_schema": inputs, "steps": steps});
        let made = admin.post(TRIGGER).json(json!({"action": "create", "definition": definition})).send().await;
        assert_eq!(made.status, 201, "{}", made.text);
        let started = admin.post(TRIGGER).json(json!({"workflow_key": "vm", "inputs": {"provider": provider["id"]}})).send().await;
        let run = started.ok(202)["id"].as_str().unwrap().to_owned();
        let vms = loop {
            let found = admin.get("/api/cloud/vms").send().await.ok(200)["data"].as_array().unwrap().clone();
            if !found.is_empty() {
                break found;
            }
        };
        let order = json!({"operation": {"id": vms[0]["operation_id"]}});
        assert_eq!(cloud_vms::ended(app, &admin, &order).await["status"], "succeeded");
        let ended = admin.get(&format!("{TRIGGER}?run_id={run}&wait_seconds=30")).send().await;
        assert_eq!(ended.ok(200)["status"], "succeeded", "{}", ended.text);
        assert!(!ended.text.contains("canary-user-data"), "{}", ended.text);
        assert!(ended.text.contains("\"running\""), "{}", ended.text);
    })
    .await;
}
