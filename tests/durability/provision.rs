//! A VM order on a server that is killed in each phase of it. The cloud keeps running, ignores client tokens, and counts: one VM is
//! created, and the operation ends.

use std::{path::Path, sync::Arc};

use reqwest::Client;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    clients::http_client,
    ec2::{ACCESS_KEY_ID, FakeEc2, SECRET_ACCESS_KEY, Trouble},
    process::{Server, demo, tenantd},
};

/// The phase in which the server is killed.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The order was acknowledged, and may not have been sent.
    Acknowledged,
    /// The cloud has received the request but not carried it out.
    OrderUnderWay,
    /// The cloud has created the VM but not responded.
    CreatedUnanswered,
    /// The server is polling whether the VM has started.
    Starting,
}

async fn send(client: &Client, server: &Server, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let request = client.request(method.parse().unwrap(), format!("{}{path}", server.url)).bearer_auth(&server.api_key);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

fn start(directory: &Path) -> Server {
    Server::start(demo(tenantd(), directory))
}

fn kill(server: Server) {
    kill_process(server.pid(), Signal::KILL).unwrap();
    server.was_killed();
}

async fn order_killed_in(phase: Phase) {
    let (directory, client, cloud) = (tempfile::tempdir().unwrap(), http_client(), FakeEc2::start(0).await);
    cloud.ignore_tokens();
    let server = start(directory.path());
    let credential = json!({"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY});
    let provider = json!({"name": "Fake", "kind": "aws", "config": {"endpoint": cloud.url()}, "credential": credential, "sync_interval_seconds": 86400});
    let (status, provider) = send(&client, &server, "POST", "/api/cloud/providers?verify=require", Some(provider)).await;
    assert_eq!(status, 201, "{provider}");
    let gate = Arc::new(Semaphore::new(0));
    match phase {
        Phase::Acknowledged => {}
        Phase::OrderUnderWay => cloud.trouble("RunInstances", Trouble::HoldBefore(gate.clone()), 1),
        Phase::CreatedUnanswered => cloud.trouble("RunInstances", Trouble::HoldAfter(gate.clone()), 1),
        Phase::Starting => cloud.boot_slowly(true),
    }
    let order = json!({"provider_id": provider["id"], "name": "web", "region": "us-east-1", "size": "t3.small", "image": "ami-1"});
    let (status, order) = send(&client, &server, "POST", "/api/cloud/vms", Some(order)).await;
    assert_eq!(status, 202, "{order}");
    match phase {
        Phase::Acknowledged => {}
        Phase::OrderUnderWay => cloud.arrived("RunInstances").await,
        Phase::CreatedUnanswered => {
            cloud.arrived("RunInstances").await;
            while cloud.creations() == 0 {
                tokio::task::yield_now().await;
            }
        }
        Phase::Starting => {
            cloud.arrived("RunInstances").await;
            cloud.arrived("DescribeInstances").await;
        }
    }
    kill(server);
    cloud.boot_slowly(false);
    let server = start(directory.path());
    let path = format!("/api/operations/{}?wait_seconds=30", order["operation"]["id"].as_str().unwrap());
    let ended = loop {
        let (status, operation) = send(&client, &server, "GET", &path, None).await;
        assert_eq!(status, 200, "{operation}");
        if operation["ended_at"].is_string() {
            break operation;
        }
    };
    assert_eq!(ended["status"], "succeeded", "{phase:?}: {ended}");
    assert_eq!(cloud.creations(), 1, "{phase:?}");
    let (_, vm) = send(&client, &server, "GET", &format!("/api/cloud/vms/{}", order["vms"][0]["id"].as_str().unwrap()), None).await;
    assert_eq!((&vm["state"], &vm["provider_vm_id"]), (&json!("running"), &json!(cloud.instances()[0].id)), "{phase:?}");
    let (_, vms) = send(&client, &server, "GET", "/api/cloud/vms?kind=aws&include_total=true", None).await;
    assert_eq!(vms["page"]["total"], 1, "{phase:?}: {vms}");
}

#[tokio::test]
async fn an_acknowledged_order_is_completed_once_after_a_kill() {
    order_killed_in(Phase::Acknowledged).await;
}

#[tokio::test]
async fn an_order_the_cloud_lost_is_repeated_after_a_kill() {
    order_killed_in(Phase::OrderUnderWay).await;
}

#[tokio::test]
async fn an_unanswered_creation_is_found_after_a_kill() {
    order_killed_in(Phase::CreatedUnanswered).await;
}

#[tokio::test]
async fn a_pending_vm_is_awaited_after_a_kill() {
    order_killed_in(Phase::Starting).await;
}
